"""Inferring the element, the columns and their types from a sample; every tuple of it fits them."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Container, Iterator
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.test_inferred_stream import Once
from xmlpunct import Reject, Schema, SourceError, slices
from xmlpunct.connectors.source import Source
from xmlpunct.engine.sql import plan
from xmlpunct.engine.sql.planner.declaration import column_list, declaration
from xmlpunct.firehose import Position, Split, StreamSpec, parse_conforming, parse_split
from xmlpunct.firehose.infer.columns import AMONG_TEXT, Inferred
from xmlpunct.firehose.infer.document import infer, take_sample

PUNCT = "http://www.cse.ogi.edu/dot/niagara/punct"


def inferred(xml: str, element: str | None = None, size: int = 2**20) -> Inferred:
    return infer(take_sample(Source.of(xml.encode()), size)[0], element)


def columns(xml: str, element: str | None = None) -> str:
    return column_list(inferred(xml, element).schema)


@pytest.mark.parametrize(
    ("xml", "element"),
    [
        ("<osm><node id='1'><tag k='a'/><tag k='b'/></node><node id='2'/><way id='3'/></osm>", "node"),
        (
            "<feed><link r='1'/><link r='2'/>" + "<entry><id>1</id><t/><link r='1'/></entry>" * 3 + "</feed>",
            "entry",
        ),
        ("<s>" + f"<hour n='1'>{'<t><a/></t>' * 30}</hour>" * 2 + "</s>", "t"),
        ("<s>" + "<one><t><a/></t></one>" * 3 + "</s>", None),
        ("<s>" + "<one><t><a/></t><t><a/></t></one>" * 3 + "</s>", "t"),
        ("<s><a x='1'/><b x='1'/><b x='1'/><b x='1'/><a x='1'/></s>", "b"),
        (f"<s xmlns:p='{PUNCT}'>" + "<p:t><a>1</a></p:t>" * 9 + "<t><a>1</a></t><t><a>1</a></t></s>", "t"),
        ("<s xmlns='urn:x'><t a='1'/><t a='1'/></s>", "{urn:x}t"),
        ("<s><t a='1'/><t a='1'/></s><?xml version='1.0'?><s><u a='1'/><u a='1'/><u a='1'/></s>", "u"),
        ("<s><t><t a='1'/><t a='2'/></t><t a='3'/></s>", "t"),
    ],
)
def test_the_element_is_the_outermost_that_repeats_and_is_no_container(xml: str, element: str | None) -> None:
    if element is None:
        assert inferred(xml).element in ("one", "t")
    else:
        assert inferred(xml).element == element


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", " -2 ", "0"], "INT"),
        (["1", "007"], "STRING"),
        (["1", "+2"], "STRING"),
        (["1", "2.5"], "DOUBLE"),
        (["1e5", "NaN", "INF", "1"], "DOUBLE"),
        (["1.2345678901234567"], "STRING"),
        (["1e400"], "STRING"),
        (["1e-400"], "STRING"),
        (["0e-400", "0.0"], "DOUBLE"),
        ([str(2**63)], "STRING"),
        (["true", "false"], "BOOLEAN"),
        (["true", "1"], "STRING"),
        (["2026-01-31"], "DATE"),
        (["2026-02-30"], "STRING"),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00.5+02:00"], "TIMESTAMP"),
        (["2026-01-31", "2026-01-31T10:00:00Z"], "STRING"),
        (["1", ""], "STRING"),
        (["a"], "STRING"),
    ],
)
def test_a_type_holds_the_whole_of_every_value(values: list[str], type_: str) -> None:
    rows = "".join(f"<t><a>{value}</a></t>" for value in values)
    assert columns(f"<s>{rows}</s>", "t") == f"a {type_} NOT NULL"


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        (["1", "2", "n/a", "x"], ("n/a", 4)),
        (["n/a", "1", "2"], ("n/a", 2)),
        (["1", "2.5", ""], ("", 4)),
        (["2026-01-31", "2026-01-31T10:00:00Z"], ("2026-01-31T10:00:00Z", 3)),
        (["007", "010", "11"], None),
        (["a", "b"], None),
        (["a", "a"], None),
        (["1", "2.5"], None),
    ],
)
@pytest.mark.parametrize("is_long", [False, True])
def test_a_text_column_has_the_value_and_the_line_that_made_it_text(
    values: list[str], odd: tuple[str, int] | None, is_long: bool
) -> None:
    filler = " " * 70_000 if is_long else ""  # each tuple in another split
    rows = "".join(f"\n<t k='{value}'><a>{value}</a><b/>{filler}</t>" for value in values)
    result = inferred(f"<s>{rows}</s>", "t")
    expected = [] if odd is None else [("@k", *odd), ("a", *odd)]
    assert [(text.path, text.text, text.line) for text in result.misfits] == expected


def test_the_value_that_made_a_column_text_is_found_in_arrays_and_later_documents() -> None:
    document = "<s>\n<t><l><m>1</m></l><l><m>2</m></l></t></s>\n"
    result = inferred(document * 2 + document.replace("2", "?"), "t")
    assert [(text.path, text.text, text.line) for text in result.misfits] == [("l/m", "?", 6)]


@pytest.mark.parametrize(
    ("tuples", "expected"),
    [
        ("<t><a/><a/></t><t/>", "a ARRAY(value STRING NOT NULL PATH '.')"),
        ("<t><a>1</a><a>2</a></t>", "a ARRAY(value INT NOT NULL PATH '.')"),
        (
            "<t><line sku='a'><qty>1</qty></line><line sku='b'/></t><t><line sku='c'/></t>",
            "line ARRAY(sku STRING NOT NULL PATH '@sku', qty INT)",
        ),
        (
            "<t><p c='E'>1</p><p c='E'>1.5</p></t>",
            "p ARRAY(c STRING NOT NULL PATH '@c', value DOUBLE NOT NULL PATH '.')",
        ),
        (
            "<t><ls n='2'><l><a><b>x</b></a></l><l><a/></l></ls></t>",
            "n INT NOT NULL PATH 'ls/@n', l ARRAY(b STRING PATH 'a/b') PATH 'ls/l'",
        ),
        (
            "<t><l><m>1</m><m>2</m></l><l/></t><t/>",
            "l ARRAY(m ARRAY(value INT NOT NULL PATH '.'))",
        ),
        (
            "<t><l><m>1</m></l><l><m>2</m></l></t>",  # one in each element is no array
            "l ARRAY(m INT NOT NULL)",
        ),
        (
            "<t><a/><b><a/><a/></b></t>",
            "a STRING NOT NULL, b_a ARRAY(value STRING NOT NULL PATH '.') PATH 'b/a'",
        ),
        ("<t a='1'><a/><a/></t>", "a_2 INT NOT NULL PATH '@a', a ARRAY(value STRING NOT NULL PATH '.')"),
        (
            "<t><a/><x:a/><x:a x:a='1'/></t>",
            "a STRING NOT NULL, a_2 ARRAY(a INT PATH '@{urn:x}a') PATH '{urn:x}a'",
        ),
        (
            "<t><l value='1'>x</l><l value='2'>y</l></t>",
            "l ARRAY(value_2 INT NOT NULL PATH '@value', value STRING NOT NULL PATH '.')",
        ),
        ("<t k='1'>a</t><t k='2'>b</t>", "k INT NOT NULL PATH '@k', value STRING NOT NULL PATH '.'"),
        (
            "<t>m<e>1</e>n<e/></t><t>x</t>",
            "value STRING NOT NULL PATH 'text()', e ARRAY(value STRING NOT NULL PATH '.')",
        ),
        (
            "<t><e>m</e></t><t><e><f>1</f></e></t>",  # text in one, elements in the other
            "e STRING NOT NULL PATH 'e/text()', f INT PATH 'e/f'",
        ),
    ],
)
def test_repeated_elements_are_arrays_and_mixed_content_is_text(tuples: str, expected: str) -> None:
    assert columns(f"<s xmlns:x='urn:x'>{tuples}</s>", "t") == expected


def test_a_child_in_the_namespace_of_its_tuple_or_in_none_is_the_same() -> None:
    xml = "<s xmlns='urn:x'><t><a/><a xmlns=''/><b xmlns='urn:y'/></t></s>"
    expected = "a ARRAY(value STRING NOT NULL PATH '.'), b STRING NOT NULL PATH '{urn:y}b'"
    assert columns(xml, "{urn:x}t") == expected


def test_elements_in_mixed_content_are_part_of_the_text() -> None:
    xml = "<s><t><p>a <b>big</b> <i u='1'><b>b</b>ug</i></p><e k='1'>1</e><p/></t><t><e><c>2</c>3</e></t></s>"
    inference = inferred(xml, "t")
    expected = "p ARRAY(value STRING NOT NULL PATH '.'), k INT PATH 'e/@k', e STRING NOT NULL"
    assert column_list(inference.schema) == expected
    reason = "which is mixed with text and part of that text"
    assert inference.left_out == (f"p/*, {reason}", f"e/*, {reason}")
    (part,) = (p for p in slices(xml.encode(), inference.schema, element="t") if p.tuples.height)
    assert part.tuples.rows() == [([{"value": "a big bug"}, {"value": ""}], 1, "1"), ([], None, "23")]


def test_elements_without_a_column_are_reported() -> None:
    deep = "<a><b/>" * 12 + "</a><a/>" * 12
    xml = f"<s xmlns:o='urn:{{o}}'><t o:x='1' b='1'><o:c><d/></o:c><t/>{deep}</t></s>"
    inference = inferred(xml, "t")
    assert inference.left_out == (
        "@{urn:{o}}x, in a namespace that a path cannot name",
        "{urn:{o}}c, in a namespace that a path cannot name",
        "<t> inside another",
        "a/a/a/a/a/a/a/a/a/a/a, which repeats inside 10 arrays",
    )


def test_the_element_can_be_specified() -> None:
    xml = "<s><o><t k='1' a='1'><t k='2' b='1'/></t></o><t k='1' c='1'/></s>"
    sample, _ = take_sample(Source.of(xml.encode()))

    def names(element: str, where: tuple[str, str] | None = None, nested: bool = False) -> tuple[str, ...]:
        return infer(sample, element, where=where, nested=nested).schema.names

    assert names("t") == ("k", "a", "c")
    assert names("o/t") == ("k", "a")
    assert names("t", ("k", "2")) == ("k", "b")
    assert names("t", nested=True) == ("k", "b", "a", "c")


def test_the_tuple_that_the_sample_cuts_off_does_not_count() -> None:
    xml = "<s><t><a>1</a></t><t><a>2</a></t><t><b>x</b><a>" + 100 * "x" + "</a></t></s>"
    inference = inferred(xml, size=60)
    assert (column_list(inference.schema), inference.tuples) == ("a INT NOT NULL", 2)


def test_many_names_take_no_time() -> None:
    """The time is linear in the number of names."""
    names = [f"<n{n} a='1'><b/></n{n}>" for n in range(10_000)]
    assert inferred(f"<s>{''.join(names + names)}</s>").element == "n0"


def test_too_many_columns_are_refused() -> None:
    xml = "<s><t>" + "".join(f"<a{n}/>" for n in range(1001)) + "</t></s>"
    with pytest.raises(SourceError, match="more than 1,000 different places"):
        inferred(xml, "t")


@pytest.mark.parametrize("kind", [io.BytesIO, Once])
def test_the_sample_is_not_lost(kind: type) -> None:
    xml = b"<s><t a='1'/><t a='2'/></s>"
    sample, source = take_sample(Source.of(kind(xml)), 20)
    assert infer(sample, "t").tuples == 1
    parts = slices(source, Schema.parse("a INT PATH '@a'"), element="t")
    assert [row for part in parts for row in part.tuples.rows()] == [(1,), (2,)]


NAMES = st.sampled_from(
    ["a", "A", "a_b", "b", "group", "Date", "x-y", "é", "value", "if", "x:a", "x:b", "y:a", "y:if"]
)
TEXTS = st.sampled_from(
    ["", " ", "1", "01", "-5", "1.5", "true", "2026-01-01", "2026-01-01T00:00:00Z", "a&b'", "1e400"]
)
SPACES = " xmlns:x='urn:x' xmlns:y='http://y.org/a-b'"


@st.composite
def elements(draw: st.DrawFn, name: str, depth: int) -> str:
    attributes = draw(st.dictionaries(NAMES | st.just("xml:lang"), TEXTS, max_size=2))
    shown = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    inside = escape(draw(TEXTS))
    if depth and draw(st.booleans()):
        child_names = st.lists(NAMES, max_size=3) | NAMES.map(lambda name: 2 * [name])
        inside = "".join(
            draw(elements(child, depth - 1)) + (escape(draw(TEXTS)) if draw(st.integers(0, 9)) == 9 else "")
            for child in draw(child_names)
        )
    return f"<{name}{shown}>{inside}</{name}>"


DOCUMENTS = st.builds(
    lambda tuples, name: f"<s{SPACES}{f' xmlns={name!r}' if name else ''}>{''.join(tuples)}</s>",
    st.lists(elements("t", 3), min_size=1, max_size=4),
    st.sampled_from(["", "urn:x", "urn:z"]),
)


def texts_in(
    element: etree._Element, joined: Container[str] = (), steps: tuple[str, ...] = ()
) -> Iterator[str]:
    """All non-blank texts and attributes; the text at a path in ``joined`` is one string."""
    is_joined = "/".join(steps) in joined
    pieces = [*element.itertext()] if is_joined else [element.text or "", *(c.tail or "" for c in element)]
    yield from filter(None, (text.strip() for text in ("".join(pieces), *element.attrib.values())))
    for child in () if is_joined else element:
        yield from texts_in(child, joined, (*steps, child.tag))


def texts_of(value: object) -> Iterator[str]:
    """The non-blank texts of a tuple's value, formatted as in the document."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from texts_of(part)
    elif isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, datetime):
        yield value.strftime("%Y-%m-%dT%H:%M:%SZ")
    elif isinstance(value, float):
        yield f"{value:g}"
    elif value is not None and (text := str(value).strip()):
        yield text


