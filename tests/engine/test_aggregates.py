"""Aggregates beyond standard SQL: compared with DuckDB, and exact for all slice sizes and shard counts."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import polars as pl
import pytest

import xmlpunct
from tests.oracle.aggregates import aggregate as exact_aggregate
from tests.oracle.aggregates import nearest
from tests.oracle.values import same
from tests.plans.sharded import Sharded
from xmlpunct.base.errors import SqlError
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DOUBLE

COLUMNS = "k INT, v INT, x DOUBLE, m DECIMAL(7,2), s STRING, b BOOLEAN, d DATE, t TIMESTAMP"
SCHEMA = Schema.parse(COLUMNS)
STREAM = f"CREATE STREAM st ({COLUMNS}) WITH (source = 's.xml', element = 't');"


def rows(seed: int, count: int = 300) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)
    days = [f"2024-0{n}-1{n}" for n in range(1, 9)]

    def row() -> tuple[Any, ...]:
        values = (
            draw.randrange(6),
            draw.randrange(-9, 9),
            draw.choice([0.5, -2.25, 1e9, 3.0, -0.0, float("nan") if draw.random() < 0.1 else 7.0]),
            Decimal(draw.randrange(-999, 999)) / 100,
            draw.choice(["a", "b", "", "é", "ab"]),
            draw.random() < 0.5,
            SCHEMA["d"].type.parse(draw.choice(days)),
            SCHEMA["t"].type.parse(
                f"{draw.choice(days)}T0{draw.randrange(10)}:30:00.00000{draw.randrange(10)}Z"
            ),
        )
        return tuple(None if draw.random() < 0.15 else v for v in values)

    return [row() for _ in range(count)]


def released(sql: str, tuples: Sequence[tuple[Any, ...]], shards: int, cuts: int) -> list[tuple[Any, ...]]:
    """The results over tuples that arrive in ``cuts`` slices, with a restart in the middle."""
    root = plan(f"{STREAM} {sql}").root
    running = Sharded(root, ["st"], shards)
    results: list[tuple[Any, ...]] = []
    size = max(-(-len(tuples) // cuts), 1)
    for n, low in enumerate(range(0, len(tuples), size)):
        for out in running.push(0, Slice(SCHEMA.frame(tuples[low : low + size]), [])):
            results += out.tuples.rows()
        if n == cuts // 2:
            running = running.restarted()
    wildcards = (
        Punctuation(SCHEMA, [xmlpunct.WILDCARD] * len(SCHEMA)) if hasattr(xmlpunct, "WILDCARD") else None
    )
    end = wildcards or Punctuation.parse(SCHEMA, f"<{', '.join('*' * len(SCHEMA))}>")
    for out in running.push(0, Slice(SCHEMA.empty(), [end])):
        results += out.tuples.rows()
    return results


ASKED = [
    *(
        "VARIANCE(v)",
        "VAR_SAMP(m)",
        "VAR_POP(v)",
        "STDDEV(v)",
        "STDDEV_SAMP(m)",
        "STDDEV_POP(v)",
        "VAR_POP(DISTINCT v)",
    ),
    *(
        "COUNT_IF(b)",
        "BOOL_AND(b)",
        "BOOL_OR(b)",
        "ANY_VALUE(s)",
        "MEDIAN(v)",
        "MEDIAN(x)",
        "MEDIAN(m)",
        "MEDIAN(d)",
    ),
    *(
        "MEDIAN(t)",
        "MEDIAN(s)",
        "MEDIAN(b)",
        "MEDIAN(DISTINCT v)",
        "QUANTILE_DISC(s, 0.3)",
        "QUANTILE_DISC(m, 0.9)",
    ),
    *(f"QUANTILE_CONT({a}, {q})" for a in "vxmdt" for q in (0, "0.1", "0.25", "0.333", "0.9", 1)),
    *(
        "STRING_AGG(s, '; ')",
        "STRING_AGG(s)",
        "STRING_AGG(v, '/' ORDER BY v DESC)",
        "STRING_AGG(DISTINCT s, '')",
    ),
    *(
        "STRING_AGG(DISTINCT s, ',' ORDER BY s DESC)",
        "ARRAY_AGG(v)",
        "ARRAY_AGG(s ORDER BY m, t, s)",
        "LIST(DISTINCT v)",
    ),
    *("ARG_MIN(s, t)", "ARG_MAX(s, t)", "MIN_BY(v, m)", "ARG_MAX(d, s)", "ARG_MAX(DISTINCT b, x)"),
    *(
        f"PERCENTILE_{kind}({q}) WITHIN GROUP (ORDER BY {a}{way})"
        for kind, a in (("CONT", "x"), ("CONT", "v"), ("DISC", "s"), ("DISC", "m"))
        for q in ("0.25", "0.4")
        for way in ("", " DESC")
    ),
    *("SUM(v)", "COUNT(*)", "MAX(x)", "AVG(v)", "COUNT(DISTINCT v)", "MIN(s)"),
]


def to_duck(aggregate: str, where: str) -> str:
    """The aggregate in DuckDB's SQL, with an explicit order where ties or order matter."""
    name, _, inside = aggregate.partition("(")
    arguments = inside.removesuffix(")").removeprefix("DISTINCT ").split(", ")
    condition = " AND ".join(
        [*(f"{a} IS NOT NULL" for a in arguments[:2]), *([f"({where})"] if where else [])]
    )
    clause = f"FILTER (WHERE {condition})"
    if name in ("ARG_MIN", "MIN_BY", "ARG_MAX"):
        way = "DESC" if name == "ARG_MAX" else "ASC"
        return f"first({arguments[0]} ORDER BY {arguments[1]} {way}, {arguments[0]}) {clause}"
    value = arguments[0].partition(" ")[0]
    if name == "ANY_VALUE":
        aggregate = f"MIN({value})"
    elif name in ("STRING_AGG", "ARRAY_AGG", "LIST") and "ORDER BY" not in aggregate:
        aggregate = f"{aggregate[:-1]} ORDER BY {value})"
    aggregate = aggregate.replace("ORDER BY m, t, s", "ORDER BY m NULLS LAST, t NULLS LAST, s NULLS LAST")
    return f"{aggregate} FILTER (WHERE {where})" if where else aggregate


