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
from xmlpunct.firehose.reader import FirehoseReader
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
    """The tuples and punctuations of a stream, in document order.

    ``element`` is the tuples' element (``{uri}name`` if it is in a namespace). A tuple is a Python tuple in
    schema order; null is None. A tuple that cannot be read is rejected: the reject is passed to ``on_reject``, or
    logged as a warning on the logger ``xmlpunct``, where the first few rejects of a kind are logged, then their number.
    Elements that look like data but are not read are logged there too, once for each name. If the source fails, the
    iterator raises `SourceError` after all elements before the failure. No punctuation marks the end of the stream: the
    iterator ends.

    Iterators are independent. Each may be used in any thread, by one thread at a time, and abandoned at any point. In a
    forked process, a source must be opened in that process (`UsageError` otherwise). If polars was used before the
    fork, its thread pool is missing in the forked process: reading is slower, `query` is refused, and the data frames
    of `slices` support no computation, only access to their values. A fork while another thread reads may wait for
    that thread's locks for ever, as with any library.

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
    """The slices of a stream, of about ``size`` bytes of XML each, in document order; none is empty.

    The other parameters are those of `parse`. A ``guessed`` schema was inferred from the first tuple: elements of later
    tuples that it does not have are logged as overlooked.
    """
    spec = StreamSpec(element, schema, element, guessed=guessed)
    return read_slices(FirehoseReader(opened(source), [spec], punct_namespace, limits), size, on_reject)


def opened(source: Readable) -> Source:
    """An opened source. Raises `SourceError` if it cannot be opened, and `UsageError` for other types."""
    if isinstance(source, str | os.PathLike):
        return open_source(source)
    return source if isinstance(source, Source) else Source.of(source)


def read_slices(
    reader: FirehoseReader, size: int, on_reject: Callable[[Reject], object] | None
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
                log_notices(watch.end(in_order=False))
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
