"""Scalar subqueries: their values, their errors, and when they release results."""

from __future__ import annotations

import pytest

import xmlpunct
from xmlpunct.engine.plan import GroupBy
from xmlpunct.engine.sql import plan

PUNCT = 'xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"'
STREAMS = """CREATE STREAM s (k INT NOT NULL) WITH (source = '-');
             CREATE STREAM r (k INT NOT NULL, v INT) WITH (source = '-');
             CREATE STREAM keyed (k INT PRIMARY KEY, v INT) WITH (source = '-'); """
S = f"<x {PUNCT}>{''.join(f'<s><k>{k}</k></s>' for k in (1, 2, 3))}</x>".encode()
R = f"<x {PUNCT}><r><k>1</k><v>5</v></r><r><k>2</k><v>6</v></r><r><k>2</k></r></x>".encode()


def test_several_values_for_a_tuple_reject_it(caplog: pytest.LogCaptureFixture) -> None:
    sql = STREAMS + "SELECT k, (SELECT v FROM r WHERE r.k = s.k) AS v FROM s"
    rows = xmlpunct.query(sql, s=S, r=R).to_polars().rows()
    assert sorted(rows) == [(1, 5), (3, None)]
    assert "a scalar subquery returned more than one row" in caplog.text


def test_a_subquery_by_primary_key_needs_no_group_by() -> None:
    sql = STREAMS + "SELECT k, (SELECT v FROM {0} WHERE {0}.k = s.k) AS v FROM s"
    assert not list(plan(sql.format("keyed")).root.find(GroupBy))
    assert list(plan(sql.format("r")).root.find(GroupBy))
    keyed = R.replace(b"r>", b"keyed>").replace(b"<keyed><k>2</k></keyed>", b"")
    rows = xmlpunct.query(sql.format("keyed"), s=S, keyed=keyed).to_polars().rows()
    assert sorted(rows) == [(1, 5), (2, 6), (3, None)]


def test_a_punctuation_on_the_group_releases_its_value() -> None:
    """The document is truncated, so the result was released before its end."""
    sql = STREAMS + "SELECT k, (SELECT COUNT(*) FROM r WHERE r.k = s.k) AS n FROM s"
    cut = f"<x {PUNCT}><r><k>1</k></r><r><k>2</k></r><p:r><k>1</k></p:r>".encode()
    elements: list[object] = []
    with pytest.raises(xmlpunct.SourceError):
        elements.extend(xmlpunct.query(sql, s=S, r=cut))  # retains results received before the error
    assert [result for result in elements if isinstance(result, tuple)] == [(1, 1)]
