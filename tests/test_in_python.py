"""The calls of docs/python.md, as a user types them."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import AsyncIterator, Iterator
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


class Response:
    """The part of httpx's streamed response that reads its body."""

    def __init__(self, chunk: bytes, seconds: float = 0) -> None:
        self._content, self._seconds = chunk, seconds
        self.chunks = 0

    def iter_bytes(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), 7):
            self.chunks += 1
            yield self._content[start : start + 7]

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for chunk in self.iter_bytes():
            await asyncio.sleep(self._seconds)
            yield chunk


SOURCES = {
    "bytes": lambda path: BOOKS,
    "a path": lambda path: path,
    "a str": str,
    "a file": lambda path: io.BytesIO(path.read_bytes()),
    "an iterator": lambda path: Response(path.read_bytes()).iter_bytes(),
    "a list": lambda path: [BOOKS[:9], b"", bytearray(BOOKS[9:20]), memoryview(BOOKS)[20:]],
    "compressed chunks": lambda path: Response(gzip.compress(BOOKS)).iter_bytes(),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "books.xml"
    path.write_bytes(BOOKS)
    return path


@pytest.mark.parametrize("kind", SOURCES)
def test_each_source(kind: str, path: Path) -> None:
    make = SOURCES[kind]
    assert list(xmlpunct.parse(make(path), "title STRING, n INT", element="b")) == ROWS
    assert list(xmlpunct.parse(make(path), "title STRING", element="b")) == [("Emma",), ("Ulysses",)]
    assert list(xmlpunct.parse(make(path), element="b")) == ROWS
    assert list(xmlpunct.parse(make(path))) == ROWS
    assert list(xmlpunct.parse(make(path), "n INT")) == [(1,), (2,)]
    assert [part.to_polars().rows() for part in xmlpunct.slices(make(path), element="b")] == [ROWS]
    assert list(xmlpunct.query("SELECT * FROM b", b=make(path))) == ROWS
    assert xmlpunct.scan_xml(make(path), "title STRING", element="b").collect().rows() == [
        ("Emma",),
        ("Ulysses",),
    ]

    async def gathered(elements: object) -> list[object]:
        return [element async for element in elements]  # type: ignore[attr-defined]

    assert asyncio.run(gathered(xmlpunct.parse(make(path), element="b"))) == ROWS
    assert asyncio.run(gathered(xmlpunct.query("SELECT * FROM b", b=make(path)))) == ROWS


@pytest.mark.parametrize("declared", [True, False])
def test_asynchronous_sources(declared: bool) -> None:
    """As of httpx: ``async with client.stream(...) as response``, then ``response.aiter_bytes()``."""
    schema = "title STRING, n INT" if declared else None
    ddl = "CREATE STREAM b (title STRING, n INT);" if declared else ""

    async def run() -> None:
        elements = xmlpunct.parse(Response(BOOKS).aiter_bytes(), schema, element="b")
        assert [element async for element in elements] == ROWS
        parts = xmlpunct.slices(Response(BOOKS).aiter_bytes(), schema, element="b")
        assert [row async for part in parts for row in part.tuples.rows()] == ROWS
        results = xmlpunct.query(ddl + "SELECT * FROM b", b=Response(BOOKS).aiter_bytes())
        assert [result async for result in results] == ROWS
        assert results.columns == ["title", "n"]

    asyncio.run(run())
    outside = xmlpunct.query(ddl + "SELECT * FROM b", b=Response(BOOKS).aiter_bytes())
    assert repr(outside).startswith("QueryResults(")
    for elements in (outside, xmlpunct.parse(Response(BOOKS).aiter_bytes(), schema, element="b")):
        with pytest.raises(UsageError, match="asynchronous: read it with async for"):
            list(elements)


def test_the_loop_runs_while_a_source_is_silent() -> None:
    """Tuples come before the end of the source; leaving the loop stops a source that would be silent for long."""

    class Silent(Response):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            yield BOOKS[:-4]
            await asyncio.sleep(600)

    async def run(elements: object) -> list[object]:
        seen = []
        async with elements:  # type: ignore[attr-defined]
            async for element in elements:  # type: ignore[attr-defined]
                seen.append(element)
                if len(seen) == 2:
                    break
        return seen

    async def both() -> None:
        feed = xmlpunct.parse(Silent(b"").aiter_bytes(), "title STRING, n INT", element="b")
        assert await asyncio.wait_for(run(feed), 20) == ROWS
        results = xmlpunct.query(
            "CREATE STREAM b (title STRING, n INT); SELECT * FROM b", b=Silent(b"").aiter_bytes()
        )
        assert await asyncio.wait_for(run(results), 20) == ROWS
        unread = xmlpunct.parse(Silent(b"").aiter_bytes(), element="none")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run(unread), 0.2)

    asyncio.run(both())


