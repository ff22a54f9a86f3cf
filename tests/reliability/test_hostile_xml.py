"""Hostile XML: each kind is refused with a clear reason, at its position, after all earlier tuples, at a bounded cost.

«@@» marks the byte that the error names; it is not part of the input.
"""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hostile import BLOCK, BY_NAME, ROOT, measure, read
from tests.cli.conftest import cli as cli
from tests.cli.harness import Cli
from tests.firehose.harness import spec
from tests.fuzz.fuzz_reader import PATIENCE
from tests.fuzz.rules import check, source
from tests.reliability.support import LONG
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import Limits, parser, splitter
from xmlpunct.firehose.infer import document
from xmlpunct.firehose.libxml import dictionary, malformed
from xmlpunct.firehose.native import walker
from xmlpunct.python.inferred_stream import stream_of

LIMITS = Limits()
STATM = Path("/proc/self/statm")
STREAM = spec("a INT")
CORPUS = sorted((Path(__file__).parents[1] / "fixtures" / "corpus").iterdir())


@dataclass(frozen=True)
class Case:
    """An input, the reason of its error (None: accepted), its position, and the number of earlier tuples."""

    name: str
    data: bytes
    reason: str | None
    line: int
    byte: int
    tuples: int

    def error(self, name: str) -> str:
        """The beginning of the error message for a source."""
        return f"{name}, line {self.line}, byte {self.byte}: "


def refused(name: str, text: str | bytes, reason: str, tuples: int = 1) -> Case:
    """A case in UTF-8. Unless ``tuples`` is 0, the root and a good tuple precede the text."""
    data = text.encode() if isinstance(text, str) else text
    return marked(name, ROOT + b"\n" + data if tuples else data, reason, tuples, "utf-8")


def marked(name: str, data: bytes, reason: str, tuples: int, encoding: str) -> Case:
    """A case from its marked bytes."""
    mark, newline = "@@".encode(encoding), "\n".encode(encoding)
    byte = data.index(mark)
    return Case(name, data.replace(mark, b""), reason, data.count(newline, 0, byte) + 1, byte, tuples)


def accepted(name: str, data: bytes, tuples: int) -> Case:
    return Case(name, data, None, 0, 0, tuples)


DECLARED = '<?xml version="1.0" encoding="{}"?>\n<r><t><a>1</a></t>\n{}</r>'
SUBSET = "the internal subset of a DOCTYPE is not accepted"
AMPLIFIED = "Maximum entity amplification factor exceeded"
LAUGHS = "<!ENTITY l0 'lol'>" + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))

