"""Tables of Python (polars, pandas, Arrow, DuckDB) as constant relations in queries."""

from __future__ import annotations

import io
import logging
import re
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from xmlpunct import SourceError, SqlError, UsageError, query, scan_xml
from xmlpunct.engine.run.inputs.tables import SLICE_ROWS, Table

FRAME = pl.DataFrame({"sid": ["S1", "S2"], "place": ["Oslo", None]})
STREAM = "CREATE STREAM t (sid STRING, n INT) WITH (element = 't');"
FEED = b"<s><t><sid>S1</sid><n>1</n></t><t><sid>S2</sid><n>2</n></t><t><sid>S3</sid><n>3</n></t></s>"
JOIN = STREAM + "SELECT n, place FROM t JOIN places USING (sid)"
TABLES: dict[str, Any] = {
    "polars": FRAME,
    "lazy": FRAME.lazy().filter(pl.col("sid").is_not_null()),
    "pandas": FRAME.to_pandas(),
    "pandas with an index": FRAME.to_pandas().set_index(pd.Index([7, 8], name="unread")),
    "pyarrow": FRAME.to_arrow(),
    "a reader": None,
    "duckdb": None,
    "categories": FRAME.cast(pl.Categorical),
    "results": query("SELECT * FROM places", places=FRAME),
    "a scan": scan_xml(b"<s><p><sid>S1</sid><place>Oslo</place></p><p><sid>S2</sid></p></s>", element="p"),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("declared", ["", "CREATE STREAM places (sid STRING NOT NULL, place STRING);"])
def test_a_table_joins_a_stream(kind: str, declared: str) -> None:
    table = TABLES[kind]
    if kind == "a reader":
        table = FRAME.to_arrow().to_reader()
    if kind == "duckdb":
        table = duckdb.sql("SELECT * FROM (VALUES ('S1', 'Oslo'), ('S2', NULL)) AS p (sid, place)")
    results = query(declared + JOIN, t=FEED, places=table)
    for _ in range(2):
        assert set(results) == {(1, "Oslo"), (2, None)}


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_while_another_thread_imports_pandas(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """During its import, the module is in sys.modules but has no names."""
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    assert set(query(JOIN, t=FEED, places=TABLES[kind])) == {(1, "Oslo"), (2, None)}
    assert list(query(f"{STREAM} SELECT n FROM t", t=FEED)) == [(1,), (2,), (3,)]


def test_a_query_of_tables_alone() -> None:
    results = query("SELECT l.a, r.b FROM l JOIN r ON l.a = r.a", l=frame(a=[1, 2]), r=frame(a=[2], b=["x"]))
    assert list(results) == [(2, "x")]
    assert list(query("SELECT COUNT(*) FROM l", l=frame(a=[]).cast(pl.Int64))) == [(0,)]
    assert list(query("SELECT a FROM l ORDER BY a DESC LIMIT 1", l=frame(a=[3, 5, 4]))) == [(5,)]
    assert (
        len(
            list(
                query(
                    "SELECT a FROM l UNION ALL SELECT a FROM r LIMIT 3", l=frame(a=[1, 2]), r=frame(a=[3, 4])
                )
            )
        )
        == 3
    )


def frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_a_large_table_comes_in_slices() -> None:
    rows = SLICE_ROWS * 2 + 1
    batches = list(query("SELECT a FROM t", t=frame(a=range(rows))).batches())  # type: ignore[arg-type]
    assert [b.height for b in batches] == [SLICE_ROWS, SLICE_ROWS, 1]
    assert pl.concat(batches)["a"].to_list() == list(range(rows))


def test_a_table_ends_before_a_stream_begins() -> None:
    """Results that need only the table are released while the stream is silent."""
    sql = "CREATE STREAM t (n INT); SELECT MAX(a) AS m FROM u UNION ALL SELECT n FROM t"

    class Silent(io.RawIOBase):
        def read(self, _: int = -1) -> bytes:
            raise AssertionError("the stream must not be read")

    results = iter(query(sql, t=Silent(), u=frame(a=[1, 5])))  # type: ignore[arg-type]
    assert next(results) == (5,)


def test_declared_keys_and_orders_apply_to_tables() -> None:
    """Declared keys and orders emit punctuations; rows that match earlier ones are rejects."""
    sql = "CREATE STREAM t (a INT, PRIMARY KEY (a)); SELECT * FROM t"
    elements = list(query(sql, t=frame(a=[1, 2, 1])))
    assert [r for r in elements if isinstance(r, tuple)] == [(1,), (2,)]
    assert {str(r) for r in elements if not isinstance(r, tuple)} == {"<1>", "<2>"}
    ordered = "CREATE STREAM t (a INT) PUNCTUATE ORDER BY a; SELECT * FROM t"
    assert [r for r in query(ordered, t=frame(a=[1, 3, 2])) if isinstance(r, tuple)] == [(1,), (3,)]


def test_a_constant_relation_beside_a_window() -> None:
    sql = """CREATE STREAM t (sid STRING, ts INT NOT NULL) WITH (timestamp = 'ts');
        CREATE RELATION places (sid STRING, place STRING);
        SELECT place FROM ISTREAM(SELECT place FROM t [NOW], places WHERE t.sid = places.sid) AS q"""
    feed = b"<s><t><sid>S1</sid><ts>1</ts></t><t><sid>S9</sid><ts>2</ts></t></s>"
    assert [r for r in query(sql, t=feed, places=FRAME) if isinstance(r, tuple)] == [("Oslo",)]


@pytest.mark.parametrize(
    ("column", "type_", "values"),
    [
        (pl.Series([1, None], dtype=pl.Int8), "INT", [1, None]),
        (pl.Series([2**32 - 1], dtype=pl.UInt32), "INT", [2**32 - 1]),
        (pl.Series([7], dtype=pl.Int32), "DOUBLE", [7.0]),
        (pl.Series([7], dtype=pl.Int64), "DECIMAL(21,2)", [Decimal("7.00")]),
        (pl.Series([1.5, -0.0], dtype=pl.Float32), "DOUBLE", [1.5, 0.0]),
        (pl.Series([Decimal("1.5")], dtype=pl.Decimal(5, 1)), "DECIMAL(6,2)", [Decimal("1.50")]),
        (pl.Series(["a"], dtype=pl.Enum(["a"])), "STRING", ["a"]),
        (pl.Series([None, None]), "DATE", [None, None]),
        (pl.Series([None]), "ARRAY(x INT)", [[]]),
        (pl.Series([date(1, 1, 1)]), "DATE", [date(1, 1, 1)]),
        (pl.Series([datetime(2026, 1, 1)]), "TIMESTAMP", [datetime(2026, 1, 1, tzinfo=UTC)]),
        (
            pl.Series([datetime(2026, 1, 1)]).cast(pl.Datetime("ms")),
            "TIMESTAMP",
            [datetime(2026, 1, 1, tzinfo=UTC)],
        ),
        (
            pl.Series([-1, 999], dtype=pl.Int64).cast(pl.Datetime("ns", "UTC")),
            "TIMESTAMP",
            [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
        ),
        (
            pl.Series([datetime(2026, 7, 1)]).dt.replace_time_zone("Europe/Oslo"),
            "TIMESTAMP",
            [datetime(2026, 6, 30, 22, tzinfo=UTC)],
        ),
        (pl.Series([[{"x": 1, "y": 2}], [], None]), "ARRAY(x INT)", [[{"x": 1}], [], []]),
        (
            pl.Series([[{"x": 1}]], dtype=pl.Array(pl.Struct({"x": pl.Int8}), 1)),
            "ARRAY(x INT)",
            [[{"x": 1}]],
        ),
        (
            pl.Series([[{"of": [{"x": -0.0}, {"x": 2.0}]}, {"of": []}], [{"of": None}]]),
            "ARRAY(of ARRAY(x DOUBLE))",
            [[{"of": [{"x": 0.0}, {"x": 2.0}]}, {"of": []}], [{"of": []}]],
        ),
        (pl.Series(["<p:a>1</p:a> &amp; <b/>"]), "XML", ["<p:a>1</p:a> &amp; <b/>"]),
    ],
    ids=str,
)
def test_values_of_types_that_fit(column: pl.Series, type_: str, values: list[Any]) -> None:
    table = pl.DataFrame({"c": column, "other": column})
    results = list(query(f"CREATE STREAM t (c {type_}); SELECT c FROM t", t=table))
    assert results == [(v,) for v in values]
    assert [str(c) for (c,) in results] == [str(v) for v in values]
    # equal results for a slice of a larger column
    padded = pl.concat([table, table, table]).slice(len(values), len(values))
    assert list(query(f"CREATE STREAM t (c {type_}); SELECT c FROM t", t=padded)) == results


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [
        (pl.Int64(), "STRING"),
        (pl.Int64(), "DOUBLE"),
        (pl.Int64(), "DECIMAL(20,2)"),
        (pl.UInt64(), "INT"),
        (pl.Float64(), "INT"),
        (pl.Float64(), "DECIMAL(38,5)"),
        (pl.Decimal(6, 3), "DECIMAL(6,2)"),
        (pl.Decimal(6, 2), "DECIMAL(5,2)"),
        (pl.Date(), "TIMESTAMP"),
        (pl.Datetime(), "DATE"),
        (pl.String(), "DATE"),
        (pl.Int64(), "ARRAY(x INT)"),
        (pl.List(pl.Int64()), "ARRAY(x INT)"),
        (pl.List(pl.Struct({"y": pl.Int64()})), "ARRAY(x INT)"),
        (pl.List(pl.Struct({"x": pl.String()})), "ARRAY(x INT)"),
        (pl.Binary(), "XML"),
    ],
    ids=str,
)
def test_types_that_do_not_fit_are_refused(dtype: pl.DataType, type_: str) -> None:
    with pytest.raises(UsageError, match=r"^column c of t is .*, which does not fit .*: cast it$"):
        query(f"CREATE STREAM t (c {type_}); SELECT c FROM t", t=pl.DataFrame(schema={"c": dtype}))


@pytest.mark.parametrize(
    "dtype",
    [pl.UInt64(), pl.Int128(), pl.Time(), pl.Duration(), pl.Binary(), pl.Null(), pl.Struct({"x": pl.Int8()}),
     pl.List(pl.Int8()), pl.List(pl.Struct({})), pl.List(pl.Struct({"x": pl.Time()}))],
    ids=str,
)  # fmt: skip
def test_unsupported_types_are_refused(dtype: pl.DataType) -> None:
    table = pl.DataFrame(schema={"c": dtype, "d": pl.Int8()})
    with pytest.raises(
        UsageError, match=r"^column c of t is .*, which is not supported: cast it, or drop it$"
    ):
        query("SELECT d FROM t", t=table)
    assert list(query("CREATE STREAM t (d INT); SELECT d FROM t", t=table)) == []


@pytest.mark.parametrize(
    ("column", "declared", "reason"),
    [
        ([None, 1], "c INT NOT NULL", "attribute c: missing, but NOT NULL"),
        ([25, 1], "c INT CHECK (c < 24)", r"attribute c: '25' is outside its domain \(,23\]"),
        (
            pl.Series([2**22, 0], dtype=pl.Int32).cast(pl.Date),
            "c DATE",
            "attribute c: 4194304 days since 1970 is not of type DATE",
        ),
        (
            pl.Series([2**60, 0]).cast(pl.Datetime("ms")),
            "c TIMESTAMP",
            f"attribute c: {2**60} ms since 1970 is not of type TIMESTAMP",
        ),
        (
            pl.Series([2**60, 0]).cast(pl.Datetime("us")),
            "c TIMESTAMP",
            f"attribute c: {2**60} us since 1970 is not of type TIMESTAMP",
        ),
        (["<a>", "<a/>"], "c XML", "attribute c: '<a>' is not of type XML"),
        (["</x><x>", "<a/>"], "c XML", "is not of type XML"),
        (
            [[{"x": None}, {"x": 2}], [{"x": 1}]],
            "c ARRAY(x INT NOT NULL)",
            "attribute c/x: missing, but NOT NULL",
        ),
        ([[{"x": 1}, None], [{"x": 1}]], "c ARRAY(x INT)", "attribute c: an item is null"),
    ],
    ids=range(9),
)
def test_rows_that_do_not_fit_are_rejects(
    column: Any, declared: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = pl.DataFrame({"n": [1, 2], "c": column})
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert list(query(f"CREATE STREAM t (n INT, {declared}); SELECT n FROM t", t=table)) == [(2,)]
    (message,) = caplog.messages
    assert re.match(f"t: .*{reason}", message)


def test_a_reject_holds_the_row() -> None:
    table = Table.of(frame(a=[None, 1], b=["x", "y"]), "t")
    assert table is not None
    declared = query("CREATE STREAM t (a INT NOT NULL, b STRING); SELECT * FROM t", t=FEED).schema
    ((tuples, (reject,)),) = table.slices(declared)
    assert tuples.tuples.rows() == [(1, "y")]
    assert (reject.source, reject.line, reject.text) == ("t", None, '{"a": null, "b": "x"}')


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="places has no column n: there are sid, place"):
        query("CREATE STREAM places (sid STRING, n INT); SELECT n FROM places", places=FRAME)
    with pytest.raises(SqlError, match="no column n"):
        query("SELECT n FROM places", places=FRAME)
    with pytest.raises(SqlError, match="no stream other: there are t, places"):
        query(STREAM + "SELECT * FROM other", places=FRAME)
    with pytest.raises(SqlError, match="where applies to XML elements, but t is a table"):
        query("CREATE STREAM t (a INT) WITH (where = '@k = ''v'''); SELECT a FROM t", t=frame(a=[1]))
    with pytest.raises(SqlError, match="no column"):
        query('SELECT "$line" FROM t', t=frame(a=[1]))
    with pytest.raises(UsageError, match=r"column '\$line' of t cannot have this name: rename it"):
        query("SELECT a FROM t", t=pl.DataFrame({"a": [1], "$line": [1]}))
    with pytest.raises(UsageError, match="t cannot be read as a table: "):
        query("SELECT a FROM t", t=pd.DataFrame({"a": [1, "x", object()]}))
    with pytest.raises(UsageError, match="t cannot be read as a table: "):
        query("SELECT a FROM t", t=pl.LazyFrame({"a": [1]}).select("b"))


def test_a_lazy_frame_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    lazy = pl.LazyFrame({"a": ["x"]}).select(pl.col("a").cast(pl.Int64))
    with pytest.raises(SourceError, match=r"^t: cannot be computed: "):
        list(query("SELECT a FROM t", t=lazy))
    with pytest.raises(SourceError, match="cut short"):
        list(query("SELECT n FROM t", t=scan_xml(FEED[:-10], element="t")))


def test_line_numbers_of_a_stream_joined_with_a_table() -> None:
    sql = STREAM + 'SELECT t."$line" AS line, place FROM t JOIN places USING (sid)'
    assert set(query(sql, t=FEED, places=FRAME)) == {(1, "Oslo"), (1, None)}


def test_a_declared_stream_without_columns_has_the_table_s() -> None:
    sql = "CREATE STREAM t WITH (element = 'any'); SELECT a + 1 AS b FROM t"
    assert list(query(sql, t=pa.table({"a": [1]}))) == [(2,)]
