"""Reading punctuated XML from Python: tuples and punctuations, or slices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from xmlpunct.base.errors import Reject
from xmlpunct.base.unread import Watch
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
"""What can be read: what `open_source` takes (a path, a URL), bytes, a binary file, or an opened source."""


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
    schema order; null is None. One that cannot be read is passed to ``on_reject``, or else logged as a
    warning on the logger ``xmlpunct``: the first few of a kind, then their number. What looks like data and is not
    read is logged there too, once for each name. Raises `SourceError` where the source fails, after everything before
    it. There is no punctuation for the end of the stream: the iterator ends.

    Iterators know nothing of each other: each may be used in any thread, by one at a time, and be left at any
    point. In a process that was forked, one reads what it opens itself (`UsageError` otherwise), more slowly
    where polars was used before the fork, since that has no threads to compute with there; `query` is refused
    then, and of the data frames that `slices` gives only the values can be taken. A fork while another thread
    reads may wait for that thread's locks for ever, as with any library.

    >>> xml = b'''<s xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">
    ...   <t><sid>S1</sid><hour>17</hour></t><punct:t><hour>(,17]</hour></punct:t></s>'''
    >>> list(parse(xml, Schema.parse("sid STRING, hour INT"), element="t"))
    [('S1', 17), Punctuation(<*, (,17]>)]
    """
    found = slices(source, schema, element=element, punct_namespace=punct_namespace, on_reject=on_reject)
    return _elements(schema, found)


def _elements(schema: Schema, slices: Iterator[Slice]) -> Iterator[Tuple | Punctuation]:
    for found in slices:
        tuples, at = rows(schema, found), 0
        for before, punctuation in zip(found.before, found.punctuations, strict=True):
            yield from tuples[at:before]
            yield punctuation
            at = before
        yield from tuples[at:]


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

    Everything else is as with `parse`. A ``guessed`` schema was taken from the first tuple: what tuples hold beside
    it is logged as overlooked.
    """
    spec = StreamSpec(element, schema, element, guessed=guessed)
    return read_slices(FirehoseReader(opened(source), [spec], punct_namespace, limits), size, on_reject)


def opened(source: Readable) -> Source:
    """The source that is meant. Raises `SourceError` where it cannot be opened, and `UsageError` for what is none."""
    if isinstance(source, str | os.PathLike):
        return open_source(source)
    return source if isinstance(source, Source) else Source.of(source)


def read_slices(
    reader: FirehoseReader, size: int, on_reject: Callable[[Reject], object] | None
) -> Iterator[Slice]:
    """What a reader of one stream gives, as `slices` does. It is closed in the end."""
    log = RejectLog()
    reject = on_reject or log.add
    watch = Watch(reader.source.name, reader.specs[0].element)
    try:
        while (parsed := reader.read(size)) is not None:
            (found,), (rejects,) = parsed.slices, parsed.rejects
            for one in rejects:
                reject(one)
            count = found.tuples.height + len(rejects)
            log_notices(watch.take(count, parsed.read[0], parsed.overlooked[0]))
            if found:
                yield found
            if parsed.error:
                log_notices(watch.end(in_order=False))
                raise parsed.error
        log_notices(watch.end(in_order=True))
    finally:
        log.end()
        reader.close()


def rows(schema: Schema, found: Slice) -> list[Tuple]:
    """Tuples as Python values, with the one NaN that equals itself."""
    rows: list[Tuple] = found.tuples.rows()
    doubles = [i for i, a in enumerate(schema) if a.type is DOUBLE]
    if any(found.tuples.to_series(i).is_nan().any() for i in doubles):
        rows = [tuple(NAN if v != v else v for v in row) for row in rows]
    return rows