SMALL = [
    refused("a malformed internal subset", "<!DOCTYPE r [@@&lt;]><r/>", "internal subset", tuples=0),
    refused("an endless internal subset", "<!DOCTYPE r [<!ELEMENT a ANY>@@", "cut short", tuples=0),
    refused(
        "an entity of an external subset",
        "<!DOCTYPE r SYSTEM 'file:///etc/passwd'><r>@@&root;</r>",
        "Entity 'root' not defined: DTDs are not read",
        tuples=0,
    ),
    refused("a malformed DOCTYPE", "<!DOCTYPE r PUBLIC 'x' @@><r/>", "SystemLiteral", tuples=0),
    refused("two DOCTYPEs", "<!DOCTYPE r>@@<!DOCTYPE r><r/>", "a second DOCTYPE", tuples=0),
    refused("a document cut in a DOCTYPE", "<!DOCTYPE r SYSTEM 'x@@", "cut short", tuples=0),
    refused("an entity bomb", f"<!DOCTYPE r [{LAUGHS}]><r>@@&l8;</r>", AMPLIFIED, tuples=0),
    refused(
        "an entity bomb in a default",
        f"@@<!DOCTYPE r [{LAUGHS}<!ATTLIST r a CDATA '&l8;'>]><r/>",
        AMPLIFIED,
        tuples=0,
    ),
    refused(
        "a long default in many elements",
        f"<!DOCTYPE r [<!ATTLIST u k CDATA '{'x' * 60_000}'>]><r>{'<u/>' * 16}@@<u/>{'<u/>' * 9999}</r>",
        AMPLIFIED,
        tuples=0,
    ),
    refused(
        "an external entity",
        "@@<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><r>&x;</r>",
        SUBSET,
        tuples=0,
    ),
    refused(
        "a parameter entity",
        "@@<!DOCTYPE r [<!ENTITY % x SYSTEM 'http://127.0.0.1/x.dtd'> %x;]><r/>",
        SUBSET,
        tuples=0,
    ),
    refused(
        "a DOCTYPE between documents",
        "</r>\n@@<!DOCTYPE r [<!ENTITY a SYSTEM 'b'>]><r>&a;</r>",
        SUBSET,
    ),
    refused("a comment before a DOCTYPE", "<!-- @@\x01 --><!DOCTYPE r []><r/>", "invalid xmlChar", tuples=0),
    refused("a DOCTYPE in a document", "<!@@DOCTYPE r><t/></r>", "invalid element name"),
    refused("an entity that is not declared", "@@&lol;</r>", "Entity 'lol' not defined"),
    refused("depth", "<x>" * (LIMITS.depth - 1) + "@@<x>", f"nested more than {LIMITS.depth} deep"),
    refused("a long name", f"@@<{'x' * 1001}/></r>", "a name longer than 1,000 characters"),
    refused(
        "many attributes",
        "@@<t " + " ".join(f"a{n}='1'" for n in range(1001)) + "/></r>",
        "more than 1,000 attributes",
    ),
    refused(
        "many namespaces",
        "@@<t " + " ".join(f"xmlns:n{n}='u'" for n in range(1000)) + "/></r>",
        "more than 1,000 namespaces declared in one place",
    ),
    refused(
        "a long namespace", f"@@<t xmlns='{'u' * 1001}'/></r>", "a prefix or namespace longer than 1,000"
    ),
    refused("NUL in text", "<t><a>1@@\0</a></t></r>", "Char 0x0"),
    refused("NUL in a tag", "<t@@\0/></r>", "Char 0x0"),
    refused("NUL between tuples", "@@\0\0<t/></r>", "Char 0x0"),
    refused("a control character", "<t><a>1@@\x01</a></t></r>", "invalid Char value 1"),
    refused("a noncharacter", "<t><a>1@@\ufffe</a></t></r>", "invalid Char value 65534"),
    refused("a reference to NUL", "<t><a>@@&#0;</a></t></r>", "invalid xmlChar value 0"),
    refused("a reference to a surrogate", "<t><a>@@&#xD800;</a></t></r>", "invalid xmlChar value 55296"),
    refused("invalid UTF-8", b"<t><a>@@\xff</a></t></r>", "encoding"),
    refused("overlong UTF-8", b"<t><a>@@\xc0\x80</a></t></r>", "encoding"),
    refused("a surrogate in UTF-8", b"<t><a>@@\xed\xa0\x80</a></t></r>", "encoding"),
    refused("a character beyond Unicode", b"<t><a>@@\xf4\x90\x80\x80</a></t></r>", "encoding"),
    refused("half a character", b"<t><a>@@\xe2\x82</a></t></r>", "encoding"),
    refused("mixed encodings", "<x>é</x>".encode() + b"<x>@@\xe9</x></r>", "encoding"),
    refused("an undeclared prefix", "@@<q:t/></r>", "prefix q on t is not defined"),
    refused(
        "an undeclared prefix of an attribute", "@@<t q:a='1'/></r>", "prefix q for a on t is not defined"
    ),
    refused("a prefix for nothing", "@@<t xmlns:q=''/></r>", ""),
    refused("a wrong end tag", "<t><a>1@@</b></t></r>", "Opening and ending tag mismatch"),
    refused("an end too many", "</r><@@/r>", "invalid element name"),
    refused("junk behind the root", "</r>@@junk", "Start tag expected"),
    refused("junk before the root", "@@GET / HTTP/1.0\r\n\r\n", "Start tag expected", tuples=0),
    refused("a declaration inside", "@@<?xml version='1.0'?></r>", "XML declaration allowed only"),
    refused("a broken declaration", "@@<?xml version='2'?><r/>", "malformed XML declaration", tuples=0),
    refused("attributes twice", "@@<t a='1' a='2'/></r>", "Attribute a redefined"),
    refused("an attribute without quotes", "<t a=@@1/></r>", "AttValue"),
    refused("< in an attribute", "<t a='@@<'/></r>", "Unescaped '<' not allowed"),
    refused("]]> in text", "]]@@></r>", "']]>' not allowed"),
    refused("-- in a comment", "<!-- --@@ --></r>", "hyphen"),
    refused("a wrong punctuation", "@@<p:t><a>[</a></p:t></r>", "wrong punctuation"),
    refused("a document cut in a tag", "<t><@@", "the document ends inside <t>"),
    refused("a document cut in text", "<t><a>1@@", "the document ends inside <a>"),
    refused("a document cut in a comment", "<!-- @@", "the document ends inside <r>"),
    refused("a document cut in an attribute", "<t a='1@@", "the document ends inside <r>"),
    refused("nothing", "@@", "there is no root element", tuples=0),
    refused("an unknown encoding", "@@" + DECLARED.format("klingon", ""), "klingon is not known", tuples=0),
    refused("an encoding that is not one", "@@" + DECLARED.format("hex", ""), "hex is not known", tuples=0),
    refused("the wrong encoding", "@@" + DECLARED.format("utf-16", ""), "is not encoded in it", tuples=0),
    marked(
        "a lone surrogate in UTF-16",
        DECLARED.format("utf-16", "@@\ud800x").encode("utf-16", "surrogatepass"),
        "is not utf-16: illegal",
        1,
        "utf-16-le",
    ),
    marked(
        "UTF-16 cut in a character",
        (DECLARED.format("utf-16", "") + "@@").encode("utf-16") + b"<",
        "is not utf-16: truncated data",
        1,
        "utf-16-le",
    ),
    marked(
        "no character of cp1252",
        DECLARED.format("cp1252", "@@\x81").encode("latin-1"),
        "is not cp1252: character maps to <undefined>",
        1,
        "latin-1",
    ),
    accepted("UTF-16", DECLARED.format("utf-16", "é").encode("utf-16"), 1),
    accepted("UTF-16 without a mark", "<r><t><a>1</a></t></r>".encode("utf-16-be"), 1),
    accepted("Latin 1", DECLARED.format("iso-8859-1", "é").encode("latin-1"), 1),
    accepted("GB 18030", DECLARED.format("gb18030", "中😀").encode("gb18030"), 1),
    accepted("a DOCTYPE", b"<!DOCTYPE r SYSTEM 'file:///etc/passwd'>" + ROOT + b"</r>", 1),
    accepted("look-alikes", ROOT + b"<!-- <t> --><![CDATA[</r>]]><x a='>'>&lt;t></x></r>", 1),
]
LONG_TAG = "".join(f" b{n}='{'x' * 9_500}'" for n in range(900))
LARGE = [
    refused("a very long name", f"@@<{'x' * 60_000}/></r>", "too long"),
    accepted("many names", ROOT + b"".join(b"<n%d/>" % n for n in range(12_000)) + b"</r>", 1),
    refused(
        "a long attribute value", f"@@<t b='{'x' * 1_000_001}'/></r>", "longer than 1,000,000 characters"
    ),
    refused("a very long attribute value", f"@@<t b='{'x' * 10_000_001}'/></r>", "too large"),
    refused(
        "a long value", f"@@<t><a>{'1' * 10_000_001}</a></t></r>", "a value longer than 10,000,000 characters"
    ),
    refused(
        "many elements in a tuple",
        "<t>" + "<x/>" * LIMITS.inside + "@@<x/></t></r>",
        "more than 250,000 elements",
    ),
    refused("a long tag", f"@@<t{LONG_TAG}/></r>", "a tag longer than 8,388,608 bytes"),
    refused("a long tag that does not end", f"@@<t{LONG_TAG}", "a tag longer than 8,388,608 bytes"),
    refused(
        "NUL in a long tag", f"<t{LONG_TAG[:8_300_000]}@@\0{LONG_TAG}", "invalid character in attribute value"
    ),
    accepted(
        "long tags that are open",
        ROOT + f"<x{LONG_TAG[:5_000_000]}'>".encode() * 3 + b"</x>" * 3 + b"</r>",
        1,
    ),
    refused("NUL and then text", "<t>@@\0" + "<a>1</a>" + "x" * 35_000_000, "Char 0x0 out of allowed range"),
    refused(
        "a large tuple",
        f"@@<t><a>1</a>{('<b>' + 'x' * 5_000_000 + '</b>') * 7}</t></r>",
        "an element longer than 33,554,432 bytes",
    ),
]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
@pytest.mark.parametrize("feed", [1, 7, 65536])
def test_the_size_of_pieces_does_not_affect_the_verdict(case: Case, feed: int) -> None:
    judge(case, feed)


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
@pytest.mark.parametrize("feed", [4099, 65536, 2**30])
def test_large_inputs(case: Case, feed: int) -> None:
    judge(case, feed)


