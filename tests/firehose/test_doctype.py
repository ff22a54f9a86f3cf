"""A DOCTYPE is skipped, its declarations apply, or it is refused; external entities are never fetched."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome, read, spec
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import Parser, Position, SliceReader, Split, native
from xmlpunct.firehose.infer.document import infer, take_sample
from xmlpunct.firehose.slice_reader import ReadState

ROWS = "<t><a>1</a></t><t><a>2</a></t>"
TUPLES = [(1, None), (2, None)]
COMPILED = [True, False] if native.COMPILED else [False]
FEEDS = [(None, None), (1, 1), (7, None), (7, 20)]

PASSED_OVER = [
    "<!DOCTYPE r>",
    "<!DOCTYPE\n\tr\r\n>",
    '<!DOCTYPE dblp SYSTEM "dblp-2019-11-22.dtd">',
    "<!DOCTYPE r SYSTEM 'a\"b[<t><a>9</a></t>]>'>",
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2024//EN"\n'
    '  "https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_240101.dtd">',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    "<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'http://127.0.0.1:1/DTD/xhtml1-strict.dtd' >",
    "<!DOCTYPE h:\u00e9.t SYSTEM 'file:///etc/passwd'>",
    '<!DOCTYPE r PUBLIC "" "">',
    "<!DOCTYPE r []>",
    '<!DOCTYPE us-patent-grant SYSTEM "us-patent-grant-v45-2014-04-03.dtd" [ ]>',
    "<!DOCTYPE r[\n<!-- it's \"not' ]> a <!ENTITY lt '9'> --><?p don't ]> ?>\n] >",
    "<!DOCTYPE r [<!NOTATION tif SYSTEM '-//A]>'><!NOTATION gif SYSTEM \"g'\">\n"
    "<!ENTITY US1.TIF SYSTEM 'US1.TIF' NDATA tif>]>",
    "<!DOCTYPE r SYSTEM 'a' [<!ELEMENT r (t | (u, v?)*)+><!ELEMENT t ANY><!ATTLIST t k CDATA #IMPLIED>\t]>",
]


def source(document: bytes, size: int = 2**16) -> Outcome:
    """The outcome of a `SliceReader`, which reads ahead."""
    outcome = Outcome()
    with closing(SliceReader(Source.of(document, "doc"), [spec()])) as reader:
        while (parsed := reader.read(size)) is not None:
            outcome.tuples += parsed.slices[0].tuples.rows()
        outcome.error = str(reader.error) if reader.error else None
    return outcome


def outcomes(document: str) -> list[Outcome]:
    """The outcomes of reading a document, with several piece sizes, compiled and not."""
    data, results = document.encode(), []
    for compiled in COMPILED:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "COMPILED", compiled)
            results += [read(data, spec(), feed, cut) for feed, cut in FEEDS]
            results += [source(data, size) for size in (7, 2**16)]
    return results


@pytest.mark.parametrize("doctype", PASSED_OVER)
@pytest.mark.parametrize(
    "before", ["", "\ufeff", "<?xml version='1.0' encoding='utf-8'?>\n", " <!-- <!DOCTYPE x> --><?p q?>\n"]
)
def test_a_doctype_without_an_internal_subset_is_skipped(before: str, doctype: str) -> None:
    for outcome in outcomes(f"{before}{doctype}\n<!-- c -->\n<r>{ROWS}</r>"):
        assert (outcome.tuples, outcome.error) == (TUPLES, None)


@pytest.mark.parametrize("doctype", PASSED_OVER)
def test_each_of_several_documents_may_have_one(doctype: str) -> None:
    document = f"{doctype}<r>{ROWS}</r>\n<!-- c -->"
    declared = f"<?xml version='1.0'?>{document}"
    for outcome in outcomes(document + declared + document):
        assert (outcome.tuples, outcome.error) == (3 * TUPLES, None)


@pytest.mark.parametrize("doctype", PASSED_OVER)
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("@<r>%s«&nbsp;</r>", "Entity 'nbsp' not defined: DTDs are not read"),
        ("@<r>%s«<t a='&nbsp;'/></r>", "Entity 'nbsp' not defined: DTDs are not read"),
        ("@\n<r>%s<«/x></r>", "Opening and ending tag mismatch"),
        ("@\n<!-- -->«@<r>%s</r>", "a second DOCTYPE is not accepted"),
        ("<r>%s</r>\n<!-- -->@ «", "the document ends before its root element"),
        ("@«", "the document ends before its root element"),
        ("@ «x", "Start tag expected"),
        ("<r>%s<!«@</r>", "invalid element name"),
    ],
)
def test_errors_after_a_doctype_have_the_right_position(doctype: str, document: str, reason: str) -> None:
    document = document.replace("%s", ROWS).replace("<!«@", f"<!«{doctype[2:]}").replace("@", doctype)
    check_error(document, reason)


def check_error(document: str, reason: str) -> None:
    before, _, after = document.partition("«")
    line, byte = before.count("\n") + 1, len(before.encode())
    for outcome in outcomes(before + after):
        assert outcome.error is not None
        assert outcome.error.startswith(f"doc, line {line}, byte ")
        assert abs(int(outcome.error.split("byte ")[1].split(":")[0]) - byte) <= 1
        assert reason in outcome.error
        assert outcome.tuples == TUPLES * before.count(ROWS)


SUBSET = "the internal subset of a DOCTYPE is not accepted"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("«<!DOCTYPE r [<!ENTITY a '<b/>'>]><r>&a;</r>", SUBSET),
        ("«<!DOCTYPE r PUBLIC 'x' 'y>' [<!ENTITY % x SYSTEM 'http://127.0.0.1:1/'> %x;]><r/>", SUBSET),
        (f"<r>{ROWS}</r>\n«<!DOCTYPE r [<!ENTITY a '<b/>'>]><r>&a;</r>", SUBSET),
        ("«<!DOCTYPE r [<!ENTITY a SYSTEM '/etc/passwd'>]><r>&a;</r>", SUBSET),
        ("«<!DOCTYPE r [<!ENTITY % a ''>\n%a;]><r/>", SUBSET),
        ("<!DOCTYPE r [«", "the document ends before its root element"),
        ("<!DOCTYPE r [<!-- ]> «", "the document ends before its root element"),
        ("<!DOCTYPE r [<!NOTATION n SYSTEM '>'«", "the document ends before its root element"),
        ("<!DOCTYPE r [«<]><r/>", "Content error in the internal subset"),
        ("<!DOCTYPE r []«x><r/>", "DOCTYPE improperly terminated"),
        ("<!DOCTYPE r [<!ELEMENT r «>]><r/>", "xmlParseElementDecl"),
        ("<!DOCTYPE r SYSTEM 'x«", "the document ends before its root element"),
        ("<!DOCTYPE r«", "the document ends before its root element"),
        ("<!DOCTYPE«", "the document ends before its root element"),
        ("<!DOCTYPE r SYSTEM 'x«\x01'><r/>", "Unfinished System or Public ID"),
    ],
)
def test_an_internal_subset_is_refused_at_its_doctype(document: str, reason: str) -> None:
    check_error(document, reason)


BITS = [
    "r",
    "SYSTEM",
    "PUBLIC",
    "'x'",
    '"x"',
    '"',
    "'",
    " ",
    "\n",
    "\t",
    ">",
    "<",
    "1",
    ":",
    "-",
    "\u00e9",
    "'\u00e9{'",
    "\x0b",
    "\ufffe",
    "system",
    "<!--",
    "]",
    "&amp;",
]


@given(
    st.lists(st.sampled_from(BITS), max_size=8), st.sampled_from(["", " r", " r SYSTEM", " r PUBLIC 'x' "])
)
def test_libxml2_agrees_on_doctypes(bits: list[str], head: str) -> None:
    document = f"<!DOCTYPE{head}{''.join(bits)}><r>{ROWS}</r>"
    try:
        etree.fromstring(document.encode(), etree.XMLParser(encoding="utf-8", load_dtd=False))
        verdict = True
    except etree.XMLSyntaxError:
        verdict = False
    results = [read(document.encode(), spec(), feed, cut) for feed, cut in FEEDS]
    assert results == results[:1] * len(results)
    assert (results[0].error is None) == verdict, results[0].error
    assert results[0].tuples == TUPLES * verdict


EFFECTIVE = [
    ("<!ENTITY x 'one &amp; &#38;#60; two'>", "<t><b>&x;</b></t>", (None, "one & < two")),
    (
        "<!ENTITY x '&y;&y;'><!ENTITY y '\u00e9'>",
        "<t><b><![CDATA[&x;]]>&x;</b></t>",
        (None, "&x;\u00e9\u00e9"),
    ),
    ("<!ENTITY n '1'><!ENTITY n '2'>", "<t><a>&n;&n;</a></t>", (11, None)),
    ("<!ENTITY % p 'q'><!ENTITY x '\"\n>'>", "<t><b>&x;</b></t>", (None, '"\n>')),
    ("<!ENTITY lt '&#38;#60;'><!ENTITY x ''>", "<t><b>&lt;&x;</b></t>", (None, "<")),
]


@pytest.mark.parametrize(("declarations", "row", "expected"), EFFECTIVE)
def test_internal_entities_are_expanded_in_all_pieces_of_their_document(
    declarations: str, row: str, expected: tuple[object, ...]
) -> None:
    document = f"<!DOCTYPE r SYSTEM 'file:///etc/passwd' [{declarations}]>\n<r>{ROWS}{row}\n{ROWS}{row}</r>"
    for outcome in outcomes(document * 2):
        assert (outcome.tuples, outcome.error) == ([*TUPLES, expected] * 4, None)
    undeclared = f"<r>{row}</r>"
    if "&x;" in row and "CDATA" not in row:
        for outcome in outcomes(document + undeclared):
            assert (len(outcome.tuples), "not defined" in str(outcome.error)) == (6, True)


ATTRIBUTES = "k STRING PATH '@k', l STRING PATH '@l', x XML PATH 'c'"
DEFAULTS = "<!ENTITY e 'a\"b'><!ATTLIST t k NMTOKENS 'd  e' l CDATA #IMPLIED>"


@pytest.mark.parametrize("feed", FEEDS)
def test_attributes_have_defaults_and_are_normalized(feed: tuple[int | None, int | None]) -> None:
    rows = "<t l='&e;'><c z=\"&e;\">&e;<![CDATA[&e;]]></c></t>\n<t k='  q w ' l=' '/><t/>"
    outcome = read(f"<!DOCTYPE r [{DEFAULTS}]><r>{rows}</r>".encode(), spec(ATTRIBUTES), *feed)
    xml = '<c z="a&quot;b">a&quot;b<![CDATA[&e;]]></c>'
    assert outcome.tuples == [("d e", 'a"b', xml), ("q w", " ", None), ("d e", None, None)]
    assert outcome.error is None


def test_a_reader_continues_inside_a_document_with_declarations() -> None:
    tuples = 3000 * "<t l='&e;'/>"
    document = f"<!DOCTYPE r [{DEFAULTS}]><r>{tuples}</r>".encode()
    rows, states = list[object](), list[tuple[int, ReadState]]()
    with closing(SliceReader(Source.of(document, "doc"), [spec(ATTRIBUTES)])) as reader:
        while (parsed := reader.read(9000)) is not None:
            rows += parsed.slices[0].tuples.rows()
            states.append((len(rows), reader.state))
    assert rows == [("d e", 'a"b', None)] * 3000
    count, state = states[1]
    position = Position.from_json(state.cursor.position.to_json())
    assert position == state.cursor.position
    with closing(SliceReader(Source.of(document, "doc"), [spec(ATTRIBUTES)])) as reader:
        reader.restore(state, None)
        while (parsed := reader.read(9000)) is not None:
            count += parsed.slices[0].tuples.filter(k="d e", l='a"b').height
    assert count == 3000


def test_columns_are_inferred_with_declarations() -> None:
    document = f"<!DOCTYPE r [{DEFAULTS}<!ENTITY n '7'>]><r>{'<t><a>&n;</a></t>' * 3}</r>"
    schema = infer(take_sample(Source.of(document.encode()))[0]).schema
    assert [(a.name, str(a.type)) for a in schema] == [("k", "STRING"), ("a", "INT")]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("<!DOCTYPE r [<!ENTITY x '&x;'>]><r>%s<t><b>«&x;</b></t></r>", "entity reference loop"),
        ("<!DOCTYPE r [<!ENTITY x '&nope;'>]><r>%s<t><b>«&x;</b></t></r>", "'nope' not defined"),
        ("<!DOCTYPE r [<!ENTITY x 'y'>]><r>%s<t><b>&x;</b></t><«/x></r>", "tag mismatch"),
        ("«<!DOCTYPE r [<!ENTITY x '<u/>'>]><r/>", "entity x contains markup"),
        ("«<!DOCTYPE r [<!ENTITY x '&#60;u/>'>]><r/>", "entity x contains markup"),
        ("«<!DOCTYPE r [<!ATTLIST r xmlns CDATA 'u'>]><r/>", "declares a default namespace"),
        (f"«<!DOCTYPE r [<!ENTITY x '{'x' * 2**16}'>]><r/>", "in more than 65,536 bytes"),
    ],
)
def test_errors_of_entities_have_the_right_position(document: str, reason: str) -> None:
    data, rows = document.replace("%s", ROWS), TUPLES * document.count("%s")
    before, _, after = data.partition("«")
    for outcome in outcomes(before + after):
        assert outcome.tuples[:2] == rows
        assert reason in str(outcome.error)
        assert abs(int(str(outcome.error).split("byte ")[1].split(":")[0]) - len(before)) <= 2


DECLARATIONS = [
    "<!--",
    "-->",
    "-",
    "]",
    "]>",
    "<",
    ">",
    "<?p",
    "?>",
    "<!ELEMENT ",
    "<!NOTATION ",
    "<!ATTLIST ",
    "<!element a EMPTY>",
    "<!ELEMENT a ANY>",
    "<!NOTATION n SYSTEM 's'>",
    "<!ENTITY u SYSTEM ']' NDATA n>",
    "<!ATTLIST a b CDATA #IMPLIED>",
    "a",
    "ANY",
    "'",
    '"',
    " ",
    "\n",
    "\x01",
    "&amp;",
]


@given(st.lists(st.sampled_from(DECLARATIONS), max_size=6), st.sampled_from(["", " ", "<!-- ] -->"]))
def test_libxml2_agrees_on_internal_subsets(bits: list[str], before: str) -> None:
    document = f"<!DOCTYPE r [{before}{''.join(bits)}]><r>{ROWS}</r>".encode()
    try:
        etree.fromstring(document, etree.XMLParser(encoding="utf-8", load_dtd=False))
        verdict = True
    except etree.XMLSyntaxError:
        verdict = False
    results = [read(document, spec(), feed, cut) for feed, cut in FEEDS]
    assert results == results[:1] * len(results)
    assert (results[0].error is None) == verdict, results[0].error
    assert results[0].tuples == TUPLES * verdict


@pytest.mark.skipif(not native.COMPILED, reason="there was no compiler when xmlpunct was installed")
def test_a_document_with_a_doctype_is_read_natively() -> None:
    for doctype in (PASSED_OVER[2], *PASSED_OVER[-5:]):
        split = Split("doc", Position(), f"{doctype}<r>{ROWS}</r>".encode(), True)
        assert Parser([spec()])._walker.walk(split) is not None