@pytest.mark.parametrize("where", ["", "v > 0 OR s = 'a'"])
@pytest.mark.parametrize("aggregate", ASKED)
def test_like_duckdb(aggregate: str, where: str) -> None:
    ours = f"{aggregate} FILTER (WHERE {where})" if where else aggregate
    tuples = rows(1)
    naive = SCHEMA.frame(tuples).with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None))
    with duckdb.connect() as connection:
        connection.register("st", naive.to_arrow())
        connection.execute("SET default_null_order = 'nulls_last'")
        for key in ("k", "1 + 0 * COALESCE(k, 0)"):
            answers = connection.execute(
                f"SELECT {key}, {to_duck(aggregate, where)} FROM st GROUP BY 1"
            ).fetchall()
            expected = {k: duck_value(v) for k, v in answers}
            for shards, cuts in ((1, 1), (3, 7)):
                sql = f"SELECT {key} AS g, {ours} AS r FROM st GROUP BY {key}"
                got = {k: same(v) for k, v in released(sql, tuples, shards, cuts)}
                assert got.keys() == expected.keys()
                assert all(alike(got[k], expected[k]) for k in got), (key, shards, got, expected)


def alike(ours: Any, its: Any) -> bool:
    """True if equal. Datetimes may differ by 1 microsecond: DuckDB interpolates them as DOUBLEs."""
    if ours[0] == "datetime":
        return its[0] == "datetime" and abs((ours[1] - its[1]).total_seconds()) <= 1e-6
    return bool(ours == its)


