"""join: inner and outer pairs, and what each side's punctuations say of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import FEWER, Tally, check_table, drive
from tests.oracle import Port, relational
from tests.strategies import FLAG, SIGNED, Space, Stream, cuts, punctuations_of, streams, tuples_of
from xmlpunct.operators import Join
from xmlpunct.operators.expression import Column, Expression
from xmlpunct.operators.functions import call
from xmlpunct.operators.join import KINDS
from xmlpunct.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.types import INT

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """Two inputs, their equality attributes, and perhaps a residual condition ``v < w``."""

    left: Space
    right: Space
    keys: tuple[tuple[str, str], ...]
    residual: bool = False

    def __str__(self) -> str:
        return f"{len(self.keys)} keys{' and a residual' if self.residual else ''}"

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(self.left.schema.index(a), self.right.schema.index(b)) for a, b in self.keys]

    @property
    def expression(self) -> Expression | None:
        return call("<", Column(INT, True, "v"), Column(INT, True, "w")) if self.residual else None

    @property
    def condition(self) -> relational.Residual | None:
        if not self.residual:
            return None
        i, j = self.left.schema.index("v"), self.right.schema.index("w")
        return lambda t, u: None if t[i] is None or u[j] is None else t[i] < u[j]

    @property
    def spaces(self) -> tuple[Space, Space]:
        return self.left, self.right

    def streams(self) -> st.SearchStrategy[tuple[Stream, Stream]]:
        """A stream a side, on which values of k are closed often."""
        closing = [[pair[side] for pair in self.keys] for side in (0, 1)]
        return st.tuples(*(streams(s, closing=c) for s, c in zip(self.spaces, closing, strict=True)))

    def probes(self, kind: str, most: int = 120) -> list[Tuple]:
        """Some of the tuples that the join can give."""
        widths = len(self.left.schema), len(self.right.schema)
        one = relational.join(kind, widths, self.places, self.condition)
        left, right = self.left.tuples(), self.right.tuples()
        found = one(left, right)
        if kind != "inner":
            found += [u for t in left for u in one([t], [])] + [u for t in right for u in one([], [t])]
        return random.Random(0).sample(found, min(most, len(found)))


CASES = (
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=SIGNED, w=SIGNED), (("k", "l"),)),
    Case(Space.of(k=(SIGNED, "NOT NULL"), v=SIGNED), Space.of(w=(SIGNED, "[-2,2]"), l=SIGNED), (("k", "l"),)),
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=(SIGNED, "[-2,1]"), w=SIGNED), (("k", "l"),), True),
    Case(Space.of(k=FLAG, v=SIGNED, j=FLAG), Space.of(i=FLAG, w=SIGNED, l=FLAG), (("k", "l"), ("j", "i"))),
    Case(Space.of(k=FLAG, j=SIGNED), Space.of(l=FLAG, i=(SIGNED, "NOT NULL")), (("k", "l"), ("j", "i"))),
    Case(Space.of(v=SIGNED), Space.of(w=SIGNED), (), True),
    Case(Space.of(v=(SIGNED, "[-2,2]")), Space.of(w=(SIGNED, "NOT NULL")), ()),
)


def make(case: Case, kind: str) -> Join:
    return Join(case.left.schema, case.right.schema, case.keys, kind, case.expression)


def expected(case: Case, kind: str) -> oracle.Oracle:
    return oracle.join(case.left.schema, case.right.schema, case.keys, kind, case.condition)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_oracle(case: Case, kind: str) -> None:
    tally, probes = Tally(), case.probes(kind)

    @FEWER
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs = data.draw(case.streams())
        for _ in range(2):
            tally.add(
                drive(
                    lambda: make(case, kind),
                    expected(case, kind),
                    data.draw(cuts(inputs)),
                    probes,
                    data.draw(st.sets(st.integers(0, 8))),
                )
            )

    check()
    if case.keys:
        tally.check(released=0.3, promised=0.3, purged=0.3)
    else:  # only the whole other side can be closed
        tally.check(promised=0.3, purged=0.25)


def prefixes(case: Case) -> st.SearchStrategy[list[Port]]:
    """What may have arrived on both ports."""
    return case.streams().map(
        lambda inputs: [Port(tuples_of(stream[:8]), punctuations_of(stream[:8])) for stream in inputs]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
@FEWER
@given(data=st.data())
def test_the_invariants_are_sound(case: Case, kind: str, data: st.DataObject) -> None:
    """Brute force over what may come, independent of the rules' text."""
    widths = len(case.left.schema), len(case.right.schema)
    operation = relational.join(kind, widths, case.places, case.condition)
    domains: Sequence[list[Row]] = [few(space.tuples()) for space in case.spaces]
    oracle.assert_sound(expected(case, kind), operation, data.draw(prefixes(case)), domains)


def table(kind: str, text: str) -> Join:
    operator = Join(Schema.parse("k INT, v INT"), Schema.parse("l INT, w INT"), [("k", "l")], kind)
    check_table(operator, text)
    return operator


def test_full_table() -> None:
    """Both sides wait for the other; a null waits for nobody; ``*`` comes when both have ended."""
    operator = table("full", "1: 1 10; null 11 -> null 11 null null\n 2: 2 20; null 21 -> null null null 21")
    check_table(
        operator,
        """
        1: P(2, *)           -> null null 2 20; P(2, *, *, *)
        2: 1 22              -> 1 10 1 22
        2: P(*, *)           -> P(*, *, 2, *)
        1: 3 12              -> 3 12 null null
        1: P(*, *)           -> P(*, *, *, *)
        """,
    )
    assert (operator.rows, operator.held) == (0, 0)


def test_right_table() -> None:
    """The preserved right side's closing goes out combined with what the left has closed, at once."""
    table(
        "right",
        """
        2: 1 20; 2 21        ->
        2: P([1,2], *)       ->
        1: P(1, *)           -> null null 1 20; P(1, *, *, *); P(*, *, 1, *)
        1: 2 10              -> 2 10 2 21
        1: P(2, *)           -> P(2, *, *, *); P(*, *, [1,2], *)
        """,
    )


def few(ts: list[Tuple], most: int = 24) -> list[Tuple]:
    """Some tuples of a domain."""
    return random.Random(1).sample(ts, min(most, len(ts)))
