"""The scanner and the conforming parser give the same, down to the byte of each reject and error."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.firehose.documents import BOTH, GUESSED, OPEN, PLAIN, SPECS, TYPED, body, damaged
from xmlpunct.errors import SourceError
from xmlpunct.firehose import (
    PUNCT_NAMESPACE,
    FirehoseReader,
    Parsed,
    Parser,
    Position,
    Source,
    Split,
    Splitter,
    StreamSpec,
    elements_of,
    loops,
    markup,
    parse_conforming,
    parse_split,
)
from xmlpunct.firehose import splitter as splitting
from xmlpunct.firehose.scan import scanner
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


@pytest.fixture(autouse=True, params=[True, False], ids=["compiled", "numpy"])
def _keen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scan whatever comes, however small and however often it was in vain."""
    if request.param and not loops.COMPILED:
        pytest.skip("there was no compiler when xmlpunct was installed")
    monkeypatch.setattr(loops, "COMPILED", request.param)
    monkeypatch.setattr(scanner, "LEAST", 0)
    monkeypatch.setattr(scanner, "WORTH", 1e9)
    monkeypatch.setattr(scanner, "_REST", 0)
    monkeypatch.setattr(splitting, "_LEAST_LEAP", 1)
    monkeypatch.setattr(markup, "_SMALL", 0)
    yield
    _warm.clear()


_warm: dict[tuple[StreamSpec, ...], Parser] = {}


def warm(specs: Sequence[StreamSpec]) -> Parser:
    """The parser that has read all that a test has read of the same streams."""
    return _warm.setdefault(tuple(specs), Parser(specs))


def everything(parsed: Parsed) -> dict[str, Any]:
    rows = [s.tuples.rows() for s in parsed.slices]
    late = []
    if parsed.rejection is not None:
        ends = [(i, row) for i, found in enumerate(rows) for row in (0, len(found) - 1) if found]
        late = [parsed.rejection(i, row, "late") for i, row in ends]
    return {
        "tuples": [[tuple(map(repr, row)) for row in found] for found in rows],
        "columns": [s.tuples.schema for s in parsed.slices],
        "punctuations": [[*map(str, s.punctuations)] for s in parsed.slices],
        "before": [s.before for s in parsed.slices],
        "bytes": [Slice(s.tuples, [*s.punctuations]).to_bytes() for s in parsed.slices],
        "counts": (parsed.dropped, parsed.read),
        "overlooked": parsed.overlooked,
        "rejects": parsed.rejects,
        "late": late,
        "error": str(parsed.error),
    }


def assert_same(split: Split, specs: Sequence[StreamSpec]) -> bool:
    """Compare the two on a split, whatever has been learnt by then; whether it is without error."""
    fast, slow = warm(specs).parse(split), parse_conforming(split, specs)
    assert everything(fast) == everything(slow), split
    return slow.error is None


def assert_same_everywhere(random: Random, document: bytes, specs: Sequence[StreamSpec]) -> int:
    """Compare the two on all splits of a document; how many there were.

    Proofs do not change the splits, unless one is malformed, and then not what is found in it.
    """
    prove = warm(specs).prove
    plain, proving = Splitter("doc", elements_of(specs)), Splitter("doc", elements_of(specs), prove=prove)
    feed, cut = random.choice([len(document) or 1, 1000, 300]), random.choice([None, None, 100, 700])
    count = 0
    for at in range(0, len(document) + feed, feed):
        for splitter in (plain, proving):
            splitter.feed(document[at : at + feed])
            if at >= len(document):
                splitter.end()
        while (split := proving.cut(cut)) is not None:
            other = plain.cut(cut)
            fine, count = assert_same(split, specs), count + 1
            if split != other:
                rest = document[at + feed :]
                ends = [
                    to_the_end(proving, split, cut, rest, specs),
                    to_the_end(plain, other, cut, rest, specs),
                ]
                assert ends[0] == ends[1]
                assert ends[0][1] is not None
                return count
            if not fine:
                return count
        assert plain.cut(cut) is None
    return count


def to_the_end(
    splitter: Splitter, split: Split | None, cut: int | None, rest: bytes, specs: Sequence[StreamSpec]
) -> tuple[list[str], str | None]:
    """The tuples of a split and of all that follows, ``rest`` included, and the error that ends them."""
    rows: list[list[str]] = [[] for _ in specs]
    error: SourceError | None = None
    fed = False
    while error is None and (split is not None or not fed):
        if split is None:
            splitter.feed(rest)
            splitter.end()
            fed = True
        else:
            assert_same(split, specs)
            parsed = parse_conforming(split, specs)
            error = parsed.error
            for found, slice_ in zip(rows, parsed.slices, strict=True):
                found += map(repr, slice_.tuples.rows())
        split = splitter.cut(cut)
    return [str(found) for found in rows], str(error) if error else None


