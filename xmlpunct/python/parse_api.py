"""Reading punctuated XML from Python: tuples and punctuations, or slices."""

from __future__ import annotations

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose.spec import Limits
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.python.source_arguments import Readable, chosen_source
from xmlpunct.python.stream_elements import OnReject, SourceReading, StreamElements
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DOUBLE, NAN


def parse(
    source: Readable | None = None,
    schema: Schema | str | None = None,
    *,
    element: str | None = None,
    text: str | None = None,
    punct_namespace: str = PUNCT_NAMESPACE,
    on_reject: OnReject | None = None,
) -> StreamElements[Tuple | Punctuation]:
    """Read the tuples and punctuations of a stream, in document order.

    Parameters
    ----------
    source : str, os.PathLike, bytes, binary file, iterable of bytes, asynchronous iterable of bytes or Source
        The XML: a path, a URL, the bytes of a document, an open binary file, or chunks of bytes. Chunks of an
        asynchronous iterable, such as ``response.aiter_bytes()`` of httpx, can only be read with ``async for``.
    schema : Schema or str, optional
        The columns of a tuple, such as ``"title STRING, price DOUBLE"``. Without them, they are inferred from the
        beginning of the source.
    element : str, optional
        The name of the tuples' element. A local name stands for the first element with this name, in any namespace;
        ``{uri}name`` and ``parent/name`` are exact. Without it, it is inferred from the beginning of the source.
    text : str, optional
        A document, instead of ``source``.
    punct_namespace : str
        The namespace of punctuations.
    on_reject : callable, optional
        Receives each `Reject`. Without it, rejects are logged as warnings on the logger ``xmlpunct``: the first few of
        a kind, then their number. Without it, a value that does not fit an inferred column raises `SourceError`.

    Returns
    -------
    StreamElements
        An iterator, for ``for`` and ``async for``, and a context manager. It yields Python tuples in schema order, with
        None for null, and punctuations. The end of the stream is the end of the iterator.

    Raises
    ------
    SourceError
        If the source fails, after everything before the fault was yielded.
    UsageError
        For a wrong call, and if a forked process reads an iterator of its parent.

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
    >>> list(parse(xml, "sid STRING, hour INT", element="t"))
    [('S1', 17), Punctuation(<*, (,17]>)]
    >>> shelf = parse(text="<shelf><book><title>Emma</title></book><book><title>Ulysses</title></book></shelf>")
    >>> shelf.schema.names, list(shelf)
    (('title',), [('Emma',), ('Ulysses',)])
    """
    chosen = chosen_source(source, text)
    reading = SourceReading(chosen, schema, element, punct_namespace, Limits(), 2**20, on_reject)
    return StreamElements(reading, elements_in_order)


def slices(
    source: Readable | None = None,
    schema: Schema | str | None = None,
    *,
    element: str | None = None,
    text: str | None = None,
    size: int = 2**20,
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    on_reject: OnReject | None = None,
) -> StreamElements[Slice]:
    """Read the slices of a stream, in document order. No slice is empty.

    Parameters
    ----------
    source, schema, element, text, punct_namespace, on_reject
        As for `parse`.
    size : int, default 1 MiB
        About how many bytes of XML one slice is read from.
    limits : Limits
        Bounds on depth, values and tuples.

    Returns
    -------
    StreamElements
        An iterator, for ``for`` and ``async for``, and a context manager. It yields a `Slice` each.

    Raises
    ------
    SourceError
        If the source fails, after everything before the fault was yielded.
    UsageError
        As for `parse`.

    Examples
    --------
    >>> xml = b"<s><t><sid>S1</sid></t><t><sid>S2</sid></t></s>"
    >>> [part.tuples.height for part in slices(xml, "sid STRING", element="t")]
    [2]
    """
    chosen = chosen_source(source, text)
    reading = SourceReading(chosen, schema, element, punct_namespace, limits, size, on_reject)
    return StreamElements(reading, lambda _, part: [part] if part else [])


def elements_in_order(schema: Schema, part: Slice) -> list[Tuple | Punctuation]:
    """The tuples and the punctuations of a slice, in the order of the document."""
    elements: list[Tuple | Punctuation] = []
    tuples, start = rows(schema, part), 0
    for before, punctuation in zip(part.before, part.punctuations, strict=True):
        elements += tuples[start:before]
        elements.append(punctuation)
        start = before
    return elements + tuples[start:]


def rows(schema: Schema, part: Slice) -> list[Tuple]:
    """Tuples as Python values. Each NaN becomes `NAN`, so that equal tuples compare equal."""
    rows: list[Tuple] = part.tuples.rows()
    doubles = [i for i, a in enumerate(schema) if a.type is DOUBLE]
    if any(part.tuples.to_series(i).is_nan().any() for i in doubles):
        rows = [tuple(NAN if v != v else v for v in row) for row in rows]
    return rows
