"""Cuts of a large file found span by span equal the cuts found by reading from its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.run.inputs import cuts
from xmlpunct.engine.run.inputs.cuts import Piece, Scanned, Span, find_cuts, scan
from xmlpunct.engine.run.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Range, advance
from xmlpunct.engine.run.inputs.uncut import Uncut, save, saved
from xmlpunct.firehose import Parser, StreamSpec, native
from xmlpunct.firehose.position import Cursor, Position
from xmlpunct.firehose.spec import ClosingMark, elements_of
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Schema

SPECS = [
    StreamSpec("t", Schema.parse("a STRING"), "t"),
    StreamSpec("t", Schema.parse("a STRING, n STRING PATH '../@n'"), "t"),
    StreamSpec(
        "s", Schema.parse("a STRING"), "t", marks=(ClosingMark("g", (("a", "@n"),)), ClosingMark("u"))
    ),
]
TUPLES = [
    "<t><a>{}</a></t>",
    "<t\n><a x='<p:t>'.>{}</a></t>".replace("<p:t>", "/>"),
    "<t><b><t><a>no</a></t></b><a>{}</a></t>",
]
LOOKALIKES = [
    "<!-- <t><a>no</a></t> -->",
    "<!-- <t> </r> <g> -->",
    "<?x <t><a>no</a></t> ?>",
    "<u><![CDATA[<t><a>no</a></t>]]></u>",
    "<u v='>'>\n<tt><t2/></tt></u>",
    "<p:t><a>7</a></p:t>",
    "<q:t xmlns:q='urn:q'><a>no</a></q:t>",
    "<t xmlns='urn:q'><a>no</a></t>",
    "\n \n",
    " text &amp; more ",
]
GROUPS = [
    "<g>{}</g>",
    "<g n='{}'>".replace("{}", "1") + "{}</g>",
    "<g n='2' xmlns:z='urn:z'>{}</g>",
    "<h>{}</h>",
]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Concatenated documents with nested groups and many elements that only look like tuples."""
    number = iter(range(10**6))

    def content(depth: int) -> str:
        text = ""
        for kind in draw(st.lists(st.integers(0, 9), max_size=12)):
            if kind < 5:
                text += draw(st.sampled_from(TUPLES)).format(next(number))
            elif kind < 8 or depth > 2:
                text += draw(st.sampled_from(LOOKALIKES))
            else:
                text += draw(st.sampled_from(GROUPS)).format(content(depth + 1))
        return text

    roots = draw(
        st.lists(st.sampled_from(["<r xmlns:p='%s'>", "<r n='1'\nxmlns:p='%s'>"]), min_size=1, max_size=3)
    )
    return "\n".join(root % PUNCT_NAMESPACE + content(0) + "</r>" for root in roots)


def scan_all(spans: Sequence[Span]) -> list[Scanned]:
    return [scan(span) for span in spans]


def pieces_of(path: Path, text: str, spec: StreamSpec) -> tuple[Part, list[Piece]]:
    path.write_text(text)
    part = Part(str(path), str(path), len(text.encode()))
    (pieces,) = find_cuts([(part, elements_of([spec]))], scan_all)
    return part, pieces


def check(data: bytes, pieces: list[Piece], spec: StreamSpec) -> None:
    """Each piece begins where a splitter reading from the beginning could cut, in the same elements."""
    at = 0
    for piece in pieces:
        byte = piece.start.byte
        assert byte == at
        assert piece.start.line == 1 + data[:byte].count(b"\n")
        assert piece.checksum == crc32(data[byte : byte + piece.size])
        splitter = Splitter("doc", elements_of([spec]))
        splitter.feed(data[:byte])
        while splitter.cut() is not None:
            pass
        assert b"<" not in data[splitter.position.byte : byte]
        assert piece.start.open == splitter.position.open
        assert piece.start.started == splitter.position.started
        at += piece.size


def rows(part: Part, ranges: Sequence[Range], spec: StreamSpec) -> tuple[list[object], str | None]:
    parsed, size, _ = parse_ranges(Input("s", (0,), (part,)), ranges, Parser([spec]))
    assert size == sum(r.size for r in ranges) or parsed.error is not None
    (slice_,) = parsed.slices
    return [*slice_.tuples.rows(), *map(str, slice_.punctuations)], str(parsed.error or "")


def ranges_with_and_without_pieces(
    part: Part, pieces: list[Piece], spec: StreamSpec
) -> tuple[list[Range], Sequence[Range]]:
    """The ranges of a file by its pieces, and the ranges of one sequential pass."""
    source, elements = Input("s", (0,), (part,)), elements_of([spec])
    size = (part.size or 0) + 1
    ranges, cursor = advance(source, elements, Cursor(), size, 1, uncut=Uncut(source, 0, {0: pieces}))
    while not cursor.done:
        next_ranges, cursor = advance(source, elements, cursor, size, 1, uncut=Uncut(source, 0, {0: pieces}))
        ranges += next_ranges
    return ranges, advance(source, elements, Cursor(), size, 2**20)[0]


SIZES = st.tuples(
    st.integers(1, 200),
    st.integers(1, 100),
    st.integers(1, 60),
    st.sampled_from([16, 2**16]),
    st.sampled_from([1, 2, 1000]),
)