def judge(case: Case, feed: int) -> None:
    result = source(case.data, feed, STREAM)
    assert result.tuples == [(1,)] * case.tuples
    if case.reason is None:
        assert result.error is None
        return
    assert result.error is not None
    assert result.error.startswith(case.error("doc"))
    assert case.reason in result.error


@pytest.mark.parametrize("case", [*SMALL, *LARGE], ids=lambda case: case.name)
def test_the_command_line_reports_the_error(case: Case, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "in.xml"
    path.write_bytes(case.data)
    query = f"CREATE STREAM s (a INT) WITH (source = '{path}', element = 't'); SELECT a FROM s"
    ran = cli("run", "--engine", "local", "--format", "jsonl", "-q", query)
    assert ran.code == (1 if case.reason is not None else 0)
    assert [json.loads(line) for line in ran.out.splitlines() if "$punct" not in line] == [
        {"a": 1}
    ] * case.tuples
    if case.reason is not None:
        assert case.error(str(path)) in ran.err
        assert case.reason in ran.err


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.parametrize("patience", [PATIENCE, splitter._LONG])
def test_inputs_of_the_fuzzing_corpus(path: Path, patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitter, "_LONG", patience)
    check(path.read_bytes())


# Endless inputs: the reader never holds more than one element, however long the input.

BOUND_MB = 1024
SHORT = {
    "text in a value": 34,
    "attributes": 34,
    "tuples under many namespaces": 4,
    "a punctuation of elements": 4,
    "distinct elements between tuples": 4,
    "distinct processing instructions": 4,
}
FLOODS = dict.fromkeys(BY_NAME, 256) if LONG else SHORT


@pytest.mark.parametrize("name", FLOODS)
def test_memory_is_bounded(name: str) -> None:
    measured = measure(BY_NAME[name], FLOODS[name] * 2**20)
    assert measured["peak_mb"] < BOUND_MB
    assert measured["tuples"] >= 1
    refused_early = measured["read_mb"] <= LIMITS.element / 2**20 + 1
    assert refused_early or measured["read_mb"] >= FLOODS[name]
    assert not refused_early or ", byte " in measured["error"]


SCANNERS = (
    (walker, "_walk", 1),
    (splitter, "tokens", 0),
    (splitter, "forbidden", 0),
    (parser._Parse, "feed", 2),
    (malformed, "tokens", 0),
    (malformed, "_complaint", 1),
    (malformed, "forbidden", 0),
)
"""Functions that scan bytes, and the position of the bytes among their arguments."""


@pytest.mark.parametrize("name", BY_NAME)
def test_no_byte_is_scanned_repeatedly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is scanned a few times, in however many pieces it comes; without care, some thirty times."""
    scanned = 0

    def counting(owner: Any, function: str, position: int) -> None:
        plain = getattr(owner, function)

        def counted(*arguments: Any) -> Any:
            nonlocal scanned
            scanned += len(arguments[position])
            return plain(*arguments)

        monkeypatch.setattr(owner, function, counted)

    for scanner in SCANNERS:
        counting(*scanner)
    size = 2**18
    read(BY_NAME[name], size, 2**12)
    assert scanned < 10 * size


@pytest.mark.parametrize(
    ("name", "byte"),
    [("NUL", len(ROOT)), ("NUL in a comment", len(ROOT + b"<!--")), ("invalid UTF-8", len(ROOT))],
)
@pytest.mark.parametrize("feed", [7, 65536])
def test_invalid_bytes_are_an_error_at_once(name: str, byte: int, feed: int) -> None:
    result = read(BY_NAME[name], 2**20, feed)
    assert result["tuples"] == 1
    assert result["read_mb"] < 0.5
    assert result["error"].startswith(f"flood, line 1, byte {byte}: Invalid")


@pytest.mark.skipif(not STATM.exists(), reason="finds the memory in use by /proc")
def test_names_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """libxml2 retains names until their thread ends or their parser is closed; the reader limits that."""
    monkeypatch.setattr(dictionary, "ROOM", 0)
    before = 0
    for size in (2**21, 2**23):
        before = resident()
        read(BY_NAME["distinct prefixes"], size, BLOCK)
    assert resident() - before < 2**23


def resident() -> int:
    """The resident memory of this process, in bytes."""
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def test_looking_for_columns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that can be read once is buffered while a tuple is searched, up to a limit, then no longer."""
    monkeypatch.setattr(document, "MOST_SAMPLE_BYTES", 2**21)
    endless = BY_NAME["text between tuples"]
    with pytest.raises(SourceError, match=r"no <nothing> ends in the first 2,\d{3},\d{3} bytes"):
        stream_of(Source.of(endless.open(2**24), "s"), None, "nothing")
    good = BY_NAME["good tuples without a newline"]
    _, replayed = stream_of(Source.of(good.open(2**22), "s"), None, "t")
    file, _ = replayed.opener(0)
    assert len(b"".join(iter(lambda: file.read1(2**16), b""))) >= 2**22  # type: ignore[attr-defined]
    assert not file.buffer  # type: ignore[attr-defined]
