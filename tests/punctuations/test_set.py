"""PunctuationSet against the definition: a list of punctuations, tuple by tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmlpunct.punctuations.constant_index
import xmlpunct.punctuations.punctuation_index
import xmlpunct.punctuations.range_index
from tests.strategies import SPACES, Space, column_in
from xmlpunct.punctuations.closed_set import ClosedSet
from xmlpunct.punctuations.pattern_expressions import match_expression
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, combine, covers, match
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.range_index import Ends
from xmlpunct.punctuations.single_attribute import columnar, widest
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.pattern import WILDCARD, constant

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


@pytest.fixture(autouse=True, scope="module", params=[0, 8], ids="few={}".format)
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sort punctuations from the first one on (0), or only if there are more than 8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xmlpunct.punctuations.punctuation_index, "FEW_PUNCTUATIONS", request.param)
        patch.setattr(xmlpunct.punctuations.range_index, "CHUNK", request.param or 2)
        yield


def constants(space: Space) -> st.SearchStrategy[Punctuation]:
    """Punctuations of constants and wildcards only, which the set indexes."""

    def build(t: Tuple, positions: set[int]) -> Punctuation:
        patterns = [
            constant(a.type, v) if i in positions and v is not None else WILDCARD
            for i, (a, v) in enumerate(zip(space.schema, t, strict=True))
        ]
        return Punctuation(space.schema, patterns)

    positions = st.sets(st.integers(0, len(space.schema) - 1))
    return st.builds(build, st.sampled_from(space.tuples()), positions)


def punctuation_lists(space: Space) -> st.SearchStrategy[list[Punctuation]]:
    return st.lists(space.punctuations() | constants(space), max_size=6)


def in_order(ps: Iterable[Punctuation]) -> list[Punctuation]:
    """In the order of a set: by form, constants first."""
    return sorted(ps, key=lambda p: p.form or (0, (), 0))


@every_space
@given(data=st.data())
def test_matching_a_slice(space: Space, data: st.DataObject) -> None:
    ps = data.draw(punctuation_lists(space))
    ts = data.draw(st.lists(st.sampled_from(space.tuples()), max_size=10))
    punctuations, frame = PunctuationSet(space.schema, ps), space.schema.frame(ts)
    for little, very_few in ((0, 0), (0, 4), (100, 4)):  # the three algorithms
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(xmlpunct.punctuations.constant_index, "LITTLE", little)
            patch.setattr(xmlpunct.punctuations.constant_index, "VERY_FEW", very_few)
            assert punctuations.mask(frame).to_list() == [any(match(t, p) for p in ps) for t in ts]
    if ts:
        matched = {p for p in punctuations if any(match(t, p) for t in ts)}
        assert {p for index in punctuations.groups() for p in index.matched(frame)} == matched
    for p in ps:
        hits = frame.with_columns(match_expression(p).alias("$hit"))["$hit"].to_list()
        assert hits == [match(t, p) for t in ts]


@every_space
@given(data=st.data())
def test_removed_punctuations_leave_no_trace(space: Space, data: st.DataObject) -> None:
    """A set equals one restored from its snapshot, also in the order of its lookups."""
    several = st.lists(space.punctuations(), max_size=8)
    punctuations = PunctuationSet(space.schema, data.draw(several))
    punctuations.discard(
        data.draw(st.lists(st.sampled_from(list(punctuations)))) if len(punctuations) else []
    )
    punctuations.update(data.draw(several))
    restored = PunctuationSet(space.schema)
    restored.restore(punctuations.snapshot())
    for p in data.draw(several):
        assert punctuations.overlapping(p) == restored.overlapping(p)


@every_space
@given(data=st.data())
def test_reasoning_about_one_more(space: Space, data: st.DataObject) -> None:
    ps, p = data.draw(punctuation_lists(space)), data.draw(space.punctuations() | constants(space))
    punctuations = PunctuationSet(space.schema, ps)
    assert set(punctuations.overlapping(p)) == {q for q in ps if combine(p, q) is not None}
    assert len(set(punctuations.overlapping(p))) == len(punctuations.overlapping(p))
    assert set(punctuations.combinations(p)) == {c for q in ps if (c := combine(p, q)) is not None}
    if not p.is_empty:
        assert punctuations.covers(p) == any(covers(q, p) for q in punctuations)


@every_space
@given(data=st.data())
def test_adding_and_discarding(space: Space, data: st.DataObject) -> None:
    punctuations, model = PunctuationSet(space.schema), dict[Punctuation, None]()
    frame = space.schema.frame(space.tuples())
    for _ in range(data.draw(st.integers(1, 5))):
        ps = data.draw(punctuation_lists(space))
        if data.draw(st.booleans()):
            batch = (column_in(ps) or ps) if data.draw(st.booleans()) else ps
            added = [p for p in dict.fromkeys(batch) if p not in model and not p.is_empty]
            assert punctuations.update(batch) == added
            model.update(dict.fromkeys(added))
        else:
            removed = ps + data.draw(st.lists(st.sampled_from(list(model) or ps or [None]), max_size=3))
            removed = [p for p in removed if p is not None]
            removed_batch = (column_in(removed) or removed) if data.draw(st.booleans()) else removed
            punctuations.discard(removed_batch)
            for p in removed_batch:
                model.pop(p, None)
        restored = PunctuationSet(space.schema)
        restored.restore(punctuations.snapshot())
        assert list(punctuations) == list(restored) == punctuations.all() == in_order(model)
        assert len(punctuations) == len(model)
        assert all(p in punctuations for p in model)
        assert punctuations.mask(frame).to_list() == [any(match(t, p) for p in model) for t in space.tuples()]
        matched = {p for p in model if any(match(t, p) for t in space.tuples())}
        assert {p for index in punctuations.groups() for p in index.matched(frame)} == matched


@every_space
@given(data=st.data())
def test_a_joint_cover_is_a_cover(space: Space, data: st.DataObject) -> None:
    pieces, target = data.draw(punctuation_lists(space)), data.draw(space.punctuations())
    closed = ClosedSet(space.schema)
    closed.update(pieces)
    if closed.cover(target):
        assert covered_in(space, pieces, target)


@every_space
@given(data=st.data())
def test_a_cover_is_a_joint_cover(space: Space, data: st.DataObject) -> None:
    # A constant at the edge of the domain would seem to cover all values past it.
    pieces, target = data.draw(st.lists(space.punctuations(), max_size=6)), data.draw(space.punctuations())
    closed = ClosedSet(space.schema)
    closed.update(pieces)
    is_covered = covered_in(space, pieces, target) and any(match(t, target) for t in space.tuples())
    if is_covered and not target.is_everything:  # only the end covers the end
        assert closed.cover(target)


def covered_in(space: Space, pieces: list[Punctuation], target: Punctuation) -> bool:
    """True if each tuple of a space that matches ``target`` matches one of the pieces."""
    return all(any(match(t, p) for p in pieces) for t in space.tuples() if match(t, target))


@every_space
@given(data=st.data())
def test_closing_is_star_everywhere_else(space: Space, data: st.DataObject) -> None:
    ps = data.draw(st.lists(space.punctuations(), max_size=5))
    positions = data.draw(st.sets(st.integers(0, len(space.schema) - 1)))

    def open_elsewhere(p: Punctuation) -> bool:
        return all(
            p.patterns[i].matches(v)
            for i in range(len(space.schema))
            if i not in positions
            for v in space.values(i)
        )

    assert PunctuationBatch(ps).closing(positions) == [p for p in ps if open_elsewhere(p)]


RANGES = st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: f"[{pair[0]},{pair[0] + pair[1]}]")


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=60), RANGES)
def test_range_candidates_are_exactly_the_overlapping_ranges(
    steps: list[tuple[bool, str]], probe: str
) -> None:
    schema = Schema.parse("a INT")
    ends, numbers = Ends(), dict[str, int]()
    by_text = {text: Punctuation.of(schema, a=text) for text in (probe, *(text for _, text in steps))}
    for number, (is_new, text) in enumerate(steps):
        cut = cuts(by_text[text].patterns[0])[0]
        if is_new and text not in numbers:
            numbers[text] = number
            ends.add(number, by_text[text], *cut)
        elif not is_new and text in numbers:
            ends.discard(numbers.pop(text), *cut)
    candidates = ends.candidates(*cuts(by_text[probe].patterns[0])[0])
    assert len(candidates) == len(set(candidates))
    assert set(candidates) == {
        by_text[text] for text in numbers if combine(by_text[text], by_text[probe]) is not None
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["update", "discard", "add", "remove"]), st.sets(RANGES, min_size=1, max_size=9)
        )
    )
)
def test_overlapping_is_exact_after_columns_were_added_and_discarded(
    steps: list[tuple[str, set[str]]],
) -> None:
    schema = Schema.parse("a INT")
    ps = [
        Punctuation.of(schema, a=f"[{40 + 3 * i},{41 + 3 * i}]") for i in range(20)
    ]  # more than FEW_PUNCTUATIONS
    punctuations = PunctuationSet(schema, ps)
    probe = Punctuation.of(schema, a="[12,60]")
    for kind, texts in steps:
        batch = [Punctuation.of(schema, a=text) for text in sorted(texts)]
        if kind in ("update", "discard"):
            getattr(punctuations, kind)(column_in(batch) or batch)
        else:
            for p in batch:
                getattr(punctuations, kind)(p)
        overlapping = punctuations.overlapping(probe)
        assert len(overlapping) == len(set(overlapping))
        assert set(overlapping) == {p for p in punctuations if combine(p, probe) is not None}


def test_an_empty_set_and_an_empty_slice() -> None:
    schema = Schema.parse("a INT")
    punctuations = PunctuationSet(schema)
    assert punctuations.mask(schema.frame([(1,), (2,)])).to_list() == [False, False]
    assert punctuations.mask(schema.empty()).to_list() == []
    punctuations.add(Punctuation.everything(schema))
    assert punctuations.mask(schema.empty()).to_list() == []
    assert punctuations.mask(schema.frame([(1,), (None,)])).to_list() == [True, True]
    assert not punctuations.add(Punctuation.of(schema, a="{}"))


def test_punctuations_are_retained_unfused() -> None:
    schema = Schema.parse("a INT")
    ps = [Punctuation.of(schema, a=a) for a in (1, 2, "[1,2]", "[0,9]", 3)]
    assert list(PunctuationSet(schema, ps)) == in_order(ps)


def test_a_hundred_thousand_constants_match_at_once() -> None:
    """An auction has a punctuation per item; comparing each with each tuple would take hours."""
    schema = Schema.parse("item INT, bid INT")
    punctuations = PunctuationSet(schema, (Punctuation.of(schema, item=i) for i in range(100_000)))
    frame = schema.frame((i, 1) for i in range(50_000, 150_000))
    assert punctuations.mask(frame).sum() == 50_000
    assert sum(len(index.matched(frame)) for index in punctuations.groups()) == len(punctuations) - 50_000


@every_space
@given(data=st.data())
def test_a_batch_in_any_form_removes_the_covered_punctuations(space: Space, data: st.DataObject) -> None:
    lists = punctuation_lists(space).map(
        lambda ps: [p for p in ps if any(match(t, p) for t in space.tuples())]
    )
    stored, batch = data.draw(lists), data.draw(lists)
    distinct = [*dict.fromkeys(batch)]
    for removing in (PunctuationBatch(batch), columnar(distinct)):
        punctuations = PunctuationSet(space.schema, stored)
        punctuations.remove_covered(removing)
        remaining = [q for q in PunctuationSet(space.schema, stored) if not any(covers(p, q) for p in batch)]
        assert in_order(punctuations) == in_order(remaining)


@every_space
@given(data=st.data())
def test_the_widest_punctuations_close_as_much(space: Space, data: st.DataObject) -> None:
    batch = columnar([*dict.fromkeys(data.draw(punctuation_lists(space)))])
    kept = [*widest(batch)]
    assert set(kept) <= set(batch)
    assert all(any(covers(p, q) for p in kept) for q in batch)