def some(random: Random) -> int:
    """Compare on one random document, whole, damaged and torn out of itself; how many splits there were."""
    specs = random.choice([*[SPECS] * 3, *[(PLAIN,)] * 3, *[GUESSED] * 2, BOTH, TYPED])
    document = f"{OPEN}{body(random)}</r>".encode("utf-8", "surrogatepass")
    count = assert_same_everywhere(random, document, specs)
    for _ in range(3):
        count += assert_same_everywhere(random, damaged(random, document), specs)
    first, second = sorted(random.randrange(len(document) + 1) for _ in range(2))
    start = Position(5, 2, (OPEN,), True)
    assert_same(Split("doc", start, document[first:second], random.random() < 0.3), specs)
    return count + 1


@given(st.randoms(use_true_random=False))
def test_whatever_comes(random: Random) -> None:
    some(random)


@given(st.randoms(use_true_random=False))
def test_what_was_learnt_changes_nothing(random: Random) -> None:
    """Not even a byte: a parser that has read much, and one that has read nothing."""
    specs = random.choice([SPECS, (PLAIN,)])
    for _ in range(2):
        document = f"{OPEN}{body(random)}</r>".encode("utf-8", "surrogatepass")
        if random.random() < 0.2:
            document = damaged(random, document)
        split = Split("doc", Position(), document, True)
        assert everything(warm(specs).parse(split)) == everything(parse_split(split, specs)), split


ROWS = [f"\n<t><a>{i}</a><b>S{i % 7}</b></t>" for i in range(60)]
SAID = [f"\n<p:t><a>{i}</a></p:t>" for i in range(60)]


@pytest.mark.parametrize(
    ("columns", "body"),
    [
        ("a INT, b STRING", ROWS),
        ("a INT, b STRING", [row.replace("><", ">\n   <") for row in ROWS]),
        ("a INT, b STRING", [row.replace("><", ">\r\n\t<") for row in ROWS]),
        ("a INT, b STRING", [row.replace("</b>", " and more than fits into few bytes</b>") for row in ROWS]),
        ("a INT, b STRING", [row.replace("<t>", "<o:t>").replace("</t>", "</o:t>") for row in ROWS]),
        (
            "a INT PATH 'd/a', b STRING",
            [row.replace("<a>", "<d><a>").replace("</a>", "</a></d>") for row in ROWS],
        ),
        ("i INT PATH '@i', b STRING", [row.replace("<t>", f'<t i="{n}">') for n, row in enumerate(ROWS)]),
        ("i INT PATH '@i'", [f'\n<t i="{n}" j="x"/>' for n in range(60)]),
        (
            "a INT, b STRING",
            [row if n % 3 else row[: row.index("<b>")] + "</t>" for n, row in enumerate(ROWS)],
        ),
        ("b STRING, z INT", [row.replace("<b>", "<x/><y>what</y><b>") for row in ROWS]),
        ("a INT", [part for pair in zip(ROWS, SAID, strict=True) for part in pair]),
        ("a INT, b STRING", [row.replace("S", "\u20ac > S") for row in ROWS]),
    ],
)
def test_common_shapes_are_proven(columns: str, body: list[str]) -> None:
    element = "{urn:o}t" if "<o:t>" in body[0] else "t"
    spec = StreamSpec("s", Schema.parse(columns), element)
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join(body).encode(), False)
    assert assert_same(split, [spec])
    scanned = warm([spec])._scanner.scan(split)
    assert scanned is not None
    assert scanned.odd.data == b""
    proven = scanned.proven[0]
    assert len(proven.at) + sum(len(said.at) for said in proven.punctuations) == len(body)


def test_only_what_is_odd_is_parsed() -> None:
    body = [*ROWS[:20], "\n<t><a>&#52;2</a></t>", *ROWS[20:], "<!-- <t><a>1</a></t> -->", *ROWS]
    spec = StreamSpec("s", Schema.parse("a INT, b STRING"), "t")
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join(body).encode(), False)
    assert assert_same(split, [spec])
    scanned = warm([spec])._scanner.scan(split)
    assert scanned is not None
    assert len(scanned.odd.data) < 200
    assert len(scanned.proven[0].at) >= 118


def test_what_comes_last_is_learnt_too() -> None:
    spec = StreamSpec("s", Schema.parse("a INT, b STRING"), "t")
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join([*ROWS * 20, SAID[0]]).encode(), False)
    found = warm([spec])._scanner
    lengths = [len(scanned.odd.data) for _ in range(2) if (scanned := found.scan(split)) is not None]
    assert lengths == [len(SAID[0]), 0]


