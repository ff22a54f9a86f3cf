"""Queries on columns that are all null or have one value, compared with DuckDB.

polars stores these columns as one value and a height, and evaluates some expressions once.
`tests.expressions.test_column_kinds` tests every function; these tests are about operators.
"""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pytest

from tests.engine.test_sql_forms import bag, document
from xmlpunct import query

COLUMNS = {"k": "INT NOT NULL", "v": "INT", "x": "DOUBLE", "s": "STRING"}
STREAMS = "".join(
    f"CREATE STREAM {name} ({', '.join(f'{c} {t}' for c, t in COLUMNS.items())}) WITH (source = '-', element = 't'); "
    for name in ("st", "other")
)
EXPRESSIONS = [
    *("COALESCE(v, 0) > 5", "5 > COALESCE(v, 0)", "5 < COALESCE(v, 0)", "NOT 5 <= COALESCE(v, 0)"),
    *("GREATEST(v, 3) >= 3", "3 <= LEAST(v, 3)", "IF(v > 1, 1, 2) = 2", "2 <> IF(v > 1, 1, 2)"),
    *("COALESCE(x, 28.0) / COALESCE(x, 10.0)", "k / COALESCE(x, 10.0)", "'b' < COALESCE(s, 'a')"),
    *("REPLACE('b', 'b', k::VARCHAR)", "CONCAT_WS(k::VARCHAR, 'a', 'b')", "COALESCE(s, 'a') || 'b' = 'ab'"),
    *("COALESCE(v, 0) BETWEEN 0 AND 5", "COALESCE(v, 0) IN (0, k)", "0 IS NOT DISTINCT FROM COALESCE(v, 0)"),
    *(
        "COALESCE(v, 0) > 2.5",
        "1.5 < COALESCE(v, 2)",
        "CASE WHEN 5 > COALESCE(v, 0) THEN k END",
        "v > 5",
        "NULL > v",
    ),
    *(
        "(SELECT MAX(v) FROM other WHERE k > 100) > 5",
        "5 > COALESCE((SELECT MAX(v) FROM other WHERE k > 100), 0)",
    ),
    *("COALESCE((SELECT v FROM other WHERE k > 100), 7) > 5", "k > COALESCE((SELECT MAX(v) FROM other), 2)"),
]
QUERIES = [
    *(f"SELECT {e} AS r FROM st" for e in EXPRESSIONS),
    *(f"SELECT k, {e} AS r FROM st" for e in EXPRESSIONS),
    *("SELECT SUM(CASE WHEN COALESCE(v, 0) > 5 THEN 10 ELSE 1 END) AS r FROM st",
      "SELECT k, SUM(CASE WHEN COALESCE(v, 0) > 5 THEN 10 ELSE 1 END) AS r, COUNT(v) AS n, MIN(v) AS l "
      "FROM st GROUP BY k",
      "SELECT COUNT(*) FILTER (WHERE 5 > COALESCE(v, 0)) AS r, SUM(COALESCE(v, 0)) AS t, "
      "AVG(COALESCE(x, 28.0) / 10) AS a FROM st",
      "SELECT COUNT(DISTINCT 5 > COALESCE(v, 0)) AS r, MEDIAN(COALESCE(x, 0.5)) AS m, "
      "STRING_AGG(COALESCE(s, 'a')) AS t FROM st",
      "SELECT COALESCE(v, 0) > 5 AS g, COUNT(*) AS n FROM st GROUP BY g",
      "SELECT v, 5 > COALESCE(v, 0) AS g, SUM(k) AS n FROM st GROUP BY v, g HAVING 5 > COALESCE(MIN(v), 0)",
      "SELECT DISTINCT 5 > COALESCE(v, 0) AS r FROM st",
      "SELECT k FROM st WHERE COALESCE(v, 0) > 5",
      "SELECT k FROM st WHERE 5 > COALESCE(v, 0)",
      "SELECT k FROM st WHERE 5 > COALESCE(v, 0) AND 1 / k >= 0",
      "SELECT k FROM st ORDER BY 5 > COALESCE(v, 0), k DESC",
      "SELECT COALESCE(v, 0) > 5 AS r FROM st UNION ALL SELECT 5 > COALESCE(v, 0) FROM other",
      "SELECT l.k, r.v, 5 > COALESCE(r.v, 0) AS g FROM st AS l LEFT JOIN other AS r ON l.k = r.k",
      "SELECT 5 > COALESCE(r.v, 0) AS g FROM st AS l LEFT JOIN other AS r ON l.k = r.k + 100",
      "SELECT SUM(CASE WHEN COALESCE(r.k, 0) > 5 THEN 10 ELSE 1 END) AS g "
      "FROM st AS l LEFT JOIN other AS r ON l.k = r.k + 100",
      "SELECT l.k FROM st AS l LEFT JOIN other AS r ON l.k = r.k + 100 WHERE 5 > COALESCE(r.v, 0)",
      "SELECT COALESCE(l.v, 0) > 5 AS a, COALESCE(r.v, 0) < 5 AS b "
      "FROM st AS l FULL JOIN other AS r ON l.k = r.k + 100",
      "SELECT l.k, r.k AS o "
      "FROM st AS l JOIN other AS r ON l.k = r.k AND 5 > COALESCE(l.v, 0) AND 5 > COALESCE(r.v, l.v, 0)",
      "SELECT l.k, r.k AS o "
      "FROM st AS l JOIN other AS r ON l.k = r.k AND COALESCE(l.v, 0) + r.k < COALESCE(r.v, 0) + 9",
      "SELECT l.k, r.k AS o FROM st AS l LEFT JOIN other AS r ON COALESCE(l.v, 1) = r.k AND 1 / r.k < COALESCE(l.v, 5)",
      "SELECT l.k, r.k AS o FROM st AS l JOIN other AS r ON l.k = COALESCE(r.v, 1)",
      "SELECT k FROM st WHERE EXISTS (SELECT 1 FROM other WHERE other.k = st.k AND 5 > COALESCE(other.v, st.v, 0))",
      "SELECT k FROM st WHERE k > COALESCE((SELECT MAX(v) FROM other WHERE other.k = st.k), 1)",
      "SELECT k FROM st WHERE COALESCE(v, 1) NOT IN (SELECT COALESCE(v, 2) FROM other)",
      "SELECT k, SUM(COALESCE(v, 2)) OVER (ORDER BY k) AS r, LAG(5 > COALESCE(v, 0)) OVER (ORDER BY k) AS q FROM st",
      "SELECT k, COUNT(*) OVER (PARTITION BY v, 5 > COALESCE(v, 0) ORDER BY k) AS r, "
      "LAG(v, 1, 7) OVER (ORDER BY k) > 5 AS q FROM st",
      "SELECT k, 5 > COALESCE(LAG(v) OVER (ORDER BY k), 0) AS r FROM st"),
]  # fmt: skip


