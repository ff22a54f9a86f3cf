"""Relations 8: pairs of queries that are equivalent on every feed, and pairs that are not."""

from __future__ import annotations

from tests.oracle.cql import query as cql

S, R = cql.Stream("s0"), cql.Relation("r1")
POSITIVE = cql.Compare(">", cql.Column(0), cql.Constant(0))
NEVER = cql.Compare("<>", cql.Column(0), cql.Column(0))


def columns(*positions: int) -> tuple[cql.Column, ...]:
    return tuple(map(cql.Column, positions))


def ranged(stream: cql.Query = S, size: int = 2) -> cql.Window:
    return cql.Window(stream, "RANGE", size)


def unbounded(stream: cql.Query) -> cql.Window:
    return cql.Window(stream, "UNBOUNDED")


def not_in(left: cql.Query, right: cql.Query) -> cql.Query:
    """NOT IN where nulls can occur (relations 4.8), uncorrelated, over the second column of both inputs."""
    non_null, null = cql.Compare("=", cql.Column(1), cql.Column(1)), cql.IsNull(cql.Column(1))
    by_value = cql.Join("anti", cql.Select(left, non_null), cql.Select(right, null))
    return cql.UnionAll(
        cql.Join("anti", by_value, right, ((1, 1),)), cql.Join("anti", cql.Select(left, null), right)
    )


A, B = ranged(), cql.Rows(S, 3, (0,))
KEYS = ((0, 0),)
LEFT_ALONE = cql.Project(
    cql.Join("anti", A, R, KEYS), (*columns(0, 1), cql.Constant(None), cql.Constant(None))
)

EQUIVALENCES: dict[str, tuple[cql.Query, cql.Query]] = {
    "RSTREAM(S[NOW]) = S": (cql.RStream(cql.Window(S)), S),
    "ISTREAM(S[UNBOUNDED]) = S": (cql.IStream(unbounded(S)), S),
    "DSTREAM(S[UNBOUNDED]) = {}": (cql.DStream(unbounded(S)), cql.RStream(cql.Select(cql.Window(S), NEVER))),
    "RANGE 0 = NOW": (ranged(size=0), cql.Window(S)),
    "SLIDE 1 = no SLIDE": (cql.Window(S, "RANGE", 2, 1, 3), ranged()),
    "UNBOUNDED SLIDE 1 = UNBOUNDED": (cql.Window(S, "UNBOUNDED", slide=1), unbounded(S)),
    "ROWS N = PARTITION BY a constant ROWS N": (
        cql.Rows(S, 3),
        cql.Project(
            cql.Rows(cql.RStream(cql.Project(cql.Window(S), (*columns(0, 1), cql.Constant(7)))), 3, (2,)),
            columns(0, 1),
        ),
    ),
    "a filter commutes with RANGE": (
        cql.Select(ranged(), POSITIVE),
        ranged(cql.RStream(cql.Select(cql.Window(S), POSITIVE))),
    ),
    "a filter commutes with a join": (
        cql.Select(cql.Join("inner", A, R, KEYS), POSITIVE),
        cql.Join("inner", cql.Select(A, POSITIVE), R, KEYS),
    ),
    "DISTINCT = GROUP BY all": (cql.Distinct(A), cql.GroupBy(A, (0, 1), ())),
    "INTERSECT ALL = A EXCEPT ALL (A EXCEPT ALL B)": (
        cql.SetOp("INTERSECT ALL", A, B),
        cql.SetOp("EXCEPT ALL", A, cql.SetOp("EXCEPT ALL", A, B)),
    ),
    "UNION = DISTINCT of UNION ALL": (cql.SetOp("UNION", A, B), cql.Distinct(cql.UnionAll(A, B))),
    "a semijoin = a join with DISTINCT keys": (
        cql.Join("semi", A, R, KEYS),
        cql.Project(cql.Join("inner", A, cql.Distinct(cql.Project(R, columns(0))), KEYS), columns(0, 1)),
    ),
    "LEFT = inner + anti x nulls": (
        cql.Join("left", A, R, KEYS),
        cql.UnionAll(cql.Join("inner", A, R, KEYS), LEFT_ALONE),
    ),
    "FULL = LEFT + nulls x anti": (
        cql.Join("full", A, R, KEYS),
        cql.UnionAll(
            cql.Join("left", A, R, KEYS),
            cql.Project(
                cql.Join("anti", R, A, KEYS), (cql.Constant(None), cql.Constant(None), *columns(0, 1))
            ),
        ),
    ),
    "NOT IN = the antijoins it is built of": (cql.NotIn(A, R, 1, 1), not_in(A, R)),
    "anti = A EXCEPT ALL semi": (
        cql.Join("anti", A, R, KEYS),
        cql.SetOp("EXCEPT ALL", A, cql.Join("semi", A, R, KEYS)),
    ),
    "R = ISTREAM(R)[UNBOUNDED] EXCEPT ALL DSTREAM(R)[UNBOUNDED]": (
        B,
        cql.SetOp("EXCEPT ALL", unbounded(cql.IStream(B)), unbounded(cql.DStream(B))),
    ),
    "of a join too": (
        cql.Join("inner", A, B, KEYS),
        cql.SetOp(
            "EXCEPT ALL",
            unbounded(cql.IStream(cql.Join("inner", A, B, KEYS))),
            unbounded(cql.DStream(cql.Join("inner", A, B, KEYS))),
        ),
    ),
    "RSTREAM EVERY 1 = RSTREAM": (cql.RStream(A, 1), cql.RStream(A)),
}


NOT_EQUIVALENT: dict[str, tuple[cql.Query, cql.Query]] = {
    "ISTREAM(S[NOW]) is not S": (cql.IStream(cql.Window(S)), S),
    "a semijoin is no join": (
        cql.Join("semi", A, R, KEYS),
        cql.Project(cql.Join("inner", A, R, KEYS), columns(0, 1)),
    ),
}
