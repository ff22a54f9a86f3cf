"""Random cases contain every listed feature of feeds and queries often enough for the long form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Input, judged, tuples
from tests.oracle.cql.generate import Case
from tests.oracle.cql.query import is_stream
from xmlpunct.types import DOUBLE, Type

CASES, LEAST = 500, 5
FEED = {
    *(
        "a negative timestamp",
        "equal timestamps",
        "an empty instant",
        "a null",
        "a duplicate",
        "NaN",
        "-0.0 and 0.0",
    ),
    *("a delete", "a delete too many", "what was always so", "T bounded on one side", "T bounded on both"),
}
QUERY = {
    *(
        "a constant relation",
        "a relation by changes",
        "a window over a nested result",
        "inner",
        "semi",
        "anti",
        "left",
    ),
    *("full", "NOT IN", "NOT IN, correlated", "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT"),
    *("EXCEPT ALL", "a join on two columns", "GROUP BY two columns", "PARTITION BY two columns"),
    *("a join on DOUBLE", "GROUP BY DOUBLE", "PARTITION BY DOUBLE"),
}


def types(q: cql.Query, inputs: Mapping[str, Input]) -> list[Type | None]:
    """The types of a query's columns; None for a computed column."""
    if isinstance(q, cql.Stream | cql.Relation):
        return [inputs[q.name].schema.attributes[i].type for i in inputs[q.name].places]
    below = [types(b, inputs) for b in q.inputs]
    if isinstance(q, cql.Stamped):
        return [*below[0], inputs[q.stream.name].type]
    if isinstance(q, cql.Project):
        return [below[0][c.position] if isinstance(c, cql.Column) else None for c in q.columns]
    if isinstance(q, cql.GroupBy):
        return [*(below[0][i] for i in q.keys), *(None for _ in q.aggregates)]
    if isinstance(q, cql.Join) and q.kind not in ("semi", "anti"):
        return below[0] + below[1]
    return below[0]


def of_query(case: Case) -> Iterator[str]:
    """The features of a query."""
    for q in case.query.walk():
        left = types(q.inputs[0], case.inputs) if q.inputs else []
        keys: tuple[int, ...] = ()
        word = ""
        if isinstance(q, cql.Relation):
            yield "a constant relation" if case.inputs[q.name].stamp is None else "a relation by changes"
        elif isinstance(q, cql.SetOp | cql.UnionAll):
            yield q.kind if isinstance(q, cql.SetOp) else "UNION ALL"
        elif isinstance(q, cql.NotIn):
            yield "NOT IN, correlated" if q.keys else "NOT IN"
        elif isinstance(q, cql.Join):
            yield q.kind
            word, keys = "a join on", tuple(i for i, _ in q.keys)
        elif isinstance(q, cql.GroupBy):
            word, keys = "GROUP BY", q.keys
        elif isinstance(q, cql.Rows):
            word, keys = "PARTITION BY", q.by
        if (
            isinstance(q, cql.Rows | cql.Window)
            and not isinstance(q.stream, cql.Stream | cql.Stamped)
            and is_stream(q.stream)
        ):
            yield "a window over a nested result"
        yield from [f"{word} two columns"] if len(keys) > 1 else []
        yield from [f"{word} DOUBLE"] if any(left[i] is DOUBLE for i in keys) else []


def of_feed(case: Case) -> Iterator[str]:
    """The features of a feed."""
    time = case.time
    yield from [f"T bounded on {'both' if time.declared_low else 'one side'}"] if time.declared_high else []
    for name, changes in tuples(case.inputs, case.feed).items():
        values = [v for t in (t for n, t in case.feed if n == name and isinstance(t, tuple)) for v in t]
        zeros = {str(v) for v in values if isinstance(v, float) and v == 0}
        yield from ["a null"] if None in values else []
        yield from ["NaN"] if any(v != v for v in values) else []
        yield from ["-0.0 and 0.0"] if len(zeros) == 2 else []
        if case.inputs[name].stamp is None:
            continue
        instants = sorted(at for _, at, _ in changes)
        yield from ["a negative timestamp"] if any(time.low < at < 0 for at in instants) else []
        yield from ["equal timestamps"] if any(a == b for a, b in pairwise(instants)) else []
        yield from ["an empty instant"] if any(b - a > 1 for a, b in pairwise(instants)) else []
        copies = Counter((e, at) for e, at, _ in changes)
        yield from ["a duplicate"] if any(n > 1 for n in copies.values()) else []
        yield from ["a delete"] if any(n < 0 for _, _, n in changes) else []
        yield from ["a delete too many"] if judged(changes)[1] else []
        yield from ["what was always so"] if time.low in instants and not time.declared_low else []


def test_all_features_occur() -> None:
    counts = Counter[str]()
    for seed in range(CASES):
        case = Case(seed)
        counts.update({*of_query(case), *of_feed(case)})
    rare = {word: counts[word] for word in FEED | QUERY if counts[word] < LEAST}
    assert not rare