def duck_value(value: Any) -> Any:
    if isinstance(value, list):
        return same([{"value": item} for item in value])
    if hasattr(value, "hour"):
        return same(value.replace(tzinfo=rows_zone()))
    return same(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def rows_zone() -> Any:
    return SCHEMA["t"].type.parse("2024-01-01T00:00:00Z").tzinfo


@pytest.mark.parametrize("group_key", ["k", "1 + 0 * COALESCE(k, 0)"])
@pytest.mark.parametrize("column", ["v", "x", "s", "b", "d"])
def test_mode_is_the_least_of_the_most_frequent(column: str, group_key: str) -> None:
    tuples = rows(2)
    position = SCHEMA.names.index(column)
    groups: dict[Any, Counter[Any]] = {}
    for row in tuples:
        group = groups.setdefault(row[0] if group_key == "k" else 1, Counter())
        if row[position] is not None:
            group[row[position]] += 1
    sort_key = SCHEMA[column].type.key
    expected = {
        k: min((v for v, n in group.items() if n == max(group.values())), key=sort_key) if group else None
        for k, group in groups.items()
    }
    for shards, cuts in ((1, 1), (3, 7)):
        got = dict(
            released(
                f"SELECT {group_key} AS g, MODE({column}) AS r FROM st GROUP BY {group_key}",
                tuples,
                shards,
                cuts,
            )
        )
        assert {k: same(v) for k, v in got.items()} == {k: same(v) for k, v in expected.items()}


WILD = [
    0.1,
    1e16,
    -1e16,
    3e-320,
    1e-300,
    1e150,
    -1e150,
    1 / 3,
    123456789.123456789,
    -0.0,
    5e-324,
    2.0**52 + 0.5,
]


@pytest.mark.parametrize("seed", range(5))
def test_sums_and_averages_of_doubles_are_exact(seed: int) -> None:
    """SUM is `math.fsum`, and AVG is rounded once, for every order, slicing and number of shards."""
    draw = random.Random(seed)
    xs = [draw.choice([*WILD, 1e308, -1e308, draw.gauss(1e9, 1e-3), draw.gauss(0, 1)]) for _ in range(100)]
    tuples = [(1, None, x, None, None, None, None, None) for x in xs]
    total = sum(map(Fraction, xs), Fraction(0))
    distinct_total = sum(map(Fraction, set(xs)), Fraction(0))
    for shards, cuts in ((1, 1), (1, 10), (3, 4)):
        draw.shuffle(tuples)
        sql = "SELECT k, SUM(x) AS s, AVG(x) AS a, SUM(DISTINCT x) AS d FROM st GROUP BY k"
        ((_, s, a, d),) = released(sql, tuples, shards, cuts)
        assert (s, a, d) == (nearest(total), nearest(total / len(xs)), nearest(distinct_total))


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [
        ([], None, None),
        ([-0.0, -0.0], 0.0, 0.0),
        ([1e308, 1e308], math.inf, 1e308),
        ([-1e308, -1e308, math.inf], math.inf, math.inf),
        ([math.inf, -math.inf], math.nan, math.nan),
        ([math.nan, 1.0, math.inf], math.nan, math.nan),
        ([1e308, 1e308, -1e308, -1e308, 5e-324], 5e-324, 0.0),
        ([0.1] * 10, 1.0, 0.1),
    ],
)
@pytest.mark.parametrize(("shards", "cuts"), [(1, 1), (3, 2)])
def test_sums_at_the_ends(
    values: list[float], total: float | None, average: float | None, shards: int, cuts: int
) -> None:
    tuples = [(1, None, x, None, None, None, None, None) for x in values]
    ((s, a),) = released("SELECT SUM(x) AS s, AVG(x) AS a FROM st", tuples, shards, cuts)
    assert (same(s), same(a)) == (same(total), same(average))
    assert s is None or math.copysign(1, s) == math.copysign(1, total or 0.0)


@pytest.mark.parametrize(("shards", "cuts"), [(1, 1), (3, 4)])
def test_averages_of_large_integers_are_rounded_once(shards: int, cuts: int) -> None:
    """Also where the sum has more than 53 bits."""
    values = [2**62 + 1, 2**62 - 5, 2**53 + 1, 3]
    tuples = [(1, v, None, None, None, None, None, None) for v in values]
    ((_, average),) = released("SELECT k, AVG(v) AS a FROM st GROUP BY k", tuples, shards, cuts)
    assert average == float(Fraction(sum(values), len(values)))


@pytest.mark.parametrize("seed", range(5))
def test_variance_is_exact(seed: int) -> None:
    """The variance is rounded correctly to DOUBLE for every order and slicing."""
    draw = random.Random(seed)
    xs = [draw.choice([*WILD, draw.gauss(1e9, 1e-3), draw.gauss(0, 1)]) for _ in range(100)]
    tuples = [(1, None, x, None, None, None, None, None) for x in xs]
    exact = [Fraction(x) for x in xs]
    mean = sum(exact) / len(exact)
    variance = sum((x - mean) ** 2 for x in exact) / (len(exact) - 1)
    for shards, cuts in ((1, 1), (1, 10), (3, 4)):
        draw.shuffle(tuples)
        sql = "SELECT k, VARIANCE(x) AS v, STDDEV(x) AS s FROM st GROUP BY k"
        ((_, v, s),) = released(sql, tuples, shards, cuts)
        assert (v, s) == (float(variance), math.sqrt(float(variance)))


