"""Queries from Python, on the local engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from xmlpunct.base.errors import UsageError
from xmlpunct.base.forks import need_polars
from xmlpunct.connectors.chunk_sources import AsyncChunks
from xmlpunct.connectors.source import Source
from xmlpunct.python.query_results import QueryResults
from xmlpunct.python.source_arguments import Readable, adapted, of_text, refuse_document

if TYPE_CHECKING:
    from xmlpunct.engine.plan import Query
    from xmlpunct.engine.run.inputs.tables import Table, Tabular


def query(
    sql: str,
    params: Mapping[str, object] | None = None,
    *,
    text: str | Mapping[str, str] | None = None,
    **sources: Readable | Tabular,
) -> QueryResults:
    """Plan a query. It runs in this process when its results are read.

    Parameters
    ----------
    sql : str
        CREATE STREAM statements and one query, without CREATE SINK.
    params : mapping, optional
        A value for each ``:name`` of the query: None, bool, int, float, Decimal, str, date or datetime.
    text : str or mapping of str, optional
        The document of the only stream, or the documents of streams by name.
    **sources : str, os.PathLike, bytes, binary file, iterable or asynchronous iterable of bytes, Source or table
        Replace the sources of streams, by name. Chunks of an asynchronous iterable, such as ``response.aiter_bytes()``
        of httpx, can only be read with ``async for``. The element and the columns of an undeclared stream are inferred
        from its source. A table is a polars data frame or lazy frame, a pandas data frame, or an object with Arrow
        data, such as a pyarrow table. It is a constant relation: all its rows, then the end of the stream. It needs no
        declaration; then it keeps its own columns.

    Returns
    -------
    QueryResults

    Raises
    ------
    SqlError
        If the query cannot run; the error underlines the position.
    UsageError
        For a wrong call, or a column of a table that does not fit its declaration.

    Notes
    -----
    Reading the results raises `SourceError` if a source fails, after all results that were final by then. Rejects are
    logged as warnings on the logger ``xmlpunct``: the first few of a kind, then their number. A stream of Arrow data
    is read now, to its end; each run reads a lazy frame anew; the index of a pandas data frame is not read. A null
    array is an empty array. A stream named ``params`` or ``text`` takes its source from its declaration.

    Examples
    --------
    >>> feed = b'''<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"><t><hour>5</hour></t><t><hour>6</hour></t>
    ...   <p:t><hour>5</hour></p:t><t><hour>6</hour></t></s>'''
    >>> for result in query("CREATE STREAM t (hour INT); SELECT hour, COUNT(*) AS n FROM t GROUP BY hour", t=feed):
    ...     print(result)
    (5, 1)
    <5, *>
    (6, 2)
    >>> import polars as pl
    >>> shifts = pl.DataFrame({"hour": [5, 6], "name": ["Ada", "Bo"]})
    >>> sql = "CREATE STREAM t (hour INT); SELECT name, COUNT(*) AS n FROM t JOIN shifts USING (hour) GROUP BY name"
    >>> query(sql, t=feed, shifts=shifts).to_polars().rows()
    [('Ada', 1), ('Bo', 2)]
    >>> query("SELECT COUNT(*) AS n FROM t", t=feed).to_polars().rows()
    [(3,)]
    >>> query("SELECT COUNT(*) AS n FROM t", text="<s><t><hour>5</hour></t></s>").to_polars().rows()
    [(1,)]
    >>> query("CREATE STREAM t (hour INT); SELECT hour + :n AS h FROM t", params={"n": 7}, t=feed).to_polars().rows()
    [(12,), (13,), (13,)]
    """
    need_polars()
    documents = _documents(sql, text)
    if doubled := documents.keys() & sources.keys():
        raise UsageError(f"stream {min(doubled)} has two sources: one of text")
    chosen = {name: adapted(source, name) for name, source in {**sources, **documents}.items()}
    asynchronous = [source for source in chosen.values() if isinstance(source, AsyncChunks)]
    return QueryResults(partial(_planned, sql, params or {}, chosen), asynchronous)


def _planned(
    sql: str, params: Mapping[str, object], sources: Mapping[str, Readable | Tabular]
) -> tuple[Query, Mapping[str, Source | Table]]:
    """A query with its sources, opened."""
    from xmlpunct.engine.inference import Inference
    from xmlpunct.engine.run.inputs.tables import Table
    from xmlpunct.engine.sql import plan
    from xmlpunct.engine.sql.syntax.parameters import of_values

    names: dict[str, str] = {}
    from_python: dict[str, Source] = {}
    tables: dict[str, Table] = {}
    for name, source in sources.items():
        if isinstance(source, str | os.PathLike):
            refuse_document(source)
            names[name] = os.fspath(source)
        elif (table := Table.of(source, name)) is not None:
            tables[name] = table
        else:
            from_python[name] = source if isinstance(source, Source) else Source.of(source, name)
            names[name] = from_python[name].name
    inference, literals = Inference(sources=from_python, declares=True), of_values(params)
    planned = plan(sql, names, inference=inference, tables=tables, parameters=literals, has_labels=True)
    planned.refuse_sinks()
    for stream in planned.streams:
        if stream.declared in tables:
            tables[stream.declared].check(stream.schema)
    return planned, {**inference.sources, **tables}


def _documents(sql: str, text: str | Mapping[str, str] | None) -> dict[str, bytes]:
    """The documents of ``text`` by stream. A str is the document of the only stream."""
    if text is None:
        return {}
    if isinstance(text, str):
        from xmlpunct.engine.sql import streams_named

        if len(names := streams_named(sql)) != 1:
            raise UsageError("the query reads several streams: write text={'name': '<...>'}")
        text = {names[0]: text}
    return {name: of_text(document) for name, document in text.items()}
