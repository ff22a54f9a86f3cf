"""`sniff`: the columns of the first tuple."""

from __future__ import annotations

import io

import pytest

from xmlpunct import SourceError, slices
from xmlpunct.connectors.source import Source
from xmlpunct.firehose.infer.first_tuple import sniff

XML = b"<s><other/><!-- <t><no/></t> --><t><a>1</a><b/><a>2</a></t><t><a>3</a><c/></t></s>"


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
    schema, rewound = sniff(Source.of(source), "t")
    assert schema.names == ("a", "b")
    rejected: list[object] = []
    rows = [
        row
        for s in slices(rewound, schema, element="t", on_reject=rejected.append)
        for row in s.tuples.rows()
    ]
    assert rows == [("3", None)]
    assert len(rejected) == 1  # <a> comes twice in the first


def test_names_in_the_tuples_own_namespace_count() -> None:
    xml = b'<s xmlns="urn:x"><t xmlns:o="urn:o"><a/><o:b/><c xmlns=""/></t></s>'
    assert sniff(Source.of(xml), "{urn:x}t")[0].names == ("a", "c")


@pytest.mark.parametrize(
    ("xml", "says"), [(b"<s><u/></s>", "no <t> element"), (b"<s><u></s>", "mismatch"), (b"", "no XML")]
)
def test_without_a_tuple_there_are_no_columns(xml: bytes, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        sniff(Source.of(xml), "t")
