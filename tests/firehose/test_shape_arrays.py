"""Arrays and elements as they stood: they hold what lxml's XPath finds, however the source is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome
from tests.firehose.outcomes import everything
from tests.firehose.shapes import (
    HEAD,
    ROOT,
    attributes,
    document,
    one,
    outcome,
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
def test_arrays_hold_what_xpath_finds(parts: list[str], deep: bool, cut: int | None) -> None:
    more = ", m ARRAY(q STRING)" if deep else ""
    columns = f"{HEAD}l ARRAY(i STRING PATH '@i', q STRING, v STRING PATH '.'{more}), z STRING"
    data = document(parts)
    expected, wrong = [], 0
    for element in etree.fromstring(data):
        rows: list[dict[str, Any]] = []
        fine = len(strings(element, "z")) < 2
        for item in element.findall("l"):
            values = {name: strings(item, path) for name, path in (("i", "@i"), ("q", "q"), ("v", "."))}
            row: dict[str, Any] = {name: found[0] if found else None for name, found in values.items()}
            fine &= len(values["q"]) < 2
            if deep:
                row["m"] = [{"q": (strings(m, "q") or [None])[0]} for m in item.findall("m")]
                fine &= all(len(m.findall("q")) < 2 for m in item.findall("m"))
            rows.append(row)
        if fine:
            expected.append((rows, (strings(element, "z") or [None])[0]))
        wrong += not fine
    result = outcome(data, StreamSpec("s", Schema.parse(columns), "t"), cut)
    assert (result.tuples, len(result.rejects)) == (expected, wrong)


@given(st.lists(orders, max_size=4), st.permutations(range(5)), st.sampled_from([None, 40]))
def test_what_an_array_holds_can_stand_elsewhere_too(
    parts: list[str], order: list[int], cut: int | None
) -> None:
    """In another column, in another array, and in an array within its items."""
    columns = [
        "q STRING PATH 'l/q'",
        "i STRING PATH 'l/@i'",
        "l ARRAY(q STRING, v STRING PATH '.', i STRING PATH '@i', n ARRAY(v STRING PATH '.') PATH 'q')",
        "k ARRAY(v STRING PATH '.') PATH 'l/q'",
        "v STRING PATH 'l[2]'",
    ]
    data, expected, wrong = document(parts), [], 0
    for element in etree.fromstring(data):
        rows: list[dict[str, Any]] = []
        for item in element.findall("l"):
            q, i = strings(item, "q"), strings(item, "@i")
            n = [{"v": v} for v in q]
            rows.append({"q": (q or [None])[0], "v": strings(item, ".")[0], "i": (i or [None])[0], "n": n})
        q, i, v = (strings(element, path) for path in ("l/q", "l/@i", "l[2]"))
        values = [*((found or [None])[0] for found in (q, i)), rows, [{"v": v} for v in q], (v or [None])[0]]
        fine = len(q) < 2 and len(i) < 2
        expected += [tuple(values[at] for at in order)] if fine else []
        wrong += not fine
    spec = StreamSpec("s", Schema.parse(HEAD + ", ".join(columns[at] for at in order)), "t")
    result = outcome(data, spec, cut)
    assert (result.tuples, len(result.rejects)) == (expected, wrong)


@pytest.mark.parametrize("columns", ["x INT PATH '.'", "x INT PATH 'text()'", "x XML PATH '.'", "y INT"])
@pytest.mark.parametrize(
    ("said", "promised"),
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
def test_a_punctuation_that_says_something_of_items_is_dropped(
    columns: str, said: str, promised: list[str]
) -> None:
    data = f"{ROOT}<p:t><i>1</i>{said}</p:t></s>"
    found = one(data, f"i INT, v ARRAY({columns})")
    assert [*map(str, found.punctuations)] == promised


@pytest.mark.parametrize(
    "columns", ["l ARRAY(i STRING PATH '@i', q INT), z STRING", "l ARRAY(m ARRAY(q INT)), z INT"]
)
def test_what_is_read_ahead_may_end_anywhere_in_an_array(columns: str) -> None:
    """Items of a tuple that is not complete belong to the next split."""
    line = "<l i='1'><q>1</q><m><q>2</q></m><m/></l>"
    data = document(["<t><z>1</z></t>", f"<t>{line}<z/>{line}</t>", f"<t>{line}</t >", "<t/>"])
    spec = StreamSpec("s", Schema.parse(columns), "t")
    expected = outcome(data, spec)
    for size in range(1, len(data)):
        parser, found = Parser([spec]), Outcome()
        splitter = Splitter("doc", elements_of([spec]), ahead=parser.ahead)
        for piece in (data[:size], data[size:]):
            splitter.feed(piece)
            if piece == data[size:]:
                splitter.end()
            while (split := splitter.cut(None)) is not None:
                parsed = parser.parse(split)
                assert everything(parsed) == everything(parse_conforming(split, [spec]))
                found.tuples += parsed.slices[0].tuples.rows()
                found.rejects += [f"{r.byte}: {r.reason}" for r in parsed.rejects[0]]
        assert found == expected


def test_a_wrong_item_rejects_its_tuple_and_says_where() -> None:
    data = f"{ROOT}<t><l><v>1</v></l></t><t><l><v>2</v></l><l><v>x</v></l></t><t/></s>"
    found = one(data, "l ARRAY(v INT)")
    assert found.tuples == [([{"v": 1}],), ([],)]
    assert [r.partition(": ")[2] for r in found.rejects] == ["attribute l.v: 'x' is not of type INT"]
    missing = one(data, "l ARRAY(v INT, w INT NOT NULL)")
    assert [r.partition(": ")[2] for r in missing.rejects] == [
        "attribute l.w: missing, but NOT NULL",
        "attribute l.v: 'x' is not of type INT",
    ]


def test_a_repeated_child_without_an_array_is_a_reject() -> None:
    assert one(f"{ROOT}<t><a>1</a><a>2</a></t></s>", "a INT").rejects == [
        f"{len(ROOT)}: attribute a: given more than once"
    ]


def test_an_element_as_it_stood() -> None:
    inner_ = "<a k='1'>x<!-- c --><b/>&amp;</a>"
    found = one(
        f"{ROOT}<t>{inner_}<l i='1'/><l>2</l></t></s>", "a XML, t XML PATH '.', l ARRAY(x XML PATH '.')"
    )
    whole = f"<t>{inner_}<l i='1'/><l>2</l></t>"
    assert found.tuples == [(inner_, whole, [{"x": "<l i='1'/>"}, {"x": "<l>2</l>"}])]
