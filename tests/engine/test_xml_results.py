"""Nested results: XMLELEMENT, XMLFOREST and XMLAGG in queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xmlpunct
from xmlpunct import Punctuation, SqlError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import GroupBy
from xmlpunct.engine.sql import plan

STREAM = "CREATE STREAM t (a INT, Sku STRING, x DOUBLE) WITH (source = 't.xml'); "


def document(
    rows: Sequence[tuple[int | None, str | None, float | None]], closed_keys: Sequence[int] = ()
) -> bytes:
    parts = []
    for row in rows:
        values = zip(("a", "Sku", "x"), row, strict=True)
        parts.append("".join(f"<{n}>{v}</{n}>" for n, v in values if v is not None))
    tuples = "".join(f"<t>{part}</t>" for part in parts)
    punctuations = "".join(f"<p:t><a>{n}</a></p:t>" for n in closed_keys)
    return f"<s xmlns:p='{PUNCT_NAMESPACE}'>{tuples}{punctuations}</s>".encode()


def rows(sql: str, data: bytes) -> list[tuple[Any, ...]]:
    return [r for r in xmlpunct.query(STREAM + sql, t=data) if not isinstance(r, Punctuation)]


DATA = document([(1, "b", 1.5), (2, None, None), (1, "a", 0.00001), (1, None, 2.0), (None, "c", None)], [1])


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (
            "XMLAGG(XMLELEMENT(NAME l, XMLATTRIBUTES(sku, x AS w), a) ORDER BY x DESC) AS v FROM t WHERE a = 1",
            ['<l w="2.0">1</l><l Sku="b" w="1.5">1</l><l Sku="a" w="0.00001">1</l>'],
        ),
        ("XMLAGG(XMLFOREST(SKU)) AS v FROM t", ["<Sku>a</Sku><Sku>b</Sku><Sku>c</Sku>"]),
        ('XMLAGG(XMLFOREST("Sku" AS s, a + 1 AS n)) AS v FROM t WHERE a = 2', ["<n>3</n>"]),
        ("XMLAGG(XMLFOREST(sku)) AS v FROM t WHERE a > 7", [None]),
        ("XMLELEMENT(NAME n, XMLAGG(XMLFOREST(a))) AS v FROM t WHERE a > 7", ["<n></n>"]),
        (
            "XMLELEMENT(NAME g, XMLATTRIBUTES(a, COUNT(*) AS n), XMLAGG(XMLELEMENT(NAME s, sku) ORDER BY sku DESC)) "
            "AS v FROM t WHERE a = 1 GROUP BY a HAVING COUNT(*) > 2",
            ['<g a="1" n="3"><s>b</s><s>a</s><s></s></g>'],
        ),
        (
            "XMLELEMENT(NAME all_, XMLAGG(g ORDER BY a NULLS FIRST)) AS v FROM (SELECT a, XMLELEMENT(NAME g, "
            "XMLATTRIBUTES(a), XMLAGG(XMLFOREST(sku))) AS g FROM t GROUP BY a) AS q",
            ['<all_><g><Sku>c</Sku></g><g a="1"><Sku>a</Sku><Sku>b</Sku></g><g a="2"></g></all_>'],
        ),
        (
            'XMLELEMENT(NAME "g:e", XMLNAMESPACES(\'u?v&w\' AS g), XMLELEMENT(NAME "g:f"), XMLFOREST(a AS "g:a")) AS v '
            "FROM t WHERE a = 2",
            ['<g:e xmlns:g="u?v&amp;w"><g:f></g:f><g:a>2</g:a></g:e>'],
        ),
        (
            "XMLFOREST(TRUE AS t, DATE '2026-01-02' AS d) AS v FROM t WHERE a = 2",
            ["<t>true</t><d>2026-01-02</d>"],
        ),
        ("COUNT(XMLFOREST(sku)) AS v FROM t", [3]),
    ],
)
def test_nested_results(select: str, expected: list[Any]) -> None:
    assert [r[-1] for r in rows(f"SELECT {select}", DATA)] == expected


def test_equal_aggregates_are_computed_once() -> None:
    same = "XMLAGG(XMLFOREST(sku) ORDER BY a)"
    other = "XMLAGG(XMLFOREST(sku) ORDER BY a DESC)"
    root = plan(f"{STREAM}SELECT {same} AS x, {same} AS y, {other} AS z FROM t").root
    (group_by,) = root.find(GroupBy)
    assert [a.name for a in group_by.aggregates] == [
        'XMLAGG(XMLFOREST(t.Sku AS "Sku") ORDER BY t.a)',
        'XMLAGG(XMLFOREST(t.Sku AS "Sku") ORDER BY t.a DESC)',
    ]


texts = st.none() | st.sampled_from(["a", "b", "B", "é", ""])
groups = st.lists(st.tuples(st.none() | st.integers(0, 2), texts, st.none() | st.floats(-2, 2)), max_size=9)
ORDERS = [
    "",
    " ORDER BY x",
    " ORDER BY sku DESC, x NULLS FIRST",
    " ORDER BY x DESC NULLS FIRST",
    " ORDER BY a + 1, sku",
]


@settings(max_examples=8)
@given(groups)
@pytest.mark.parametrize("order", ORDERS)
def test_xmlagg_is_as_in_duckdb(order: str, given_rows: list[Any]) -> None:
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t (a BIGINT, sku VARCHAR, x DOUBLE)")
    duck.executemany("INSERT INTO t VALUES (?, ?, ?)", given_rows or [(None, None, None)])
    duck.execute("DELETE FROM t" if not given_rows else "SELECT 1")
    theirs = order.replace("DESC,", "DESC NULLS LAST,")
    theirs = f"{theirs or ' ORDER BY'}{',' * bool(theirs)} concat('<s>', sku, '</s>')"
    expected = duck.execute(
        f"SELECT a, string_agg(concat('<s>', sku, '</s>'), ''{theirs}) FROM t GROUP BY a"
    ).fetchall()
    results = rows(
        f"SELECT a, XMLAGG(XMLELEMENT(NAME s, sku){order}) AS v FROM t GROUP BY a", document(given_rows)
    )
    assert sorted(results, key=repr) == sorted(expected, key=repr)


def test_a_closed_group_is_released() -> None:
    elements = list(
        xmlpunct.query(f"{STREAM}SELECT a, XMLAGG(XMLFOREST(sku)) AS v FROM t GROUP BY a", t=DATA)
    )
    assert elements[0] == (1, "<Sku>a</Sku><Sku>b</Sku>")
    assert str(elements[1]) == "<1, *>"


@pytest.mark.parametrize(
    ("select", "underlined", "message"),
    [
        ("XMLAGG(a)", "a", "needs XML, not INT"),
        ("XMLAGG(DISTINCT XMLFOREST(a))", "XMLFOREST(a)", "does not take DISTINCT"),
        ("XMLAGG(XMLFOREST(a) ORDER BY 1)", "1", "is a constant"),
        ("XMLAGG(XMLFOREST(a) ORDER BY XMLFOREST(a))", "XMLFOREST(a)", "cannot be compared"),
        ("XMLAGG(XMLFOREST(a) ORDER BY MAX(a))", "MAX(a)", "in an aggregate"),
        ("XMLAGG(XMLAGG(XMLFOREST(a)))", "XMLAGG(XMLFOREST(a))", "in an aggregate"),
        ("XMLAGG(XMLFOREST(a)) OVER (ORDER BY a)", "XMLAGG(XMLFOREST(a)) OVER (ORDER BY a)", "OVER"),
        ("XMLAGG(XMLFOREST(a) ORDER BY a LIMIT 1)", "XMLFOREST(a) ORDER BY a LIMIT 1", "not supported"),
        ("XMLAGG()", ")", "needs an argument"),
        ("MAX(a ORDER BY a)", "a ORDER BY a", "not supported"),
        ("XMLELEMENT(a)", "a", "NAME name"),
        ('XMLELEMENT(NAME "a b")', '"a b"', "'a b' is not a name"),
        ('XMLELEMENT(NAME "g:a")', '"g:a"', "XMLNAMESPACES"),
        ('XMLFOREST(a AS "g:a")', 'a AS "g:a"', "XMLNAMESPACES"),
        ("XMLFOREST(a + 1)", "a + 1", "AS and a name"),
        ("XMLFOREST()", ")", "an expression"),
        ("XMLELEMENT(NAME e, XMLATTRIBUTES(a, sku AS a))", "sku AS a", "two attributes"),
        ("XMLELEMENT(NAME e, XMLATTRIBUTES(a AS xmlns))", "a AS xmlns", "xmlns"),
        ("XMLELEMENT(NAME e, a, XMLATTRIBUTES(a))", "XMLATTRIBUTES(a)", "write XMLNAMESPACES"),
        ("XMLELEMENT(NAME e, XMLATTRIBUTES(XMLFOREST(a) AS b))", None, "cannot contain XML"),
        ("XMLATTRIBUTES(a)", "a", "is allowed in XMLELEMENT"),
        ("XMLELEMENT(NAME e, XMLNAMESPACES(DEFAULT 'u'))", "XMLNAMESPACES(DEFAULT 'u')", "a prefix"),
        ("XMLELEMENT(NAME e, XMLNAMESPACES('a{b' AS g))", "'a{b' AS g", "URI"),
        ("XMLELEMENT(NAME e, b)", "b", "no column b"),
        ("XMLELEMENT(NAME e, *)", "*", "*"),
        ("UPPER(XMLFOREST(a))", "UPPER(XMLFOREST(a))", "cannot be compared"),
        ("DISTINCT XMLFOREST(a)", "XMLFOREST(a)", "cannot be compared"),
    ],
)
def test_errors_are_underlined(select: str, underlined: str | None, message: str) -> None:
    sql = f"{STREAM}SELECT {select} AS v FROM t"
    with pytest.raises(SqlError) as caught:
        plan(sql)
    error = caught.value
    assert message in error.reason
    assert error.start is not None
    assert error.start >= len(STREAM)
    if underlined is not None:
        shown = sql[error.start : error.end]
        assert shown
        assert shown in underlined


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("'e' AS k, XMLELEMENT(NAME e, COUNT(*)) AS v FROM t GROUP BY k", [("e", "<e>5</e>")]),
        ("'a%' AS k, sku LIKE 'a%' AS v FROM t WHERE sku = 'a' GROUP BY k, sku", [("a%", True)]),
    ],
)
def test_a_constant_key_does_not_replace_equal_constants(select: str, expected: list[Any]) -> None:
    assert rows(f"SELECT {select}", DATA) == expected


def test_an_array_in_an_element_is_refused() -> None:
    sql = "CREATE STREAM t (l ARRAY(a INT)) WITH (source = 't'); SELECT XMLELEMENT(NAME e, l) AS v FROM t"
    with pytest.raises(SqlError, match="UNNEST it"):
        plan(sql)


def test_a_text_that_is_invalid_in_xml_is_a_reject() -> None:
    sql = "SELECT XMLELEMENT(NAME e, CASE WHEN a = 2 THEN 'x\x01' ELSE sku END) AS v FROM t"
    results = rows(sql, DATA)
    assert sorted(v for (v,) in results) == ["<e></e>", "<e>a</e>", "<e>b</e>", "<e>c</e>"]
