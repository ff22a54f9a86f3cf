"""A continuous query as a small tree (the paper's Figures 1 and 4), and the expressions in it.

Trees compare by identity, so a tree can serve as a dictionary key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tests.oracle.cql.feeds import Input
from tests.oracle.values import Row
from xmlpunct.types import INT, Type

# Expressions over a tuple


@dataclass(frozen=True)
class Column:
    """A column by its position."""

    position: int

    def __call__(self, row: Row) -> Any:
        return row[self.position]


@dataclass(frozen=True)
class Plus:
    """A column of INT plus a constant."""

    position: int
    n: int

    def __call__(self, row: Row) -> Any:
        return None if row[self.position] is None else row[self.position] + self.n


@dataclass(frozen=True)
class Constant:
    """A value and its type."""

    value: Any
    type: Type = INT

    def __call__(self, row: Row) -> Any:
        return self.value


Scalar = Column | Plus | Constant


@dataclass(frozen=True)
class Compare:
    """``a op b`` in three-valued logic; ``op`` as in SQL. NaN is equal to itself and greatest."""

    op: str
    a: Scalar
    b: Scalar

    def __call__(self, row: Row) -> bool | None:
        a, b = self.a(row), self.b(row)
        if a is None or b is None:
            return None
        x, y = (a != a, a if a == a else 0), (b != b, b if b == b else 0)
        return {"=": x == y, "<>": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[self.op]


@dataclass(frozen=True)
class IsNull:
    """``a IS NULL``."""

    a: Scalar

    def __call__(self, row: Row) -> bool:
        return self.a(row) is None


@dataclass(frozen=True)
class Or:
    """``p OR q``."""

    p: Predicate
    q: Predicate

    def __call__(self, row: Row) -> bool | None:
        either = (self.p(row), self.q(row))
        return True if True in either else None if None in either else False


Predicate = Compare | IsNull | Or | Callable[[Row], Any]
"""Any function of a tuple works; only the dataclasses print as SQL."""

# Queries: Q ::= Q_R | Q_S


@dataclass(frozen=True, eq=False)
class Query:
    """A query."""

    @property
    def inputs(self) -> tuple[Query, ...]:
        """The direct subqueries."""
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name), Query))

    def walk(self) -> Iterator[Query]:
        """The query and all its subqueries."""
        yield self
        for q in self.inputs:
            yield from q.walk()


class StreamQuery(Query):
    """Q_S ::= SName | R2S-Op(Q_R)."""


class RelationQuery(Query):
    """Q_R ::= RName | S2R-Op(Q_S) | R2R-Op(Q_R, ...)."""


@dataclass(frozen=True, eq=False)
class Stream(StreamQuery):
    """SName."""

    name: str


@dataclass(frozen=True, eq=False)
class Stamped(StreamQuery):
    """``(SELECT *, ts AS t0, ts FROM s)``: the timestamp copied as the last column, in a subquery."""

    stream: Stream


@dataclass(frozen=True, eq=False)
class IStream(StreamQuery):
    relation: Query


@dataclass(frozen=True, eq=False)
class DStream(StreamQuery):
    relation: Query


@dataclass(frozen=True, eq=False)
class RStream(StreamQuery):
    """``RSTREAM(... [EVERY every [ORIGIN origin]])``."""

    relation: Query
    every: int | None = None
    origin: int = 0


@dataclass(frozen=True, eq=False)
class Relation(RelationQuery):
    """RName."""

    name: str


@dataclass(frozen=True, eq=False)
class Window(RelationQuery):
    """``[NOW]``, ``[RANGE size]``, ``[RANGE UNBOUNDED]``; the last two also with SLIDE."""

    stream: Query
    kind: str = "NOW"
    size: int = 0
    slide: int | None = None
    origin: int = 0


@dataclass(frozen=True, eq=False)
class Rows(RelationQuery):
    """``[ROWS n]``, ``[PARTITION BY by ROWS n]``."""

    stream: Query
    n: int
    by: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Select(RelationQuery):
    relation: Query
    predicate: Predicate


@dataclass(frozen=True, eq=False)
class Project(RelationQuery):
    relation: Query
    columns: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Distinct(RelationQuery):
    relation: Query


@dataclass(frozen=True)
class Aggregate:
    """``function([DISTINCT] position)``; COUNT(*) has no position. ``type``: the type of the argument."""

    function: str
    position: int | None = None
    distinct: bool = False
    type: Type = INT


@dataclass(frozen=True, eq=False)
class GroupBy(RelationQuery):
    """Key columns, then aggregates. ``having`` is a condition on these columns."""

    relation: Query
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    having: Predicate | None = None


@dataclass(frozen=True, eq=False)
class Join(RelationQuery):
    """inner, left, full: the left columns, then all right columns; semi, anti: the left columns.

    ``residual`` is a condition on the concatenation of both tuples.
    """

    kind: str
    left: Query
    right: Query
    keys: tuple[tuple[int, int], ...] = ()
    residual: Predicate | None = None


@dataclass(frozen=True, eq=False)
class NotIn(RelationQuery):
    """``left WHERE x NOT IN (SELECT y FROM right WHERE keys)``, where nulls can occur; the left columns."""

    left: Query
    right: Query
    x: int
    y: int
    keys: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class SetOp(RelationQuery):
    """UNION, INTERSECT, EXCEPT, INTERSECT ALL, EXCEPT ALL."""

    kind: str
    left: Query
    right: Query


@dataclass(frozen=True, eq=False)
class UnionAll(RelationQuery):
    left: Query
    right: Query


def is_stream(q: Query) -> bool:
    return isinstance(q, StreamQuery)


def is_transient(q: Query) -> bool:
    """Whether each tuple of a relation leaves it after a finite time (relations 4.9)."""
    if isinstance(q, Window):
        return q.kind != "UNBOUNDED"
    if isinstance(q, Select | Project | Distinct):
        return is_transient(q.relation)
    if isinstance(q, GroupBy):
        return bool(q.keys) and is_transient(q.relation)
    if isinstance(q, Join | SetOp | UnionAll):
        left, right = is_transient(q.left), is_transient(q.right)
        kind = "UNION" if isinstance(q, UnionAll) else q.kind
        if kind in ("inner", "semi", "INTERSECT", "INTERSECT ALL"):
            return left or right
        return left and (right or kind not in ("full", "UNION"))
    if isinstance(q, NotIn):
        return is_transient(q.left)
    return False  # Rows, Relation


def width(q: Query, inputs: Mapping[str, Input]) -> int:
    """The number of columns of a query."""
    if isinstance(q, Stream | Relation):
        return len(inputs[q.name].places)
    if isinstance(q, Stamped):
        return width(q.stream, inputs) + 1
    if isinstance(q, Project):
        return len(q.columns)
    if isinstance(q, GroupBy):
        return len(q.keys) + len(q.aggregates)
    if isinstance(q, Join) and q.kind not in ("semi", "anti"):
        return width(q.left, inputs) + width(q.right, inputs)
    return width(q.inputs[0], inputs)


def names(q: Query) -> list[str]:
    """The names of the inputs that a query reads."""
    return list(dict.fromkeys(leaf.name for leaf in q.walk() if isinstance(leaf, Stream | Relation)))
