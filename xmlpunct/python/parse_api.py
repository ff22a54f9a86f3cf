"""Reading punctuated XML from Python: tuples and punctuations, or slices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from xmlpunct.base.errors import Reject
from xmlpunct.base.unread import UnreadCounter
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.reject_log import RejectLog, log_notices
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import Limits, StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DOUBLE, NAN

Readable = str | os.PathLike[str] | bytes | BinaryIO | Source
"""A source: a path or URL that `open_source` accepts, bytes, a binary file, or an opened source."""


def parse(
    source: Readable,
    schema: Schema,
    *,
    element: str,
    punct_namespace: str = PUNCT_NAMESPACE,
    on_reject: Callable[[Reject], object] | None = None,
) -> Iterator[Tuple | Punctuation]:
    """Read the tuples and punctuations of a stream, in document order.

    Parameters
    ----------
    source : str, os.PathLike, bytes, binary file or Source
        The XML: a path, a URL, the bytes of a document, or an open binary file.
    schema : Schema
        The columns of a tuple.
    element : str
        The name of the tuples' element; ``{uri}name`` if it is in a namespace.
    punct_namespace : str
        The namespace of punctuations.
    on_reject : callable, optional
        Receives each `Reject`. Without it, rejects are logged as warnings on the logger ``xmlpunct``: the first few of
        a kind, then their number.

    Yields
    ------
    tuple or Punctuation
        A Python tuple in schema order, with None for null, or a punctuation. The end of the stream is the end of the
        iterator.

    Raises
    ------
    SourceError
        If the source fails, after everything before the fault was yielded.
    UsageError
        If a forked process reads an iterator of its parent.

    Notes
    -----
    Elements that look like data and are not read are logged once for each name. Each iterator may be used in any
    thread, by one thread at a time. In a forked process that used polars before the fork, reading is slower, because
    polars has no threads there; `query` is refused. A fork while another thread reads can wait for that thread's locks
    for ever, as with any library.

    Examples
    --------
    >>> xml = b'''<s xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">
    ...   <t><sid>S1</sid><hour>17</hour></t><punct:t><hour>(,17]</hour></punct:t></s>'''
    >>> list(parse(xml, Schema.parse("sid STRING, hour INT"), element="t"))
    [('S1', 17), Punctuation(<*, (,17]>)]
    """
    parts = slices(source, schema, element=element, punct_namespace=punct_namespace, on_reject=on_reject)
    return _elements(schema, parts)


def _elements(schema: Schema, slices: Iterator[Slice]) -> Iterator[Tuple | Punctuation]:
    for part in slices:
        tuples, start = rows(schema, part), 0
        for before, punctuation in zip(part.before, part.punctuations, strict=True):
            yield from tuples[start:before]
            yield punctuation
            start = before
        yield from tuples[start:]


def slices(
    source: Readable,
    schema: Schema,
    *,
    element: str,
    size: int = 2**20,
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    on_reject: Callable[[Reject], object] | None = None,
    guessed: bool = False,
) -> Iterator[Slice]:
    """Read the slices of a stream, in document order. No slice is empty.

    Parameters
    ----------
    source, schema, element, punct_namespace, on_reject
        As for `parse`.
    size : int, default 1 MiB
        About how many bytes of XML one slice is read from.
    limits : Limits
        Bounds on depth, values and tuples.
    guessed : bool, default False
        Whether the schema was inferred from the first tuple. Then other data in later tuples is logged as unread.

    Yields
    ------
    Slice

    Raises
    ------
    SourceError
        If the source fails, after everything before the fault was yielded.

    Examples
    --------
    >>> xml = b"<s><t><sid>S1</sid></t><t><sid>S2</sid></t></s>"
    >>> [part.tuples.height for part in slices(xml, Schema.parse("sid STRING"), element="t")]
    [2]
    """
    spec = StreamSpec(element, schema, element, guessed=guessed)
    return read_slices(SliceReader(opened(source), [spec], punct_namespace, limits), size, on_reject)


def opened(source: Readable) -> Source:
    """An opened source. Raises `SourceError` if it cannot be opened, and `UsageError` for other types."""
    if isinstance(source, str | os.PathLike):
        return open_source(source)
    return source if isinstance(source, Source) else Source.of(source)


def read_slices(
    reader: SliceReader, size: int, on_reject: Callable[[Reject], object] | None
) -> Iterator[Slice]:
    """The slices of a reader of one stream, as in `slices`. Closes the reader at the end."""
    log = RejectLog()
    reject = on_reject or log.add
    watch = UnreadCounter(reader.source.name, reader.specs[0].element)
    try:
        while (parsed := reader.read(size)) is not None:
            (part,), (rejects,) = parsed.slices, parsed.rejects
            for rejected in rejects:
                reject(rejected)
            count = part.tuples.height + len(rejects)
            log_notices(watch.take(count, parsed.read[0], parsed.overlooked[0]))
            if part:
                yield part
            if parsed.error:
                log_notices(n for n in watch.end(in_order=False) if not n.is_absence)
                raise parsed.error
        log_notices(watch.end(in_order=True))
    finally:
        log.end()
        reader.close()


def rows(schema: Schema, part: Slice) -> list[Tuple]:
    """Tuples as Python values. Each NaN becomes `NAN`, so that equal tuples compare equal."""
    rows: list[Tuple] = part.tuples.rows()
    doubles = [i for i, a in enumerate(schema) if a.type is DOUBLE]
    if any(part.tuples.to_series(i).is_nan().any() for i in doubles):
        rows = [tuple(NAN if v != v else v for v in row) for row in rows]
    return rows
