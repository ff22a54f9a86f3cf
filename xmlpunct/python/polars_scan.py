"""XML as a lazy source of polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl
from polars.io.plugins import register_io_source

from xmlpunct.base.errors import Reject
from xmlpunct.base.forks import need_polars
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.python.source_arguments import Readable, chosen_source, opened
from xmlpunct.python.stream_elements import read_slices
from xmlpunct.schema import Schema

_STEP = 2**20


def scan_xml(
    source: Readable | None = None,
    schema: Schema | str | None = None,
    *,
    element: str | None = None,
    text: str | None = None,
    punct_namespace: str = PUNCT_NAMESPACE,
    on_reject: Callable[[Reject], object] | None = None,
) -> pl.LazyFrame:
    """The tuples of a stream as a polars LazyFrame, which reads the XML each time it is collected.

    Parameters
    ----------
    source : str, os.PathLike, bytes, binary file or Source, optional
        The XML, as for `parse`.
    schema : Schema or str, optional
        The columns. Without it, they are inferred now from the beginning of the source.
    element : str, optional
        The name of the tuples' element, as for `parse`. Without it, it is inferred now.
    text : str, optional
        A document, instead of ``source``.
    punct_namespace : str
        As for `parse`. Punctuations are left out.
    on_reject : callable, optional
        Receives each `Reject`. Without it, rejects are logged as warnings on the logger ``xmlpunct``. They include the
        tuples that do not fit an inferred column, among the columns that the plan needs.

    Returns
    -------
    polars.LazyFrame

    Raises
    ------
    UsageError
        If a source that can be read only once is collected again.

    Notes
    -----
    Only the columns that the plan needs are parsed, and only the tuples that pass its filters are retained. A ``head``
    stops reading early.

    Examples
    --------
    >>> xml = b"<s><t><sid>S1</sid><hour>17</hour></t><t><sid>S2</sid><hour>18</hour></t></s>"
    >>> scan_xml(xml).filter(pl.col("hour") > 17).select("sid").collect().rows()
    [('S2',)]
    """
    need_polars()
    declared = Schema.parse(schema) if isinstance(schema, str) else schema
    spec, reread = stream_of(opened(chosen_source(source, text)), declared, element, punct_namespace)

    def reader(used_columns: frozenset[str] | None = None) -> SliceReader:
        return SliceReader(reread, [replace(spec, columns=used_columns)], punct_namespace)

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        names = spec.schema.names if with_columns is None else with_columns
        filter_columns = [] if predicate is None else predicate.meta.root_names()
        for part in read_slices(reader(frozenset([*names, *filter_columns])), _STEP, on_reject):
            tuples = part.tuples
            if n_rows is not None:
                tuples = tuples.head(n_rows)
                n_rows -= tuples.height
            yield (tuples if predicate is None else tuples.filter(predicate)).select(names)
            if n_rows == 0:
                return

    reader()  # raises at the call for wrong arguments
    return register_io_source(
        read,
        schema=spec.schema.dtypes,
        explain_name="xmlpunct",
        explain_detail=f"{reread.name}, <{spec.tag}>",
    )
