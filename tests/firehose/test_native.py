"""The native reader and libxml2 agree, down to the byte of each reject and error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.firehose import fuzz
from tests.firehose.documents import BOTH, GUESSED, OPEN, PLAIN, SHAPED, SPECS, TYPED, body, damaged
from tests.firehose.outcomes import contents
from xmlpunct.firehose import (
    Parser,
    Position,
    Split,
    Splitter,
    StreamSpec,
    elements_of,
    native,
    parse_conforming,
    parse_split,
)
from xmlpunct.firehose.parser import _Parse
from xmlpunct.schema import Schema

pytestmark = pytest.mark.skipif(
    not native.COMPILED, reason="there was no compiler when xmlpunct was installed"
)


def assert_same(split: Split, specs: Sequence[StreamSpec]) -> bool:
    """Assert that both readers agree on a split; True if it has no error."""
    fast, slow = parse_split(split, specs), parse_conforming(split, specs)
    assert contents(fast) == contents(slow), split
    return slow.error is None


def is_walked(split: Split, specs: Sequence[StreamSpec]) -> bool:
    """True if the native reader handles a split without libxml2."""
    return Parser(specs)._walker.walk(split) is not None


def splits_of(
    document: bytes, specs: Sequence[StreamSpec], feed: int, cut: int | None, parser: Parser | None = None
) -> Iterator[Split]:
    """The splits of a document fed in pieces; with a parser, it reads ahead."""
    splitter = Splitter("doc", elements_of(specs), ahead=parser and parser.ahead)
    for at in range(0, len(document) + feed, feed):
        splitter.feed(document[at : at + feed])
        if at >= len(document):
            splitter.end()
        while (split := splitter.cut(cut)) is not None:
            yield split


def assert_same_everywhere(random: Random, document: bytes, specs: Sequence[StreamSpec]) -> int:
    """Assert that both readers agree on all splits of a document; the number of splits.

    Every way of cutting gives the same splits; after an error, only the same rows.
    """
    feed, cut = random.choice([len(document) or 1, 1000, 300, 7]), random.choice([None, None, 100, 700])
    ways = []
    for parser, compiled in ((Parser(specs), True), (None, True), (None, False)):
        splits, error = [], "None"
        rows: list[list[str]] = [[] for _ in specs]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "COMPILED", compiled)
            for split in splits_of(document, specs, feed, cut, parser):
                splits.append(split)
                outcome = contents((parser.parse if parser else partial(parse_split, specs=specs))(split))
                assert not parser or outcome == contents(parse_conforming(split, specs)), split
                for stream_rows, split_rows in zip(rows, outcome["tuples"], strict=True):
                    stream_rows += map(str, split_rows)
                if (error := outcome["error"]) != "None":
                    break
        ways.append((rows, error, splits if error == "None" else None))
    assert ways[0] == ways[1] == ways[2]
    return len(splits)


def compare_random(random: Random) -> int:
    """Compare on a random document, on damaged copies and on a piece of it; the number of splits."""
    specs = random.choice([*[SPECS] * 3, *[(PLAIN,)] * 2, *[GUESSED] * 2, *SHAPED, BOTH, TYPED])
    document = f"{OPEN}{body(random)}</r>".encode("utf-8", "surrogatepass")
    count = assert_same_everywhere(random, document, specs)
    for _ in range(3):
        count += assert_same_everywhere(random, damaged(random, document), specs)
    first, second = sorted(random.randrange(len(document) + 1) for _ in range(2))
    start = Position(5, 2, (OPEN,), True)
    assert_same(Split("doc", start, document[first:second], random.random() < 0.3), specs)
    return count + 1


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking takes minutes and helps little
@given(st.randoms(use_true_random=False))
def test_random_documents(random: Random) -> None:
    compare_random(random)


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
        ("a INT, b STRING", [row.replace("<b>", "<?page 1?><b><?go > on?>") for row in ROWS]),
    ],
)
def test_common_shapes_are_not_passed_on(columns: str, body: list[str]) -> None:
    element = "{urn:o}t" if "<o:t>" in body[0] else "t"
    spec = StreamSpec("s", Schema.parse(columns), element)
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join(body).encode(), False)
    assert assert_same(split, [spec])
    assert is_walked(split, [spec])


ORDERS = "".join(
    f"<order id='{i}'><to>C{i}</to><!-- c --><line><sku>S{i}</sku><q>1</q><q>2</q></line>"
    f"<l\u00ednea a\u00f1o='{i}'><\u884c\u6570>\u00e9</\u884c\u6570><\u00e9/></l\u00ednea>"
    f"<line k='x'><sku>T{i}</sku><part><q>3</q></part><part/></line></order>"
    for i in range(9)
)
FORMS = [
    (StreamSpec("s", Schema.parse("id INT PATH '../@id', sku STRING"), "line"),),
    (StreamSpec("s", Schema.parse("id INT PATH '../@id', who STRING PATH '../to', sku STRING"), "line"),),
    (StreamSpec("s", Schema.parse("id INT PATH '../../@id', who STRING NOT NULL PATH '../../to'"), "part"),),
    (StreamSpec("s", Schema.parse("sku STRING, k STRING PATH '@k'"), "order/line"),),
    (
        StreamSpec(
            "s",
            Schema.parse("id INT PATH '@id', line XML PATH 'line[@k=''x'']', whole XML PATH '.'"),
            "order",
        ),
    ),
    (
        StreamSpec(
            "s", Schema.parse("line ARRAY(sku STRING, q ARRAY(n INT PATH '.'), x XML PATH '.')"), "order"
        ),
    ),
    (StreamSpec("s", Schema.parse("id INT PATH '@id', sku STRING PATH 'line[2]/sku'"), "order"),),
    (StreamSpec("s", Schema.parse("q ARRAY(n INT PATH '.'), sku STRING"), "line"),) * 2,
    (
        StreamSpec("s", Schema.parse("sku STRING"), "line", where=("k", "x")),
        StreamSpec("t", Schema.parse("part ARRAY(q INT), who STRING PATH '../to'"), "line"),
        StreamSpec("u", Schema.parse("id INT PATH '@id'"), "order"),
    ),
    (StreamSpec("s", Schema.parse("id INT PATH '@id', who STRING PATH 'to'"), "order", nested=True),),
    (
        StreamSpec(
            "s",
            Schema.parse("a INT PATH '@a\u00f1o', k STRING PATH '\u884c\u6570', id INT PATH '../@id'"),
            "l\u00ednea",
        ),
    ),
    (
        StreamSpec(
            "s",
            Schema.parse(
                ", ".join(
                    f"c{i} STRING PATH 'line[@k=''{i}'']/sku', d{i} STRING PATH 'line[@k{i}=''x'']'"
                    for i in range(6)
                )
            ),
            "order",
        ),
    ),
]


@pytest.mark.parametrize("specs", FORMS)
def test_no_form_of_a_stream_is_passed_on(specs: Sequence[StreamSpec]) -> None:
    """The native reader handles each form, also when it reads ahead with ancestors that span splits."""
    document = f"{OPEN}{ORDERS}<order id='n'><order id='10'>{ORDERS}</order><to>x</to></order></r>".encode()
    assert assert_same(Split("doc", Position(), document, True), specs)
    parser = Parser(specs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Parse, "find", None)  # the parser with libxml2
        splits = [*splits_of(document, specs, 70, 200, parser)]
        assert all(parser._walker.walk(split) is not None for split in splits)
        assert [*splits_of(document, specs, 70, 200)] == splits
    for split in splits:
        assert assert_same(split, specs)


def test_punctuations_of_chosen_tuples_are_not_passed_on() -> None:
    document = f"{OPEN}<p:t k='x'><a>1</a></p:t><p:t k='y'><a>2</a></p:t><p:t><a>3</a></p:t></r>".encode()
    specs = [
        StreamSpec("s", Schema.parse("a INT, b STRING PATH 'c[@k=''1'']', x XML"), "t", where=("k", "x"))
    ]
    split = Split("doc", Position(), document, True)
    assert is_walked(split, specs)
    assert assert_same(split, specs)
    assert [*map(str, parse_split(split, specs).slices[0].punctuations)] == ["<1, *, *>", "<3, *, *>"]


def test_items_of_an_incomplete_tuple_are_left_for_the_next_split() -> None:
    spec = StreamSpec("s", Schema.parse("d ARRAY(a INT, b ARRAY(v INT PATH '.'))"), "t")
    document = f"{OPEN}<t><d><a>1</a><b>2</b></d></t><t><d><a>3</a><b>4</b></d><d><b>5</b>".encode()
    parser = Parser([spec])
    prefix = parser.ahead(Split("doc", Position(), document, False))
    assert prefix is not None
    split = Split("doc", Position(), document[: prefix[0].boundary], False)
    assert contents(parser.parse(split)) == contents(parse_conforming(split, [spec]))
    assert parser.parse(split).slices[0].tuples["d"].to_list() == [[{"a": 1, "b": [{"v": 2}]}]]


def test_what_is_missing_for_its_namespace_is_counted_by_path_in_all_arrays() -> None:
    spec = StreamSpec("s", Schema.parse("l ARRAY(q ARRAY(q INT), v INT), m ARRAY(v INT)"), "t")
    split = Split("doc", Position(), f"{OPEN}<t><o:l/><o:m/></t></r>".encode(), True)
    assert is_walked(split, [spec])
    assert assert_same(split, [spec])


def test_a_carriage_return_in_a_value_is_normalized_among_odd_tuples() -> None:
    """A value has as many extra carriage returns as the white space around a tuple with a comment."""
    rows = [row.replace("\n", "\r\n") for row in ROWS]
    rows[7], rows[9] = rows[7].replace("S", "\r"), rows[9].replace("S", "<!-- c -->")
    spec = StreamSpec("s", Schema.parse("a INT, b STRING"), "t")
    split = Split("doc", Position(0, 1, (OPEN,), True), "".join(rows).encode(), False)
    assert assert_same(split, [spec])
    assert parse_split(split, [spec]).slices[0].tuples["b"][7] == "\n0"


def test_unneeded_columns_are_still_checked() -> None:
    schema = Schema.parse("a INT, b STRING, c STRING NOT NULL, d STRING CHECK (d IN ('x', 'y'))")
    rows = "".join(
        f"<t><a>{a}</a><b>1</b>{c}<d>{d}</d></t>" for a, c, d in [(1, "<c/>", "x"), ("z", "", "z")]
    )
    spec = StreamSpec("s", schema, "t", columns=frozenset("c"))
    split = Split("doc", Position(0, 1, (OPEN,), True), rows.encode(), False)
    assert assert_same(split, [spec])
    parsed = parse_split(split, [spec])
    assert parsed.slices[0].tuples["c"].to_list() == [""]
    assert parsed.slices[0].tuples["b"].to_list() == [None]
    assert parsed.slices[0].tuples.schema == schema.empty().schema
    all_columns = parse_split(split, [StreamSpec("s", schema, "t")])
    assert parsed.rejects == all_columns.rejects


def test_items_of_a_tuple_that_is_cut_are_counted_with_it() -> None:
    """The document has no undeclared elements, so the reader walks over it once."""
    spec = StreamSpec("s", Schema.parse("l ARRAY(q INT, u STRING PATH '@u'), m ARRAY(v INT PATH '@v')"), "t")
    parser = Parser([spec])
    data = b"<r><t><l><q>1</q></l><m v='2'/></t><t/><t><l u='x'/><l><q>3</q></l><m v='4'/></t></r>"
    for stop in range(len(data) + 1):
        prefix = parser.ahead(Split("doc", Position(), data[:stop], False))
        assert prefix is not None
        split = Split("doc", Position(), data[: prefix[0].boundary], False)
        assert contents(parser.parse(split)) == contents(parse_conforming(split, [spec]))


def test_damage() -> None:
    for seed in range(60):
        compare_random(Random(seed))


@pytest.mark.parametrize("specs", fuzz.ALL)
@pytest.mark.parametrize("final", [True, False])
def test_odd_documents(specs: Sequence[StreamSpec], final: bool) -> None:
    for document in fuzz.ODD:
        data = document.encode("utf-8", "surrogatepass")
        assert_same(Split("doc", Position(), data, final), specs)


def test_which_odd_documents_are_passed_on() -> None:
    not_walked = [
        document
        for document in fuzz.ODD
        if not is_walked(Split("doc", Position(), document.encode("utf-8", "surrogatepass"), True), SPECS)
    ]
    well_formed = fuzz.ODD[1 : fuzz.ODD.index("<\u00e9><t/></\u00e9>")]
    excluded = ["<r><t><b>1</b><b>2</b>"]
    assert [
        document for document in not_walked if document in well_formed and document[:22] not in excluded
    ] == [
        f"{OPEN}<p:t><a>1</a><a>2</a></p:t></r>",  # a wrong punctuation
        f"{OPEN}<p:t>x<a>1</a></p:t></r>",
    ]


def test_mutated_documents() -> None:
    fuzzer = fuzz.Fuzzer()
    for seed in range(1500):
        fuzzer.run_once(Random(seed))
    assert fuzzer.walked > 100


@pytest.mark.long
@pytest.mark.skipif(os.environ.get("XMLPUNCT_LONG") != "1", reason="runs for XMLPUNCT_SECONDS seconds")
def test_damage_for_long() -> None:
    """Runs for XMLPUNCT_SECONDS seconds (600).

    XMLPUNCT_LONG=1 XMLPUNCT_SECONDS=3600 pytest -m long -s tests/firehose/test_native.py
    """
    seed, count, until = (
        time.time_ns(),
        0,
        time.monotonic() + float(os.environ.get("XMLPUNCT_SECONDS", "600")),
    )
    while time.monotonic() < until:
        seed += 1
        try:
            count += compare_random(Random(seed))
        except BaseException:
            print(f"seed {seed}, after {count:,} splits")
            raise
    print(f"{count:,} splits")