def rows(count: int) -> list[tuple[Any, ...]]:
    return [(k, None, None, None) for k in range(1, count + 1)]


@pytest.fixture(scope="module", params=[0, 1, 3])
def tables(request: pytest.FixtureRequest) -> Any:
    """The number of tuples, and a DuckDB database with them; all columns but k are null."""
    with duckdb.connect() as connection:
        columns = ", ".join(f"{name} {type_.replace(' NOT NULL', '')}" for name, type_ in COLUMNS.items())
        for name in ("st", "other"):
            connection.execute(f"CREATE TABLE {name} ({columns})")
            for row in rows(request.param):
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", row)
        yield request.param, connection


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_of_nulls_as_in_duckdb(sql: str, tables: Any) -> None:
    count, database = tables
    expected = bag(database.execute(sql.replace("1 / k", "1 // k").replace("1 / r.k", "1 // r.k")).fetchall())
    text = document([*COLUMNS], rows(count))
    assert bag([t for t in query(STREAMS + sql, st=text, other=text) if isinstance(t, tuple)]) == expected
    nulls = [
        pl.lit(None, dtype=t).alias(n) for n, t in (("v", pl.Int64), ("x", pl.Float64), ("s", pl.String))
    ]
    frame = pl.DataFrame({"k": range(1, count + 1)}, schema={"k": pl.Int64}).with_columns(nulls)
    frames = {"st": frame, "other": frame}
    assert bag([t for t in query(STREAMS + sql, **frames) if isinstance(t, tuple)]) == expected
