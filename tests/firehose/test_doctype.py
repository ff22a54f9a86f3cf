"""A DOCTYPE is skipped, or refused if its declarations have an effect; external entities are never fetched."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome, read, spec
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import Parser, Position, SliceReader, Split, native

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
        ("«<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;</r>", SUBSET),
        ("«<!DOCTYPE r PUBLIC 'x' 'y>' [<!ENTITY % x SYSTEM 'http://127.0.0.1:1/'> %x;]><r/>", SUBSET),
        (f"<r>{ROWS}</r>\n«<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;</r>", SUBSET),
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
