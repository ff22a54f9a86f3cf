"""`stream_of`: the inferred element and columns of a source."""

from __future__ import annotations

import io

import pytest

from xmlpunct import Schema, SourceError, parse, slices
from xmlpunct.connectors.source import Source
from xmlpunct.python.inferred_stream import stream_of

XML = b"<s><other/><!-- <t><no/></t> --><t><a>1</a><b>x</b></t><t><a>3</a></t></s>"


class Once(io.RawIOBase):
    """A stream that returns one byte at a time and cannot be read twice."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk, self._left = self._left[:1], self._left[1:]
        return chunk


@pytest.mark.parametrize("source", [XML, io.BytesIO(XML), Once(XML)])
def test_the_source_is_read_from_its_beginning_afterwards(source: object) -> None:
    spec, rewound = stream_of(Source.of(source), None, "t")
    assert spec.schema.names == ("a", "b")
    parts = slices(rewound, spec.schema, element="t")
    assert [row for part in parts for row in part.tuples.rows()] == [(1, "x"), (3, None)]


@pytest.mark.parametrize("source", [XML, io.BytesIO(XML), Once(XML)])
def test_a_declared_stream_is_read_from_its_beginning(source: object) -> None:
    spec, rewound = stream_of(Source.of(source), Schema.parse("a INT"), "t")
    assert list(parse(rewound, spec.schema, element=spec.element)) == [(1,), (3,)]


def test_names_in_other_namespaces_count() -> None:
    xml = b'<s xmlns="urn:x"><t xmlns:o="urn:o"><a>1</a><o:b>2</o:b><c xmlns="">3</c></t></s>'
    assert stream_of(Source.of(xml), None, "{urn:x}t")[0].schema.names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("xml", "says"), [(b"<s><u/></s>", "no <t> ends"), (b"<s><u></s>", "mismatch"), (b"", "no XML")]
)
def test_without_a_tuple_there_are_no_columns(xml: bytes, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        stream_of(Source.of(xml), None, "t")


PUNCT = "xmlns:p='http://www.cse.ogi.edu/dot/niagara/punct'"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<s><t/></s>", "t"),
        ("<s xmlns='urn:x'><t/></s>", "{urn:x}t"),
        ("<s><x:t xmlns:x='urn:x' k='>'/></s>", "{urn:x}t"),
        (f"<s {PUNCT}><p:t><a>1</a></p:t><t/></s>", "t"),
        (f"<s {PUNCT} xmlns:x='urn:x'><p:t><a>1</a></p:t><x:t/><t/></s>", "{urn:x}t"),
        ("<s xmlns:x='urn:x'><!-- <x:t/> --><t/><x:t/></s>", "t"),
        ("<s xmlns='urn:x'><!-- <t/> --><t/></s>", "{urn:x}t"),
        ("<!-- <t/> --><s xmlns='urn:x'><t/></s>", "{urn:x}t"),
        ("<?x <t/> ?><s xmlns='urn:x'><?x <t/> ?><t/></s>", "{urn:x}t"),
        ("<s xmlns='urn:x'><u><![CDATA[<t/>]]></u><t/></s>", "{urn:x}t"),
        (f"<s {PUNCT} xmlns='urn:x'>" + "<p:t><a>1</a></p:t><!-- <t/> -->" * 50 + "<t/></s>", "{urn:x}t"),
        ("<s xmlns:x='urn:x'><u/></s>", "t"),
        ("<s xmlns:x='urn:x'><x:t", "t"),
        ("<s xmlns:x='urn:x'></t><x:t/>", "t"),
        ("", "t"),
    ],
)
def test_a_local_name_is_that_of_the_first_element(document: str, expected: str) -> None:
    for source in (document.encode(), Once(document.encode())):
        assert stream_of(Source.of(source), Schema.parse("a INT"), "t")[0].element == expected
    assert stream_of(Source.of(document.encode()), Schema.parse("a INT"), "s/t")[0].element == "s/t"
