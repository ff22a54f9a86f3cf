"""The calls of docs/python.md, as a user types them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import xmlpunct
from xmlpunct import SourceError, SqlError, UsageError

BOOKS = b"<d><b><title>Emma</title><n>1</n></b><b><title>Ulysses</title><n>2</n></b></d>"
ROWS = [("Emma", 1), ("Ulysses", 2)]


def test_a_query_over_a_source_without_a_declaration(tmp_path: Path) -> None:
    path = tmp_path / "books.xml"
    path.write_bytes(BOOKS)
    assert list(xmlpunct.query("SELECT * FROM b", b=BOOKS)) == ROWS
    for source in (path, str(path)):
        assert list(xmlpunct.query("SELECT n FROM B AS x WHERE title = 'Emma'", b=source)) == [(1,)]
    joined = xmlpunct.query(
        "SELECT books.title, y.n FROM books JOIN y ON books.n = y.n", books=BOOKS, y=BOOKS
    )
    assert sorted(joined.to_polars().rows()) == ROWS
    mixed = "CREATE STREAM t (n INT) WITH (element = 'b'); SELECT t.n, title FROM t JOIN u ON t.n = u.n"
    assert sorted(xmlpunct.query(mixed, t=BOOKS, u=BOOKS).to_polars().rows()) == [(1, "Emma"), (2, "Ulysses")]
    with pytest.raises(UsageError, match="stream u, which is not declared"):
        xmlpunct.query("SELECT n FROM b", b=BOOKS, u=BOOKS)
    with pytest.raises(SqlError, match="no stream c"):
        xmlpunct.query("SELECT n FROM c")


def test_the_element_of_a_source_without_a_declaration() -> None:
    """The repeated one, in any namespace; of a document with a single tuple that of the stream's name."""
    assert list(xmlpunct.query("SELECT n FROM x", x=BOOKS.replace(b"<d>", b"<d xmlns='urn:x'>"))) == [
        (1,),
        (2,),
    ]
    assert (3,) in list(xmlpunct.query("SELECT n FROM b", b=b"<d><b><n>3</n></b></d>"))
    with pytest.raises(SourceError, match="no element with attributes or children repeats"):
        xmlpunct.query("SELECT n FROM other", other=b"<d><b><n>3</n></b></d>")


def test_a_value_that_an_inferred_column_does_not_fit_ends_the_run() -> None:
    document = b"<d>" + b"<b><n>1</n></b>" * 80_000 + b"<b><n>x</n></b></d>"
    with pytest.raises(
        SourceError, match=r"declare the columns, CREATE STREAM b \(n STRING\) WITH \(element = 'b'\)"
    ):
        list(xmlpunct.query("SELECT n FROM b", b=document))


def test_results_as_tables() -> None:
    results = xmlpunct.query("SELECT title, n FROM b", b=BOOKS)
    (part,) = xmlpunct.slices(BOOKS, xmlpunct.Schema.parse("title STRING, n INT"), element="b")
    for tables in (results, part):
        assert tables.columns == ["title", "n"]
        assert isinstance(tables.to_polars(), pl.DataFrame)
        assert isinstance(tables.to_arrow(), pa.Table)
        assert isinstance(tables.to_pandas(), pd.DataFrame)
        assert tables.to_polars().rows() == ROWS
        assert tables.to_arrow().to_pylist() == [{"title": "Emma", "n": 1}, {"title": "Ulysses", "n": 2}]
        assert list(tables.to_pandas().itertuples(index=False, name=None)) == ROWS
    assert repr(results) == "QueryResults(title STRING, n INT)"
    assert repr(part) == "Slice(tuples: 2, punctuations: 0, columns: title, n)"


def test_pandas_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    results = xmlpunct.query("SELECT title, n FROM b", b=BOOKS)
    monkeypatch.setattr("xmlpunct.slice.tabular_forms.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install pandas"):
        results.to_pandas()


def test_with_ends_the_runs() -> None:
    results = xmlpunct.query("SELECT title, n FROM b", b=BOOKS)
    with results as entered:
        assert entered is results
        assert next(results) == ROWS[0]
        batches = iter(results.batches())
    assert next(batches, None) is None
    assert next(results) == ROWS[0]
    (part,) = xmlpunct.slices(BOOKS, xmlpunct.Schema.parse("title STRING, n INT"), element="b")
    with part:
        tuples = part.to_polars()
    assert (part.tuples.height, tuples.height) == (0, 2)


def test_async_with_ends_the_runs() -> None:
    async def first() -> object:
        async with xmlpunct.query("SELECT title, n FROM b", b=BOOKS) as results:
            run = aiter(results)
            result = await anext(run)
        assert await anext(run, None) is None
        return result

    assert asyncio.run(first()) == ROWS[0]
