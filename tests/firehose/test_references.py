"""Values with references, quotes and white space equal those that expat reads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from xmlpunct import query
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import (
    Parsed,
    Position,
    SliceReader,
    Split,
    StreamSpec,
    parse_conforming,
    parse_split,
)
from xmlpunct.firehose.libxml.malformed import new_parser
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import STRING
from xmlpunct.types import pattern as pt

SCHEMA = Schema.parse("a STRING PATH '@a', b STRING, u STRING PATH 'd/@u'")
SPEC = StreamSpec("s", SCHEMA, "t")
NAMED = "urn:x?a&b"
PUNCT = f"{{{PUNCT_NAMESPACE}}}"
OPEN = f'<r xmlns:p="{PUNCT_NAMESPACE}" xmlns:n="urn:x?a&amp;b">'

PLAIN = ["", "x", "S01", "é", "\U0001f600", " ", "; ", "#38;", "amp;"]
REFERENCES = ["&amp;", "&lt;", "&gt;", "&apos;", "&#38;", "&#x26;", "&#38;#38;", "&amp;amp;", "&amp;#38;"]
REFERENCES += ["&#60;", "&#x3E;", "&#10;", "&#13;", "&#9;", "&#x20;", "&#233;", "&#x1F600;"]
QUOTES = ['"', "&quot;", "&#34;"]
SPACES = ["\n", "\t", "\r\n", "\r", "  "]
MARKUP = ["<![CDATA[&amp;<t>]]>", "<!-- &c; -->", "<?pi &x;?>"]

usual = st.sampled_from([*PLAIN, *REFERENCES, *SPACES, "'"])


def joined(pieces: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(pieces, max_size=5).map("".join)


@st.composite
def quoted(draw: st.DrawFn, pattern: bool = False) -> str:
    """A quoted attribute value; with ``pattern``, the pattern of a constant."""
    pieces = usual | st.sampled_from([">", "]]>"])
    text = draw(joined(pieces if pattern else pieces | st.sampled_from(QUOTES)))
    text = f"&quot;{text}&quot;" if pattern else text
    quote = draw(st.sampled_from("\"'"))
    return quote + text.replace(quote, "") + quote


@st.composite
def tuples(draw: st.DrawFn) -> str:
    text = draw(joined(usual | st.sampled_from([*QUOTES, *MARKUP, ">"])))
    name = draw(st.sampled_from(["t", "t", "t", "n:t"]))
    return f"<{name} a={draw(quoted())}><b>{text}</b><d u={draw(quoted())}/></{name}>"


@st.composite
def punctuations(draw: st.DrawFn) -> str:
    text = draw(joined(usual | st.sampled_from([*MARKUP, ">"])))
    constant = f"&quot;{text}&quot;"
    kind = draw(st.sampled_from(["p:t", "p:t", f"t xmlns='{PUNCT_NAMESPACE}'"]))
    shut = kind.split(" ")[0]
    return f"<{kind} a={draw(quoted(True))}><b>{constant}</b><d u={draw(quoted(True))}/></{shut}>"


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A few tuples and punctuations with odd values among many with plain values."""
    odd = draw(st.lists(tuples() | punctuations(), min_size=1, max_size=8))
    quote = draw(st.sampled_from("\"'"))
    plain = [f"<t a={quote}{i}{quote}><b>{i}</b><d u={quote}x{i}{quote}/></t>" for i in range(80)]
    for element in odd:
        plain.insert(draw(st.integers(0, len(plain))), element)
    return OPEN + "\n".join(plain) + "</r>"


def parse_with_expat(document: str, namespace: str = "") -> tuple[list[tuple[str | None, ...]], list[str]]:
    """The tuples and the punctuations of a document, parsed by expat."""
    root = ElementTree.fromstring(document)
    space = f"{{{namespace}}}" if namespace else ""
    rows = [values(e) for e in root.iter(f"{space}t")]
    punctuations = [
        str(Punctuation(SCHEMA, [pt.constant(STRING, (v or "")[1:-1]) for v in values(e)]))
        for e in root.iter(f"{PUNCT}t")
    ]
    return rows, punctuations


def values(element: ElementTree.Element) -> tuple[str | None, ...]:
    def child(name: str) -> ElementTree.Element:
        match = next(e for e in element if e.tag.rpartition("}")[2] == name)
        assert isinstance(match, ElementTree.Element)
        return match

    return element.get("a"), child("b").text or "", child("d").get("u")