@given(DOCUMENTS)
def test_every_text_and_attribute_is_in_a_column(xml: str) -> None:
    """The printed schema equals the inferred one, and reads all texts without rejects or unreported losses."""
    root = etree.fromstring(xml)
    element = root[0].tag
    try:
        inference = inferred(xml, element)
    except SourceError:
        assert not any([*texts_in(t), *t.attrib, *t] for t in root)
        reject()
    joined = {entry.removesuffix(AMONG_TEXT)[: -len("/*, ")] for entry in inference.left_out}
    if not all(entry.endswith(AMONG_TEXT) for entry in inference.left_out):
        reject()  # elements are left out for another reason
    assert Schema.parse(column_list(inference.schema)) == inference.schema
    printed = declaration("t", inference.schema, "no.xml", inference.element, prefixes=inference.prefixes)
    (stream,) = plan(f"{printed} SELECT * FROM t").streams
    assert (stream.schema, stream.element) == (inference.schema, inference.element)
    rejects: list[Reject] = []
    parts = list(slices(xml.encode(), inference.schema, element=inference.element, on_reject=rejects.append))
    rows = [row for part in parts for row in part.tuples.rows()]
    assert (rejects, len(rows)) == ([], len(root))
    steps = [re.split(r"/(?![^{]*\})", path) for path in joined]
    space = f"{{{root.nsmap[None]}}}" if None in root.nsmap else ""
    names = {"/".join(s if s[0] == "{" else space + s for s in path) for path in steps}
    for row, given_tuple in zip(rows, root, strict=True):
        assert Counter(texts_of(row)) == Counter(texts_in(given_tuple, names))


@given(DOCUMENTS)
def test_both_parsers_read_everything(xml: str) -> None:
    element, data = etree.fromstring(xml)[0].tag, xml.encode()
    try:
        schema = inferred(xml, element).schema
    except SourceError:
        reject()
    spec = StreamSpec("t", schema, element, guessed=True)
    for read in (parse_split, parse_conforming):
        (overlooked,) = read(Split("doc", Position(), data, True), [spec]).overlooked
        assert overlooked.keys() <= {"absent"}
