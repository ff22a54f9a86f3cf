"""Cuts of a large file, found span by span: the same as those of whoever reads it from its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmlpunct.engine.inputs import cuts
from xmlpunct.engine.inputs.cuts import Piece, Scanned, Span, find_cuts, scan
from xmlpunct.engine.inputs.parse_ranges import parse_ranges
from xmlpunct.engine.inputs.parts import Input, Part
from xmlpunct.engine.inputs.ranges import Cursor, Range, advance
from xmlpunct.engine.inputs.uncut import Uncut, save, saved
from xmlpunct.firehose import PUNCT_NAMESPACE, Parser, StreamSpec
from xmlpunct.firehose.spec import elements_of
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Schema

SPEC = StreamSpec("t", Schema.parse("a STRING"), "t")
ELEMENTS = frozenset(elements_of([SPEC]))
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
    """Documents full of what looks like tuples and is none, inside groups, one behind another."""
    number = iter(range(10**6))

    def content(depth: int) -> str:
        found = ""
        for kind in draw(st.lists(st.integers(0, 9), max_size=12)):
            if kind < 5:
                found += draw(st.sampled_from(TUPLES)).format(next(number))
            elif kind < 8 or depth > 2:
                found += draw(st.sampled_from(LOOKALIKES))
            else:
                found += draw(st.sampled_from(GROUPS)).format(content(depth + 1))
        return found

    roots = draw(
        st.lists(st.sampled_from(["<r xmlns:p='%s'>", "<r n='1'\nxmlns:p='%s'>"]), min_size=1, max_size=3)
    )
    return "\n".join(root % PUNCT_NAMESPACE + content(0) + "</r>" for root in roots)


def all_here(spans: Sequence[Span]) -> list[Scanned]:
    return [scan(span) for span in spans]


def found_in(path: Path, text: str) -> tuple[Part, list[Piece]]:
    path.write_text(text)
    part = Part(str(path), str(path), len(text.encode()))
    (pieces,) = find_cuts([(part, ELEMENTS)], all_here)
    return part, pieces


def check(data: bytes, pieces: list[Piece]) -> None:
    """Each begins where a splitter that reads from the beginning could cut, inside the same elements."""
    at = 0
    for piece in pieces:
        byte = piece.start.byte
        assert byte == at
        assert piece.start.line == 1 + data[:byte].count(b"\n")
        assert piece.checksum == crc32(data[byte : byte + piece.size])
        splitter = Splitter("doc", ELEMENTS)
        splitter.feed(data[:byte])
        while splitter.cut() is not None:
            pass
        assert b"<" not in data[splitter.position.byte : byte]
        assert piece.start.open == splitter.position.open
        assert piece.start.started == splitter.position.started
        at += piece.size


def rows(part: Part, ranges: Sequence[Range]) -> tuple[list[object], str | None]:
    parsed, size, _ = parse_ranges(Input("s", (0,), (part,)), ranges, Parser([SPEC]))
    assert size == sum(r.size for r in ranges) or parsed.error is not None
    (slice_,) = parsed.slices
    return [*slice_.tuples.rows(), *map(str, slice_.punctuations)], str(parsed.error or "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=documents(), span=st.integers(1, 200), piece=st.integers(1, 100), probe=st.integers(1, 60))
def test_cuts_are_those_of_a_splitter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, span: int, piece: int, probe: int
) -> None:
    for name, value in (
        ("SPAN_BYTES", span),
        ("PIECE_BYTES", piece),
        ("_PROBE_BYTES", probe),
        ("_PASSES", 1000),
    ):
        monkeypatch.setattr(cuts, name, value)
    part, pieces = found_in(tmp_path / "in.xml", text)
    check(text.encode(), pieces)
    assert sum(piece.size for piece in pieces) == len(text.encode())
    assert pieces[-1].final
    save(tmp_path / "cuts", {(0, 0): pieces})
    assert saved(tmp_path / "cuts") == {(0, 0): pieces}
    given_ = Input("s", (0,), (part,))
    ranges, cursor = advance(
        given_, elements_of([SPEC]), Cursor(), len(text) + 1, 1, uncut=Uncut(given_, 0, {0: pieces})
    )
    assert cursor.done
    assert all(r.uncut for r in ranges)
    whole, end = advance(given_, elements_of([SPEC]), Cursor(), len(text) + 1, 2**20)
    assert end.done
    assert rows(part, ranges) == rows(part, whole)