def read(parsed: Parsed) -> tuple[list[tuple[str | None, ...]], list[str]]:
    assert parsed.error is None
    assert parsed.rejects == [[]]
    return parsed.slices[0].tuples.rows(), [*map(str, parsed.slices[0].punctuations)]


def spec_in(namespace: str) -> StreamSpec:
    return replace(SPEC, element=f"{{{namespace}}}t" if namespace else "t")


@given(documents(), st.sampled_from(["", NAMED]))
def test_values_are_those_of_another_parser(document: str, namespace: str) -> None:
    spec = spec_in(namespace)
    split, expected = Split("doc", Position(), document.encode(), True), parse_with_expat(document, namespace)
    assert read(parse_conforming(split, [spec])) == expected
    assert read(parse_split(split, [spec])) == expected


@given(documents(), st.sampled_from([300, 4000]), st.sampled_from(["", NAMED]))
def test_in_pieces_too(document: str, size: int, namespace: str) -> None:
    reader = SliceReader(Source.of(document.encode()), [spec_in(namespace)])
    rows: list[tuple[str | None, ...]] = []
    patterns: list[str] = []
    while (parsed := reader.read(size)) is not None:
        piece = read(parsed)
        rows, patterns = rows + piece[0], patterns + piece[1]
    assert (rows, patterns) == parse_with_expat(document, namespace)


def test_an_attribute_joins_with_a_child() -> None:
    feed = b'<s><t a="AT&amp;T"><b>AT&amp;T</b></t></s>'
    declared = "CREATE STREAM l (a STRING PATH '@a') WITH (element = 't');"
    declared += "CREATE STREAM r (b STRING) WITH (element = 't');"
    results = query(f"{declared} SELECT a, b FROM l JOIN r ON l.a = r.b", l=feed, r=feed)
    assert [t for t in results if isinstance(t, tuple)] == [("AT&T", "AT&T")]


@pytest.mark.parametrize("wrong", ["&c;", "&AMP;", "&#0;", "&#xD800;", "&#38", "& ", "&amp"])
@pytest.mark.parametrize("form", ["<t a='{}'/>", '<t a="{}"/>', "<t><b>{}</b></t>", "<p:t a='{}'/>"])
def test_an_invalid_reference_is_an_error(form: str, wrong: str) -> None:
    good = "<t a='1'><b>1</b></t>" * 200
    for before in ("", good):
        document = f"{OPEN}{before}{form.format(wrong)}{good}</r>".encode()
        for parse in (parse_conforming, parse_split):
            parsed = parse(Split("doc", Position(), document, True), [SPEC])
            assert parsed.error is not None
            assert parsed.error.byte is not None
            assert len(OPEN + before) <= parsed.error.byte < len(document) - len(good)
            assert parsed.slices[0].tuples.height == before.count("<t")


@pytest.mark.parametrize("entity", ["'<bar/>'", "SYSTEM 'file:///etc/hostname'", "PUBLIC 'a' 'b'"])
def test_no_external_entity_and_none_with_markup_is_ever_declared(entity: str) -> None:
    document = f"<!DOCTYPE r [<!ENTITY c {entity}>]>{OPEN}<t a='&c;'><b>&c;</b></t></r>".encode()
    for parse in (parse_conforming, parse_split):
        parsed = parse(Split("doc", Position(), document, True), [SPEC])
        assert str(parsed.error).startswith("doc, line 1, byte 0: the internal subset of a DOCTYPE is not")
        assert parsed.slices[0].tuples.height == 0


@pytest.mark.parametrize("entity", ["<!ENTITY c SYSTEM '{}'>", "<!ENTITY % c SYSTEM '{}'> %c;"])
def test_the_parser_itself_fetches_nothing(entity: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<!ENTITY c 'secret'>")
    texts: list[str] = []

    class Target:
        def start(self, name: str, attributes: dict[str, str]) -> None:
            texts.extend(attributes.values())

        def end(self, name: str) -> None: ...
        def data(self, text: str) -> None:
            texts.append(text)

        def close(self) -> None: ...

    document = f"<!DOCTYPE r [{entity.format(secret.as_uri())}]><r><t>&c;</t><t a='&c;'/></r>"
    with suppress(etree.XMLSyntaxError), new_parser(Target()) as parser:
        parser.feed(document.encode())
    assert "secret" not in "".join(texts)
