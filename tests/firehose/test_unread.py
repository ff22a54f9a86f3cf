"""Elements and attributes that are not read are counted, identically by both parsers."""

from __future__ import annotations

import logging
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct import parse, slices
from xmlpunct.base.errors import SourceError
from xmlpunct.base.unread import MOST, Overlooked, add
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import (
    Parsed,
    Position,
    SliceReader,
    Split,
    StreamSpec,
    native,
    parse_conforming,
    parse_split,
)
from xmlpunct.firehose.stream_check import check
from xmlpunct.python.stream_elements import read_slices
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

DECLARED = StreamSpec("s", Schema.parse("a STRING, b STRING, i STRING PATH '@i', c STRING PATH 'd/c'"), "t")
GUESSED = StreamSpec("s", Schema.parse("a STRING, b STRING"), "t", guessed=True)
OPEN = f'<r xmlns:p="{PUNCT_NAMESPACE}" xmlns:o="urn:o">'
URI = "{urn:o}"

ATTRIBUTES = ["", " i='1'", " o:i='2'", " i='1' o:i='2'", " j='3'", " xml:lang='en'"]
CHILDREN = [
    "<a>x</a>",
    "<b/>",
    "<o:a>y</o:a>",
    "<b u='5' o:v='6'>z</b>",
    "<o:b><b>1</b></o:b>",
    "<z><a>2</a></z>",
]
CHILDREN += [
    "<d><c>3</c></d>",
    "<d><o:c/></d>",
    "<d w='1'/>",
    "<o:d><c/></o:d>",
    "<t><a>4</a></t>",
    "<z><t/><t><t/></t></z>",
]
CHILDREN += [" text ", "\n ", "<!-- c -->", "<d><t/></d>", "<z>in</z>"]


@st.composite
def tuples(draw: st.DrawFn) -> str:
    children = draw(st.lists(st.sampled_from(CHILDREN), max_size=4, unique_by=lambda c: c[:3].rstrip("/> ")))
    return f"<t{draw(st.sampled_from(ATTRIBUTES))}>{''.join(children)}</t>"


@st.composite
def documents(draw: st.DrawFn) -> str:
    kinds = draw(st.lists(tuples(), min_size=1, max_size=4))
    strange = ["<o:t/>", "<t xmlns='urn:q'>x</t>", f"<o:t>{kinds[0]}<o:t/></o:t>", "<p:t><o:t>*</o:t></p:t>"]
    body = draw(st.lists(st.sampled_from([*kinds, f"<u>{kinds[0]}</u>", "<v/>", *strange]), max_size=60))
    return f"{OPEN}{''.join(body)}</r>"


def overlooked_in(document: str, spec: StreamSpec) -> Overlooked:
    """Expected counts of overlooked elements and attributes, from the document's tree."""
    overlooked: Overlooked = {}

    def see(kind: str, name: str) -> None:
        names = overlooked.setdefault(kind, {})
        names[name] = names.get(name, 0) + 1

    root = ElementTree.fromstring(document)
    for name in _strangers(root):
        see("stranger", name)
    for t in _outermost(root):
        for _ in list(t.iter("t"))[1:]:
            see("nested", "t")
        texts = {e.tag: e for e in t}
        values = {"a": "a" in texts, "b": "b" in texts}
        if spec.guessed:
            for child in t:
                if child.tag in ("a", "b"):
                    for name in child.attrib:
                        see("undeclared", f"{child.tag}/@{name}")
                elif child.tag != "t":
                    see("undeclared", str(child.tag))
            for name in t.attrib:
                see("undeclared", f"@{name}")
            if "".join([t.text or "", *(child.tail or "" for child in t)]).strip():
                see("undeclared", "text()")
        else:
            values |= {"@i": "i" in t.attrib, "d/c": t.find("d/c") is not None}
            foreign = {
                "@i": f"{URI}i" in t.attrib,
                "d/c": f"{URI}d" in texts or t.find(f"d/{URI}c") is not None,
            }
            foreign |= {"a": f"{URI}a" in texts, "b": f"{URI}b" in texts}
            for path in foreign:
                if foreign[path] and not values[path]:
                    see("namespace", path)
        for path, is_present in values.items():
            if not is_present:
                see("absent", path)
    return overlooked


def _outermost(element: ElementTree.Element) -> list[ElementTree.Element]:
    return [element] if element.tag == "t" else [t for child in element for t in _outermost(child)]


