"""Queries from Python."""

from __future__ import annotations

import io
import logging

import pytest

import xmlpunct
from xmlpunct import Punctuation, SourceError, SqlError, UsageError

DDL = "CREATE STREAM t (hour INT, x INT);"
NS = "http://www.cse.ogi.edu/dot/niagara/punct"
FEED = f'<s xmlns:p="{NS}"><t><hour>5</hour></t><p:t><hour>5</hour></p:t><t><hour>6</hour></t>'.encode()
COUNT = DDL + "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour"


def test_results_come_as_tuples_and_punctuations() -> None:
    results = list(xmlpunct.query(COUNT, t=FEED + b"</s>"))
    assert [e for e in results if isinstance(e, tuple)] == [(5, 1), (6, 1)]
    assert [str(e) for e in results if isinstance(e, Punctuation)] == ["<5, *>"]


def test_results_before_a_source_fails_are_returned() -> None:
    results = xmlpunct.query(COUNT, t=io.BytesIO(FEED))
    assert [str(next(results)), str(next(results))] == ["(5, 1)", "<5, *>"]
    with pytest.raises(SourceError, match="cut short"):
        next(results)


def test_rejects_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert list(xmlpunct.query(DDL + "SELECT x FROM t", t=b"<s><t><x>one</x></t></s>")) == []
    assert "'one' is not of type INT" in caplog.text


def test_many_rejects_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    body = b"".join(b"<t><x>x%d</x></t><t><hour/></t>" % n for n in range(7)) + b"<t><x>'</x></t>" * 1993
    document = b"<s>" + body + b"</s>"
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert list(xmlpunct.query(DDL + "SELECT x, hour FROM t", t=document)) == []
    of_hour = [m for m in caplog.messages if "attribute hour" in m]
    assert len(of_hour) == 6
    assert of_hour[5].startswith("7 rejects of this kind so far, the last one: t, line 1")
    of_x = [m for m in caplog.messages if "attribute x" in m]
    assert [m.partition(" rejects")[0] for m in of_x[5:]] == ["50", "500", "2,000"]
    caplog.clear()
    schema = xmlpunct.Schema.parse("hour INT, x INT")
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        results = xmlpunct.slices(document, schema, element="t", size=1000)
        assert next(results, None) is None
        assert [m.partition(" rejects")[0] for m in caplog.messages if "2,000 rejects" in m] == ["2,000"]
        assert list(xmlpunct.parse(document, schema, element="t", on_reject=lambda _: None)) == []
    assert sum("attribute x" in m for m in caplog.messages) == 8


def test_wrong_calls_raise_at_once() -> None:
    with pytest.raises(SqlError, match="no column"):
        xmlpunct.query(DDL + "SELECT y FROM t", t=FEED)
    with pytest.raises(UsageError, match="u"):
        xmlpunct.query(DDL + "SELECT x FROM t", u=FEED)
    with pytest.raises(UsageError, match="int"):
        xmlpunct.query(DDL + "SELECT x FROM t", t=5)  # type: ignore[arg-type]
