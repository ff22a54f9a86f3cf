"""Patterns: canonical forms, set operations and text, each against brute force on a small domain."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import DISCRETE, POOLS, TRICKY, Pool, patterns, specs
from xmlpunct.base.errors import PatternError
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import (
    EMPTY,
    WILDCARD,
    Constant,
    Empty,
    Pattern,
    Range,
    Values,
    Wildcard,
)
from xmlpunct.types.pattern_text import parse_pattern, split_patterns

every_pool = pytest.mark.parametrize("pool", POOLS, ids=str)


def extent(pool: Pool, pattern: Pattern) -> list[object]:
    """The values of a pool's domain, and null, that a pattern matches."""
    return [v for v in (*pool.domain, None) if pattern.matches(v)]


@every_pool
@given(data=st.data())
def test_a_pattern_matches_the_values_of_its_spec(pool: Pool, data: st.DataObject) -> None:
    spec = data.draw(specs(pool))
    expected = [v for v in (*pool.domain, None) if spec.matches(v)]
    assert extent(pool, spec.pattern()) == expected
    assert extent(pool, parse_pattern(pool.type, spec.text())) == expected
    assert parse_pattern(pool.type, spec.text()) == spec.pattern()


@every_pool
@given(data=st.data())
def test_intersect_is_intersection(pool: Pool, data: st.DataObject) -> None:
    p, q = data.draw(patterns(pool)), data.draw(patterns(pool))
    intersection = pt.intersect(p, q)
    assert extent(pool, intersection) == [v for v in extent(pool, p) if q.matches(v)]
    assert intersection == pt.intersect(q, p)
    assert pt.intersect(p, p) == p


@every_pool
@given(data=st.data())
def test_covers_is_inclusion(pool: Pool, data: st.DataObject) -> None:
    """Exact for dense pools too: their domains have values between the constants."""
    p, q = data.draw(patterns(pool)), data.draw(patterns(pool))
    assert pt.covers(p, q) == all(p.matches(v) for v in extent(pool, q))
    assert pt.covers(p, p)


@pytest.mark.parametrize("pool", DISCRETE, ids=str)
@given(data=st.data())
def test_the_canonical_form_is_unique(pool: Pool, data: st.DataObject) -> None:
    p, q = data.draw(patterns(pool)), data.draw(patterns(pool))
    assert (p == q) == (extent(pool, p) == extent(pool, q))
    if p == q:
        assert hash(p) == hash(q)
        assert str(p) == str(q)


@every_pool
@given(data=st.data())
def test_kinds_come_in_order_empty_constant_range_list(pool: Pool, data: st.DataObject) -> None:
    p = data.draw(patterns(pool))
    count = sum(p.matches(v) for v in pool.domain)
    if isinstance(p, Wildcard):
        assert p.matches(None)
        return
    assert not p.matches(None)
    if pool.type.discrete or isinstance(p, Empty):
        assert isinstance(p, Empty) == (count == 0)
    if count == 1 and pool.type.discrete:
        assert isinstance(p, Constant)
    if isinstance(p, Values):
        assert len(p.members) >= 2
        ranks = [pool.rank(v) for v in p.members]
        assert ranks == sorted(set(ranks))
        if pool.type.discrete:
            ends = [pool.type.ordinal(v) for v in p.members]
            assert ends[-1] - ends[0] >= len(ends)
    if isinstance(p, Range):
        assert p.low is not None or not p.low_closed
        assert p.high is not None or not p.high_closed
        if pool.type.discrete:
            assert p.low_closed == (p.low is not None)
            assert p.high_closed == (p.high is not None)
            assert p.low != pool.type.lowest
            assert p.high != pool.type.highest


@every_pool
@given(data=st.data())
def test_text_reads_back(pool: Pool, data: st.DataObject) -> None:
    p = data.draw(patterns(pool))
    assert parse_pattern(pool.type, str(p)) == p


@every_pool
@given(data=st.data())
def test_pickles_and_hashes(pool: Pool, data: st.DataObject) -> None:
    p = data.draw(patterns(pool))
    unpickled = pickle.loads(pickle.dumps(p))
    assert unpickled == p
    assert hash(unpickled) == hash(p)
    assert repr(unpickled) == repr(p)
    assert str(p) in repr(p)


