"""`Feed`: the bytes of a stream are pushed."""

from __future__ import annotations

import bz2
import gzip
import lzma
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmlpunct
from xmlpunct import Feed, Punctuation, SourceError, UsageError

SCHEMA = "title STRING, n INT"
OPEN = "<d xmlns:p='http://www.cse.ogi.edu/dot/niagara/punct'>"
DOCUMENT = (
    f"{OPEN}<b><title>Émma</title><n>1</n></b><p:b><n>1</n></p:b><b><title>Ulysses</title><n>2</n></b></d>"
)
ELEMENTS = list(xmlpunct.parse(text=DOCUMENT, schema=SCHEMA, element="b"))
ENCODED = {
    "utf-8": DOCUMENT.encode(),
    "utf-16": DOCUMENT.encode("utf-16"),
    "latin": ("<?xml version='1.0' encoding='ISO-8859-1'?>" + DOCUMENT).encode("latin-1"),
    "gzip": gzip.compress(DOCUMENT.encode()),
    "gzip of gzip": gzip.compress(gzip.compress(DOCUMENT.encode())),
    "bzip2": bz2.compress(DOCUMENT.encode()),
    "xz": lzma.compress(DOCUMENT.encode()),
    "two documents": DOCUMENT.encode() + b"\n" + OPEN.encode() + b"</d>",
}


def pushed(feed: Feed, data: bytes, size: int) -> list[object]:
    elements: list[object] = []
    for start in range(0, len(data), size):
        elements += feed.push(data[start : start + size])
    return elements + feed.close()


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunks_of_each_size(encoding: str, size: int) -> None:
    data = ENCODED[encoding]
    assert pushed(Feed(SCHEMA, element="b"), data, size) == ELEMENTS
    assert pushed(Feed(xmlpunct.Schema.parse(SCHEMA), element="b"), data, size) == ELEMENTS
    assert pushed(Feed(element="b"), data, size) == ELEMENTS
    assert pushed(Feed(), data, size) == ELEMENTS


@given(st.lists(st.integers(0, len(DOCUMENT.encode()))))
def test_each_element_comes_as_soon_as_it_is_complete(cuts: list[int]) -> None:
    data = DOCUMENT.encode()
    feed, elements = Feed(SCHEMA, element="b"), list[object]()
    places = sorted({0, *cuts, len(data)})
    for start, end in pairwise(places):
        elements += feed.push(data[start:end])
        complete = data[:end].count(b"</b>") + data[:end].count(b"</p:b>")
        assert elements == ELEMENTS[:complete]
    assert feed.close() == []
    assert [type(element) for element in elements] == [tuple, Punctuation, tuple]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_document_that_is_cut_raises_at_close(size: int) -> None:
    data = DOCUMENT.encode()[:-2]
    feed = Feed(SCHEMA, element="b")
    assert [
        e for start in range(0, len(data), size) for e in feed.push(data[start : start + size])
    ] == ELEMENTS
    with pytest.raises(SourceError, match="cut short"):
        feed.close()
    assert feed.remaining == []
    inferred = Feed(element="b")
    assert inferred.push(data) == []
    with pytest.raises(SourceError, match="cut short"):
        inferred.close()
    assert inferred.remaining == ELEMENTS
    with pytest.raises(SourceError):
        Feed(SCHEMA, element="b").close()


def test_elements_before_malformed_markup_come_first() -> None:
    feed = Feed(SCHEMA, element="b")
    assert feed.push(DOCUMENT.encode()[:-4] + b"</b></d>") == ELEMENTS
    for call in (lambda: feed.push(b"<b/>"), feed.close):
        with pytest.raises(SourceError, match="mismatch"):
            call()


def test_wrong_calls() -> None:
    feed = Feed(SCHEMA, element="b")
    with pytest.raises(UsageError, match="a chunk is bytes, not str"):
        feed.push(DOCUMENT)  # type: ignore[arg-type]
    feed.push(DOCUMENT.encode())
    assert feed.close() == []
    assert feed.close() == []
    with pytest.raises(UsageError, match="the feed is closed"):
        feed.push(b"")
    with pytest.raises(UsageError):
        Feed(SCHEMA, element="<")


def test_the_namespace_of_the_first_element_and_rejects() -> None:
    rejects: list[object] = []
    feed = Feed("n INT", element="b", on_reject=rejects.append)
    document = b"<d xmlns='urn:x'><b><n>1</n></b><b><n>x</n></b><b><n>3</n></b></d>"
    assert pushed(feed, document, 5) == [(1,), (3,)]
    assert len(rejects) == 1


def test_a_sample_ends_the_wait_for_columns() -> None:
    feed = Feed(element="b")
    chunk = b"<b><n>1</n></b>" * 1000
    counts = [len(feed.push(b"<d>" + chunk)), *(len(feed.push(chunk)) for _ in range(79))]
    assert counts[0] == 0
    assert sum(counts) == 80_000
    assert counts[-1] == 1000
    assert feed.push(b"</d>") + feed.close() == []


def test_zstd_is_refused() -> None:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as packed:
        packed.write(DOCUMENT.encode())
    with pytest.raises(UsageError, match="zstd data cannot be pushed"):
        Feed(SCHEMA, element="b").push(bytes(out.getvalue()))
