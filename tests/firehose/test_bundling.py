"""Punctuations that are parsed in bulk into a column equal punctuations that are parsed one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import Limits, StreamSpec, native
from xmlpunct.firehose.bundling import batch_of
from xmlpunct.firehose.cells import Cells
from xmlpunct.firehose.parser import parse_conforming, parse_split
from xmlpunct.firehose.position import Position, Split
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import INT
from xmlpunct.types.pattern import Range
from xmlpunct.types.pattern_text import parse_pattern

pytestmark = pytest.mark.skipif(
    not native.COMPILED, reason="there was no compiler when xmlpunct was installed"
)

OPEN = f'<s xmlns:punct="{PUNCT_NAMESPACE}">'
SCHEMA = Schema.parse("a INT, b STRING, c DOUBLE PATH 'd/c'")


def interleaved(columns: dict[str, list[str]], between: str = "") -> str:
    """A hundred tuples, each followed by a punctuation; ``columns`` has the patterns, repeated cyclically."""
    lines = []
    for i in range(100):
        inner = "".join(f"<{name}>{texts[i % len(texts)]}</{name}>" for name, texts in columns.items())
        lines.append(f"\n<t><a>{i}</a></t>{between}\n<punct:t>{inner}</punct:t>")
    return "".join(lines)


def slice_of(body: str, conforming: bool = False, schema: Schema = SCHEMA) -> tuple[Slice, list[object]]:
    split = Split("doc", Position(0, 1, (OPEN,), True), body.encode(), False)
    read = parse_conforming if conforming else parse_split
    parsed = read(split, [StreamSpec("s", schema, "t")], PUNCT_NAMESPACE, Limits())
    return parsed.slices[0], [parsed.rejects, parsed.dropped, parsed.read, parsed.error]


NUMBERS = [str(i) for i in range(100)]
WORDS = [f"w{i}" for i in range(100)]


@pytest.mark.parametrize(
    ("columns", "in_column"),
    [
        ({"a": NUMBERS, "b": ["*"]}, True),
        ({"a": NUMBERS}, True),
        ({"a": ["*"], "b": WORDS, "d": ["<c>*</c>"]}, True),
        ({"b": [f"{i}-x" for i in range(100)]}, True),
        ({"a": [f"+0{i}" for i in range(100)]}, True),
        ({"a": [*NUMBERS[:50], *NUMBERS[:50]]}, False),  # the same twice
        ({"a": NUMBERS, "b": WORDS}, False),
        ({"a": ["*", *NUMBERS[1:]]}, False),
        ({"a": [f"[{i},{i}]" for i in range(100)]}, True),
        ({"a": [f"[{i},{i + 5}]" for i in range(100)]}, True),
        ({"a": [f"({-i},{i + 5})" for i in range(100)], "b": ["*"]}, True),
        ({"a": ["(,5)", "(-0,)", "(,)", *(f"[-0{i},{i + 2})" for i in range(97))]}, True),
        ({"a": [*(f"(,{i}]" for i in range(99)), "7"]}, False),
        ({"a": [*(f"(,{i}]" for i in range(99)), "(4,5)"]}, False),  # no integer in the range
        ({"a": [*(f"(,{i}]" for i in range(99)), "(4,6)"]}, False),  # a constant
        ({"a": [*(f"(,{i}]" for i in range(99)), "(,5)"]}, False),  # the same twice
        ({"a": [*(f"(,{i}]" for i in range(99)), "[9223372036854775807,)"]}, False),
        ({"a": [*(f"(,{i}]" for i in range(99)), "[1, 2]"]}, True),
        ({"a": [f"(,{i}]" for i in range(100)], "b": WORDS}, False),
        ({"a": [f'"{i}"' for i in range(100)]}, True),
        ({"b": [f"w{i} " for i in range(100)]}, True),  # the space is part of the value
        ({"b": [f"{{w{i}}}" for i in range(100)]}, True),
        ({"b": [f"w{i},v" for i in range(100)]}, True),
        ({"a": NUMBERS, "z": ["1"]}, False),  # an undeclared attribute is constrained, too
        ({"a": NUMBERS, "z": ["*"]}, True),
        ({"d": [f"<c>{i}.5</c>" for i in range(100)]}, False),
        ({"a": ["1" * 30, *NUMBERS[1:]]}, False),  # the number is too large
        ({"a": [*NUMBERS[:40], "{}", *NUMBERS[41:]]}, False),
    ],
)
def test_columns(columns: dict[str, list[str]], in_column: bool) -> None:
    fast, rejects = slice_of(interleaved(columns))
    slow, slow_rejects = slice_of(interleaved(columns), conforming=True)
    assert (fast.punctuations.position is not None) is in_column
    assert list(fast.punctuations) == list(slow.punctuations)
    assert fast.before == slow.before
    assert fast.tuples.equals(slow.tuples)
    assert list(map(str, rejects)) == list(map(str, slow_rejects))


@pytest.mark.parametrize(
    ("columns", "forms"),
    [
        (
            {"a": [f"{i}" if i % 3 else "*" for i in range(100)], "b": ["x0", "*", "*"]},
            None,
        ),  # x0 repeatedly
        ({"a": [*NUMBERS[:50], *(f"(,{i}]" for i in range(50))]}, {(0, False), (0, True)}),
        ({"a": [*NUMBERS[:50], *["*"] * 50], "b": [*["*"] * 50, *WORDS[:50]]}, {(0, False), (1, False)}),
        ({"a": [*NUMBERS[:50], *["*"] * 50], "b": [*["*"] * 49, *WORDS[:51]]}, None),  # both, once
        ({"a": [*NUMBERS[:50], *["*"] * 50], "b": [*["*"] * 51, *WORDS[:49]]}, None),  # neither, once
        ({"a": [*NUMBERS[:97], "(,1)", "(,2)", "(,3)"]}, {(0, False), (0, True)}),
        ({"a": [*NUMBERS[:97], "{1,2}", "(,2)", "(,3)"]}, {(0, False), (0, True)}),
        ({"a": [f"(,{i})" for i in range(100)]}, {(0, True)}),
    ],
)
def test_columns_of_several_forms(columns: dict[str, list[str]], forms: set[tuple[int, bool]] | None) -> None:
    fast, _ = slice_of(interleaved(columns))
    slow, _ = slice_of(interleaved(columns), conforming=True)
    assert list(fast.punctuations) == list(slow.punctuations)
    assert fast.before == slow.before
    assert {(part.position, part.ranged) for part in fast.punctuations.parts} == (forms or {(None, False)})


def test_rejects_do_not_count_before_a_column() -> None:
    body = interleaved({"a": NUMBERS}).replace("<t><a>7</a></t>", "<t><a>x</a></t>")
    fast, _ = slice_of(body)
    slow, _ = slice_of(body, conforming=True)
    assert fast.punctuations.position is not None
    assert fast.before == slow.before


def test_a_punctuation_with_comment_and_cdata_is_in_the_column() -> None:
    body = interleaved({"a": NUMBERS}) + "\n<punct:t><!-- odd --><a>5<![CDATA[0]]>&#48;</a></punct:t>"
    fast, _ = slice_of(body)
    assert fast.punctuations.position == 0
    assert list(fast.punctuations) == list(slice_of(body, conforming=True)[0].punctuations)


def test_two_attributes_at_one_place_make_no_column() -> None:
    schema = Schema.parse("a INT, again INT PATH 'a'")
    slice_, _ = slice_of(interleaved({"a": NUMBERS}), schema=schema)
    assert str(slice_.punctuations[3]) == "<3, 3>"


NUMBER = Schema.parse("a INT")


def bound(digits: int) -> st.SearchStrategy[str]:
    numbers = st.integers(-(10**digits), 10**digits)
    return st.one_of(numbers.map(str), numbers.map("{:+}".format), numbers.map("{:05}".format), st.just(""))


def pattern(digits: int) -> st.SearchStrategy[str]:
    return st.builds(
        "{}{},{}{}".format, st.sampled_from("[("), bound(digits), bound(digits), st.sampled_from("])")
    )


@given(data=st.data())
def test_ranges_in_a_column_are_those_read_one_by_one(data: st.DataObject) -> None:
    digits = data.draw(st.sampled_from([2, 14, 17, 20]))
    regular = [f"[{10 * i},{10 * i + 9}]" for i in range(COLUMN_FROM)]
    odd = st.sampled_from(
        ["5", "{1,5}", "[1,2", "1,2]", "[1,2,3]", "[ 1,2]", "[1 ,2]", '["1",2]', "[a,2]", "[,]", "*"]
    )
    texts = [*regular, *data.draw(st.lists(pattern(digits), max_size=4))]
    texts += data.draw(st.lists(odd, max_size=1)) if data.draw(st.booleans()) else []
    batch = batch_of(NUMBER, [Cells.of(texts)])
    if batch is not None:
        assert [p.patterns[0] for p in batch] == [parse_pattern(INT, text) for text in texts]
        assert all(isinstance(p.patterns[0], Range) for p in batch)
        assert len(set(batch)) == len(batch)


def test_plain_ranges_are_read_as_a_column() -> None:
    for low, high in (("", 9), (10**16, 10**16 + 5), (-5, 5)):
        texts = [*(f"[{100 + 10 * i},{109 + 10 * i})" for i in range(COLUMN_FROM)), f"({low},{high}]"]
        batch = batch_of(NUMBER, [Cells.of(texts)])
        assert batch is not None
        assert batch.ranged
        assert [str(p.patterns[0]) for p in batch] == [str(parse_pattern(INT, text)) for text in texts]
