"""Random documents with tuples of many shapes, read by both readers and by lxml's XPath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome
from tests.firehose.outcomes import contents
from xmlpunct import Schema
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import (
    Parser,
    Position,
    Split,
    Splitter,
    StreamSpec,
    elements_of,
    parse_conforming,
    parse_split,
)

SPACES = {"g": "urn:g"}
HEAD = "XMLNAMESPACES('urn:g' AS g), "
ROOT = f'<s xmlns:g="urn:g" xmlns:p="{PUNCT_NAMESPACE}">'

texts = st.sampled_from(["", "", "x", "7", " ", "é", "a &amp; b", "<![CDATA[<a>]]>", "<!-- a -->", "\r\n"])
attributes = st.dictionaries(st.sampled_from(["i", "r", "g:i"]), st.sampled_from(["1", "2", "s"]), max_size=2)


def tag(name: str, attributes: dict[str, str], inner: str) -> str:
    attribute_text = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{attribute_text}>{inner}</{name}>" if inner else f"<{name}{attribute_text}/>"


def trees(names: Sequence[str], depth: int) -> st.SearchStrategy[str]:
    """Elements in elements, with text between them."""
    below = st.just("")
    for _ in range(depth):
        element = st.builds(tag, st.sampled_from(names), attributes, st.builds(str.__add__, texts, below))
        below = st.lists(st.builds(str.__add__, element, texts), max_size=4).map("".join)
    return below


tuples = st.builds(
    tag, st.just("t"), attributes, st.builds(str.__add__, texts, trees(["a", "a", "b", "g:a"], 3))
)


def document(parts: Sequence[str]) -> bytes:
    return f"{ROOT}{''.join(parts)}</s>".encode()


def outcome(data: bytes, spec: StreamSpec, cut: int | None = None, feed: int | None = None) -> Outcome:
    """The outcome of reading a source in splits; asserts that both readers agree."""
    splitter, result = Splitter("doc", elements_of([spec])), Outcome()
    for at in range(0, len(data), feed or len(data)):
        splitter.feed(data[at : at + (feed or len(data))])
    splitter.end()
    while (split := splitter.cut(cut)) is not None:
        fast, slow = parse_split(split, [spec]), parse_conforming(split, [spec])
        assert contents(fast) == contents(slow)
        result.tuples += slow.slices[0].tuples.rows()
        result.punctuations += map(str, slow.slices[0].punctuations)
        result.rejects += [f"{r.byte}: {r.reason}" for r in slow.rejects[0]]
        assert slow.error is None
    return result


def is_walked(data: bytes, spec: StreamSpec) -> bool:
    return Parser([spec])._walker.walk(Split("doc", Position(), data, True)) is not None


def read_document(data: bytes | str, columns: str, element: str = "t", **options: Any) -> Outcome:
    data = data.encode() if isinstance(data, str) else data
    return outcome(data, StreamSpec("s", Schema.parse(columns), element, **options))


def strings(element: etree._Element, path: str) -> list[str]:
    """The strings that an XPath selects."""
    nodes = element.xpath(path.removesuffix("/text()") if path != "text()" else ".", namespaces=SPACES)
    if path.endswith("text()"):
        return ["".join(element.xpath("text()", namespaces=SPACES)) for element in nodes]
    return [str(node) if isinstance(node, str) else "".join(node.xpath(".//text()")) for node in nodes]