@pytest.mark.parametrize(
    ("values", "pop", "samp"),
    [
        ([], None, None),
        ([2.0], 0.0, None),
        ([1.0, float("inf")], math.nan, math.nan),
        ([math.nan, 1.0], math.nan, math.nan),
        ([1e200, -1e200], math.inf, math.inf),
        ([0.1] * 3, 0.0, 0.0),
        ([1e9 + 1, 1e9 + 2, 1e9 + 3], 2 / 3, 1.0),
    ],
)
def test_variance_at_the_ends(values: list[float], pop: float | None, samp: float | None) -> None:
    tuples = [(1, None, x, None, None, None, None, None) for x in values]
    ((p, s),) = released("SELECT VAR_POP(x) AS p, VAR_SAMP(x) AS s FROM st", tuples, 1, 1)
    assert (same(p), same(s)) == (same(pop), same(samp))


def test_in_having_windows_and_expressions() -> None:
    stream = f"CREATE STREAM st ({COLUMNS.replace('v INT', 'v INT NOT NULL')}) WITH (source = 's.xml', element = 't');"
    xml = "".join(
        f"<t><k>{k}</k><v>{v}</v><s>{s}</s></t>"
        for k, v, s in [(1, 1, "a"), (1, 4, "b"), (2, 12, "a"), (2, 13, "c")]
    )
    source = f"<st>{xml}</st>".encode()

    def results(sql: str) -> list[Any]:
        return sorted(r for r in xmlpunct.query(f"{stream} {sql}", st=source) if isinstance(r, tuple))

    assert results("SELECT k FROM st GROUP BY k HAVING MEDIAN(v) > 3") == [(2,)]
    assert results("SELECT k, STDDEV_POP(v) * 2 + COUNT_IF(s = 'a') AS r FROM st GROUP BY k") == [
        (1, 4.0),
        (2, 2.0),
    ]
    windows = "FROM TABLE(TUMBLE(TABLE st, DESCRIPTOR(v), 10)) GROUP BY window_start, window_end"
    joined = f"SELECT window_start, STRING_AGG(s, '-' ORDER BY v DESC) AS r {windows}"
    assert results(joined) == [(0, "b-a"), (10, "c-a")]
    over = (
        "SELECT v, COUNT_IF(s = 'a') OVER (ORDER BY v) AS n, BOOL_OR(s = 'c') OVER (ORDER BY v) AS b FROM st"
    )
    assert results(over) == [(1, 1, False), (4, 1, False), (12, 2, False), (13, 2, True)]
    assert results("SELECT COUNT(*) FILTER (WHERE s = 'a') AS n, ARG_MAX(s, v) AS r FROM st") == [(2, "c")]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("ARG_MIN(s)", "takes 2 arguments"),
        ("STRING_AGG(s, k)", "the separator of STRING_AGG must be a literal"),
        ("STRING_AGG(s, ',', s)", "takes 1 to 2 arguments"),
        ("QUANTILE_CONT(v, 1.5)", "a quantile is a number from 0 to 1"),
        ("QUANTILE_CONT(v, x)", "needs a literal from 0 to 1"),
        ("QUANTILE_CONT(s, 0.5)", "say QUANTILE_DISC"),
        ("STRING_AGG(DISTINCT s, ',' ORDER BY v)", "must be its argument"),
        ("VARIANCE(s)", "needs numbers, not STRING"),
        ("BOOL_AND(v)", "BOOL_AND needs BOOLEAN, not INT"),
        ("COUNT_IF(v)", "COUNT_IF needs BOOLEAN, not INT"),
        ("SUM(v) FILTER (WHERE v)", "needs BOOLEAN"),
        ("MEDIAN(*)", "MEDIAN"),
        ("MEDIAN()", "needs an argument"),
        ("UPPER(s) FILTER (WHERE b)", "not supported"),
        ("MEDIAN(v) OVER (ORDER BY k)", "MEDIAN with OVER is not supported: GROUP BY"),
        ("STDDEV(DISTINCT v) OVER (ORDER BY k)", "DISTINCT is not supported with OVER"),
        ("VARIANCE(s) OVER (ORDER BY k)", "needs numbers, not STRING"),
        ("PERCENTILE_CONT(0.5)", "write QUANTILE_CONT"),
        ("MAX(v ORDER BY v)", "not supported"),
        ("SUM(MEDIAN(v))", "an aggregate is not allowed in an aggregate"),
    ],
)
def test_invalid_aggregates_are_refused(sql: str, why: str) -> None:
    stream = STREAM.replace("k INT", "k INT NOT NULL")
    with pytest.raises(SqlError) as caught:
        plan(f"{stream} SELECT {sql} AS r FROM st")
    assert why in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_variance_over_a_relation_is_exact(seed: int) -> None:
    """The variances of a window at each instant, from which old values are deleted."""
    draw = random.Random(seed)
    values = [draw.choice([*WILD, 3.0, draw.gauss(1e9, 1e-3)]) for _ in range(40)]
    feed = "".join(f"<t><ts>{ts}</ts><x>{x!r}</x></t>" for ts, x in enumerate(values))
    stream = (
        "CREATE STREAM s (ts INT NOT NULL, x DOUBLE) WITH (source = '-', element = 't', timestamp = 'ts');"
    )
    aggregates = "VAR_SAMP(x) AS v, STDDEV_POP(x) AS d, VAR_POP(DISTINCT x) AS p"
    sql = f"RSTREAM(SELECT {aggregates} FROM s [RANGE 5])"
    rows_by_instant: dict[int, Any] = {}
    for *row, at in (
        r for r in xmlpunct.query(stream + sql, s=f"<s>{feed}</s>".encode()) if isinstance(r, tuple)
    ):
        rows_by_instant[at] = tuple(row)
    for ts in range(len(values)):
        window = values[max(ts - 5, 0) : ts + 1]
        population = exact_aggregate("VAR_POP", False, DOUBLE, window)
        expected = (
            exact_aggregate("VAR_SAMP", False, DOUBLE, window),
            math.sqrt(population),
            exact_aggregate("VAR_POP", False, DOUBLE, set(window)),
        )
        assert rows_by_instant[ts] == expected