def test_wildcard_and_empty_stay_the_only_ones() -> None:
    assert pickle.loads(pickle.dumps(WILDCARD)) is WILDCARD
    assert pickle.loads(pickle.dumps(EMPTY)) is EMPTY
    assert WILDCARD != EMPTY


@given(
    members=st.lists(TRICKY, max_size=4),
    bounds=st.tuples(TRICKY, TRICKY),
    closed=st.tuples(*[st.booleans()] * 2),
)
def test_any_string_survives_quoting(
    members: list[str], bounds: tuple[str, str], closed: tuple[bool, bool]
) -> None:
    for p in (
        pt.values(STRING, members),
        pt.interval(STRING, *bounds, *closed),
        pt.interval(STRING, None, bounds[0], *closed),
        pt.interval(STRING, bounds[0], None, *closed),
        pt.constant(STRING, bounds[1]),
    ):
        assert parse_pattern(STRING, str(p)) == p
        assert parse_pattern(STRING, f" {p}\n") == p or isinstance(p, Constant)


D31 = decimal(3, 1)

CANONICAL: list[tuple[Type, str, str]] = [
    (INT, "[17,20)", "[17,19]"),
    (INT, "(17,20)", "[18,19]"),
    (INT, "(3,4)", "{}"),
    (INT, "[5,2]", "{}"),
    (INT, "(4,6)", "5"),
    (INT, "[5,5]", "5"),
    (INT, "[5,5)", "{}"),
    (INT, "{7}", "7"),
    (INT, "{7,7}", "7"),
    (INT, "{}", "{}"),
    (INT, "{ }", "{}"),
    (INT, "{3,1,2}", "[1,3]"),
    (INT, "{3,1}", "{1,3}"),
    (INT, "(,100)", "(,99]"),
    (INT, "(,100]", "(,100]"),
    (INT, "[,100]", "(,100]"),
    (INT, "[100,)", "[100,)"),
    (INT, "[100,]", "[100,)"),
    (INT, "(,)", "(,)"),
    (INT, "[-9223372036854775808,5]", "(,5]"),
    (INT, "(9223372036854775806,9223372036854775807]", "9223372036854775807"),
    (INT, "(9223372036854775807,)", "{}"),
    (INT, "(,-9223372036854775808)", "{}"),
    (INT, "(,-9223372036854775808]", "-9223372036854775808"),
    (INT, "[-9223372036854775808,9223372036854775807]", "(,)"),
    (INT, " [ 1 , +3 ] ", "[1,3]"),
    (INT, '"5"', "5"),
    (INT, '["1",3]', "[1,3]"),
    (INT, " * ", "*"),
    (BOOLEAN, "{true,false}", "(,)"),
    (BOOLEAN, "[1,]", "true"),
    (BOOLEAN, "(false,true)", "{}"),
    (DATE, "[2024-02-28,2024-03-01)", "[2024-02-28,2024-02-29]"),
    (DATE, "(9999-12-30,)", "9999-12-31"),
    (D31, "(1,1.2)", "1.1"),
    (D31, "[-99.9,1)", "(,0.9]"),
    (TIMESTAMP, "[2026-01-01T00:00:00,2026-01-02T00:00:00)",
     "[2026-01-01T00:00:00Z,2026-01-01T23:59:59.999999Z]"),
    (TIMESTAMP, "2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
    (DOUBLE, "[3,3]", "3.0"),
    (DOUBLE, "(3,3]", "{}"),
    (DOUBLE, "[1,2)", "[1.0,2.0)"),
    (DOUBLE, "[-INF,NaN]", "(,)"),
    (DOUBLE, "[NaN,)", "NaN"),
    (DOUBLE, "(INF,)", "NaN"),
    (DOUBLE, "(INF,NaN)", "{}"),
    (DOUBLE, "(,-INF]", "-INF"),
    (DOUBLE, "(,-INF)", "{}"),
    (DOUBLE, "{NaN,NaN}", "NaN"),
    (DOUBLE, "{0,-0}", "0.0"),
    (DOUBLE, "(,NaN)", "(,INF]"),
    (STRING, '(,"")', "{}"),
    (STRING, '(,""]', '""'),
    (STRING, '["",a]', "(,a]"),
    (STRING, '""', '""'),
    (STRING, '"*"', '"*"'),
    (STRING, "a*", "a*"),
    (STRING, '"[x"', '"[x"'),
    (STRING, '"say ""hi"""', 'say "hi"'),
    (STRING, "{a,b}", "{a,b}"),
    (STRING, '{"a,b"," c"}', '{" c","a,b"}'),
    (STRING, '["a]",z)', '["a]",z)'),
    (STRING, "[a,a]", "a"),
    (STRING, "a b", "a b"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text", "canonical"), CANONICAL)
def test_canonical_forms(type_: Type, text: str, canonical: str) -> None:
    pattern = parse_pattern(type_, text)
    assert str(pattern) == canonical
    assert parse_pattern(type_, canonical) == pattern


def test_no_bound_is_cut_short() -> None:
    """``(,100)`` was once read as ``(,10)``."""
    pattern = parse_pattern(INT, "(,100)")
    assert pattern.matches(99)
    assert not pattern.matches(100)
    for low, high in product(("", "5", "10", "100", "1234567"), repeat=2):
        bounded = parse_pattern(INT, f"[{low},{high}]")
        for v in (1, 4, 5, 9, 10, 11, 99, 100, 101, 123456, 1234567, 1234568):
            assert bounded.matches(v) == ((not low or v >= int(low)) and (not high or v <= int(high)))


WRONG: list[tuple[Type, str, int]] = [
    (INT, "x", 0),
    (INT, "  x", 2),
    (INT, "", 0),
    (INT, "*x", 1),
    (INT, "[1,x]", 3),
    (INT, "[1, x]", 4),
    (INT, "[1,2", 4),
    (INT, "[1,2}", 5),
    (INT, "[1,2] ,", 5),
    (INT, "[1,2]x", 5),
    (INT, "[1]", 0),
    (INT, "[1,2,3]", 0),
    (INT, "{1,2", 4),
    (INT, "{1,2}3", 5),
    (INT, "{1,,2}", 3),
    (INT, "{1,}", 3),
    (INT, "{,}", 1),
    (INT, "{1,2]}", 4),
    (INT, "[1,9223372036854775808]", 3),
    (INT, "5]", 0),
    (STRING, '"a', 0),
    (STRING, '"a"b', 0),
    (STRING, '{a"b,c}', 2),
    (STRING, "[a,b(c]", 4),
    (DOUBLE, "[1,nan]", 3),
    (D31, "[0.05,1]", 1),
    (DATE, "{2026-01-01,2026-02-30}", 12),
]


@pytest.mark.parametrize(("type_", "text", "position"), WRONG)
def test_a_wrong_pattern_says_where(type_: Type, text: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern(type_, text, "hour")
    error = caught.value
    assert (error.attribute, error.text, error.position) == ("hour", text, position)
    assert "hour" in str(error)
    assert repr(text) in str(error)


@pytest.mark.parametrize("pool", DISCRETE, ids=str)
@given(data=st.data())
def test_bounds_and_enumeration(pool: Pool, data: st.DataObject) -> None:
    p = data.draw(patterns(pool))
    listed = pt.enumerate_values(p)
    if listed is not None:
        members = list(listed)
        assert [v for v in members if v in pool.domain] == [v for v in pool.domain if p.matches(v)]
        assert all(map(p.matches, members))
        assert len(members) <= pt.ENUMERABLE
    ends = pt.bounds(p)
    if ends is None:
        assert not isinstance(p, Constant | Range)
    else:
        assert pt.ordinals(pool.type, *ends) == p


def test_enumeration_has_a_limit() -> None:
    assert pt.enumerate_values(WILDCARD) is None
    assert pt.enumerate_values(parse_pattern(INT, "[1,)")) is None
    assert pt.enumerate_values(parse_pattern(INT, "[1,1001]")) is None
    assert list(pt.enumerate_values(parse_pattern(INT, "[1,1000]")) or ()) == list(range(1, 1001))
    assert pt.enumerate_values(parse_pattern(INT, "{1,3,5}"), 2) is None
    assert pt.enumerate_values(parse_pattern(DOUBLE, "[1,2]")) is None


@given(st.lists(TRICKY, min_size=1, max_size=4))
def test_splitting_at_outer_commas_only(strings: list[str]) -> None:
    written = [str(pt.constant(STRING, s)) for s in strings] + ["[a,b)", "{c,d}", "*", "(,)"]
    pieces = split_patterns(", ".join(written))
    assert [piece for _, piece in pieces] == written
