"""Promised against the plain set of the same punctuations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct import Punctuation, PunctuationSet, Schema, match
from xmlpunct.punctuations.promised import Promised
from xmlpunct.punctuations.punctuation import covers, from_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.types import INT
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import Values, interval

SCHEMA = Schema.parse("a INT, d DATE, x STRING")
NUMBERS = st.integers(-5, 5)


def day(n: int) -> date:
    return date(2026, 1, 10) + timedelta(n)


@st.composite
def punctuations(draw: st.DrawFn) -> Punctuation:
    low = draw(NUMBERS)
    high = low + draw(st.integers(0, 3))
    a = [f"[{low},{high}]", f"{low}", f"(,{low}]", f"[{high},)", f"{{{low},{high + 2}}}", "(,)"]
    d = [f"[{day(low)},{day(high)}]", f"{day(low)}", f"(,{day(high)})"]
    kind = draw(st.sampled_from(["a", "d", "x", "ax"]))
    if kind == "a":
        return Punctuation.of(SCHEMA, a=draw(st.sampled_from(a)))
    if kind == "d":
        return Punctuation.of(SCHEMA, d=draw(st.sampled_from(d)))
    return Punctuation.of(SCHEMA, x="u") if kind == "x" else Punctuation.of(SCHEMA, a=low, x="v")


@st.composite
def boxes(draw: st.DrawFn) -> Punctuation:
    patterns = {
        "a": f"(,{draw(NUMBERS)}]",
        "d": f"(,{day(draw(NUMBERS))}]",
        "x": draw(st.sampled_from(["u", "(,v]"])),
    }
    names = draw(st.sampled_from([("a", "d"), ("a", "x"), ("x",), ("a", "d", "x")]))
    return Punctuation.of(SCHEMA, **{name: patterns[name] for name in names})


TUPLES = st.tuples(
    st.none() | st.integers(-8, 8), st.integers(-8, 8).map(day), st.sampled_from([*"uvw", None])
)


@given(st.lists(punctuations(), max_size=12), st.lists(TUPLES, max_size=30), st.sets(st.integers(0, 11)))
def test_matches_what_the_punctuations_match(
    received: list[Punctuation], tuples: list[tuple[object, ...]], restarts: set[int]
) -> None:
    covered = Promised(SCHEMA)
    for i, p in enumerate(received):
        covered.add([p])
        if i in restarts:
            restored = Promised(SCHEMA)
            restored.restore(covered.snapshot())
            covered = restored
    frame = SCHEMA.frame(tuples)
    assert covered.mask(frame).to_list() == PunctuationSet(SCHEMA, received).mask(frame).to_list()
    names = [min((",".join(p.as_dict()) for p in received if match(t, p)), default=None) for t in tuples]
    assert covered.schemes(frame).to_list() == names


def test_after_the_end_no_punctuation_is_retained() -> None:
    covered = Promised(SCHEMA)
    end, on_x = Punctuation.everything(SCHEMA), Punctuation.of(SCHEMA, x="v")
    covered.add([Punctuation.of(SCHEMA, a=1), on_x, end, on_x, Punctuation.of(SCHEMA, a=2)])
    assert len(covered) == 0, "no punctuation after the end is retained"
    assert covered.schemes(SCHEMA.frame([(1, None, "v")])).to_list() == [""]


def test_items_that_close_one_by_one_take_no_room() -> None:
    covered = Promised(SCHEMA)
    covered.add(Punctuation.of(SCHEMA, a=i) for i in range(10_000))
    assert len(covered) == 1


def test_the_ends_of_the_type() -> None:
    covered = Promised(SCHEMA)
    covered.add([Punctuation.of(SCHEMA, a="(,-9223372036854775807]"), Punctuation.of(SCHEMA, a=2**63 - 1)])
    frame = SCHEMA.frame([(n, None, None) for n in (-(2**63), -(2**63) + 2, 2**63 - 2, 2**63 - 1)])
    assert covered.mask(frame).to_list() == [True, False, False, True]


EDGES = [*range(-(2**63), -(2**63) + 4), *range(-2, 3), *range(2**63 - 4, 2**63)]
BOUNDS = st.tuples(st.sampled_from([None, *EDGES]), st.sampled_from([None, *EDGES]))


@given(st.lists(st.lists(BOUNDS, max_size=4), max_size=5))
def test_intervals_fuse_whatever_their_order(batches: list[list[tuple[int | None, int | None]]]) -> None:
    covered, received = Promised(SCHEMA), list[Punctuation]()
    frame = SCHEMA.frame([(n, None, None) for n in EDGES])
    for batch in batches:
        drawn = (Punctuation.of(SCHEMA, a=interval(INT, low, high, True, True)) for low, high in batch)
        non_empty = [p for p in drawn if not p.is_empty]
        received += non_empty
        covered.add(non_empty)
        inside = [any(p.patterns[0].matches(n) for p in received) for n in EDGES]
        assert covered.mask(frame).to_list() == inside
    edges = [(low[1], high[1]) for p in received for low, high in cuts(p.patterns[0])]
    apart = sum(
        all(not (low < start <= high) for low, high in edges) for start in {start for start, _ in edges}
    )
    assert len(covered) == apart


def test_punctuations_that_do_not_fuse_are_forgotten_above_a_limit_and_counted() -> None:
    covered = Promised(SCHEMA, most=10)
    covered.add(Punctuation.of(SCHEMA, x=f"v{i}") for i in range(15))
    assert (len(covered), covered.forgotten) == (10, 5)
    frame = SCHEMA.frame([(1, None, "v4"), (1, None, "v5")])
    assert covered.mask(frame).to_list() == [False, True]
    covered.add(Punctuation.of(SCHEMA, a=3 * n) for n in range(16))  # the larger of the two schemes
    assert (len(covered), covered.forgotten) == (10, 21)
    assert sum(covered.mask(SCHEMA.frame([(3 * n, None, "w") for n in range(16)]))) > 0
    restored = Promised(SCHEMA, most=10)
    restored.restore(covered.snapshot())
    assert (len(restored), restored.forgotten) == (10, 21)


def test_an_empty_batch_closes_nothing() -> None:
    covered = Promised(SCHEMA)
    covered.add(PunctuationBatch.of_column(SCHEMA, 0, pl.Series([], dtype=pl.Int64())))
    assert covered.mask(SCHEMA.frame([(1, None, None)])).to_list() == [False]
    assert not covered.snapshot()["intervals"].height


@given(st.lists(punctuations() | boxes(), max_size=20), st.lists(TUPLES, max_size=30))
def test_a_punctuation_that_a_later_one_implies_is_purged(
    received: list[Punctuation], tuples: list[tuple[object, ...]]
) -> None:
    covered, written = Promised(SCHEMA), list[Punctuation]()
    for p in received:
        news = covered.news(PunctuationBatch([p]))
        assert len(news) or any(covers(q, p) for q in written) or len(p.constrained) == 1
        written += news
        covered.add(news)
    frame = SCHEMA.frame(tuples)
    assert covered.mask(frame).to_list() == PunctuationSet(SCHEMA, received).mask(frame).to_list()
    remembered = [p for p in from_frame(SCHEMA, covered.snapshot()["punctuations"]) if p.constants is None]
    alike = [
        (p, q)
        for p in remembered
        for q in remembered
        if p is not q and p.keys([0, 1, 2]) == q.keys([0, 1, 2])
    ]
    assert not any(covers(p, q) for p, q in alike if p.constrained == q.constrained)


@pytest.mark.parametrize(
    "grown",
    [
        lambda i: {"a": f"(,{i}]", "x": "(,u]"},
        lambda i: {"a": f"(,{i}]", "d": f"(,{day(i)}]"},
        lambda i: {"a": f"(,{i // 3}]", "d": f"(,{day(0)}]", "x": f"k{i % 3}"},
        lambda i: {"x": f"(,{i:05}]"},
    ],
    ids=["one of two ranges", "both ranges", "beside constants", "strings"],
)
def test_ranges_that_grow_take_no_room(grown: Callable[[int], dict[str, object]]) -> None:
    covered, sizes = Promised(SCHEMA), list[int]()
    for i in range(300):
        covered.add([Punctuation.of(SCHEMA, **grown(i))])
        sizes.append(len(covered))
    assert max(sizes) <= 3


BESIDE = st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(1, 3), st.booleans())


@given(st.lists(st.lists(BESIDE, max_size=40), max_size=4), st.lists(BESIDE, max_size=10))
def test_ranges_beside_constants_fuse(
    batches: list[list[tuple[int, int, int, bool]]], probes: list[tuple[int, int, int, bool]]
) -> None:
    """In any order and number, with or without lists among them."""

    def punctuation(drawn: tuple[int, int, int, bool]) -> Punctuation:
        x, low, size, is_list = drawn
        a = f"{{{low},{low + 2 * size}}}" if is_list else f"[{low},{low + size}]"
        return Punctuation.of(SCHEMA, a=a, x=f"x{x}")

    covered, values = Promised(SCHEMA), [IntervalSet(INT), IntervalSet(INT)]
    for batch in batches:
        covered.add(map(punctuation, batch))
        for drawn in batch:
            values[drawn[0]].add(punctuation(drawn).patterns[0])
    tuples = [(a, None, f"x{x}") for x in range(2) for a in range(-1, 70)]
    assert covered.mask(SCHEMA.frame(tuples)).to_list() == [
        a in values[x] for x in range(2) for a in range(-1, 70)
    ]
    ranges = [IntervalSet(INT), IntervalSet(INT)]
    for x, low, size, is_list in (drawn for batch in batches for drawn in batch):
        if not is_list:
            ranges[x].add(interval(INT, low, low + size, True, True))
    remembered = [p for p in from_frame(SCHEMA, covered.snapshot()["punctuations"]) if p.form == (1, (2,), 0)]
    assert len(remembered) == sum(map(len, ranges))
    for p in map(punctuation, probes):
        x = int(str(p.patterns[2])[1:])
        if ranges[x].covers(p.patterns[0]):
            assert covered.missing(p) is None or isinstance(p.patterns[0], Values)
        if covered.missing(p) is None:
            assert values[x].covers(p.patterns[0])


def test_a_punctuation_that_was_overtaken_is_no_news() -> None:
    covered = Promised(SCHEMA)
    first, second = (Punctuation.of(SCHEMA, a=f"(,{i}]", x="(,u]") for i in (5, 6))
    covered.add([first, second])
    assert not covered.news(PunctuationBatch([first]))
    assert len(covered.news(PunctuationBatch([Punctuation.of(SCHEMA, a="(,6]", x="(,v]")]))) == 1
