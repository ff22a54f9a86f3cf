"""The compiled loops: what they refuse, and that they give what numpy gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct.firehose import loops
from xmlpunct.firehose.cells import PAD, Cells
from xmlpunct.firehose.markup import nesting

pytestmark = pytest.mark.skipif(
    not loops.COMPILED, reason="there was no compiler when xmlpunct was installed"
)

NUMBERS = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.from_regex("[+-]{0,2}[0-9]{0,17}", fullmatch=True),
    st.text("0123456789+- \x00/:", max_size=18),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def both(monkeypatch: pytest.MonkeyPatch, work: Any) -> Iterator[Any]:
    """What something gives with the compiled loops and without."""
    for compiled in (True, False):
        monkeypatch.setattr(loops, "COMPILED", compiled)
        yield work()


def apart(cells: Cells) -> Cells:
    """The same texts, whose places are columns of larger arrays."""
    places = np.stack((cells.start, cells.size, cells.start), axis=1)
    return Cells(cells.buffer, places[:, 0], places[:, 1])


@given(st.lists(st.none() | NUMBERS, max_size=30))
def test_integers(texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(patch, lambda: apart(Cells.of(texts)).integers())
    assert fast[1].tolist() == slow[1].tolist()
    assert fast[0][~fast[1]].tolist() == slow[0][~slow[1]].tolist()
    assert fast[0][~fast[1]].tolist() == [
        int(t) for t, no in zip(texts, fast[1], strict=True) if t and not no
    ]


@given(st.lists(st.none() | TEXTS, max_size=30))
def test_texts(texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(patch, lambda: apart(Cells.of(texts)).texts("x"))
    assert fast.to_list() == slow.to_list() == texts
    assert pl.concat([fast, fast]).to_list() == texts * 2


@pytest.mark.parametrize("times", [1, 10])
@given(st.lists(st.none() | TEXTS, max_size=30))
def test_strings(times: int, texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(patch, lambda: apart(Cells.of(texts * times)).listed())
    assert fast == slow == [text or "" for text in texts * times]


def test_a_text_that_is_no_utf_8_is_kept() -> None:
    assert loops.strings(b"a\xff", places(0), places(2)) == ["a\udcff"]


PIECES = [
    "<a>",
    "</a>",
    "<b/>",
    "x",
    ">",
    "<!--",
    "<?p?>",
    "</r>",
    "</root>",
    "<c d='/'>",
    "\n",
    "text " * 40,
]


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.sampled_from(["<r>", "<root x='1'>", "<é>"]))
def test_nesting(pieces: list[str], outer: str) -> None:
    data = bytearray("".join(["<b/>", *pieces, "</a>", *pieces]).encode())
    begin, stop = 4, data.rfind(b">", 4) + 1
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = both(patch, lambda: nesting(data, begin, stop, outer))
    assert fast == slow


def places(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def test_texts_outside_of_the_buffer_are_refused() -> None:
    room, flags = np.empty(1, np.int64), np.empty(1, np.bool_)
    for start, size in ((-1, 1), (3, 2), (0, 5), (2**62, 2**62)):
        with pytest.raises(ValueError, match="outside of the buffer"):
            loops.integers(b"1234", places(start), places(size), room, flags)
        with pytest.raises(ValueError, match="outside of the buffer"):
            loops.views(b"1234", places(start), places(size), np.empty((1, 2), "<u8"), np.empty(0, np.uint8))
        with pytest.raises(ValueError, match="outside of the buffer"):
            loops.strings(b"1234", places(0, start), places(1, size))
    with pytest.raises(ValueError, match="too little room"):
        loops.integers(b"1234", places(0, 1), places(1, 1), room, flags)
    with pytest.raises(ValueError, match="two columns"):
        loops.integers(b"1234", places(0, 1), places(1), room, flags)
    with pytest.raises(ValueError, match="too little room"):
        loops.views(b"1" * 20, places(0), places(20), np.empty((1, 2), "<u8"), np.empty(19, np.uint8))


def test_what_does_not_fit_together_is_not_walked() -> None:
    def walk(data: bytes, stop: int, most: int = 9, room: int = 9) -> int:
        pieces = np.array([[0, 3, 0], [3, 4, 0]], np.int64)  # <a>, </a>
        ends = np.array([[3, 4]], np.int64)
        numbers, flags = np.empty(most, np.int64), np.empty(most, np.bool_)
        values = (np.empty((room, 1, 2), np.int64),)
        literals = b"<a></a>"
        return loops.walk(
            data, 0, stop, pieces, places(0, 2), ends, literals, numbers, numbers.copy(), flags, values
        )

    data = b"<a>1</a>" * 3 + b"<".ljust(PAD)
    assert walk(data, 24) == 3
    for arguments in ((data, 23), (data[:24], 24), (data, 24, 2), (data, 24, 9, 2)):
        with pytest.raises(ValueError, match="cannot be walked"):
            walk(*arguments)


def test_only_bytes_that_nobody_can_change_are_walked() -> None:
    """Other threads run meanwhile, and it relies on where the last ``<`` stands."""
    numbers, none = places(0, 0, 0), np.empty((9, 1, 2), np.int64)
    pieces, ends = np.array([[0, 3, 0], [3, 4, 0]], np.int64), np.array([[3, 4]], np.int64)
    data = bytearray(b"<a>1</a><".ljust(PAD))
    with pytest.raises(ValueError, match="cannot be walked"):
        loops.walk(
            data,  # type: ignore[arg-type]
            0,
            8,
            pieces,
            places(0, 2),
            ends,
            b"<a></a>",
            numbers,
            numbers.copy(),
            np.empty(3, np.bool_),
            (none,),
        )
    data.clear()  # nobody holds it any more


def test_what_is_held_is_let_go() -> None:
    data = bytearray(b"12<a>")
    values, wrong = np.empty(1, np.int64), np.empty(1, np.bool_)
    views, rest = np.empty((1, 2), "<u8"), np.empty(0, np.uint8)
    for at in (0, 9):  # inside of the data, and beyond
        for call in (
            lambda at=at: loops.integers(data, places(at), places(2), values, wrong),  # type: ignore[misc]
            lambda at=at: loops.views(data, places(at), places(2), views, rest),  # type: ignore[misc]
            lambda at=at: loops.strings(data, places(at), places(2)),  # type: ignore[misc]
            lambda at=at: loops.nesting(data, at, 5, b"r"),  # type: ignore[misc]
        ):
            with suppress(ValueError):
                call()
            data.append(0)  # raises BufferError while somebody holds it
            del data[-1]


def test_there_is_no_part_beyond_the_end() -> None:
    for begin, stop in ((-1, 2), (2, 1), (0, 5)):
        with pytest.raises(ValueError, match="no part"):
            loops.nesting(b"<a/>", begin, stop, b"r")


def test_all_goes_on_where_they_are_missing() -> None:
    program = """
import sys
sys.modules["xmlpunct.firehose._loops"] = None
from xmlpunct.firehose import FirehoseReader, Source, StreamSpec, loops
from xmlpunct.schema import Schema
assert not loops.COMPILED
data = b"<r>" + b"<t><a>1</a></t>" * 1000 + b"</r>"
reader = FirehoseReader(Source.of(data), [StreamSpec("s", Schema.parse("a INT"), "t")])
print(sum(parsed.slices[0].tuples.height for parsed in iter(lambda: reader.read(9000), None)))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "1000\n"