def set_sizes(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int, int, int]) -> None:
    names = ("SPAN_BYTES", "PIECE_BYTES", "_PROBE_BYTES", "_STEP_BYTES", "_PASSES")
    for name, value in zip(names, sizes, strict=True):
        monkeypatch.setattr(cuts, name, value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=documents(), spec=st.sampled_from(SPECS), sizes=SIZES)
def test_cuts_are_those_of_a_splitter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    spec: StreamSpec,
    sizes: tuple[int, int, int, int, int],
) -> None:
    set_sizes(monkeypatch, sizes)
    part, pieces = pieces_of(tmp_path / "in.xml", text, spec)
    check(text.encode(), pieces, spec)
    save(tmp_path / "cuts", {(0, 0): pieces})
    assert saved(tmp_path / "cuts") == {(0, 0): pieces}
    ranges, uncut = ranges_with_and_without_pieces(part, pieces, spec)
    if sizes[-1] == 1000:
        assert sum(piece.size for piece in pieces) == len(text.encode())
        assert pieces[-1].final
        assert all(r.uncut for r in ranges)
    assert rows(part, ranges, spec) == rows(part, uncut, spec)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=documents(),
    spec=st.sampled_from(SPECS),
    sizes=SIZES,
    at=st.integers(0, 2000),
    wrong=st.sampled_from(["</g>", "<", "\0", "</r>", "<![CDATA[", "<!--", "]]>", "&no;", "<q:t>", None]),
)
def test_errors_are_the_same_with_and_without_pieces(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    spec: StreamSpec,
    sizes: tuple[int, int, int, int, int],
    at: int,
    wrong: str | None,
) -> None:
    """Reading a malformed document by pieces gives the same tuples and error as one pass."""
    set_sizes(monkeypatch, sizes)
    at %= len(text)
    broken = text[:at] if wrong is None else text[:at] + wrong + text[at:]
    part, pieces = pieces_of(tmp_path / "in.xml", broken, spec)
    check(broken.encode(), [piece for piece in pieces if piece.start.byte <= at], spec)
    ranges, uncut = ranges_with_and_without_pieces(part, pieces, spec)
    assert rows(part, ranges, spec) == rows(part, uncut, spec)


@pytest.mark.parametrize("wrong", ["</wrong>", "<t <a>", "\0"])
def test_the_bytes_after_an_error_are_compared(tmp_path: Path, wrong: str) -> None:
    """A range is malformed at its beginning: the checksum of its other bytes still tells whether it has changed."""
    data = f"<r><t><a>1</a></t>{wrong}".encode() + b"<t><a>2</a></t>" * 100_000
    (tmp_path / "in.xml").write_bytes(data)
    part = Part("in.xml", str(tmp_path / "in.xml"), len(data))
    whole = Range(0, Position(), len(data), final=True, last=True, uncut=True, checksum=crc32(data))
    read, error = rows(part, [whole], SPECS[0])
    assert read == [("1",)]
    assert error
    (tmp_path / "in.xml").write_bytes(data[:-1] + b" ")
    with pytest.raises(ChangedError, match="have changed"):
        rows(part, [whole], SPECS[0])


@pytest.mark.skipif(not native.COMPILED, reason="tuples are skipped only by compiled code")
def test_runs_of_tuples_are_skipped_without_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `Splitter` parses only the text around runs of tuples, despite misleading content."""
    monkeypatch.setattr(cuts, "_STEP_BYTES", 100)
    monkeypatch.setattr(cuts, "_PROBE_BYTES", 10)
    understood: list[int] = []

    class Watched(Splitter):
        def feed(self, data: bytes) -> None:
            understood.append(len(data))
            super().feed(data)

    monkeypatch.setattr(cuts, "Splitter", Watched)
    monkeypatch.setattr(cuts, "PIECE_BYTES", 5000)
    tuples = [
        *(template.format(1) for template in TUPLES),
        "<p:t/>",
        "<!-- </r> --><?x?>\n",
        "<t><a>2<!-- </t> --></a></t>",
    ]
    text = f"<r xmlns:p='{PUNCT_NAMESPACE}'><x/>{''.join(tuples) * 500}</r>\n"
    _, pieces = pieces_of(tmp_path / "in.xml", text, SPECS[0])
    check(text.encode(), pieces, SPECS[0])
    assert all(piece.size < 5100 for piece in pieces)
    assert sum(understood) < 1000 < len(text) / 50


def test_the_declarations_of_a_document_apply_to_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, (5000, 1500, 300, 700, 1000))
    declared = "<!ENTITY e 'x'><!ATTLIST t n CDATA 'd'>"
    first = f"<!DOCTYPE r [{declared}]><r>" + 1000 * "<t><a>&e;</a></t>\n" + "</r>\n"
    data = (first + "<r>" + 500 * "<t><a>y</a></t>\n" + "</r>").encode()
    (tmp_path / "doc.xml").write_bytes(data)
    spec = StreamSpec("t", Schema.parse("a STRING, n STRING PATH '@n'"), "t")
    part = Part("doc", str(tmp_path / "doc.xml"), len(data))
    (pieces,) = find_cuts([(part, elements_of([spec]))], lambda spans: [scan(span) for span in spans])
    assert len(pieces) > 10
    assert sum(piece.size for piece in pieces) == len(data)
    ranges, _ = ranges_with_and_without_pieces(part, pieces, spec)
    found, error = rows(part, ranges, spec)
    assert ([row for row in found if isinstance(row, tuple)], error) == (
        1000 * [("x", "d")] + 500 * [("y", None)],
        "",
    )