def test_what_is_proven_of_a_split_says_nothing_of_another_in_its_place() -> None:
    """The same bytes at the same place, but the prefix stands for something else."""
    first = Position(70, 2, (OPEN,), True)
    second = Position(70, 2, (OPEN.replace(PUNCT_NAMESPACE, "urn:p"),), True)
    data, parser = "".join([*ROWS, *SAID]).encode(), Parser([PLAIN])
    for mine, other in ((first, second), (second, first)):
        assert parser.prove(Split("doc", mine, data, False)) > 0
        split = Split("doc", other, data, False)
        assert everything(parser.parse(split)) == everything(parse_conforming(split, [PLAIN]))


def test_what_was_learnt_goes_with_its_reader() -> None:
    """At once, and not when garbage is collected next."""
    schema, data = Schema.parse("a INT, b STRING"), f"{OPEN}{''.join([*ROWS, *SAID])}</r>".encode()
    reader, count = FirehoseReader(Source.of(data), [StreamSpec("s", schema, "t")]), 0
    gc.disable()
    try:
        while (parsed := reader.read(500)) is not None:
            count += parsed.slices[0].tuples.height
        assert count == len(ROWS)
        learnt = reader._parser._scanner
        places = [*learnt._places.values()]
        found = [weakref.ref(t) for place in places for t in place.templates]
        found += [weakref.ref(reader._parser), weakref.ref(learnt)]
        assert len(found) > 2
        del reader, learnt, places
        assert [ref() for ref in found] == [None] * len(found)
    finally:
        gc.enable()


def test_a_return_in_a_value_is_seen_whatever_else_is_odd() -> None:
    """As many returns too many, in one value, as stand around a tuple with a comment."""
    rows = [row.replace("\n", "\r\n") for row in ROWS]
    rows[7], rows[9] = rows[7].replace("S", "\r"), rows[9].replace("S", "<!-- c -->")
    spec = StreamSpec("s", Schema.parse("a INT, b STRING"), "t")
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join(rows).encode(), False)
    assert assert_same(split, [spec])
    assert parse_split(split, [spec]).slices[0].tuples["b"][7] == "\n0"


def test_what_cannot_be_scanned_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "WORTH", 0.5)
    monkeypatch.setattr(scanner, "_REST", 1000)
    spec = StreamSpec("s", Schema.parse("a INT, b STRING"), "t")
    odd = "".join(row.replace("S", "&amp;") for row in ROWS).encode()
    split, tried = Split("doc", Position(0, 1, (OPEN,), True), odd, False), []
    found = warm([spec])._scanner
    monkeypatch.setattr(found, "_scan", lambda split: tried.append(split))
    for _ in range(64):
        found.scan(split)
    assert 4 <= len(tried) <= 8


def test_columns_that_are_not_needed_are_judged_all_the_same() -> None:
    schema = Schema.parse("a INT, b STRING, c STRING NOT NULL, d STRING CHECK (d IN ('x', 'y'))")
    rows = "".join(
        f"<t><a>{a}</a><b>1</b>{c}<d>{d}</d></t>" for a, c, d in [(1, "<c/>", "x"), ("z", "", "z")]
    )
    spec = StreamSpec("s", schema, "t", columns=frozenset("c"))
    split = Split("doc", Position(0, 1, (OPEN,), True), rows.encode(), False)
    assert assert_same(split, [spec])
    found = parse_split(split, [spec])
    assert found.slices[0].tuples["c"].to_list() == [""]
    assert found.slices[0].tuples["b"].to_list() == [None]
    assert found.slices[0].tuples.schema == schema.empty().schema
    whole = parse_split(split, [StreamSpec("s", schema, "t")])
    assert found.rejects == whole.rejects


def test_damage() -> None:
    for seed in range(60):
        some(Random(seed))


@pytest.mark.long
@pytest.mark.skipif(os.environ.get("XMLPUNCT_LONG") != "1", reason="takes as long as it is given")
def test_damage_for_long() -> None:
    """As long as XMLPUNCT_SECONDS says (600).

    XMLPUNCT_LONG=1 XMLPUNCT_SECONDS=3600 pytest -m long -s tests/firehose/test_scan.py
    """
    seed, count, until = (
        time.time_ns(),
        0,
        time.monotonic() + float(os.environ.get("XMLPUNCT_SECONDS", "600")),
    )
    while time.monotonic() < until:
        seed += 1
        if seed % 3 == 0:
            _warm.clear()
        try:
            count += some(Random(seed))
        except BaseException:
            print(f"seed {seed}, after {count:,} splits")
            raise
    print(f"{count:,} splits")
