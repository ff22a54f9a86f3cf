"""Marks: elements of a standard that close tuples, compared with an evaluation of the whole document's tree."""

from __future__ import annotations

import random

import pytest
from lxml import etree

from tests.firehose.harness import read
from xmlpunct.firehose import Position, Split, StreamSpec, parse_conforming, parse_split
from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.spec import ClosingMark, Limits
from xmlpunct.schema import Schema

SCHEMA = Schema.parse("a INT, k STRING")
MARKS = [
    ClosingMark("m", (("k", "@k"),)),
    ClosingMark("m", (("k", "@k"), ("a", "n"))),
    ClosingMark("m", (), ("@k", "1")),
    ClosingMark("c", (("a", "n"),), ("m/@k", "2")),
    ClosingMark("c/m"),
    ClosingMark("t", (("a", "a"),)),
]


def content(chance: random.Random, depth: int, inside: str) -> str:
    """Tuples, marks and elements around both."""
    parts = []
    for _ in range(chance.randint(0, 4)):
        kind = chance.choice("ttmmcx")
        attribute = chance.choice(["", " k='1'", " k='2'"]) if kind == "m" else ""
        own = f"<a>{chance.randint(0, 3)}</a>" if kind == "t" and inside != "t" else ""
        number = f"<n>{chance.randint(0, 3)}</n>" if kind in "mc" and chance.random() < 0.4 else ""
        below = content(chance, depth - 1, kind if inside != "t" else "t") if depth else ""
        parts.append(f"<{kind}{attribute}>{own}{number}{below}</{kind}>" + chance.choice(["", "\n"]))
    return "".join(parts)


def values(element: etree._Element, path: str) -> list[str]:
    found = element.xpath(path)
    return [str(value) if isinstance(value, str) else "".join(value.itertext()) for value in found]


def expected(document: str, mark: ClosingMark) -> list[tuple[int, str]] | None:
    """The punctuations with the number of tuples before each, in any order; None if a mark is wrong."""
    root, found = etree.fromstring(document), []
    everything = list(root.iter())
    tuples = [e for e in everything if e.tag == "t" and not any(a.tag == "t" for a in e.iterancestors())]
    for element in everything:
        names = mark.element.split("/")
        around = [element.tag, *(e.tag for e in element.iterancestors())]
        if around[: len(names)] != names[::-1]:
            continue
        if mark.where is not None:
            texts = values(element, mark.where[0])
            if len(texts) > 1:
                return None
            if texts != [mark.where[1]]:
                continue
        closed = {column: values(element, path) for column, path in mark.closes}
        if any(len(texts) > 1 for texts in closed.values()):
            return None
        if not all(closed.values()):
            continue
        outer = [e for e in (element, *element.iterancestors()) if e in tuples]
        last = list((outer or [element])[-1].iter())[-1]
        before = sum(everything.index(t) <= everything.index(last) for t in tuples)
        patterns = ", ".join(closed[name][0] if name in closed else "*" for name in SCHEMA.names)
        found.append((before, f"<{patterns}>"))
    return sorted(found)


def outcome(parsed: Parsed) -> list[tuple[int, str]] | None:
    (slice_,) = parsed.slices
    assert slice_.before == sorted(slice_.before)
    return None if parsed.error else sorted(zip(slice_.before, map(str, slice_.punctuations), strict=True))


@pytest.mark.parametrize("mark", MARKS, ids=str)
def test_against_the_tree(mark: ClosingMark) -> None:
    """Both readers, and any cuts."""
    chance, closed = random.Random(1), 0
    for _ in range(200):
        document = f"<r>{content(chance, 3, '')}</r>"
        split, stream = (
            Split("doc", Position(), document.encode(), True),
            StreamSpec("s", SCHEMA, "t", marks=(mark,)),
        )
        want = expected(document, mark)
        native, conforming = outcome(parse_split(split, [stream])), outcome(parse_conforming(split, [stream]))
        assert native == conforming == want, document
        if want:
            closed += len(want)
            cut = read(document.encode(), stream, chance.choice([1, 7, None]), chance.choice([1, 20, 60]))
            assert sorted(cut.punctuations) == sorted(text for _, text in want)
    assert closed > 10


