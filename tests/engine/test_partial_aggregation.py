"""Aggregation at the edges sends less over an exchange, with the same results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import cli
from tests.cli.harness import WAREHOUSE, Cli
from tests.oracle.values import bag
from tests.plans.sharded import Sharded
from tests.strategies import Element, slice_of
from xmlpunct import Punctuation
from xmlpunct.base.errors import UsageError
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import PartialDupElim, PartialGroupBy, Query
from xmlpunct.engine.rule_options import (
    DROP_DUPELIMS,
    EDGE_AGGREGATION,
    EDGE_DUPELIM,
    USUAL,
    Rules,
    read_rules,
)
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.sql import plan
from xmlpunct.operators import Aggregate, GroupBy, run
from xmlpunct.operators import PartialGroupBy as PartialGroupByOperator
from xmlpunct.slice import Slice

__all__ = ["cli"]

DDL = """
CREATE STREAM a (k INT, x INT, y INT NOT NULL, d DECIMAL(5,2), w DECIMAL(38,0), f DOUBLE, t STRING,
                 part INT CHECK (part BETWEEN 0 AND 2)) WITH (source = 'a');
CREATE STREAM b (k INT, z INT NOT NULL) WITH (source = 'b');
"""
A = plan(DDL + "SELECT k FROM a").streams[0].schema
OFF: Rules = frozenset()
WIDE = 10**38 - 1
Row = tuple[object, ...]


def row(k: object, x: object = None, **columns: object) -> Row:
    """A tuple of stream a."""
    return (k, x, *({"y": 0, "d": None, "w": None, "f": None, "t": None, "part": 0} | columns).values())


class Counted(Sharded):
    """Shards that count the rows and bytes received from edges."""

    def __init__(self, query: Query, shards: int, on: Rules = USUAL) -> None:
        self.rows = self.bytes = 0
        self.query = query
        super().__init__(query.root, [s.name for s in query.streams], shards, on)

    def _receive(self, number: int, shard: int, port: int, sender: int, part: Slice) -> Iterable[Slice]:  # type: ignore[override]
        if self.stages[number].fragment.feeds[port].from_edge:
            self.rows += part.tuples.height
            self.bytes += len(part.to_bytes())
        return super()._receive(number, shard, port, sender, part)

    def give(self, stream: int, elements: Sequence[Element]) -> tuple[list[Row], list[Punctuation]]:
        """The results and punctuations that a slice releases."""
        outputs = list(self.push(stream, slice_of(self.query.streams[stream].schema, elements)))
        return [r for s in outputs for r in s.tuples.rows()], [p for s in outputs for p in s.punctuations]

    def run(self, *feeds: Sequence[Sequence[Element]]) -> list[Row]:
        """All results of the slices of each stream, and of its end."""
        results = [r for s in self.open() for r in s.tuples.rows()]
        for stream, slices in enumerate(feeds):
            for elements in (*slices, [Punctuation.everything(self.query.streams[stream].schema)]):
                results += self.give(stream, elements)[0]
        return results

    @property
    def reasons(self) -> list[str]:
        """The reasons of all rejects."""
        return sorted(r.reason for pipeline in self.pipelines for r in pipeline.rejects)


def kinds(query: Query, on: Rules = USUAL) -> list[type]:
    """The type of the top node of each edge."""
    return [type(edge.root) for edge in cut_plan(query.root, [s.name for s in query.streams], on).edges]


BIG = 2**62
AGGREGATED: dict[str, tuple[str, list[list[Row]], list[Row]]] = {
    "sums that only fit in the end": (
        "SELECT k, SUM(x) AS s FROM a GROUP BY k",
        [[row(1, BIG)] * 5, [row(1, -BIG)] * 5, [row(1, 7), row(2, BIG)]],
        [(1, 7), (2, BIG)],
    ),
    "wide decimals that only fit in the end": (
        "SELECT k, SUM(w) AS s, AVG(w) AS m FROM a GROUP BY k",
        [[row(1, w=Decimal(WIDE))] * 3, [row(1, w=Decimal(-WIDE))] * 3, [row(1, w=Decimal(70000))] * 2],
        [(1, Decimal(140000), Decimal(17500))],
    ),
    "averages are exact, half up": (
        "SELECT k, AVG(d) AS m, SUM(d) AS s FROM a GROUP BY k",
        [[row(1, d=Decimal("0.01"))], [row(1, d=Decimal("0.02"))] * 2, [row(1), row(2)]],
        [(1, Decimal("0.016667"), Decimal("0.05")), (2, None, None)],
    ),
    "averages of INT": (
        "SELECT k, AVG(x) AS m FROM a GROUP BY k",
        [[row(1, 1), row(1, 2)], [row(1, 4)] * 2, [row(1)]],
        [(1, 2.75)],
    ),
    "nulls are counted as tuples only": (
        "SELECT k, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, MIN(x) AS low, MAX(t) AS top FROM a GROUP BY k",
        [[row(1), row(1, 3, t="x")], [row(1), row(None), row(2)], [row(None, 4, t="")]],
        [(1, 3, 1, 3, 3, "x"), (None, 2, 1, 4, 4, ""), (2, 1, 0, None, None, None)],
    ),
    "NaN is the greatest": (
        "SELECT k, MIN(f) AS low, MAX(f) AS top, SUM(f) AS s FROM a GROUP BY k",
        [[row(1, f=float("nan")), row(1, f=1.5)], [row(1, f=-2.0)], [row(2, f=0.25), row(2, f=0.5)]],
        [(1, -2.0, float("nan"), float("nan")), (2, 0.25, 0.5, 0.75)],
    ),
    "without keys": (
        "SELECT COUNT(*) AS n, SUM(x) AS s, MAX(t) AS top FROM a",
        [[row(1, 2, t="p")], [row(2, 3, t="q"), row(3)], []],
        [(3, 5, "q")],
    ),
    "without keys, over nothing": (
        "SELECT COUNT(*) AS n, SUM(x) AS s FROM a WHERE y > 5",
        [[row(1, 2)]],
        [(0, None)],
    ),
    "nothing at all": ("SELECT COUNT(*) AS n, MAX(t) AS top FROM a", [], [(0, None)]),
    "without aggregates": (
        "SELECT k FROM a GROUP BY k",
        [[row(1), row(1)], [row(1), row(None)]],
        [(1,), (None,)],
    ),
    "of its own key": (
        "SELECT k, SUM(k) AS s, COUNT(k) AS n FROM a GROUP BY k",
        [[row(3), row(3), row(None)], [row(3)]],
        [(3, 9, 3), (None, None, 0)],
    ),
    "MIN and MAX DISTINCT": (
        "SELECT k, MAX(DISTINCT x) AS top, COUNT(*) AS n FROM a GROUP BY k",
        [[row(1, 5), row(1, 5)], [row(1, 4)]],
        [(1, 5, 3)],
    ),
    "HAVING": (
        "SELECT k FROM a GROUP BY k HAVING SUM(x) > 5 AND COUNT(*) < 3",
        [[row(1, 5), row(2, 3), row(3, 9)], [row(1, 1), row(2, 1), row(3, 1), row(3, 1)]],
        [(1,)],
    ),
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", AGGREGATED)
def test_partial_aggregates_give_the_same(name: str, shards: int) -> None:
    sql, slices, expected = AGGREGATED[name]
    query = plan(DDL + sql)
    assert kinds(query) == [PartialGroupBy]
    for on in (USUAL, OFF):
        one_slice = [[r for s in slices for r in s]]
        for feed in (slices, slices[::-1], one_slice, [[r] for r in one_slice[0]]):
            assert bag(Counted(query, shards, on).run(feed)) == bag(expected)


@pytest.mark.parametrize("keys", [("k",), ()])
def test_partial_aggregates_of_several_edges_are_combined(keys: tuple[str, ...]) -> None:
    """Partial aggregates match their schema, survive serialization, and combine exactly."""
    functions = [
        ("COUNT", None),
        ("SUM", "x"),
        ("AVG", "x"),
        ("SUM", "w"),
        ("SUM", "f"),
        ("MAX", "t"),
        ("MIN", "w"),
    ]
    aggregates = [Aggregate(f, argument, False, f"c{i}") for i, (f, argument) in enumerate(functions)]
    partial = PartialGroupByOperator(A, keys, aggregates, ["y"])
    group = GroupBy(partial.schema, keys, aggregates, A)
    columns = {"w": Decimal(WIDE), "f": 0.5, "t": "x"}
    sent = [run(partial, 0, slice_of(A, [row(1, x, **columns)] * 3)).tuples for x in (BIG, -BIG)]
    assert [dict(frame.schema) for frame in sent] == [partial.schema.dtypes] * 2
    travelled = [Slice.from_bytes(partial.schema, Slice(frame).to_bytes()).tuples for frame in sent]
    output = run(group, 0, Slice(pl.concat(travelled), [Punctuation.everything(partial.schema)]))
    (wide,) = group.rejects  # 6 * (10**38 - 1)
    assert (output.tuples.rows(), wide.reason) == ([], "c3 does not fit DECIMAL(38,0)")
    columns["w"] = Decimal(1)
    group = GroupBy(partial.schema, keys, aggregates, A)
    sent = [run(partial, 0, slice_of(A, [row(1, x, **columns)] * 3)).tuples for x in (BIG, 2 - BIG)]
    output = run(group, 0, Slice(pl.concat(sent), [Punctuation.everything(partial.schema)]))
    assert output.tuples.rows() == [(*[1] * len(keys), 6, 6, 1.0, Decimal(6), 3.0, "x", Decimal(1))]


def test_a_sum_that_does_not_fit_is_rejected_once_and_for_the_same_reason() -> None:
    query = plan(DDL + "SELECT k, SUM(x) AS s FROM a GROUP BY k")
    slices = [[row(1, BIG)], [row(1, BIG), row(2, 1)], [row(2, 2)]]
    engines = [Counted(query, 2, on) for on in (USUAL, OFF)]
    assert [engine.run(slices) for engine in engines] == [[(2, 3)], [(2, 3)]]
    assert engines[0].reasons == engines[1].reasons == ["SUM(a.x) does not fit INT"]


def test_failures_at_an_edge_are_rejected_as_without_edge_rules() -> None:
    query = plan(DDL + "SELECT k, SUM(10 / x) AS s FROM a GROUP BY k")
    for on in (USUAL, OFF):
        engine = Counted(query, 2, on)
        rejects: list[Any] = []
        edge = engine.edge(0)
        edge.push(0, slice_of(query.streams[0].schema, [row(1, 5), row(1, 0), row(1, 0)]))
        rejects += edge.rejects
        assert len(rejects) == 2


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", 4),
        ("SELECT k, SUM(x) AS s FROM (SELECT k, x FROM a UNION ALL SELECT k, z FROM b) GROUP BY k", 4),
        ("SELECT h, SUM(x) AS s FROM (SELECT k / 2 AS h, x FROM a) GROUP BY h", 2),
        (
            "SELECT h, AVG(x) AS m FROM (SELECT k / 2 AS h, x FROM (SELECT k, x FROM a UNION ALL SELECT k, z FROM b)) "
            "GROUP BY h",
            2,
        ),
        ("SELECT COUNT(*) AS n, MAX(x) AS top FROM a", 1),
        ("SELECT k, x FROM a UNION SELECT k, z FROM b", 8),
        ("SELECT DISTINCT k, x FROM a", 8),
        ("SELECT k, COUNT(DISTINCT x) AS n, MAX(x) AS top FROM a GROUP BY k", 8),
        ("SELECT k, COUNT(DISTINCT x) AS n, COUNT(*) AS m FROM a GROUP BY k", 200),
        ("SELECT k, x FROM a INTERSECT SELECT k, z FROM b", 8),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", 4),
        ("SELECT k, z FROM b WHERE k IN (SELECT k FROM a)", 4),
        ("SELECT k, x FROM a WHERE k IN (SELECT k FROM b)", 200),
        ("SELECT k, z FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND x > z)", 8),
        ("SELECT k, z FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND 1 / x > z)", 200),
        ("SELECT a.k, x, z FROM a JOIN b ON a.k = b.k", 200),
        ("SELECT k, x FROM a ORDER BY k", 200),
        ("SELECT k, x FROM a LIMIT 150", 200),
    ],
)
def test_fewer_tuples_cross_the_exchange(sql: str, expected: int, shards: int) -> None:
    """A slice of 200 tuples with 4 groups and 8 distinct tuples."""
    query = plan(DDL + sql)
    stream = [s.name for s in query.streams].index("a")
    tuples = [row(n % 4, 1 + n % 8) for n in range(200)]
    engines = [Counted(query, shards, on) for on in (USUAL, OFF)]
    for engine in engines:
        engine.give(stream, tuples)
    assert [engine.rows for engine in engines] == [expected, 200]
    assert expected == 200 or engines[0].bytes < engines[1].bytes / 2
    other = [[(n % 4, n % 8) for n in range(5)]]
    feeds = [[tuples, tuples[:9]] if s.name == "a" else other for s in query.streams]
    first, second = (bag(Counted(query, shards, on).run(*feeds)) for on in (USUAL, OFF))
    assert first == second or "LIMIT" in sql


def punct(**patterns: object) -> Punctuation:
    """A punctuation of stream a."""
    return Punctuation.of(A, **patterns)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(*) AS n, SUM(y) AS s FROM a GROUP BY k",
        "SELECT k, MAX(y) AS top FROM (SELECT k, y FROM a UNION ALL SELECT k, z FROM b) GROUP BY k",
        "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM a GROUP BY k",
        "SELECT k, t, COUNT(y) AS n FROM a GROUP BY k, t",
        "SELECT half, SUM(y) AS n FROM (SELECT k / 2 AS half, y FROM a) GROUP BY half",
        "SELECT half, SUM(y) AS n, COUNT(*) AS m FROM "
        "(SELECT k / 2 AS half, y FROM (SELECT k, y FROM a UNION ALL SELECT k, z FROM b)) GROUP BY half",
        "SELECT k, half, MAX(y) AS top FROM (SELECT k, k / 2 AS half, y + 1 AS y FROM a) GROUP BY k, half",
        "SELECT COUNT(y) AS n FROM a",
        "SELECT DISTINCT k, y FROM a",
    ],
)
def test_results_are_released_as_early_as_without_edge_rules(sql: str, shards: int) -> None:
    """Edge aggregation delays no result, also if only several punctuations together close a group."""
    query = plan(DDL + sql)
    engines = [Counted(query, shards, on) for on in (USUAL, OFF)]
    feed: list[list[Element]] = [[row(k, y=k) for k in range(8)]]
    feed += [
        [punct(k=1)],
        [punct(k="[2,3]"), row(4, y=9)],
        [punct(k=4, x=1)],
    ]
    feed += [
        [punct(k=4, y="(,5]"), row(4, y=9)],
        [punct(k=4, y="[6,)")],
        [row(5, y=1), row(5, y=2)],
    ]
    feed += [[punct(k=5, part=part)] for part in range(3)]
    feed += [[punct(k="[0,7]", y="(,3)"), punct(k="[0,6]", y="(,8]", part="(0,2]")]]
    feed += [
        [punct(k="(,6]", y="[3,)")],
        [punct(part=0)],
        [punct(part="[1,2]")],
    ]
    feed += [[Punctuation.everything(A)]]
    output_count = 0
    for stream, s in enumerate(query.streams):
        if s.name == "b":
            for engine in engines:
                engine.give(stream, [Punctuation.everything(s.schema)])
    for elements in feed:
        (rows, punctuations), (other_rows, other_punctuations) = (
            engine.give(0, elements) for engine in engines
        )
        assert bag(rows) == bag(other_rows)
        assert sorted(map(str, punctuations)) == sorted(map(str, other_punctuations))
        output_count += len(rows) + len(punctuations)
    assert output_count > 0
    assert [sum(o.state.rows for o in engine.operators) for engine in engines] == [0, 0]
    assert engines[0].rows < engines[1].rows or "DISTINCT" in sql


def test_a_guarded_stream_keeps_all_its_tuples() -> None:
    query = plan(DDL + "SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    assert not {PartialGroupBy, PartialDupElim} & set(kinds(with_guards(query)))


BELOW_MAX = "SELECT k, MAX(x) AS top FROM (SELECT k, x FROM a UNION SELECT k, z FROM b) GROUP BY k"


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (USUAL, ["union", PartialDupElim]),
        (USUAL - {EDGE_DUPELIM}, ["union", None]),
        (USUAL | {DROP_DUPELIMS}, ["merge", PartialGroupBy]),
        (frozenset({DROP_DUPELIMS, EDGE_DUPELIM}), ["merge", PartialDupElim]),
        (frozenset({DROP_DUPELIMS}), ["merge", None]),
    ],
)
def test_rules_are_switched_independently(on: Rules, expected: list[object]) -> None:
    query = plan(DDL + BELOW_MAX, rules=on)
    (merge,) = {n.operator().name for n in query.root.walk()} & {"merge", "union"}
    tops = set(kinds(query, query.rules))
    assert merge == expected[0]
    assert tops & {PartialDupElim, PartialGroupBy} == ({expected[1]} if expected[1] else set())
    feeds: list[list[list[Row]]] = [[[row(k % 3, k) for k in range(9)]], [[(k % 4, k) for k in range(9)]]]
    assert bag(Counted(query, 2, on).run(*feeds)) == bag([(0, 8), (1, 7), (2, 8), (3, 7)])


@pytest.mark.parametrize("option", ["drop", "drop-dupelims", "edge-dupelim=maybe", "=on", ""])
def test_a_wrong_switch_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match="--rule"):
        read_rules([option])


def test_the_last_switch_wins() -> None:
    assert read_rules([]) == USUAL
    assert read_rules([f"{EDGE_AGGREGATION}=off", f"{EDGE_AGGREGATION}=on"]) == USUAL


def test_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    shown = cli("explain", WAREHOUSE)
    assert "drop-dupelims is off, and would drop #3 union: --rule drop-dupelims=on" in shown.out
    assert "edge-dupelim is on, for edge 1, edge 2" in shown.out
    dropped = cli("explain", WAREHOUSE, "--rule", "drop-dupelims=on")
    assert "union" not in dropped.out
    assert "drop-dupelims is on: --rule drop-dupelims=off" in dropped.out
    options = [WAREHOUSE, "--engine", "local", "--format", "csv", "--checkpoint", tmp_path / "c"]
    first = cli("run", *options[:-2])
    assert sorted(cli("run", *options, "--rule", "drop-dupelims=on").out.split()) == sorted(first.out.split())
    assert cli("run", *options).code == 2
    assert cli("run", *options, "--rule", "no-such=on").code == 2
