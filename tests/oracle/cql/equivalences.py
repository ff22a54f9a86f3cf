"""WINDOWS 8: pairs of queries that are equivalent on every feed, and pairs that are not."""

from __future__ import annotations

from tests.oracle.cql.query import (
    Column,
    Compare,
    Constant,
    Distinct,
    DStream,
    GroupBy,
    IsNull,
    IStream,
    Join,
    NotIn,
    Project,
    Query,
    Relation,
    Rows,
    RStream,
    Select,
    SetOp,
    Stream,
    UnionAll,
    Window,
)

S, R = Stream("s0"), Relation("r1")
POSITIVE = Compare(">", Column(0), Constant(0))
NEVER = Compare("<>", Column(0), Column(0))


def columns(*places: int) -> tuple[Column, ...]:
    return tuple(map(Column, places))


def ranged(stream: Query = S, size: int = 2) -> Window:
    return Window(stream, "RANGE", size)


def unbounded(stream: Query) -> Window:
    return Window(stream, "UNBOUNDED")


def not_in(left: Query, right: Query) -> Query:
    """NOT IN where nulls can occur (WINDOWS 4), uncorrelated, over the second column of both."""
    known, unknown = Compare("=", Column(1), Column(1)), IsNull(Column(1))
    by_value = Join("anti", Select(left, known), Select(right, unknown))
    return UnionAll(Join("anti", by_value, right, ((1, 1),)), Join("anti", Select(left, unknown), right))


A, B = ranged(), Rows(S, 3, (0,))
KEYS = ((0, 0),)
LEFT_ALONE = Project(Join("anti", A, R, KEYS), (*columns(0, 1), Constant(None), Constant(None)))

EQUIVALENCES: dict[str, tuple[Query, Query]] = {
    "RSTREAM(S[NOW]) = S": (RStream(Window(S)), S),
    "ISTREAM(S[UNBOUNDED]) = S": (IStream(unbounded(S)), S),
    "DSTREAM(S[UNBOUNDED]) = {}": (DStream(unbounded(S)), RStream(Select(Window(S), NEVER))),
    "RANGE 0 = NOW": (ranged(size=0), Window(S)),
    "SLIDE 1 = no SLIDE": (Window(S, "RANGE", 2, 1, 3), ranged()),
    "UNBOUNDED SLIDE 1 = UNBOUNDED": (Window(S, "UNBOUNDED", slide=1), unbounded(S)),
    "ROWS N = PARTITION BY a constant ROWS N": (
        Rows(S, 3),
        Project(Rows(RStream(Project(Window(S), (*columns(0, 1), Constant(7)))), 3, (2,)), columns(0, 1)),
    ),
    "a filter commutes with RANGE": (
        Select(ranged(), POSITIVE),
        ranged(RStream(Select(Window(S), POSITIVE))),
    ),
    "a filter commutes with a join": (
        Select(Join("inner", A, R, KEYS), POSITIVE),
        Join("inner", Select(A, POSITIVE), R, KEYS),
    ),
    "DISTINCT = GROUP BY all": (Distinct(A), GroupBy(A, (0, 1), ())),
    "INTERSECT ALL = A EXCEPT ALL (A EXCEPT ALL B)": (
        SetOp("INTERSECT ALL", A, B),
        SetOp("EXCEPT ALL", A, SetOp("EXCEPT ALL", A, B)),
    ),
    "UNION = DISTINCT of UNION ALL": (SetOp("UNION", A, B), Distinct(UnionAll(A, B))),
    "a semijoin = a join with DISTINCT keys": (
        Join("semi", A, R, KEYS),
        Project(Join("inner", A, Distinct(Project(R, columns(0))), KEYS), columns(0, 1)),
    ),
    "LEFT = inner + anti x nulls": (
        Join("left", A, R, KEYS),
        UnionAll(Join("inner", A, R, KEYS), LEFT_ALONE),
    ),
    "FULL = LEFT + nulls x anti": (
        Join("full", A, R, KEYS),
        UnionAll(
            Join("left", A, R, KEYS),
            Project(Join("anti", R, A, KEYS), (Constant(None), Constant(None), *columns(0, 1))),
        ),
    ),
    "NOT IN = the antijoins it is built of": (NotIn(A, R, 1, 1), not_in(A, R)),
    "anti = A EXCEPT ALL semi": (
        Join("anti", A, R, KEYS),
        SetOp("EXCEPT ALL", A, Join("semi", A, R, KEYS)),
    ),
    "R = ISTREAM(R)[UNBOUNDED] EXCEPT ALL DSTREAM(R)[UNBOUNDED]": (
        B,
        SetOp("EXCEPT ALL", unbounded(IStream(B)), unbounded(DStream(B))),
    ),
    "of a join too": (
        Join("inner", A, B, KEYS),
        SetOp(
            "EXCEPT ALL",
            unbounded(IStream(Join("inner", A, B, KEYS))),
            unbounded(DStream(Join("inner", A, B, KEYS))),
        ),
    ),
    "RSTREAM EVERY 1 = RSTREAM": (RStream(A, 1), RStream(A)),
}


NOT_EQUIVALENT: dict[str, tuple[Query, Query]] = {
    "ISTREAM(S[NOW]) is not S": (IStream(Window(S)), S),
    "a semijoin is no join": (Join("semi", A, R, KEYS), Project(Join("inner", A, R, KEYS), columns(0, 1))),
}
