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
    """Two inputs, their equality attributes, and an optional residual condition.

    The condition is ``v < w``, or ``v <= w <= v + reach``.
    """

    left: Space
    right: Space
    keys: tuple[tuple[str, str], ...]
    residual: bool = False
    reach: int | None = None

    def __str__(self) -> str:
        return f"{len(self.keys)} keys{' and a residual' if self.residual else ''}"

    @property
    def key_positions(self) -> list[tuple[int, int]]:
        return [(self.left.schema.index(a), self.right.schema.index(b)) for a, b in self.keys]

    @property
    def expression(self) -> Expression | None:
        v, w = Column(INT, True, "v"), Column(INT, True, "w")
        if self.reach is not None:
            return call("AND", call(">=", w, v), call("<=", w, call("+", v, literal(INT, self.reach))))
        return call("<", v, w) if self.residual else None

    @property
    def condition(self) -> relational.Residual | None:
        if not self.residual:
            return None
        i, j = self.left.schema.index("v"), self.right.schema.index("w")
        reach = self.reach
        if reach is None:
            return lambda t, u: None if t[i] is None or u[j] is None else t[i] < u[j]
        return lambda t, u: None if t[i] is None or u[j] is None else t[i] <= u[j] <= t[i] + reach

    @property
    def conceivable(self) -> list[list[Tuple]]:
        """For each side, all tuples that may arrive."""
        return conceivable_of(self.spaces)

    @property
    def spaces(self) -> tuple[Space, Space]:
        return self.left, self.right

    def streams(self) -> st.SearchStrategy[tuple[Stream, Stream]]:
        """One stream per side, in which values of k are closed often."""
        bounded = [["v"], ["w"]] if self.residual else [[], []]
        closing = [[*bounded[side], *(pair[side] for pair in self.keys)] for side in (0, 1)]
        return st.tuples(*(streams(s, closing=c) for s, c in zip(self.spaces, closing, strict=True)))

    def probes(self, kind: str, limit: int = 120) -> list[Tuple]:
        """A sample of the tuples that the join can produce."""
        widths = len(self.left.schema), len(self.right.schema)
        join = relational.join(kind, widths, self.key_positions, self.condition)
        left, right = self.left.tuples(), self.right.tuples()
        rows = join(left, right)
        if kind != "inner":
            rows += [u for t in left for u in join([t], [])] + [u for t in right for u in join([], [t])]
        return random.Random(0).sample(rows, min(limit, len(rows)))


_WIDER = {SIGNED: Pool("beyond signed", INT, SIGNED.constants, tuple(range(-3, 5)))}


def conceivable_of(spaces: Iterable[Space]) -> list[list[Tuple]]:
    """All tuples of each space, with values outside the drawn range too."""
    return [replace(s, pools=tuple(_WIDER.get(p, p) for p in s.pools)).tuples() for s in spaces]


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
