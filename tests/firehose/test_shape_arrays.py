"""Arrays and XML columns have the same contents as lxml's XPath, wherever the source is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome
from tests.firehose.outcomes import contents
from tests.firehose.shapes import (
    HEAD,
    ROOT,
    attributes,
    document,
    outcome,
    read_document,
    strings,
    tag,
    trees,
)
from xmlpunct import Schema
from xmlpunct.firehose import (
    Parser,
    Splitter,
    StreamSpec,
    elements_of,
    parse_conforming,
)

lines = st.builds(tag, st.sampled_from(["l", "l", "g:l"]), attributes, trees(["q", "m", "q"], 2))
orders = st.builds(
    lambda parts: f"<t>{''.join(parts)}</t>", st.lists(lines | st.just("<z>1</z>"), max_size=5)
)


@given(st.lists(orders, max_size=4), st.booleans(), st.sampled_from([None, 40]))
def test_arrays_agree_with_xpath(parts: list[str], deep: bool, cut: int | None) -> None:
    nested_array = ", m ARRAY(q STRING)" if deep else ""
    columns = f"{HEAD}l ARRAY(i STRING PATH '@i', q STRING, v STRING PATH '.'{nested_array}), z STRING"
    data = document(parts)
    expected, reject_count = [], 0
    for element in etree.fromstring(data):
        rows: list[dict[str, Any]] = []
        is_valid = len(strings(element, "z")) < 2
        for item in element.findall("l"):
            values = {name: strings(item, path) for name, path in (("i", "@i"), ("q", "q"), ("v", "."))}
            row: dict[str, Any] = {
                name: selected[0] if selected else None for name, selected in values.items()
            }
            is_valid &= len(values["q"]) < 2
            if deep:
                row["m"] = [{"q": (strings(m, "q") or [None])[0]} for m in item.findall("m")]
                is_valid &= all(len(m.findall("q")) < 2 for m in item.findall("m"))
            rows.append(row)
        if is_valid:
            expected.append((rows, (strings(element, "z") or [None])[0]))
        reject_count += not is_valid
    result = outcome(data, StreamSpec("s", Schema.parse(columns), "t"), cut)
    assert (result.tuples, len(result.rejects)) == (expected, reject_count)


@given(st.lists(orders, max_size=4), st.permutations(range(5)), st.sampled_from([None, 40]))
def test_elements_of_an_array_can_be_read_by_other_columns(
    parts: list[str], order: list[int], cut: int | None
) -> None:
    """The same elements can be read by a column, by another array, and by an array inside the items."""
    columns = [
        "q STRING PATH 'l/q'",
        "i STRING PATH 'l/@i'",
        "l ARRAY(q STRING, v STRING PATH '.', i STRING PATH '@i', n ARRAY(v STRING PATH '.') PATH 'q')",
        "k ARRAY(v STRING PATH '.') PATH 'l/q'",
        "v STRING PATH 'l[2]'",
    ]
    data, expected, reject_count = document(parts), [], 0
    for element in etree.fromstring(data):
        rows: list[dict[str, Any]] = []
        for item in element.findall("l"):
            q, i = strings(item, "q"), strings(item, "@i")
            n = [{"v": v} for v in q]
            rows.append({"q": (q or [None])[0], "v": strings(item, ".")[0], "i": (i or [None])[0], "n": n})
        q, i, v = (strings(element, path) for path in ("l/q", "l/@i", "l[2]"))
        values = [
            *((selected or [None])[0] for selected in (q, i)),
            rows,
            [{"v": v} for v in q],
            (v or [None])[0],
        ]
        is_valid = len(q) < 2 and len(i) < 2
        expected += [tuple(values[at] for at in order)] if is_valid else []
        reject_count += not is_valid
    spec = StreamSpec("s", Schema.parse(HEAD + ", ".join(columns[at] for at in order)), "t")
    result = outcome(data, spec, cut)
    assert (result.tuples, len(result.rejects)) == (expected, reject_count)


@pytest.mark.parametrize("columns", ["x INT PATH '.'", "x INT PATH 'text()'", "x XML PATH '.'", "y INT"])
@pytest.mark.parametrize(
    ("content", "promised"),
    [
        ("<v>*</v>", ["<1, *>"]),
        ("<v>*</v><v>*</v>", ["<1, *>"]),
        ("<v>5</v>", []),
        ("<v/>", []),
        ("<v>5</v><v>*</v>", []),
        ("<v y='5'/>", []),
        ("<v><y>5</y></v>", []),
    ],
)
def test_a_punctuation_that_constrains_items_is_dropped(
    columns: str, content: str, promised: list[str]
) -> None:
    data = f"{ROOT}<p:t><i>1</i>{content}</p:t></s>"
    result = read_document(data, f"i INT, v ARRAY({columns})")
    assert [*map(str, result.punctuations)] == promised


@pytest.mark.parametrize(
    "columns", ["l ARRAY(i STRING PATH '@i', q INT), z STRING", "l ARRAY(m ARRAY(q INT)), z INT"]
)
def test_reading_ahead_may_end_anywhere_in_an_array(columns: str) -> None:
    """Items of an incomplete tuple belong to the next split."""
    line = "<l i='1'><q>1</q><m><q>2</q></m><m/></l>"
    data = document(["<t><z>1</z></t>", f"<t>{line}<z/>{line}</t>", f"<t>{line}</t >", "<t/>"])
    spec = StreamSpec("s", Schema.parse(columns), "t")
    expected = outcome(data, spec)
    for size in range(1, len(data)):
        parser, result = Parser([spec]), Outcome()
        splitter = Splitter("doc", elements_of([spec]), ahead=parser.ahead)
        for piece in (data[:size], data[size:]):
            splitter.feed(piece)
            if piece == data[size:]:
                splitter.end()
            while (split := splitter.cut(None)) is not None:
                parsed = parser.parse(split)
                assert contents(parsed) == contents(parse_conforming(split, [spec]))
                result.tuples += parsed.slices[0].tuples.rows()
                result.rejects += [f"{r.byte}: {r.reason}" for r in parsed.rejects[0]]
        assert result == expected


def test_a_wrong_item_rejects_its_tuple() -> None:
    data = f"{ROOT}<t><l><v>1</v></l></t><t><l><v>2</v></l><l><v>x</v></l></t><t/></s>"
    result = read_document(data, "l ARRAY(v INT)")
    assert result.tuples == [([{"v": 1}],), ([],)]
    assert [r.partition(": ")[2] for r in result.rejects] == ["attribute l.v: 'x' is not of type INT"]
    missing = read_document(data, "l ARRAY(v INT, w INT NOT NULL)")
    assert [r.partition(": ")[2] for r in missing.rejects] == [
        "attribute l.w: missing, but NOT NULL",
        "attribute l.v: 'x' is not of type INT",
    ]


def test_a_repeated_child_without_an_array_is_a_reject() -> None:
    assert read_document(f"{ROOT}<t><a>1</a><a>2</a></t></s>", "a INT").rejects == [
        f"{len(ROOT)}: attribute a: given more than once"
    ]


def test_an_xml_column() -> None:
    inner_ = "<a k='1'>x<!-- c --><b/>&amp;</a>"
    result = read_document(
        f"{ROOT}<t>{inner_}<l i='1'/><l>2</l></t></s>", "a XML, t XML PATH '.', l ARRAY(x XML PATH '.')"
    )
    tuple_ = f"<t>{inner_}<l i='1'/><l>2</l></t>"
    assert result.tuples == [(inner_, tuple_, [{"x": "<l i='1'/>"}, {"x": "<l>2</l>"}])]