def _strangers(element: ElementTree.Element) -> list[str]:
    """Elements with a tuple's name in an undeclared namespace, outside of tuples and punctuations."""
    name = str(element.tag)
    if name in ("t", f"{{{PUNCT_NAMESPACE}}}t"):
        return []
    own_name = [name] if name.endswith("}t") else []
    return own_name + [stranger for child in element for stranger in _strangers(child)]


def counts(parsed: Parsed) -> Overlooked:
    assert parsed.error is None
    return parsed.overlooked[0]


@pytest.mark.parametrize("spec", [DECLARED, GUESSED], ids=["declared", "guessed"])
@given(documents())
def test_it_is_counted(spec: StreamSpec, document: str) -> None:
    expected, data = overlooked_in(document, spec), document.encode()
    split = Split("doc", Position(), data, True)
    assert counts(parse_conforming(split, [spec])) == expected
    assert counts(parse_split(split, [spec])) == expected
    reader, total = SliceReader(Source.of(data), [spec]), Overlooked()
    while (parsed := reader.read(500)) is not None:
        add(total, counts(parsed))
    assert total == expected


@pytest.mark.skipif(not native.COMPILED, reason="there was no compiler when xmlpunct was installed")
def test_overlooked_elements_are_counted_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "".join(f'<t j="{n}" o:i="{n}"><a>{n}</a><o:b>{n}</o:b><t><b>{n}</b></t></t>' for n in range(500))
    split = Split("doc", Position(), f"{OPEN}{body}</r>".encode(), True)
    monkeypatch.setattr("xmlpunct.firehose.parser._Parse.run", None)
    parsed = parse_split(split, [DECLARED])
    foreign, absent = {"@i": 500, "b": 500}, {"@i": 500, "b": 500, "d/c": 500}
    assert parsed.overlooked == [{"nested": {"t": 500}, "namespace": foreign, "absent": absent}]


def test_tuples_of_another_stream_inside_tuples() -> None:
    other = StreamSpec("q", Schema.parse("a INT"), "q")
    document = f"{OPEN}<t><z><q><a>1</a></q></z></t><q><a>2</a><t/></q></r>".encode()
    for read in (parse_conforming, parse_split):
        parsed = read(Split("doc", Position(), document, True), [DECLARED, other])
        assert [s.tuples.height for s in parsed.slices] == [1, 1]
        assert [overlooked["nested"] for overlooked in parsed.overlooked] == [{"t": 1}, {"q": 1}]


def test_tuples_in_a_namespace() -> None:
    spec = StreamSpec("s", Schema.parse("a INT, b INT, c INT"), "{urn:o}t")
    document = f"{OPEN}<o:t><a>1</a><o:b>2</o:b><p:c>3</p:c><t/></o:t><t><a/></t></r>".encode()
    for read in (parse_conforming, parse_split):
        assert counts(read(Split("doc", Position(), document, True), [spec])) == {
            "stranger": {"t": 1},
            "namespace": {"c": 1},
            "absent": {"c": 1},
        }


def test_only_elements_before_an_error_count() -> None:
    document = f"{OPEN}<t><t/></t><t><t/></t><p:t><a>[</a></p:t><t><t/></t></r>".encode()
    parsed = parse_split(Split("doc", Position(), document, True), [DECLARED])
    assert parsed.error is not None
    assert parsed.overlooked[0]["nested"] == {"t": 2}


def test_unneeded_columns_may_be_absent() -> None:
    spec = StreamSpec("s", DECLARED.schema, "t", columns=frozenset({"b"}))
    parsed = parse_split(Split("doc", Position(), b"<r><t/></r>", True), [spec])
    assert parsed.overlooked == [{"absent": {"b": 1}}]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return messages


