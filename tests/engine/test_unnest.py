"""Arrays in queries: UNNEST, refused uses, output formats; hidden columns; choosing elements."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmlpunct
from xmlpunct import Punctuation, Schema, SqlError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import writer_for
from xmlpunct.operators.iterator import as_text
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.slice import Slice

ITEM = "sku STRING PATH '@sku', qty INT, tag ARRAY(v STRING PATH '.')"
COLUMNS = f"id INT PATH '@id', line ARRAY({ITEM})"
STREAM = f"CREATE STREAM orders ({COLUMNS}) WITH (element = 'order'); "

items = st.tuples(
    st.sampled_from("abc"), st.none() | st.integers(-3, 3), st.lists(st.sampled_from("xy"), max_size=2)
)
orders = st.lists(st.tuples(st.integers(0, 3), st.lists(items, max_size=3)), max_size=6)


def document(given_orders: Sequence[Any], closed_ids: Sequence[int] = ()) -> bytes:
    parts = []
    for number, lines in given_orders:
        inner = "".join(
            f"<line sku='{sku}'>{'' if qty is None else f'<qty>{qty}</qty>'}"
            f"{''.join(f'<tag>{tag}</tag>' for tag in tags)}</line>"
            for sku, qty, tags in lines
        )
        parts.append(f"<order id='{number}'>{inner}</order>")
    parts += [f"<p:order id='{number}'/>" for number in closed_ids]
    return f"<s xmlns:p='{PUNCT_NAMESPACE}'>{''.join(parts)}</s>".encode()


def rows(sql: str, data: bytes) -> list[tuple[Any, ...]]:
    tuples = [r for r in xmlpunct.query(STREAM + sql, orders=data) if not isinstance(r, Punctuation)]
    return sorted(tuples, key=repr)


QUERIES = [
    "SELECT id, sku, qty FROM orders CROSS JOIN UNNEST(line) AS l",
    "SELECT id, l.sku AS s, l.qty AS q FROM orders LEFT JOIN UNNEST(line) AS l ON TRUE",
    "SELECT id, sku FROM orders, UNNEST(line) AS l WHERE qty > 0 AND id < 3",
    "SELECT id, COUNT(*) AS n, SUM(qty) AS q FROM orders CROSS JOIN UNNEST(line) AS l GROUP BY id",
    "SELECT DISTINCT sku FROM orders CROSS JOIN UNNEST(line) AS l",
    "SELECT COUNT(*) AS n FROM orders LEFT JOIN UNNEST(line) AS l ON TRUE WHERE sku IS NULL",
    "SELECT id, v FROM orders CROSS JOIN UNNEST(line) AS l CROSS JOIN UNNEST(l.tag) AS t",
    "SELECT o.id, l.sku FROM orders o CROSS JOIN UNNEST(o.line) AS l WHERE l.sku IN ('a', 'b')",
]


@given(orders)
@pytest.mark.parametrize("query", QUERIES)
def test_unnest_is_as_in_duckdb(query: str, given_orders: list[Any]) -> None:
    duck = duckdb.connect()
    duck.execute(
        "CREATE TABLE orders (id BIGINT, line STRUCT(sku VARCHAR, qty BIGINT, tag STRUCT(v VARCHAR)[])[])"
    )
    for number, lines in given_orders:
        values = [{"sku": s, "qty": q, "tag": [{"v": v} for v in tags]} for s, q, tags in lines]
        duck.execute("INSERT INTO orders VALUES (?, ?)", [number, values])
    theirs = query.replace("UNNEST(line) AS l", "UNNEST(line) AS l_(l)").replace(
        "UNNEST(o.line) AS l", "UNNEST(o.line) AS l_(l)"
    )
    theirs = theirs.replace("UNNEST(l.tag) AS t", "UNNEST(l.tag) AS t_(t)").replace(", v ", ", t.v ")
    for name in ("sku", "qty"):
        theirs = theirs.replace(f"l.{name}", name).replace(name, f"l.{name}")
    expected = sorted(duck.execute(theirs).fetchall(), key=repr)
    assert rows(query, document(given_orders)) == expected


def test_ordinality_counts_the_items_of_a_tuple() -> None:
    data = document([(1, [("a", 1, []), ("b", 2, [])]), (2, []), (3, [("c", 3, [])])])
    query = "SELECT id, sku, ordinality FROM orders LEFT JOIN UNNEST(line) WITH ORDINALITY AS l ON TRUE"
    assert rows(query, data) == [(1, "a", 1), (1, "b", 2), (2, None, None), (3, "c", 1)]
    named = "SELECT id, n FROM orders CROSS JOIN UNNEST(line) WITH ORDINALITY AS l(s, q, t, n) WHERE q > 1"
    assert rows(named, data) == [(1, 2), (3, 1)]


def test_an_unnest_without_used_columns_is_retained() -> None:
    """UNNEST is retained even after rules have removed all its columns."""
    lines = "SELECT c, u.qty AS d FROM (SELECT id AS c, line AS l FROM orders) AS o LEFT JOIN UNNEST(l) AS u ON TRUE"
    query = f"SELECT id FROM orders WHERE NOT EXISTS (SELECT 1 AS one FROM ({lines}) AS o WHERE TRUE)"
    assert list(xmlpunct.query(STREAM + query, orders=document([(1, []), (2, [("a", 1, [])])]))) == []


def test_punctuations_on_outer_columns_are_propagated() -> None:
    data = document([(1, [("a", 1, [])]), (2, [("b", 1, [])])], closed_ids=[1, 2])
    elements = list(
        xmlpunct.query(
            STREAM + "SELECT id, SUM(qty) AS q FROM orders CROSS JOIN UNNEST(line) AS l GROUP BY id",
            orders=data,
        )
    )
    assert {str(p) for p in elements if isinstance(p, Punctuation)} >= {"<1, *>", "<2, *>"}


@pytest.mark.parametrize(
    ("query", "underlined"),
    [
        ("SELECT id FROM orders GROUP BY id, line", "line"),
        ("SELECT DISTINCT line FROM orders", "line"),
        ("SELECT id FROM orders ORDER BY line", "line"),
        ("SELECT id FROM orders WHERE line = line", "line = line"),
        ("SELECT MAX(line) AS m FROM orders", "MAX(line)"),
        ("SELECT COUNT(DISTINCT line) AS m FROM orders", "COUNT(DISTINCT line)"),
        ("SELECT CAST(line AS STRING) AS m FROM orders", "CAST(line AS STRING)"),
        ("SELECT line FROM orders UNION SELECT line FROM orders", None),
        ("SELECT a.id FROM orders a JOIN orders b ON a.line = b.line", "a.line = b.line"),
        ("SELECT id FROM orders a JOIN orders b USING (line)", None),
        ("SELECT id FROM orders WHERE line IN (SELECT line FROM orders)", None),
        ("SELECT id FROM orders RIGHT JOIN UNNEST(line) AS l ON TRUE", None),
        ("SELECT id FROM orders LEFT JOIN UNNEST(line) AS l ON l.qty = 1", "l.qty = 1"),
        ("SELECT id FROM orders CROSS JOIN UNNEST(id) AS l", "id"),
        ("SELECT id FROM orders CROSS JOIN UNNEST(nothing) AS l", "nothing"),
        ("SELECT id FROM orders CROSS JOIN UNNEST(line) AS l(a)", "a"),
        ("SELECT id FROM orders CROSS JOIN UNNEST(line) AS orders", None),
    ],
)
def test_unsupported_uses_of_arrays_are_refused(query: str, underlined: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        plan(STREAM + query, {"orders": "o.xml"})
    error = caught.value
    assert error.start is not None
    assert error.start >= len(STREAM)
    if underlined is not None:
        shown = (STREAM + query)[error.start : error.end]
        assert shown in underlined
        assert shown


def test_arrays_are_lists_of_objects_in_jsonl_and_refused_in_csv() -> None:
    schema = Schema.parse("id INT, l ARRAY(s STRING, d DOUBLE, m DECIMAL(5,2), w TIMESTAMP, n ARRAY(v INT))")
    data = (
        b"<r><t><id>1</id><l><s>a&quot;\n</s><d>INF</d><m>1.5</m><w>2026-01-01T00:00:00</w><n><v>1</v></n><n/></l><l/></t>"
        b"<t><id>2</id></t></r>"
    )
    (slice_,) = [s for s in xmlpunct.slices(data, schema, element="t") if s.tuples.height]
    lines = writer_for("jsonl", schema).body(slice_).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "id": 1,
            "l": [
                {
                    "s": 'a"\n',
                    "d": "INF",
                    "m": 1.5,
                    "w": "2026-01-01T00:00:00Z",
                    "n": [{"v": 1}, {"v": None}],
                },
                {"s": None, "d": None, "m": None, "w": None, "n": []},
            ],
        },
        {"id": 2, "l": []},
    ]
    with pytest.raises(UsageError, match="l is an array"):
        writer_for("csv", schema)


def test_xml_values_are_texts_in_jsonl() -> None:
    schema = Schema.parse("m XML")
    given_slice = Slice(schema.frame([("<m>1 &amp; 2</m>",)]))
    assert json.loads(writer_for("jsonl", schema).body(given_slice)) == {"m": "<m>1 &amp; 2</m>"}


def test_a_reject_with_an_array_is_json() -> None:
    row = {"l": [{"d": float("nan"), "n": [{"x": float("-inf")}, None]}], "x": 1.5}
    parsed = json.loads(as_text(row), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert parsed == {"l": [{"d": "NaN", "n": [{"x": "-INF"}, None]}], "x": 1.5}


def test_there_is_one_object_of_each_type() -> None:
    schema = Schema.parse(COLUMNS)
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema
    assert copy["line"].type is schema["line"].type
    assert isinstance(schema["line"].type, ArrayType)


# Hidden columns


def test_hidden_columns_have_the_positions_of_tuples(tmp_path: Path) -> None:
    path = tmp_path / "o.xml"
    path.write_bytes(b"<s>\n<order id='1'/>\n\n<order id='2'/></s>")
    query = (
        'SELECT id, "$source" AS source, "$line" AS line_, o."$byte" AS byte FROM orders o WHERE "$line" > 1'
    )
    tuples = [r for r in xmlpunct.query(STREAM + query, orders=str(path)) if not isinstance(r, Punctuation)]
    assert tuples == [(1, str(path), 2, 4), (2, str(path), 4, 21)]


def test_a_star_excludes_hidden_columns() -> None:
    data = document([(1, [])])
    assert rows('SELECT * FROM orders WHERE "$line" = 1', data) == [(1, [])]
    with pytest.raises(SqlError, match="cannot name a column"):
        plan("CREATE STREAM s (\"$line\" INT PATH 'a') WITH (source = 'x'); SELECT 1 AS a FROM s")


# Choosing the elements that are tuples


def test_options_choose_elements() -> None:
    data = (
        b"<s><g:o xmlns:g='u'><r k='a' i='1'><r k='a' i='2'/></r><r k='b' i='3'/></g:o><r k='a' i='4'/></s>"
    )
    columns = "XMLNAMESPACES('u' AS g), i INT PATH '@i'"

    def numbers(options: str) -> list[int]:
        sql = f"CREATE STREAM s ({columns}) WITH ({options}); SELECT i FROM s"
        return sorted(r[0] for r in xmlpunct.query(sql, s=data) if not isinstance(r, Punctuation))

    assert numbers("element = 'r'") == [1, 3, 4]
    assert numbers("element = 'g:o/r'") == [1, 3]
    assert numbers("element = 'r', nested = true") == [1, 2, 3, 4]
    assert numbers("element = 'r', where = '@k = ''b'''") == [3]


@pytest.mark.parametrize(
    "options",
    [
        "where = 'k = 1'",
        "where = '@k'",
        "where = '@x:k = ''1'''",
        "nested = 1",
        "element = 'a[1]'",
        "element = 'x:a'",
        "element = 'a/@b'",
        "element = '../a'",
    ],
)
def test_wrong_options_are_underlined(options: str) -> None:
    sql = f"CREATE STREAM s (i INT) WITH ({options}); SELECT i FROM s"
    with pytest.raises(SqlError) as caught:
        plan(sql, {"s": "x.xml"})
    assert caught.value.start is not None
    assert sql[caught.value.start : caught.value.end] in (options, options.rpartition(" = ")[2])


@pytest.mark.parametrize("rule", [lambda query: query, with_guards])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM s",
        "SELECT l, k / 2 AS h FROM s",
        "SELECT l FROM s UNION ALL SELECT l FROM s",
        "SELECT l, k FROM s UNION ALL SELECT l, k FROM s",
    ],
)
def test_no_fragment_is_partitioned_by_an_array(query: str, rule: Callable[[Query], Query]) -> None:
    planned = plan("CREATE STREAM s (l ARRAY(v INT), k INT) WITH (source = 'x'); " + query)
    fragments = cut_plan(rule(planned).root, ["s"]).fragments
    types = [
        f.root.schema[name].type for f in fragments for way in f.keys for name in way if name in f.root.schema
    ]
    assert not [type_ for type_ in types if isinstance(type_, ArrayType)]
    assert not [name for f in fragments for way in f.keys for name in way if name == "l"]
