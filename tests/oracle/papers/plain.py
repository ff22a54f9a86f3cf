"""Stream iterators without punctuations: an initial state, ``step``, and ``final`` at the end of the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.oracle.papers.lists import minus, nub, union
from tests.oracle.values import Row

S = TypeVar("S")
Tuples = list[Row]
Step = Callable[[Tuples, S], tuple[Tuples, S]]
Final = Callable[[S], tuple[Tuples, S]]


def unary(st: S, step: Step[S], final: Final[S], xs: Sequence[Tuples]) -> Iterator[Tuples]:
    """The output of each slice, then the output of the end."""
    if not xs:
        yield final(st)[0]
        return
    first, *remaining = xs
    out, new_st = step(first, st)
    yield out
    yield from unary(new_st, step, final, remaining)


def binary(
    st: S,
    step_l: Step[S],
    final_l: Final[S],
    step_r: Step[S],
    final_r: Final[S],
    lxs: Sequence[Tuples],
    rxs: Sequence[Tuples],
) -> Iterator[Tuples]:
    """Process the slices of both inputs alternately, each input to its end."""
    left, right = list(lxs), list(rxs)
    ended = False
    for i in range(max(len(left), len(right)) + 1):
        for slices, step, final in ((left, step_l, final_l), (right, step_r, final_r)):
            if i <= len(slices):
                out, st = step(slices[i], st) if i < len(slices) else final(st)
                yield out
                ended = i == len(slices)
    assert ended


def sdupelim(xs: Sequence[Tuples]) -> Iterator[Tuples]:
    """Duplicate elimination: the state is all tuples so far."""

    def step(ts: Tuples, st: Tuples) -> tuple[Tuples, Tuples]:
        return nub(minus(ts, st)), union(st, ts)

    def final(ts_seen: Tuples) -> tuple[Tuples, Tuples]:
        return [], []

    start: Tuples = []
    return unary(start, step, final, xs)


Both = tuple[bool, Tuples, Tuples]
"""Whether the negative input has ended, and the tuples of both inputs."""


def sdiff(lxs: Sequence[Tuples], rxs: Sequence[Tuples]) -> Iterator[Tuples]:
    """Difference: blocks until the negative input has ended."""

    def step_l(ts: Tuples, st: Both) -> tuple[Tuples, Both]:
        ended, xs, ys = st
        return (minus(ts, ys), (True, [], ys)) if ended else ([], (False, union(ts, xs), ys))

    def step_r(ts: Tuples, st: Both) -> tuple[Tuples, Both]:
        f_ys, xs, ys = st
        return [], (f_ys, xs, union(ts, ys))

    def final_l(st: Both) -> tuple[Tuples, Both]:
        return [], st

    def final_r(st: Both) -> tuple[Tuples, Both]:
        _, xs, ys = st
        return minus(xs, ys), (True, [], ys)

    start: Both = False, [], []
    return sdupelim(list(binary(start, step_l, final_l, step_r, final_r, lxs, rxs)))
