"""Cases for all operators that pair the tuples of two inputs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.oracle import relational
from tests.strategies import FLAG, SIGNED, SPECIAL, Pool, Space, Stream, streams
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.functions import call, literal
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema
from xmlpunct.types import INT


@dataclass(frozen=True)
class Case:
    """Two inputs, their equality attributes, and perhaps a residual condition.

    It is ``v < w``, or that w is from v to as much as ``near`` above it.
    """

    left: Space
    right: Space
    keys: tuple[tuple[str, str], ...]
    residual: bool = False
    near: int | None = None

    def __str__(self) -> str:
        return f"{len(self.keys)} keys{' and a residual' if self.residual else ''}"

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(self.left.schema.index(a), self.right.schema.index(b)) for a, b in self.keys]

    @property
    def expression(self) -> Expression | None:
        v, w = Column(INT, True, "v"), Column(INT, True, "w")
        if self.near is not None:
            return call("AND", call(">=", w, v), call("<=", w, call("+", v, literal(INT, self.near))))
        return call("<", v, w) if self.residual else None

    @property
    def condition(self) -> relational.Residual | None:
        if not self.residual:
            return None
        i, j = self.left.schema.index("v"), self.right.schema.index("w")
        near = self.near
        if near is None:
            return lambda t, u: None if t[i] is None or u[j] is None else t[i] < u[j]
        return lambda t, u: None if t[i] is None or u[j] is None else t[i] <= u[j] <= t[i] + near

    @property
    def conceivable(self) -> list[list[Tuple]]:
        """For each side all tuples that may come."""
        return conceivable_of(self.spaces)

    @property
    def spaces(self) -> tuple[Space, Space]:
        return self.left, self.right

    def streams(self) -> st.SearchStrategy[tuple[Stream, Stream]]:
        """A stream a side, on which values of k are closed often."""
        bounded = [["v"], ["w"]] if self.residual else [[], []]
        closing = [[*bounded[side], *(pair[side] for pair in self.keys)] for side in (0, 1)]
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


_BEYOND = {SIGNED: Pool("beyond signed", INT, SIGNED.constants, tuple(range(-3, 5)))}


def conceivable_of(spaces: Iterable[Space]) -> list[list[Tuple]]:
    """For each space all tuples, with values beyond those that are drawn."""
    return [replace(s, pools=tuple(_BEYOND.get(p, p) for p in s.pools)).tuples() for s in spaces]


CASES = (
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=SIGNED, w=SIGNED), (("k", "l"),)),
    Case(Space.of(k=(SIGNED, "NOT NULL"), v=SIGNED), Space.of(w=(SIGNED, "[-2,2]"), l=SIGNED), (("k", "l"),)),
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=(SIGNED, "[-2,1]"), w=SIGNED), (("k", "l"),), True),
    Case(Space.of(k=SIGNED, v=SIGNED), Space.of(l=SIGNED, w=(SIGNED, "NOT NULL")), (("k", "l"),), True, 1),
    Case(Space.of(v=SIGNED), Space.of(w=SIGNED), (), True, 0),
    Case(Space.of(k=FLAG, v=SIGNED, j=FLAG), Space.of(i=FLAG, w=SIGNED, l=FLAG), (("k", "l"), ("j", "i"))),
    Case(Space.of(k=FLAG, j=SIGNED), Space.of(l=FLAG, i=(SIGNED, "NOT NULL")), (("k", "l"), ("j", "i"))),
    Case(Space.of(k=SPECIAL), Space.of(l=SPECIAL), (("k", "l"),)),
    Case(Space.of(k=(SPECIAL, "NOT NULL"), v=FLAG), Space.of(w=FLAG, l=SPECIAL), (("k", "l"),)),
    Case(Space.of(k=SPECIAL, j=FLAG), Space.of(l=SPECIAL, i=FLAG), (("k", "l"), ("j", "i"))),
    Case(Space.of(v=SIGNED), Space.of(w=SIGNED), (), True),
    Case(Space.of(v=(SIGNED, "[-2,2]")), Space.of(w=(SIGNED, "NOT NULL")), ()),
)

ITEM, BID = Schema.parse("id INT, seller STRING"), Schema.parse("item INT, price INT")