@pytest.mark.parametrize("seed", range(3))
def test_frames_and_relations_have_the_same_sums(seed: int) -> None:
    """OVER and a window have equal results, close to DuckDB's `fsum` and VAR_SAMP."""
    draw = random.Random(seed)
    values = [draw.gauss(0, 1) * 10.0 ** draw.randrange(5) for _ in range(60)]
    feed = "".join(f"<t><ts>{ts}</ts><x>{x!r}</x></t>" for ts, x in enumerate(values))
    stream = (
        "CREATE STREAM s (ts INT NOT NULL, x DOUBLE) WITH (source = '-', element = 't', timestamp = 'ts');"
    )
    last = "OVER (ORDER BY ts RANGE BETWEEN 7 PRECEDING AND CURRENT ROW)"

    def results(sql: str) -> list[Any]:
        document = f"<s>{feed}</s>".encode()
        rows = [r for r in xmlpunct.query(stream + sql, s=document) if isinstance(r, tuple)]
        return sorted((r for r in rows if 0 <= r[-1] < len(values)), key=lambda r: r[-1])

    framed = results(f"SELECT SUM(x) {last} AS s, AVG(x) {last} AS a, VARIANCE(x) {last} AS v, ts FROM s")
    assert framed == results("RSTREAM(SELECT SUM(x) AS s, AVG(x) AS a, VARIANCE(x) AS v FROM s [RANGE 7])")
    with duckdb.connect() as database:
        database.execute("CREATE TABLE s AS SELECT unnest(range(60)) AS ts, unnest(?) AS x", [values])
        theirs = database.execute(
            f"SELECT fsum(x) {last}, fsum(x) {last} / COUNT(*) {last}, VAR_SAMP(x) {last}, ts FROM s ORDER BY ts"
        ).fetchall()
    for ours, its in zip(framed, theirs, strict=True):
        assert ours[2] is its[2] or ours[2] == pytest.approx(its[2], rel=1e-9)
        assert (*ours[:2], ours[3]) == pytest.approx((*its[:2], its[3]), rel=1e-12)


def test_quantiles_over_a_relation_are_refused_with_an_alternative() -> None:
    with pytest.raises(SqlError, match="MEDIAN over a relation is not supported: GROUP BY TUMBLE"):
        plan("CREATE STREAM s (ts INT NOT NULL, v INT) WITH (source = 's.xml', timestamp = 'ts'); "
             "SELECT MEDIAN(v) AS r FROM s [RANGE 5]")  # fmt: skip
