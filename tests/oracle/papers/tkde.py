"""TKDE's stream iterators with punctuations: ``step``, then ``pass``, ``prop`` and ``keep`` for each slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.oracle.papers.lists import minus, nub, union
from tests.oracle.table_1 import set_combine, set_match_ts, set_nomatch_ts
from tests.oracle.values import Row
from tests.strategies import Stream, punctuations_of, tuples_of
from xmlpunct.punctuations.punctuation import Punctuation

S = TypeVar("S")
Tuples, Puncts = list[Row], list[Punctuation]


@dataclass(frozen=True)
class Behavior(Generic[S]):
    """The functions by which an iterator processes a slice of one input."""

    step: Callable[[Tuples, S], tuple[Tuples, S]]
    pass_: Callable[[Puncts, S], Tuples]
    prop: Callable[[Puncts, S], Puncts]
    keep: Callable[[Puncts, S], S]

    def slice(self, xs: Stream, st: S) -> tuple[Stream, S]:
        """Tuples first, then punctuations; ``prop`` follows ``pass``, whose tuples its punctuations may match."""
        ts, ps = tuples_of(xs), punctuations_of(xs)
        out, st = self.step(ts, st)
        return [*out, *self.pass_(ps, st), *self.prop(ps, st)], self.keep(ps, st)


def pass_t(ps: Puncts, st: object) -> Tuples:
    """The trivial pass."""
    return []


def prop_t(ps: Puncts, st: object) -> Puncts:
    """The trivial prop."""
    return []


def keep_t(ps: Puncts, st: S) -> S:
    """The trivial keep."""
    return st


Trace = Iterator[tuple[Stream, S]]
"""The output of each slice, and the state after it."""


def unary(st: S, behavior: Behavior[S], xs: Sequence[Stream]) -> Trace[S]:
    """Process one input."""
    for elements in xs:
        out, st = behavior.slice(elements, st)
        yield out, st


def binary(
    st: S, left: Behavior[S], right: Behavior[S], lxs: Sequence[Stream], rxs: Sequence[Stream]
) -> Trace[S]:
    """Process the slices of two inputs alternately; both have equally many slices."""
    for lx, rx in zip(lxs, rxs, strict=True):
        for behavior, elements in ((left, lx), (right, rx)):
            out, st = behavior.slice(elements, st)
            yield out, st


def sdupelim(xs: Sequence[Stream]) -> Trace[Tuples]:
    """Duplicate elimination: the state is the received tuples that can arrive again."""

    def step(ts: Tuples, st: Tuples) -> tuple[Tuples, Tuples]:
        return nub(minus(ts, st)), union(st, ts)

    def prop(ps: Puncts, st: Tuples) -> Puncts:
        return ps

    def keep(ps: Puncts, st: Tuples) -> Tuples:
        return minus(st, set_match_ts(st, ps))

    start: Tuples = []
    return unary(start, Behavior(step, pass_t, prop, keep), xs)


Sides = tuple[Tuples, Tuples, Puncts, Puncts]
"""lts, rts, lps and rps."""


def difference(lxs: Sequence[Stream], rxs: Sequence[Stream]) -> Trace[Sides]:
    """The `binary` inside `sdiff`."""

    def step_l(ts: Tuples, st: Sides) -> tuple[Tuples, Sides]:
        lts, rts, lps, rps = st
        return [], (ts + lts, rts, lps, rps)

    def step_r(ts: Tuples, st: Sides) -> tuple[Tuples, Sides]:
        lts, rts, lps, rps = st
        return [], (lts, ts + rts, lps, rps)

    def pass_r(ps: Puncts, st: Sides) -> Tuples:
        lts, rts, _, rps = st
        return set_match_ts(minus(lts, rts), ps + rps)

    def prop_r(ps: Puncts, st: Sides) -> Puncts:
        _, _, lps, rps = st
        return set_combine(lps, ps + rps)

    def keep_l(ps: Puncts, st: Sides) -> Sides:
        lts, rts, lps, rps = st
        return lts, rts, ps + lps, rps

    def keep_r(ps: Puncts, st: Sides) -> Sides:
        lts, rts, lps, rps = st
        lts_new = set_nomatch_ts(minus(lts, rts), ps + rps)
        rts_new = set_nomatch_ts(rts, lps)
        return lts_new, rts_new, lps, ps + rps

    start: Sides = [], [], [], []
    left, right = Behavior(step_l, pass_t, prop_t, keep_l), Behavior(step_r, pass_r, prop_r, keep_r)
    return binary(start, left, right, lxs, rxs)


def sdiff(lxs: Sequence[Stream], rxs: Sequence[Stream]) -> Trace[Tuples]:
    """Difference: releases tuples that the negative input has closed and does not contain."""
    return sdupelim([out for out, _ in difference(lxs, rxs)])
