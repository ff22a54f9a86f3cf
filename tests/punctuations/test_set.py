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
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.pattern import WILDCARD, constant

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


@pytest.fixture(autouse=True, scope="module", params=[0, 8], ids="few={}".format)
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """With few punctuations nothing is sorted; here nothing is few, and then everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xmlpunct.punctuations.punctuation_index, "FEW_PUNCTUATIONS", request.param)
        patch.setattr(xmlpunct.punctuations.range_index, "CHUNK", request.param or 2)
        yield


def constants(space: Space) -> st.SearchStrategy[Punctuation]:
    """Punctuations of constants and wildcards alone, the ones that the set indexes."""

    def of(t: Tuple, places: set[int]) -> Punctuation:
        patterns = [
            constant(a.type, v) if i in places and v is not None else WILDCARD
            for i, (a, v) in enumerate(zip(space.schema, t, strict=True))
        ]
        return Punctuation(space.schema, patterns)

    places = st.sets(st.integers(0, len(space.schema) - 1))
    return st.builds(of, st.sampled_from(space.tuples()), places)


def some(space: Space) -> st.SearchStrategy[list[Punctuation]]:
    return st.lists(space.punctuations() | constants(space), max_size=6)


def in_order(ps: Iterable[Punctuation]) -> list[Punctuation]:
    """As a set has them: by their forms, those of constants first."""
    return sorted(ps, key=lambda p: p.form or (0, (), 0))


@every_space
@given(data=st.data())
def test_matching_a_slice(space: Space, data: st.DataObject) -> None:
    ps = data.draw(some(space))
    ts = data.draw(st.lists(st.sampled_from(space.tuples()), max_size=10))
    held, frame = PunctuationSet(space.schema, ps), space.schema.frame(ts)
    for little, very_few in ((0, 0), (0, 4), (100, 4)):  # the three ways there are
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(xmlpunct.punctuations.constant_index, "LITTLE", little)
            patch.setattr(xmlpunct.punctuations.constant_index, "VERY_FEW", very_few)
            assert held.mask(frame).to_list() == [any(match(t, p) for p in ps) for t in ts]
    assert held.unmatched(frame) == [p for p in held if not any(match(t, p) for t in ts)]
    for p in ps:
        hits = frame.with_columns(match_expression(p).alias("$hit"))["$hit"].to_list()
        assert hits == [match(t, p) for t in ts]


@every_space
@given(data=st.data())
def test_what_was_held_before_leaves_no_trace(space: Space, data: st.DataObject) -> None:
    """A set is the same as one made from its snapshot, also in the order of what it finds."""
    several = st.lists(space.punctuations(), max_size=8)
    held = PunctuationSet(space.schema, data.draw(several))
    held.discard(data.draw(st.lists(st.sampled_from(list(held)))) if len(held) else [])
    held.update(data.draw(several))
    again = PunctuationSet(space.schema)
    again.restore(held.snapshot())
    for p in data.draw(several):
        assert held.overlapping(p) == again.overlapping(p)


@every_space
@given(data=st.data())
def test_reasoning_about_one_more(space: Space, data: st.DataObject) -> None:
    ps, p = data.draw(some(space)), data.draw(space.punctuations() | constants(space))
    held = PunctuationSet(space.schema, ps)
    assert set(held.overlapping(p)) == {q for q in ps if combine(p, q) is not None}
    assert len(set(held.overlapping(p))) == len(held.overlapping(p))
    assert set(held.combinations(p)) == {c for q in ps if (c := combine(p, q)) is not None}
    if not p.is_empty:
        assert held.covers(p) == any(covers(q, p) for q in held)


@every_space
@given(data=st.data())
def test_adding_and_discarding(space: Space, data: st.DataObject) -> None:
    held, model = PunctuationSet(space.schema), dict[Punctuation, None]()
    frame = space.schema.frame(space.tuples())
    for _ in range(data.draw(st.integers(1, 5))):
        ps = data.draw(some(space))
        if data.draw(st.booleans()):
            given = (column_in(ps) or ps) if data.draw(st.booleans()) else ps
            fresh = [p for p in dict.fromkeys(given) if p not in model and not p.is_empty]
            assert held.update(given) == fresh
            model.update(dict.fromkeys(fresh))
        else:
            gone = ps + data.draw(st.lists(st.sampled_from(list(model) or ps or [None]), max_size=3))
            gone = [p for p in gone if p is not None]
            out = (column_in(gone) or gone) if data.draw(st.booleans()) else gone
            held.discard(out)
            for p in out:
                model.pop(p, None)
        again = PunctuationSet(space.schema)
        again.restore(held.snapshot())
        assert list(held) == list(again) == held.all() == in_order(model)
        assert len(held) == len(model)
        assert all(p in held for p in model)
        assert held.mask(frame).to_list() == [any(match(t, p) for p in model) for t in space.tuples()]
        assert held.unmatched(frame) == [
            p for p in in_order(model) if not any(match(t, p) for t in space.tuples())
        ]


@every_space
@given(data=st.data())
def test_a_joint_cover_is_a_cover(space: Space, data: st.DataObject) -> None:
    pieces, whole = data.draw(some(space)), data.draw(space.punctuations())
    closed = ClosedSet(space.schema)
    closed.update(pieces)
    if closed.cover(whole):
        assert covered_in(space, pieces, whole)


@every_space
@given(data=st.data())
def test_a_cover_is_a_joint_cover(space: Space, data: st.DataObject) -> None:
    # A constant at the edge of what is tried would look as if it covered all beyond.
    pieces, whole = data.draw(st.lists(space.punctuations(), max_size=6)), data.draw(space.punctuations())
    closed = ClosedSet(space.schema)
    closed.update(pieces)
    is_covered = covered_in(space, pieces, whole) and any(match(t, whole) for t in space.tuples())
    if is_covered and not whole.is_everything:  # only the end covers the end
        assert closed.cover(whole)


def covered_in(space: Space, pieces: list[Punctuation], whole: Punctuation) -> bool:
    """Whether each tuple of a space that matches ``whole`` matches one of some pieces."""
    return all(any(match(t, p) for p in pieces) for t in space.tuples() if match(t, whole))


@every_space
@given(data=st.data())
def test_closing_is_star_everywhere_else(space: Space, data: st.DataObject) -> None:
    ps = data.draw(st.lists(space.punctuations(), max_size=5))
    places = data.draw(st.sets(st.integers(0, len(space.schema) - 1)))

    def open_elsewhere(p: Punctuation) -> bool:
        return all(
            p.patterns[i].matches(v)
            for i in range(len(space.schema))
            if i not in places
            for v in space.values(i)
        )

    assert PunctuationBatch(ps).closing(places) == [p for p in ps if open_elsewhere(p)]


RANGES = st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: f"[{pair[0]},{pair[0] + pair[1]}]")


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=60), RANGES)
def test_of_many_ranges_those_near_are_those_that_overlap(steps: list[tuple[bool, str]], asked: str) -> None:
    schema = Schema.parse("a INT")
    ends, numbers = Ends(), dict[str, int]()
    of = {text: Punctuation.of(schema, a=text) for text in (asked, *(text for _, text in steps))}
    for number, (is_new, text) in enumerate(steps):
        cut = cuts(of[text].patterns[0])[0]
        if is_new and text not in numbers:
            numbers[text] = number
            ends.add(number, of[text], *cut)
        elif not is_new and text in numbers:
            ends.discard(numbers.pop(text), *cut)
    near = ends.candidates(*cuts(of[asked].patterns[0])[0])
    assert len(near) == len(set(near))
    assert set(near) == {of[text] for text in numbers if combine(of[text], of[asked]) is not None}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["update", "discard", "add", "remove"]), st.sets(RANGES, min_size=1, max_size=9)
        )
    )
)
def test_ranges_are_looked_up_whatever_came_in_columns_and_went(steps: list[tuple[str, set[str]]]) -> None:
    schema = Schema.parse("a INT")
    ps = [Punctuation.of(schema, a=f"[{40 + 3 * i},{41 + 3 * i}]") for i in range(20)]  # so they are not few
    held = PunctuationSet(schema, ps)
    asked = Punctuation.of(schema, a="[12,60]")
    for kind, texts in steps:
        some = [Punctuation.of(schema, a=text) for text in sorted(texts)]
        if kind in ("update", "discard"):
            getattr(held, kind)(column_in(some) or some)
        else:
            for p in some:
                getattr(held, kind)(p)
        near = held.overlapping(asked)
        assert len(near) == len(set(near))
        assert set(near) == {p for p in held if combine(p, asked) is not None}


def test_an_empty_set_and_an_empty_slice() -> None:
    schema = Schema.parse("a INT")
    held = PunctuationSet(schema)
    assert held.mask(schema.frame([(1,), (2,)])).to_list() == [False, False]
    assert held.mask(schema.empty()).to_list() == []
    held.add(Punctuation.everything(schema))
    assert held.mask(schema.empty()).to_list() == []
    assert held.mask(schema.frame([(1,), (None,)])).to_list() == [True, True]
    assert held.unmatched(schema.empty()) == [Punctuation.everything(schema)]
    assert not held.add(Punctuation.of(schema, a="{}"))


def test_is_kept_as_received_never_fused() -> None:
    schema = Schema.parse("a INT")
    ps = [Punctuation.of(schema, a=a) for a in (1, 2, "[1,2]", "[0,9]", 3)]
    assert list(PunctuationSet(schema, ps)) == in_order(ps)


def test_a_hundred_thousand_constants_match_at_once() -> None:
    """An auction has a punctuation per item: were each compared with each tuple, this would take hours."""
    schema = Schema.parse("item INT, bid INT")
    held = PunctuationSet(schema, (Punctuation.of(schema, item=i) for i in range(100_000)))
    frame = schema.frame((i, 1) for i in range(50_000, 150_000))
    assert held.mask(frame).sum() == 50_000
    assert len(held.unmatched(frame)) == 50_000