STRANGE = (
    "not read because of its namespace: {urn:o}t; if it is the namespace of punctuations, write --punct-namespace "
    "URI; if it is the namespace of tuples, write element = '{URI}name'"
)
CASES = [
    ("<t><a>1</a></t>", []),
    ("", ["s.xml: no element <t> was found"]),
    ("<u/>", ["s.xml: no element <t> was found"]),
    ("<p:t/>", []),
    ("<t><a>1</a></t><t xmlns='urn:o'><a>1</a></t>", [f"s.xml: {STRANGE}"]),
    ("<t><a>1</a></t><o:t><a>*</a></o:t>", [f"s.xml: {STRANGE}"]),
    ("<t><o:a>1</o:a></t>" * 3, ["s.xml: elements in another namespace are not read at PATH a"]),
    ("<t><a>1</a><o:a>1</o:a></t>", []),
    ("<t><a>1</a><t/></t>" * 3, ["s.xml: <t> inside a tuple is part of that tuple, not a separate tuple"]),
    ("<t><b>1</b></t>" * 3, ["s.xml: nothing was found in any tuple at PATH a"]),
    ("<t><b>1</b></t><t><a>1</a></t>", []),
    ("<t><a>x</a></t>", []),
    (
        "<t/><p:t><z>1</z><a>*</a></p:t><t><a>1</a></t>",
        ["s.xml: punctuations of <t> that constrain undeclared attributes are dropped"],
    ),
    ("<p:t><z>1</z></p:t>", ["s.xml: punctuations of <t> that constrain undeclared attributes are dropped"]),
]


@pytest.mark.parametrize(("body", "expected"), CASES)
def test_it_is_logged_once(body: str, expected: list[str], caplog: pytest.LogCaptureFixture) -> None:
    schema = Schema.parse("a INT")

    def source() -> Source:
        return Source.of(f"{OPEN}{body}</r>".encode(), "s.xml")

    list(parse(source(), schema, element="t", on_reject=lambda _: None))
    assert warnings(caplog) == expected
    list(slices(source(), schema, element="t", size=10, on_reject=lambda _: None))
    assert warnings(caplog) == expected
    report = check(source(), schema, "t")
    assert [str(notice) for notice in report.notices] == expected


def test_an_element_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """Punctuations with the element's name do not suppress the warning for a path without tuples."""
    body = f"{OPEN}<t><a>1</a></t><p:t><a>1</a></p:t></r>".encode()
    (slice_,) = slices(Source.of(body, "s.xml"), Schema.parse("a INT"), element="x/t")
    assert slice_.tuples.is_empty()
    assert warnings(caplog) == ["s.xml: no element <x/t> was found, only punctuations"]
    list(parse(Source.of(body, "s.xml"), Schema.parse("a INT"), element="r/t"))
    assert warnings(caplog) == []


def test_before_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError):
        list(parse(Source.of(b"<r><u>", "s.xml"), Schema.parse("a INT"), element="t"))
    assert warnings(caplog) == []
    with pytest.raises(SourceError):
        list(parse(Source.of(b"<r><t/>", "s.xml"), Schema.parse("a INT"), element="t"))
    assert warnings(caplog) == []


def test_the_warning_comes_with_the_first_occurrence(caplog: pytest.LogCaptureFixture) -> None:
    body = "<t><a>1</a></t><t><t/></t><t><o:a/></t>" * 50
    remaining = slices(
        Source.of(f"{OPEN}{body}</r>".encode(), "s.xml"), Schema.parse("a INT"), element="t", size=100
    )
    next(remaining)
    assert len(warnings(caplog)) == 1
    list(remaining)
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    ("body", "columns", "names"),
    [
        ("<t id='1' n='x'></t><t id='2'></t>", "", "@id, @n"),
        ("<t>5</t><t> </t>", "", "text()"),
        ("<t i='1'><a u='2'>1</a></t><t><b>3</b><a/>x</t>", "a", "@i, a/@u, b, text()"),
        ("<t><o:a>1</o:a></t>", "", "{urn:o}a"),
        ("<t><a/><o:a>1</o:a></t>", "a", "{urn:o}a"),
    ],
)
def test_beside_columns_that_were_guessed(
    body: str, columns: str, names: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source.of(f"{OPEN}{body}</r>".encode(), "s.xml")
    schema = Schema.of(Attribute(name, STRING) for name in columns)
    parts = list(read_slices(SliceReader(source, [StreamSpec("t", schema, "t", guessed=True)])))
    assert sum(s.tuples.height for s in parts) == body.count("</t>")
    advice = "not among the inferred columns: declare more (CREATE STREAM, --schema)"
    expected = f"s.xml: not read: {names}; {advice}"
    assert warnings(caplog) == [expected]


def test_many_undeclared_names(caplog: pytest.LogCaptureFixture) -> None:
    body = "".join(f"<t><a/><b{n}/></t>" for n in range(1000))
    source = Source.of(f"{OPEN}{body}</r>".encode(), "s.xml")
    spec = StreamSpec("t", Schema.parse("a STRING"), "t", guessed=True)
    list(read_slices(SliceReader(source, [spec]), 30))
    assert MOST / 2 < len(warnings(caplog)) <= MOST + 1
