"""Native conversion of texts equals that in Python, and refuses invalid arguments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xmlpunct.firehose import native
from xmlpunct.firehose.cells import Cells
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, Type, decimal

pytestmark = pytest.mark.skipif(
    not native.COMPILED, reason="there was no compiler when xmlpunct was installed"
)

SPACES = st.sampled_from(["", " ", "\n\t", "\r"])
DAY = "[0-9]{3,5}-[0-9]{1,2}-[0-9]{2}"
FORMS: dict[Type, st.SearchStrategy[str]] = {
    INT: st.integers(-(2**65), 2**65).map(str) | st.from_regex("[+-]{0,2}[0-9]{0,20}", fullmatch=True),
    DOUBLE: st.floats().map(repr)
    | st.from_regex(r"[+-]?[0-9]{0,20}\.?[0-9]{0,20}([eE][+-]?[0-9]{0,4})?", fullmatch=True)
    | st.sampled_from(["INF", "-INF", "NaN", "-0", "-0.0e5"]),
    decimal(6, 2): st.from_regex(r"[+-]?[0-9]{0,7}\.?[0-9]{0,4}", fullmatch=True),
    decimal(18, 18): st.from_regex(r"[+-]?0{0,2}\.?[0-9]{0,19}", fullmatch=True),
    decimal(38, 3): st.from_regex(r"-?[0-9]{0,37}\.?[0-9]{0,4}", fullmatch=True),
    BOOLEAN: st.sampled_from(["true", "false", "1", "0", "True", "yes", "fals", "2", ""]),
    DATE: st.dates().map(str) | st.from_regex(DAY + "Z?", fullmatch=True) | st.just("0000-01-01"),
    TIMESTAMP: st.datetimes().map(lambda t: t.isoformat())
    | st.from_regex(
        DAY + r"T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,8})?(Z|[+-]1[0-4]:00)?", fullmatch=True
    ),
}


def compiled_and_not(monkeypatch: pytest.MonkeyPatch, work: Any) -> Iterator[Any]:
    """The results of ``work`` with and without compiled code."""
    for compiled in (True, False):
        monkeypatch.setattr(native, "COMPILED", compiled)
        yield work()


def apart(texts: list[str | None]) -> Cells:
    """Cells of ``texts`` in two buffers, with strided offsets and sizes."""
    cells = Cells.of(texts)
    cut = next((at for at, n in zip(cells.start[1:], cells.size[1:], strict=True) if n > 0), 0)
    offsets = np.stack((cells.start, cells.size, cells.start), axis=1)
    return Cells(cells.data[:cut], cells.data[cut:], offsets[:, 0], offsets[:, 1])


@pytest.mark.parametrize("type_", FORMS, ids=str)
@given(data=st.data())
def test_numbers(type_: Type, data: st.DataObject) -> None:
    text_strategy = st.tuples(SPACES, FORMS[type_], SPACES).map("".join) | st.none() | st.text(max_size=5)
    texts = data.draw(st.lists(text_strategy, max_size=30))
    numbers = apart(texts).numbers(type_, "x")
    assert (numbers is None) == (not texts)
    if numbers is None:
        return
    values, left = numbers
    assert values.dtype == type_.dtype
    assert values.is_null().to_list() == left.tolist()
    expected = [type_.read(text or "") for text, no in zip(texts, left.tolist(), strict=True) if not no]
    assert [*map(str, values.drop_nulls().to_list())] == [*map(str, expected)]


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (INT, ["7", "-12", " 999999999999999999 ", "+0"]),
        (DOUBLE, ["1.5", "-0", "51.4778120", "1e3", ".5", "7.", "9007199254740992"]),
        (decimal(8, 2), ["1.50", "-2", "123456.7", "0.01"]),
        (DATE, ["2024-02-29", "1970-01-01", "0001-01-01", "9999-12-31"]),
        (TIMESTAMP, ["2024-01-01T00:00:00Z", "1969-12-31T23:59:59.9999999", "0001-01-01T00:00:00"]),
        (BOOLEAN, ["true", "0", "\nfalse", "1"]),
    ],
    ids=str,
)
def test_common_forms_are_converted_natively(type_: Type, texts: list[str]) -> None:
    numbers = apart([*texts]).numbers(type_, "x")
    assert numbers is not None
    assert not numbers[1].any()
    assert numbers[0].to_list() == [type_.read(text) for text in texts]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.none() | TEXTS, max_size=30))
@example(["a text of more than twelve bytes", None, "", "\u20ac" * 5])
def test_texts(texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = compiled_and_not(patch, lambda: apart(texts).texts("x"))
    assert fast.to_list() == slow.to_list() == texts
    assert pl.concat([fast, fast]).to_list() == texts * 2


@given(st.lists(st.none() | TEXTS, max_size=30))
def test_strings(texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fast, slow = compiled_and_not(patch, lambda: apart(texts).listed("*"))
    assert fast == slow == ["*" if text is None else text for text in texts]


def int32_array(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def test_texts_outside_of_the_buffers_are_refused() -> None:
    room, flags = np.empty(8, np.uint8), np.empty(1, np.bool_)
    for start, size in ((-1, 1), (4, 2), (3, 2), (0, 7), (2**31 - 1, 2**31 - 1)):
        texts = (b"1234", b"5", int32_array(start), int32_array(size))
        with pytest.raises(ValueError, match="outside of the buffers"):
            native.numbers(texts, "INT", 0, 0, room, flags)
        with pytest.raises(ValueError, match="outside of the buffers"):
            native.views(texts)
        with pytest.raises(ValueError, match="outside of the buffers"):
            native.strings((b"1234", b"5", int32_array(0, start), int32_array(1, size)), "")
    with pytest.raises(ValueError, match="too little room"):
        native.numbers((b"1234", b"", int32_array(0, 1), int32_array(1, 1)), "INT", 0, 0, room, flags)
    with pytest.raises(ValueError, match="two columns"):
        native.numbers((b"1234", b"", int32_array(0, 1), int32_array(1)), "INT", 0, 0, room, flags)
    with pytest.raises(ValueError, match="no such type"):
        native.numbers((b"1234", b"", int32_array(0), int32_array(1)), "FLOAT", 0, 0, room, flags)


def test_buffers_are_released() -> None:
    size = np.ones(1, np.int32)
    start = bytearray(4)
    values, left = np.empty(8, np.uint8), np.empty(1, np.bool_)
    for first in (b"12", b""):  # inside the data, and past its end
        texts: Any = (first, b"", memoryview(start).cast("i"), size)
        for call in (
            lambda texts=texts: native.numbers(texts, "INT", 0, 0, values, left),  # type: ignore[misc]
            lambda texts=texts: native.views(texts),  # type: ignore[misc]
            lambda texts=texts: native.strings(texts, ""),  # type: ignore[misc]
        ):
            before = sys.getrefcount(first), sys.getrefcount(size)
            with suppress(ValueError):
                call()
            assert (sys.getrefcount(first), sys.getrefcount(size)) == before
        del texts, call
    start.append(0)  # raises BufferError if a buffer is still exported


def test_numbers_that_make_no_tree_are_refused() -> None:
    outside, raw, item, choice, several = 32768, 262144, 8192, 16384, -2
    right = {
        "nodes": [0, -1, 0, 0, 1, 0, 0, 0],
        "tables": [0, 1, 0, 1, 0, 0],
        "entries": [0, 1],
        "targets": [0, 0],
        "below": [],
        "widths": [1, 1],
        "spaces": [],
        "conditions": [0, 1, 0, 0, 1, 0, 0],
        "ups": [0, 0, 1, 0, 0, 0],
        "says": [0, 1],
        "several": [1, 0],
        "more": [0, 0, 0, 0],
        "unread": [0, 1],
    }

    def tree(**wrong: list[int]) -> None:
        parts = (np.array(part, np.int32) for part in (right | wrong).values())
        native.Tree(b"ab", *parts, (1, 1), (9,) * 8)  # type: ignore[call-arg,arg-type]

    tree()
    tree(nodes=[outside, -1, 0, 0, 1, 0, 1, 0])
    tree(nodes=[0, several, 0, 0, 1, 0, 0, 0])
    for wrong in (
        {"nodes": []},
        {"nodes": right["nodes"][:-1]},
        {"nodes": [0, 1, 0, 0, 1, 0, 0, 0]},
        {"nodes": [0, -1, 2, 0, 1, 0, 0, 0]},
        {"nodes": [0, -1, 0, 2, 1, 0, 0, 0]},
        {"nodes": [0, -1, 0, 0, 1, 0, 1, 0]},
        {"nodes": [0, -1, 0, 0, 1, 0, 0, 1]},
        {"nodes": [0, -1, 0, 0, 2, 0, 0, 0]},
        {"nodes": [0, several - 2, 0, 0, 1, 0, 0, 0]},
        {"nodes": [outside, -1, 0, 0, 1, 1, 1, 0]},
        {"nodes": [choice, -1, 0, 0, 1, 0, 0, 0]},  # an endless cycle
        {"nodes": [raw, -1, 0, 0, 1, 0, 0, 0], "more": [0, 0, 0, 1]},
        {"nodes": [item, -1, 0, 0, 1, 0, 0, 0], "more": [0, 2, 0, 0]},
        {"nodes": [item, -1, 0, 0, 1, 0, 0, 0], "more": [0, 0, 1, 0]},
        {"nodes": [0, several, 0, 0, 1, 0, 0, 0], "several": [2, 0]},
        {"nodes": [0, several, 0, 0, 1, 0, 0, 0], "several": [1, 1]},
        {"tables": [0, 2, 0, 1, 0, 0]},
        {"tables": [0, 1, 1, 1, 0, 0]},
        {"entries": [0, 3]},
        {"entries": [-1, 1]},
        {"targets": [0, 1]},
        {"targets": [0]},
        {"conditions": [0, 1, 0, 0, 1, 1, 0]},
        {"conditions": [0, 0, 1, 0, 0, 0, 0]},
        {"ups": [2, 0, 1, 0, 0, 0]},
        {"ups": [0, 1, 1, 0, 0, 0]},
        {"ups": [0, 0, 0, 0, 0, 0]},
        {"ups": [0, 0, 1, 1, 0, 0]},
        {"ups": [0, 0, 1, -1, 0, 0]},
        {"says": [1, 1]},
        {"says": [0, 0]},
        {"unread": [0]},
    ):
        with pytest.raises(ValueError, match="no tree"):
            tree(**wrong)


def test_reading_without_the_native_extension() -> None:
    program = """
import sys
sys.modules["xmlpunct.firehose.native._native"] = None
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import SliceReader, StreamSpec, native
from xmlpunct.schema import Schema
assert not native.COMPILED
data = b"<r>" + b"<t><a>1</a><b>x</b></t>" * 1000 + b"</r>"
reader = SliceReader(Source.of(data), [StreamSpec("s", Schema.parse("a INT, b STRING"), "t")])
print(sum(parsed.slices[0].tuples.height for parsed in iter(lambda: reader.read(9000), None)))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "1000\n"
