"""Parsing of tuples, punctuations, rejects and errors."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.firehose.harness import ROOT, parse_document, parse_streams, read, spec
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import Limits, Position, Split, parse_split, reading
from xmlpunct.slice import Slice

SENSOR = "sid STRING, hour INT"


def rows(
    document: str | bytes, columns: str = "a INT, b STRING", element: str = "t"
) -> list[tuple[object, ...]]:
    parsed = parse_document(document, columns, element)
    assert parsed.error is None
    assert parsed.rejects == [[]]
    return parsed.slices[0].tuples.rows()


def punctuations_of(document: str, columns: str = "a INT, b STRING", element: str = "t") -> list[str]:
    parsed = parse_document(document, columns, element)
    assert parsed.error is None
    return list(map(str, parsed.slices[0].punctuations))


# Recognition


@pytest.mark.parametrize(
    "document",
    [
        f'<s xmlns:punct="{PUNCT_NAMESPACE}"><t><a>1</a></t><punct:t><a>[1,2]</a></punct:t></s>',
        f'<s xmlns:x="{PUNCT_NAMESPACE}"><t><a>1</a></t><x:t><x:a>[1,2]</x:a></x:t></s>',
        f'<s><t><a>1</a></t><t xmlns="{PUNCT_NAMESPACE}"><a>[1,2]</a></t></s>',
        f'<q:s xmlns:q="{PUNCT_NAMESPACE}"><z><t>\n<a> 1 </a></t></z>\n <q:t>\n<a> [1,2] </a></q:t></q:s>',
        f'<s xmlns:p="{PUNCT_NAMESPACE[:-1]}&#116;"><t><a>1</a></t><p:t><a>{{1,2}}</a></p:t></s>',
        f'<s xmlns:p="urn:x"><p:t/><t><a>1</a></t><p:t xmlns:p="{PUNCT_NAMESPACE}"><a>[1,2]</a></p:t></s>',
    ],
)
def test_by_namespace_not_by_prefix(document: str) -> None:
    parsed = parse_document(document)
    assert parsed.error is None
    assert parsed.slices[0].tuples.rows() == [(1, None)]
    assert list(map(str, parsed.slices[0].punctuations)) == ["<[1,2], *>"]
    assert parsed.slices[0].before == [1]


def test_tuples_in_a_namespace() -> None:
    document = '<s xmlns="urn:x"><t><a>1</a><b xmlns="">x</b></t><t xmlns=""><a>2</a></t></s>'
    assert rows(document, element="{urn:x}t") == [(1, "x")]
    assert rows(document) == [(2, None)]


def test_children_of_foreign_namespaces_are_not_attributes() -> None:
    assert rows('<s xmlns:o="urn:o"><t><o:a>1</o:a><b o:c="2">x</b></t></s>', "a INT, c INT PATH 'b/@c'") == [
        (None, None)
    ]


def test_another_punctuation_namespace() -> None:
    document = '<s xmlns:p="urn:p"><p:t><a>1</a></p:t></s>'
    assert list(map(str, parse_document(document, punct_namespace="urn:p").slices[0].punctuations)) == [
        "<1, *>"
    ]
    assert parse_document(document).slices[0].punctuations == []


def test_look_alikes_are_transparent() -> None:
    document = (
        "<r><!-- <t><a>9</a></t> --><?pi <t> ?><t><a><![CDATA[1]]><!-- 2 --></a>"
        "<b>&lt;<![CDATA[<b>]]><?pi x?>&#65;&#x42;</b></t><x><![CDATA[<t><a>8</a></t>]]></x></r>"
    )
    assert rows(document) == [(1, "<<b>AB")]


def test_order_nesting_and_ignored_content() -> None:
    document = (
        "<r><t z='1'>stray<b>x</b><c><a>7</a></c> text <a>1</a><t><a>2</a></t></t><u><t><a>3</a></t></u></r>"
    )
    assert rows(document) == [(1, "x"), (3, None)]


def test_paths() -> None:
    columns = "id INT PATH '@id', v DOUBLE PATH 'd/v', u STRING PATH 'd/@unit', d STRING PATH 'd/x/y'"
    document = '<r><t id="4"><d unit="C"><v>1.5</v><x><y>z</y></x></d></t><t xml:id="u5" /></r>'
    assert rows(document, columns) == [(4, 1.5, "C", "z"), (None, None, None, None)]


def test_a_value_around_a_value() -> None:
    columns = "d STRING, v INT PATH 'd/v', w INT PATH 'd/w/x'"
    assert rows("<r><t><d>a<v>1</v>b<w><x>2</x></w>c</d></t></r>", columns) == [("a1b2c", 1, 2)]


def test_every_type() -> None:
    columns = "i BIGINT, x DOUBLE, m DECIMAL(5,2), y BOOLEAN, d DATE, t TIMESTAMP, s STRING"
    document = (
        "<r><t><i> +5 </i><x>-INF</x><m>1.5</m><y>1</y><d>2026-01-02Z</d>"
        "<t>2026-01-01T00:30:00.5+01:00</t><s/></t></r>"
    )
    (row,) = rows(document, columns)
    moment = datetime(2025, 12, 31, 23, 30, 0, 500000, UTC)
    assert row == (
        5,
        float("-inf"),
        Decimal("1.50"),
        True,
        moment.replace(year=2026, month=1, day=2).date(),
        moment,
        "",
    )


def test_white_space_and_line_ends() -> None:
    assert rows("<r><t><b> x\r\n y&#13;</b></t></r>") == [(None, " x\n y\r")]


def test_byte_order_mark_and_declaration() -> None:
    document = '\ufeff<?xml version="1.0" encoding="latin-1"?>\n<r><t><b>é</b></t></r>\n'
    assert rows(document) == [(None, "é")]


def test_several_streams_of_one_source() -> None:
    document = (
        f"{ROOT}<t><a>1</a><u><a>5</a></u></t><u><a>x</a></u><p:u><a>y</a></p:u><p:t><a>2</a></p:t></r>"
    )
    parsed = parse_streams(document, [spec("a INT"), spec("a STRING"), spec("a STRING", "u")])
    assert [s.tuples.rows() for s in parsed.slices] == [[(1,)], [("1",)], [("x",)]]
    assert [list(map(str, s.punctuations)) for s in parsed.slices] == [["<2>"], ["<2>"], ["<y>"]]


def test_a_wrong_punctuation_ends_all_streams_of_the_source() -> None:
    document = (
        f"{ROOT}<t><a>1</a></t><u><a>2</a></u><p:u><a>[</a></p:u><t><a>3</a></t><p:t><a>[</a></p:t></r>"
    )
    parsed = parse_streams(document, [spec("a INT"), spec("a STRING"), spec("a STRING", "u")])
    assert [s.tuples.rows() for s in parsed.slices] == [[(1,)], [("1",)], [("2",)]]
    assert parsed.error is not None
    assert parsed.error.byte == document.index("<p:u>")


# Punctuations


def test_absent_is_a_wildcard_and_bounds_are_whole() -> None:
    assert punctuations_of(f"{ROOT}<p:t><a>(,100)</a></p:t><p:t><b> *</b></p:t><p:t/></r>") == [
        "<(,99], *>",
        "<*, *>",
        "<*, *>",
    ]


def test_paths_in_punctuations() -> None:
    columns = "id INT PATH '@id', v INT PATH 'd/v'"
    assert punctuations_of(f"{ROOT}<p:t id='7'><d><v>[1,2]</v></d></p:t></r>", columns) == ["<7, [1,2]>"]


def test_special_characters_in_patterns() -> None:
    document = f'{ROOT}<p:t><b>"&lt;<![CDATA[&]]><!-- c -->*"</b></p:t><p:t><b>&quot;*&quot;</b></p:t></r>'
    assert punctuations_of(document) == ["<*, <&*>", '<*, "*">']


def test_an_empty_pattern_is_counted_but_not_emitted() -> None:
    parsed = parse_document(f"{ROOT}<p:t><a>{{}}</a></p:t><p:t><a>1</a></p:t></r>")
    assert list(map(str, parsed.slices[0].punctuations)) == ["<1, *>"]
    assert (parsed.read, parsed.dropped) == ([2], [0])


@pytest.mark.parametrize(
    ("inner", "dropped"),
    [
        ("<a>1</a><z>*</z>", 0),
        ("<a>1</a><z> *\n</z>", 0),
        ("<a>1</a><z>5</z>", 1),
        ("<a>1</a><z/>", 1),
        ("<a>1</a><z><y>*</y></z>", 0),
        ("<a>1</a><z><y>[1,2]</y></z>", 1),
        ("<a>1</a><z w='1'>*</z>", 1),
        ("<a w='1'>1</a>", 1),
        ("<a w='*'>1</a>", 0),
        ("<a xml:lang='en'>1</a>", 0),
        ("<a>1</a><o:b xmlns:o='urn:o'>1</o:b>", 1),
    ],
)
def test_an_undeclared_attribute_that_is_constrained_drops_it(inner: str, dropped: int) -> None:
    parsed = parse_document(f"{ROOT}<p:t>{inner}</p:t></r>")
    assert parsed.error is None
    assert (parsed.dropped, parsed.read) == ([dropped], [1])
    assert len(parsed.slices[0].punctuations) == 1 - dropped


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("<a>[1,2</a>", "attribute a: a range must end with ] or )"),
        ("<a>x</a>", "attribute a: 'x' is not of type INT"),
        ("<a/>", "attribute a: '' is not of type INT"),
        ("<a>1</a><a>2</a>", "attribute a is given more than once"),
        ("stray<a>1</a>", "text 'stray' where only elements belong"),
        ("<z>x<y>1</y></z>", "text 'x' where only elements belong"),
        ("<a>1<x/></a>", "an element <x> inside the pattern of a"),
    ],
)
def test_a_wrong_punctuation_is_fatal(inner: str, reason: str) -> None:
    document = f"{ROOT}\n<t><a>1</a></t>\n <p:t>{inner}</p:t><t><a>2</a></t></r>"
    parsed = parse_document(document)
    assert parsed.slices[0].tuples.rows() == [(1, None)]
    assert parsed.error is not None
    assert reason in parsed.error.reason
    assert (parsed.error.line, parsed.error.byte) == (3, document.index("<p:t>"))


# Rejects


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("<a>x</a>", "attribute a: 'x' is not of type INT"),
        ("<a/>", "attribute a: '' is not of type INT"),
        ("<a>1</a><a>1</a>", "attribute a: given more than once"),
        ("<a>1</a><d v='1'/><d v='1'/>", "attribute v: given more than once"),
        ("<a>1</a><d><w>1</w></d><d><w>2</w></d>", "attribute w: given more than once"),
        ("<b>x</b>", "attribute a: missing, but NOT NULL"),
        ("<a>1</a><h>24</h>", "attribute h: '24' is outside its domain [0,23]"),
    ],
)
def test_rejects(inner: str, reason: str) -> None:
    columns = (
        "a INT NOT NULL, b STRING, v INT PATH 'd/@v', w INT PATH 'd/w', h INT CHECK (h BETWEEN 0 AND 23)"
    )
    good = "<t><a>1</a><h>1</h></t>"
    wrong = f"<t>{inner}{'' if '<h>' in inner else '<h>2</h>'}</t>"
    document = f"{ROOT}\n{good}\né {wrong}{good}<p:t><a>5</a></p:t></r>"
    parsed = parse_document(document, columns)
    assert parsed.error is None
    assert parsed.slices[0].tuples.height == 2
    assert parsed.slices[0].before == [2]
    ((reject,),) = parsed.rejects
    assert (reject.source, reject.line, reject.text, reject.reason) == ("doc", 3, wrong, reason)
    assert reject.byte == document.encode().index(wrong.encode())


def test_before_counts_only_the_tuples_that_stay() -> None:
    parsed = parse_document(
        f"{ROOT}<t><a>x</a></t><p:t><a>1</a></p:t><t><a>2</a></t><t><a>y</a></t><p:t><a>3</a></p:t></r>"
    )
    assert parsed.slices[0].before == [0, 1]


def test_a_long_tuple_is_shown_in_part() -> None:
    ((reject,),) = parse_document(f"<r><t><a>x</a><b>{'y' * 70_000}</b></t></r>").rejects
    assert reject.text.startswith("<t><a>x</a><b>yy")
    assert len(reject.text) == 65_536 + 3


# Errors, with line and byte; «marks» the byte

GOOD = "<t><a>1</a></t>"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (f"{ROOT}{GOOD}\n«&foo;{GOOD}</r>", "Entity 'foo' not defined"),
        (f"{ROOT}{GOOD}\n«<q:t/>{GOOD}</r>", "Namespace prefix q on t is not defined"),
        (f"{ROOT}{GOOD}<t>«<a q:z='1'>2</a></t></r>", "Namespace prefix q for z on a is not defined"),
        (f"{ROOT}{GOOD}<t><a>2«</b></t></r>", "Opening and ending tag mismatch: a and b"),
        (f"{ROOT}{GOOD}\n\n«</x>", "Opening and ending tag mismatch: r and x"),
        (f"{ROOT}{GOOD}«", "the document ends inside <r>"),
        (f"{ROOT}{GOOD}<t><a>2</«", "the document ends inside <a>"),
        (f"{ROOT}{GOOD}<t><!-- 2 «", "the document ends inside <t>"),
        (f"{ROOT}{GOOD}</r>«junk", "Start tag expected"),
        (f"{ROOT}{GOOD}«<t a='1' a='2'/></r>", "Attribute a redefined"),
        (f"{ROOT}{GOOD}\n«\x01<t/></r>", "invalid Char value 1"),
        (f"{ROOT}{GOOD}«]]><t/></r>", "Sequence ']]>' not allowed"),
        (f"{ROOT}{GOOD}<t «<b/></r>", "error parsing attribute name"),
        (f'{ROOT}{GOOD}<t x="«<a>1</a></t></r>', "Unescaped '<' not allowed"),
        (f"{ROOT}{GOOD}<!«x></r>", "invalid element name"),
        (f"{ROOT}{GOOD}<t><a>«&#0;</a></t></r>", "invalid xmlChar value 0"),
        ("«<!DOCTYPE r [<!ENTITY a SYSTEM 'b'>]><r/>", "the internal subset of a DOCTYPE is not accepted"),
        (
            "<?xml version='1.0'?>\n<!-- x -->«<!DOCTYPE r [<!ENTITY a '<b/>'>]><r>&a;</r>",
            "the internal subset of a DOCTYPE is not accepted",
        ),
        (f"{ROOT}{GOOD}</r>\n«<!DOCTYPE r [<!ENTITY a SYSTEM 'b'>]><r/>", "the internal subset of a DOCTYPE"),
        ("«", "there is no root element"),
        (" \n «", "there is no root element"),
        ("<?xml version='1.0'?>«", "ends before its root element"),
        ("«<?xml version='x'?><r/>", "malformed XML declaration"),
    ],
)
def test_errors(document: str, reason: str) -> None:
    byte = document.index("«")
    document = document.replace("«", "")
    # Some constructs are an error only at their second character.
    for feed, cut in ((None, None), (1, 1), (7, 20)):
        outcome = read(document.encode(), spec(), feed, cut)
        assert outcome.error is not None
        location, _, why = outcome.error.partition(": ")
        assert reason in why
        name, line, at = location.split(", ")
        assert name == "doc"
        assert line == f"line {document.count(chr(10), 0, byte) + 1}"
        slack = 2 if reason.startswith("Sequence") else 0
        assert byte <= int(at.removeprefix("byte ")) <= byte + slack
        assert outcome.tuples == [(1, None)] * document[:byte].count(GOOD)


def test_invalid_utf_8() -> None:
    parsed = parse_document(b"<r><t><a>1</a></t><t><b>\xe9</b></t></r>")
    assert parsed.slices[0].tuples.rows() == [(1, None)]
    assert parsed.error is not None
    assert (parsed.error.line, parsed.error.byte) == (1, 24)


# Limits


@pytest.mark.parametrize(
    ("document", "limits", "reason"),
    [
        ("<r>" + "<x>" * 5 + "</x>" * 5 + "</r>", Limits(depth=5), "nested more than 5 deep"),
        ("<r><t><b>" + "x" * 50 + "</b></t></r>", Limits(text=20), "a value longer than 20 characters"),
        ("<r><t b='xxxxxxxxx'/></r>", Limits(attribute=8), "an attribute value longer than 8"),
        ("<r><t b='1' c='2' d='3'/></r>", Limits(attributes=2), "more than 2 attributes"),
        (
            "<r><t>" + "".join(f"<x{i}/>" for i in range(20)) + "</t></r>",
            Limits(inside=10),
            "more than 10 elements and attributes inside another",
        ),
        ("<r><xxxxxxxxxxxx/></r>", Limits(name=10), "a name longer than 10"),
        ("<r><t xmlns='urn:xxxxxxxx'/></r>", Limits(name=10), "a prefix or namespace longer than 10"),
        (
            "<r xmlns='urn:x'><x xmlns:y='urn:y'/><x xmlns='' xmlns:y='u'/></r>",
            Limits(namespaces=2),
            "more than 2 namespaces declared in one place",
        ),
        ("<r><t><a>1</a></t><t b='x' c='>' d='xxx'/></r>", Limits(tag=20), "a tag longer than 20 bytes"),
    ],
)
def test_limits(document: str, limits: Limits, reason: str) -> None:
    error = parse_document(document, limits=limits).error
    assert error is not None
    assert reason in error.reason
    assert error.byte is not None
    assert document[error.byte] == "<"


def test_a_tuple_that_never_ends() -> None:
    document = f"<r><t><a>1</a></t>\n<t><b>{'x' * 5000}".encode()
    outcome = read(document, spec(), 100, None, Limits(element=1000))
    assert outcome.tuples == [(1, None)]
    assert outcome.error == "doc, line 2, byte 19: too large: an element longer than 1,000 bytes"


def test_a_long_text_is_read_whole() -> None:
    assert rows(f"<r><t><b>{'x' * 300_000}</b></t></r>") == [(None, "x" * 300_000)]


def test_a_split_in_the_middle() -> None:
    split = Split("doc", Position(100, 7, (ROOT, "<x>"), True), b"\n<t><a>x</a></t></x>", False)
    parsed = parse_split(split, [spec()])
    assert parsed.error is None
    ((reject,),) = parsed.rejects
    assert (reject.line, reject.byte) == (8, 101)


def test_a_result_survives_bytes() -> None:
    slice_ = parse_document(f"{ROOT}<t><a>1</a></t><p:t><a>1</a></p:t></r>").slices[0]
    assert Slice.from_bytes(spec().schema, slice_.to_bytes()).punctuations == slice_.punctuations


def test_long_patterns_are_not_remembered() -> None:
    """Long patterns are not cached, because their size and number are unbounded."""
    texts = ["{" + ",".join(str(2 * i) for i in range(n, n + 100)) + "}" for n in range(50)]
    punctuations = "".join(f"<p:t><a>{text}</a></p:t>" for text in texts)
    before = reading._cached_pattern.cache_info().currsize
    parsed = parse_document(f"{ROOT}{punctuations}</r>", "a INT")
    assert [*map(str, parsed.slices[0].punctuations)] == [f"<{text}>" for text in texts]
    assert reading._cached_pattern.cache_info().currsize == before
