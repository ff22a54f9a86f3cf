"""The splitter: the outcome of a document does not depend on how it is fed and cut."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import ROOT, read, spec
from xmlpunct.firehose import Limits, Position, Split, Splitter, elements_of, native
from xmlpunct.firehose import splitter as splitting
from xmlpunct.firehose.native.tags import elements, exact_tokens, tokens
from xmlpunct.firehose.native.walker import Walk, boundaries

WELL = [
    "<t><a>1</a></t>",
    "<t><a>2</a><b>x</b></t>",
    "<t><a>x</a></t>",
    "<p:t><a>[1,2]</a></p:t>",
    "<p:t><z>1</z></p:t>",
    "<x><t/></x>",
    "<!-- <t> -->",
    "text > ",
    "don't",
    "<t><b><![CDATA[<t>]]></b></t>",
    """<x y="a>b" z="'"/>""",
    "<?pi <t>?>",
    "\n",
    "<x xmlns:p='urn:q'><p:t/><t><a>5</a></t></x>",
    "<x xmlns='urn:q'><t><a>6</a></t></x>",
    "<t><t><a>1</a></t></t>",
    f"</r>\n<!-- between --><?xml version='1.0'?>{ROOT}",
]
ILL = [
    *(
        "<t>",
        "</t>",
        "<a>",
        "</a>",
        "<p:t>",
        "</p:t>",
        "<p:t><a>[</a></p:t>",
        "<q:x/>",
        "<!-- ",
        "-->",
        "<![CDATA[",
    ),
    *(
        "]]>",
        "<?x",
        "?>",
        "<",
        ">",
        '"',
        "'",
        "=",
        ' x="1"',
        '<t x="<">',
        "<t x='>",
        "&",
        "&lt;",
        "&#0;",
        "&foo;",
    ),
    *(
        "\x01",
        "\xe9",
        "</r>",
        "<r>",
        "</>",
        "<>",
        "<!",
        "<!DOCTYPE x>",
        "<?xml version='1.0'?>",
        "<x>",
        "</x>",
        "<p:r>",
    ),
]
well, ill = st.sampled_from(WELL), st.sampled_from([*ILL, *WELL])
bodies = st.one_of(
    st.lists(well, max_size=20),
    st.lists(ill, max_size=25),
    st.tuples(st.lists(well, max_size=8), st.lists(ill, max_size=3), st.lists(well, max_size=8)).map(
        lambda parts: [*parts[0], *parts[1], *parts[2]]
    ),
)


@given(
    bodies,
    st.booleans(),
    st.booleans(),
    st.integers(0, 30),
    st.sampled_from([1, 7, 64, 65536]),
    st.sampled_from([1, 17, 60, 300, None]),
    st.booleans(),
)
def test_any_pieces_give_the_same(
    body: list[str], opened: bool, closed: bool, lost: int, feed: int, cut: int | None, compiled: bool
) -> None:
    document = f"{ROOT if opened else ''}{''.join(body)}{'</r>' if closed else ''}".encode()
    document = document[: len(document) - lost] if lost > 20 else document
    expected = read(document, spec())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "COMPILED", compiled and native.COMPILED)
        assert read(document, spec(), feed, cut) == expected


@given(
    bodies,
    st.booleans(),
    st.sampled_from([1, 7, 65536]),
    st.sampled_from([17, None]),
    st.sampled_from([0, 10, 2**16]),
    st.sampled_from([8, 60, 1000]),
    st.sampled_from([60, 120]),
)
def test_limits_do_not_depend_on_pieces(
    body: list[str], closed: bool, feed: int, cut: int | None, patience: int, tag: int, element: int
) -> None:
    limits = Limits(tag=tag, element=element, namespaces=2, depth=5)
    document = f"{ROOT}{''.join(body)}{'</r>' if closed else ''}".encode()
    expected = read(document, spec(), limits=limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_LONG", patience)
        assert read(document, spec(), feed, cut, limits) == expected


def test_a_cut_may_be_in_a_later_element_of_the_same_name() -> None:
    rows = b"".join(b"<t><a>%d</a></t>" % n for n in range(100))
    splitter = Splitter("doc", elements_of([spec()]), Position(0, 1, ("<r>", "<s n='1'>"), True))
    splitter.feed(rows + b"</s><s n='2'>" + rows + b"<t><a>1")
    split = splitter.cut()
    assert split is not None
    assert split.data == rows + b"</s><s n='2'>" + rows
    assert splitter.position.open == ("<r>", "<s n='2'>")


@given(bodies, st.sampled_from([1, 40, None]))
def test_the_verdict_is_that_of_the_whole_document(body: list[str], cut: int | None) -> None:
    document = f"{ROOT}{''.join(p for p in body if not p.startswith('</r>'))}</r>".encode()
    outcome = read(document, spec(), None, cut)
    assume(not (outcome.error and "wrong punctuation" in outcome.error))
    parser = etree.XMLParser(resolve_entities=False)
    try:
        etree.fromstring(document, parser)
        accepted = all(entry.level_name == "WARNING" for entry in parser.error_log)
    except etree.XMLSyntaxError:
        accepted = False
    assert (outcome.error is None) == accepted


@given(st.lists(well, max_size=20), st.integers(1, 100), st.integers(1, 300))
def test_pieces_are_the_document(body: list[str], feed: int, cut: int) -> None:
    document = f"{ROOT}{''.join(body)}</r>\n".encode()
    splitter, splits = Splitter("doc", elements_of([spec()])), []
    for at in range(0, len(document), feed):
        splitter.feed(document[at : at + feed])
        while split := splitter.cut(cut):
            splits.append(split)
    splitter.end()
    while split := splitter.cut(cut):
        splits.append(split)
    assert b"".join(s.data for s in splits) == document
    assert [s.final for s in splits] == [False] * (len(splits) - 1) + [True]
    at = 0
    for split in splits:
        start = split.start
        assert (start.byte, start.line) == (at, 1 + document.count(b"\n", 0, at))
        assert Position.from_json(json.loads(json.dumps(start.to_json()))) == start
        assert pickle.loads(pickle.dumps(split)) == split
        at += len(split.data)


@given(st.lists(well, max_size=12), st.integers(1, 200))
def test_going_on_from_a_position(body: list[str], cut: int) -> None:
    document = f"{ROOT}{''.join(body)}</r>".encode()
    first = Splitter("doc", elements_of([spec()]))
    first.feed(document)
    first.cut(cut)
    second = Splitter("doc", elements_of([spec()]), first.position)
    second.feed(document[first.position.byte :])
    first.end()
    second.end()
    while (split := first.cut(cut)) is not None:
        assert second.cut(cut) == split
    assert second.cut(cut) is None


def pieces(document: bytes, limit: int | None = None) -> list[bytes]:
    splitter = Splitter("doc", elements_of([spec()]))
    splitter.feed(document)
    splitter.end()
    splits: list[Split] = []
    while split := splitter.cut(limit):
        splits.append(split)
    return [s.data for s in splits]


def test_tuples_stay_whole_and_limits_are_kept() -> None:
    document = b"<r><t>11</t><t>22</t>x<t>333333333333333333333</t><t/></r>"
    assert pieces(document, 21) == [
        b"<r><t>11</t><t>22</t>",
        b"x",
        b"<t>333333333333333333333</t><t/></r>",  # the limit is dropped for a piece that exceeds it
    ]
    assert pieces(document, 1000) == [document]
    assert b"".join(pieces(document, 22)) == document
    assert all(piece.count(b"<t>") == piece.count(b"</t>") for piece in pieces(document, 1))


def test_comments_with_look_alikes() -> None:
    document = (
        b"<r><!-- <t> --><t>1</t><!-- </r> --><![CDATA[</r><t>]]><?x </r>?><x y='</r>' z='>'/><t>2</t></r>"
    )
    assert b"".join(pieces(document, 1)) == document


def test_each_document_is_cut_off() -> None:
    assert pieces(b"<r/>\n<r><t/></r><r></r> \n") == [b"<r/>", b"\n<r><t/></r>", b"<r></r> \n"]


def test_a_complete_tuple_does_not_wait() -> None:
    splitter = Splitter("doc", elements_of([spec()]))
    splitter.feed(b"<r><t>1</t>")
    split = splitter.cut()
    assert split is not None
    assert split.data == b"<r><t>1</t>"
    splitter.feed(b"<t>2</t")
    assert splitter.cut() is None
    assert splitter.pending == 7


def test_open_elements_have_namespaces() -> None:
    splitter = Splitter("doc", {"{urn:x}t"})
    splitter.feed(b"<p:r xmlns:p='urn:&#x78;'><x xmlns='urn:x' a=\" xmlns='urn:y'\"><t><p:t><y/>")
    split = splitter.cut()
    assert split is not None
    assert split.data.endswith(b"><x xmlns='urn:x' a=\" xmlns='urn:y'\">")
    assert splitter.position.open == ("<p:r xmlns:p='urn:&#x78;'>", "<x xmlns='urn:x' a=\" xmlns='urn:y'\">")


def test_of_a_long_tag_only_names_are_kept() -> None:
    splitter = Splitter("doc", {"{urn:x}t"})
    uri = 'u"&#10;&#x0000041;&lt;'
    splitter.feed(f"<p:r a='{'x' * 2000}' xmlns:p='{uri}' b='2'><x xmlns='urn:x' b='1'><t/>".encode())
    split = splitter.cut()
    assert split is not None
    shortened, other = splitter.position.open
    assert shortened == '<p:r xmlns:p="u&quot;&#10;A&lt;">'
    assert other == "<x xmlns='urn:x' b='1'>"
    assert [e.namespaces for e in elements(splitter.position.open)] == [
        {"p": 'u"\nA<'},
        {"p": 'u"\nA<', "": "urn:x"},
    ]


@pytest.mark.parametrize("inside", [b"<a>%d</a>", b"<!-- > %d -->", b"%d > "])
def test_a_large_element_byte_by_byte_takes_linear_time(inside: bytes) -> None:
    body = b"".join(inside % n for n in range(3000))
    outcome = read(
        b"<r><t><b>x</b><!-- " + body.replace(b"--", b"- -") + b"--><c>" + body + b"</c></t></r>", spec(), 3
    )
    assert outcome.tuples == [(None, "x")]


def test_many_small_documents_take_linear_time() -> None:
    count = 5000
    assert len(pieces(b"<r><t/></r>\n" * count)) == count


def test_data_after_an_element_that_is_too_long_is_discarded() -> None:
    splitter = Splitter("doc", elements_of([spec()]), limits=Limits(element=100))
    splitter.feed(b"<r><t>" + b"x" * 200)
    first = splitter.cut()
    assert first is not None
    assert first.data == b"<r>"
    assert splitter.cut() is not None
    assert splitter.finished
    splitter.feed(b"x")
    assert (splitter.cut(), splitter.pending) == (None, 0)


@given(
    st.one_of(st.lists(well, max_size=12), st.lists(ill, max_size=12)),
    st.sampled_from(["", "<t", "<!--", "<a b='>", "<", "<!x>", "<?x >", "<t <?x ?>>", "<t <!-- -->", "<\0>"]),
)
@example(["<t <?x ?>></t>"], "")
def test_the_compiled_way_finds_the_same_tokens(body: list[str], last: str) -> None:
    data = ("".join(body) + last).encode()
    fast, exact = tokens(data), exact_tokens(data)
    assert (fast.tail, fast.broken) == (exact.tail, exact.broken)
    for name in ("start", "end", "delta", "element"):
        assert getattr(fast, name).tolist() == getattr(exact, name).tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("before", ["", "<r>", "<r><t><a>"])
@pytest.mark.parametrize(
    "beginning",
    ["", "<!--", "<!", "<?", "<?x ", "<![CDATA[", "<!DOCTYPE r '", "<!DOCTYPE ", "<x ", "<x a='", "</"],
)
def test_waiting_for_an_end_takes_linear_time(
    before: str, beginning: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for an end is linear, even if the text resembles the end, as in ``<!-->``."""
    monkeypatch.setattr(native, "COMPILED", compiled and native.COMPILED)
    looked = 0

    def counted(split: Split, *arguments: Any) -> Walk | None:
        nonlocal looked
        looked += len(split.data)
        return boundaries(split, *arguments)

    monkeypatch.setattr(splitting, "boundaries", counted)
    for unit in (">", "->", "-> ", "-", "?", "?x", "]", "]>", '"', "x", " ", "-\u20ac>"):
        document, looked = f"{before}{beginning}{unit * (8000 // len(unit))}".encode(), 0
        splitter = Splitter("doc", {"t"})
        for at in range(0, len(document), 100):
            splitter.feed(document[at : at + 100])
            splitter.cut()
        assert looked <= 4 * len(document), unit
