"""The elements that are tuples are the ones that lxml's XPath selects, wherever the source is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.shapes import (
    ROOT,
    document,
    outcome,
    trees,
)
from xmlpunct import Schema
from xmlpunct.firehose import (
    Position,
    Split,
    StreamSpec,
    parse_conforming,
    parse_split,
)

records = trees(["t", "o", "x"], 4)


def chosen(root: etree._Element, test: Any, nested: bool) -> Iterator[etree._Element]:
    for element in root.iter("t"):
        if test(element) and (nested or not any(a.tag == "t" and test(a) for a in element.iterancestors())):
            yield element


@given(records, st.sampled_from([None, 50]))
def test_tuples_inside_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i', x ARRAY(r STRING PATH '@r')"), "t", nested=True)
    expected = [
        (t.get("i"), [{"r": x.get("r")} for x in t.findall("x")])
        for t in chosen(etree.fromstring(data), lambda _: True, nested=True)
    ]
    assert outcome(data, spec, cut).tuples == expected


@given(records, st.sampled_from([None, 50]))
def test_a_condition_chooses_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i'"), "t", where=("r", "s"))
    expected = [
        (t.get("i"),) for t in chosen(etree.fromstring(data), lambda t: t.get("r") == "s", nested=False)
    ]
    assert outcome(data, spec, cut).tuples == expected


@given(records, st.sampled_from([None, 50]))
def test_a_path_of_elements_chooses_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i'"), "o/t")
    inside = lambda t: t.getparent() is not None and t.getparent().tag == "o"  # noqa: E731
    assert outcome(data, spec, cut).tuples == [
        (t.get("i"),) for t in chosen(etree.fromstring(data), inside, False)
    ]


def test_streams_of_one_element_choose_theirs() -> None:
    punctuations = "<p:r k='b' i='1'/><p:r i='2'/>"
    data = f"{ROOT}<r k='a' i='1'><r k='b' i='2'/></r><r k='b' i='3'/><r k='c' i='4'/>{punctuations}</s>"
    schema = Schema.parse("i INT PATH '@i'")
    specs = [StreamSpec(k, schema, "r", where=("k", k)) for k in "ab"]
    for parse in (parse_split, parse_conforming):
        parsed = parse(Split("doc", Position(), data.encode(), True), specs)
        assert [s.tuples.rows() for s in parsed.slices] == [[(1,)], [(3,)]]
        assert [[*map(str, s.punctuations)] for s in parsed.slices] == [["<2>"], ["<1>", "<2>"]]