def test_documents_in_a_str() -> None:
    text = BOOKS.decode()
    assert list(xmlpunct.parse(text=text, element="b")) == ROWS
    assert list(xmlpunct.parse(text=text)) == ROWS
    latin = "<?xml version='1.0' encoding='ISO-8859-1'?><d><b><title>é</title></b></d>"
    assert list(xmlpunct.parse(text=latin, element="b")) == [("é",)]
    assert [part.tuples.height for part in xmlpunct.slices(text=text, element="b")] == [2]
    assert list(xmlpunct.query("SELECT * FROM b", text={"b": text})) == ROWS
    assert list(xmlpunct.query("SELECT * FROM b", text=text)) == ROWS
    assert list(xmlpunct.query("SELECT * FROM text", text=text)) == ROWS
    with_cte = "CREATE VIEW v AS SELECT n FROM B; WITH w AS (SELECT n FROM v) SELECT * FROM w"
    assert list(xmlpunct.query(with_cte, text=text)) == [(1,), (2,)]
    assert list(xmlpunct.query("CREATE STREAM b (n INT); SELECT n FROM b", text=text)) == [(1,), (2,)]
    for call in (
        lambda: xmlpunct.parse(text, element="b"),
        lambda: xmlpunct.query("SELECT * FROM b", b=text),
    ):
        with pytest.raises(UsageError, match=r"write text=\.\.\. for a document"):
            call()
    with pytest.raises(UsageError, match="write one source"):
        xmlpunct.parse(BOOKS, text=text)
    with pytest.raises(UsageError, match="write one source"):
        xmlpunct.parse(element="b")
    with pytest.raises(UsageError, match="several streams"):
        xmlpunct.query("SELECT * FROM b JOIN c USING (n)", text=text)
    with pytest.raises(UsageError, match="two sources"):
        xmlpunct.query("SELECT * FROM b", text={"b": text}, b=BOOKS)
    with pytest.raises(UsageError, match="not bytes"):
        xmlpunct.parse(text=BOOKS)  # type: ignore[arg-type]


def test_chunks_of_other_types_are_refused() -> None:
    with pytest.raises(UsageError, match="a chunk is bytes, not str"):
        list(xmlpunct.parse([BOOKS.decode()], element="b"))  # type: ignore[list-item]
    with pytest.raises(UsageError, match="not StringIO"):
        xmlpunct.parse(io.StringIO(BOOKS.decode()), element="b")  # type: ignore[arg-type]
    chunks = Response(BOOKS).iter_bytes()
    results = xmlpunct.query("CREATE STREAM b (n INT); SELECT n FROM b", b=chunks)
    assert list(results) == [(1,), (2,)]
    with pytest.raises(UsageError, match="read only once"):
        list(results)


def test_an_error_of_the_sender_comes_after_the_tuples_before_it() -> None:
    def chunks() -> Iterator[bytes]:
        yield BOOKS[:-4]
        raise ConnectionError("reset by peer")

    async def async_chunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    elements = xmlpunct.parse(chunks(), "title STRING, n INT", element="b")
    assert [next(elements), next(elements)] == ROWS
    with pytest.raises(SourceError, match="reset by peer"):
        next(elements)

    async def run() -> None:
        elements = aiter(xmlpunct.parse(async_chunks(), "title STRING, n INT", element="b"))
        assert [await anext(elements), await anext(elements)] == ROWS
        with pytest.raises(SourceError, match="reset by peer"):
            await anext(elements)

    asyncio.run(run())


def test_with_closes_the_source(path: Path) -> None:
    with xmlpunct.parse(path, element="b") as elements:
        assert elements.schema.names == ("title", "n")
        assert repr(elements) == f"<elements of {path}>"
        assert next(elements) == ROWS[0]
    assert list(elements) == []


def test_parse_takes_the_namespace_of_the_first_element() -> None:
    document = BOOKS.replace(b"<d>", b"<d xmlns='urn:x'>")
    assert list(xmlpunct.parse(document, "title STRING, n INT", element="b")) == ROWS
    assert list(xmlpunct.parse(document, element="b")) == ROWS
    assert list(xmlpunct.parse(document, "title STRING, n INT", element="{urn:x}b")) == ROWS
    assert xmlpunct.scan_xml(document, "n INT", element="b").collect().height == 2


def test_parse_ends_at_a_value_that_an_inferred_column_does_not_fit() -> None:
    document = b"<d>" + b"<b><n>1</n></b>" * 80_000 + b"<b><n>x</n></b></d>"
    with pytest.raises(SourceError, match='declare the columns, with the schema "n STRING"'):
        list(xmlpunct.parse(document, element="b"))
    rejects: list[object] = []
    assert len(list(xmlpunct.parse(document, element="b", on_reject=rejects.append))) == 80_000
    assert len(rejects) == 1