def test_a_wrong_mark_is_an_error_with_its_position() -> None:
    stream = StreamSpec("s", SCHEMA, "t", marks=(ClosingMark("m", (("a", "n"),)),))
    for number, reason in (
        ("x", "attribute a: 'x' is not of type INT"),
        ("1</n><n>2", "n is given more than once"),
    ):
        document = f"<r>\n<t><a>1</a></t><m><n>7</n></m>\n<m><n>{number}</n></m><t><a>2</a></t></r>".encode()
        for cut in (1, 10**6):
            result = read(document, stream, cut=cut)
            assert result.error == f"doc, line 3, byte {document.rindex(b'<m>')}: mark <m>: {reason}"
            assert (result.tuples, result.punctuations) == ([(1, None)], ["<7, *>"])


def test_a_missing_value_closes_nothing_and_is_counted() -> None:
    stream = StreamSpec("s", SCHEMA, "t", marks=(ClosingMark("m", (("a", "n"),)),))
    for parse in (parse_split, parse_conforming):
        parsed = parse(Split("doc", Position(), b"<r><m/><m><n>1</n></m><m/></r>", True), [stream])
        assert parsed.overlooked[0]["valueless"] == {"m/n": 2}
        assert [str(p) for p in parsed.slices[0].punctuations] == ["<1, *>"]


def test_names_without_a_namespace_fit_that_of_the_tuples() -> None:
    marks = b"<m><n>1</n></m><y:m><n>2</n></y:m><m xmlns=''><n>3</n></m>"
    document = b"<r xmlns='urn:x' xmlns:y='urn:y'><t><a>1</a></t>" + marks + b"</r>"
    for element, closed in (("m", ["<1, *>", "<3, *>"]), ("{urn:y}m", []), ("{urn:x}m", ["<1, *>"])):
        stream = StreamSpec("s", SCHEMA, "{urn:x}t", marks=(ClosingMark(element, (("a", "n"),)),))
        assert read(document, stream, cut=1).punctuations == closed


def test_a_broken_document_closes_only_what_ended_before() -> None:
    """A mark around tuples does not take effect when the document is cut."""
    stream = StreamSpec("s", SCHEMA, "t", marks=(ClosingMark("c", (("k", "@k"),)),))
    document = b"<r><c k='1'><t><a>1</a></t></c><c k='2'><t><a>2</a></t></c></r>"
    for end in (document.index(b"</c></r>"), document.index(b"</c></r>") + 3):
        result = read(document[:end], stream)
        assert result.punctuations == ["<*, 1>"]
        assert result.error is not None


def test_a_mark_may_hold_more_tuples_than_the_limit_of_a_tuple() -> None:
    stream = StreamSpec("s", SCHEMA, "t", marks=(ClosingMark("c"),))
    document = b"<r><c>" + b"<t><a>1</a></t>" * 100 + b"</c></r>"
    result = read(document, stream, limits=Limits(inside=50))
    assert (len(result.tuples), result.punctuations, result.error) == (100, ["<*, *>"], None)


def test_a_mark_in_a_tuple_that_breaks_off_closes_nothing() -> None:
    """It would take effect behind the tuple, whose values can follow the mark."""
    stream = StreamSpec("s", SCHEMA, "t", marks=(ClosingMark("m", (("k", "@k"),)),))
    document = b"<r><t><m k='1'/></t><m k='2'/><t><a>1</a><m k='3'/><b>"
    for broken in (document, document + b"<t/></r>", document + b"\0</b></t></r>"):
        for cut in (1, None):
            result = read(broken, stream, cut=cut)
            assert (result.punctuations, result.error is not None) == (["<*, 1>", "<*, 2>"], True)
