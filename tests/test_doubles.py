"""DOUBLEs: their canonical form, the behaviour of polars, and punctuations on them."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import is_canonical, same
from tests.strategies import SPECIAL, Space
from xmlpunct import Schema, combine, covers, match
from xmlpunct.base.doubles import bits, canonical, canonical_column, divided, words
from xmlpunct.base.frames import join
from xmlpunct.engine.partition.hashing import shard_of
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.types import DOUBLE, NAN
from xmlpunct.types.pattern import constant

INF = math.inf
OTHER_NAN: float = struct.unpack("<d", struct.pack("<Q", 0xFFF0_0000_0000_0007))[0]
SPELLINGS = (NAN, -NAN, OTHER_NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, None)
ROWS = st.lists(st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=3), min_size=1, max_size=5)
"""Values in pieces, to be concatenated."""
MARKED = st.lists(st.sampled_from(SPELLINGS[:-1]), min_size=1, max_size=4).map(
    lambda values: [[v] for v in sorted(values, key=DOUBLE.key)]
)
"""Pieces of one value in order: polars marks their concatenation as sorted."""


def series(pieces: list[list[float | None]]) -> pl.Series:
    return pl.concat([pl.Series("x", piece, dtype=pl.Float64) for piece in pieces])


def values(pieces: list[list[float | None]]) -> list[float | None]:
    return [value for piece in pieces for value in piece]


@given(ROWS)
def test_the_one_form(pieces: list[list[float | None]]) -> None:
    raw_values, column = values(pieces), series(pieces)
    expected = list(map(same, raw_values))
    for canonical_values in (
        canonical_column(column),
        column.to_frame().select(canonical(pl.col("x"))).to_series(),
    ):
        assert list(map(same, canonical_values)) == expected
        assert all(map(is_canonical, canonical_values))
        assert (canonical_values.name, canonical_values.dtype) == ("x", pl.Float64)
    assert [v is None for v in bits("b", column)] == [v is None for v in raw_values]
    words_of_values = [
        (same(v), word) for v, word in zip(raw_values, words(column).tolist(), strict=True) if v is not None
    ]
    assert all((v == w) == (a == b) for (v, a), (w, b) in product(words_of_values, repeat=2))
    assert len(set(zip(expected, shard_of(column.to_frame(), 1000).tolist(), strict=True))) == len(
        set(expected)
    )


def test_a_frame_of_tuples_has_canonical_doubles() -> None:
    schema = Schema.parse("x DOUBLE, n INT, y DOUBLE")
    frame = schema.frame([(-0.0, 1, -NAN), (None, None, -0.0)])
    assert all(is_canonical(v) for t in frame.rows() for v in t)
    assert dict(frame.schema) == schema.dtypes
    assert schema.frame([]).schema == frame.schema


@settings(max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
@given(ROWS | MARKED, ROWS | MARKED, st.booleans(), st.booleans())
def test_joins(
    left_pieces: list[list[float | None]],
    right_pieces: list[list[float | None]],
    two_keys: bool,
    nulls_equal: bool,
) -> None:
    def frame(pieces: list[list[float | None]], number: str) -> pl.DataFrame:
        return series(pieces).to_frame().with_columns(j=pl.lit("j")).with_row_index(number)

    left, right = frame(left_pieces, "l"), frame(right_pieces, "r").rename({"x": "y", "j": "k"})
    on, right_on = (["x", "j"], ["y", "k"]) if two_keys else (["x"], ["y"])
    pairs = [
        (i, k)
        for (i, v), (k, w) in product(enumerate(values(left_pieces)), enumerate(values(right_pieces)))
        if same(v) == same(w) and (nulls_equal or v is not None)
    ]
    matched = {i for i, _ in pairs}
    unmatched = [i for i in range(left.height) if i not in matched]

    inner = join(left, right, on, "inner", right_on=right_on, nulls_equal=nulls_equal, order="left_right")
    assert inner.select("l", "r").rows() == pairs
    assert inner.columns == ["l", "x", "j", "r", *([] if two_keys else ["k"])]
    outer = join(left, right, on, "left", right_on=right_on, nulls_equal=nulls_equal)
    assert Counter(outer.select("l", "r").rows()) == Counter([*pairs, *((i, None) for i in unmatched)])
    for kind, rows in (("semi", sorted(matched)), ("anti", unmatched)):
        joined = join(left, right, on, kind, right_on=right_on, nulls_equal=nulls_equal, order="left")  # type: ignore[arg-type]
        assert joined["l"].to_list() == rows
        assert joined.columns == left.columns
    assert list(map(str, left["x"])) == list(map(str, values(left_pieces)))


@given(ROWS | MARKED, st.sampled_from(SPELLINGS[:-1]))
def test_polars_treats_doubles_as_operators_assume(pieces: list[list[float | None]], value: float) -> None:
    """In polars, except in joins, NaN equals itself and is greatest, and -0 equals 0."""
    raw_values, column = values(pieces), series(pieces)
    frame = column.to_frame().with_columns(j=pl.lit(0))
    non_null = [v for v in raw_values if v is not None]
    counts, key = Counter(map(same, raw_values)), DOUBLE.key

    assert Counter(map(same, column.unique())) == Counter(list(counts))
    assert column.n_unique() == frame.unique(maintain_order=True).height == len(counts)
    for keys in (["x"], ["x", "j"]):
        groups = frame.group_by(keys, maintain_order=True).agg(n=pl.len())
        assert {same(x): n for x, n in zip(groups["x"], groups["n"], strict=True)} == counts
    in_order = column.drop_nulls().unique().sort()
    assert list(map(key, in_order)) == sorted({key(v) for v in non_null})
    ranks = [
        sorted({key(v) for v in non_null}).index(key(v)) + 1 if v is not None else None for v in raw_values
    ]
    assert column.rank("dense").to_list() == ranks
    for side, count in (
        ("left", lambda v: key(v) < key(value)),
        ("right", lambda v: key(v) <= key(value)),
    ):
        sorted_ = in_order.search_sorted(pl.Series([value], dtype=pl.Float64), side=side)  # type: ignore[arg-type]
        assert sorted_.to_list() == [sum(map(count, in_order))]
    assert column.is_in(pl.Series([value]).implode()).to_list() == [
        None if v is None else same(v) == same(value) for v in raw_values
    ]
    for down in (False, True):
        ordered = sorted(map(key, non_null), reverse=down)
        for sort_keys in ("x", ["x", "j"]):
            sorted_ = frame.sort(sort_keys, descending=down, nulls_last=True)["x"]
            assert [key(v) for v in sorted_ if v is not None] == ordered
    comparisons: dict[str, Callable[[Hashable, Hashable], bool]] = {
        "eq": lambda a, b: a == b,
        "lt": lambda a, b: a < b,  # type: ignore[operator]
        "ge": lambda a, b: a >= b,  # type: ignore[operator]
    }
    for name, compare in comparisons.items():
        test = getattr(pl.col("x"), name)(pl.lit(value))
        hits = [v is not None and compare(key(v), key(value)) for v in raw_values]
        assert frame.select(test.fill_null(False)).to_series().to_list() == hits
    if non_null:
        least, greatest = frame.group_by("j").agg(a=pl.col("x").min(), b=pl.col("x").nan_max()).row(0)[1:]
        assert (key(least), key(greatest)) == (min(map(key, non_null)), max(map(key, non_null)))


# Punctuations

SPACE = Space.of(x=SPECIAL, y=SPECIAL)
NANS = (NAN, -NAN, OTHER_NAN, float("nan"), "NaN")


@pytest.mark.parametrize("value", NANS)
def test_nan_is_one_constant(value: object) -> None:
    schema = SPACE.schema
    p, q = Punctuation.of(schema, x=value), Punctuation.parse(schema, "<NaN, *>")
    for equal in (q, pickle.loads(pickle.dumps(p)), copy.deepcopy(p), Punctuation.of(schema, x="[NaN,)")):
        assert p == equal
        assert hash(p) == hash(equal)
    assert {p, q} == {q}
    assert combine(p, q) == p
    assert covers(p, q)
    assert PunctuationSet(schema, [p]).covers(q)
    assert combine(p, Punctuation.of(schema, x="(,INF]")) is None
    assert combine(p, Punctuation.of(schema, x="(5,)")) == p
    assert not covers(Punctuation.of(schema, x="(,INF]"), p)
    for nan in NANS[:-1]:
        assert match((nan, None), p)
        assert constant(DOUBLE, nan) == p.patterns[0]
    assert not match((INF, None), p)


def test_zero_is_one_constant() -> None:
    schema = SPACE.schema
    zeros = [Punctuation.of(schema, x=v) for v in (0, 0.0, -0.0, "0", "-0", "-0.0e7", "[0,-0]", "{0,-0.0}")]
    assert len({*zeros, *map(str, zeros)}) == 2
    assert all(match((v, 1.0), zeros[0]) for v in (0.0, -0.0))


@given(SPACE.punctuations(), SPACE.punctuations())
def test_punctuations_match_doubles_in_any_spelling(p: Punctuation, q: Punctuation) -> None:
    """Matching is the same for tuples with non-canonical doubles."""
    tuples = list(product((*SPELLINGS, 7.0), repeat=2))
    combined = combine(p, q)
    for t in tuples:
        canonical_ = tuple(None if v is None else DOUBLE.accept(v) for v in t)
        assert match(t, p) == match(canonical_, p)
        assert (combined is not None and match(t, combined)) == (match(t, p) and match(t, q))
        assert not covers(p, q) or match(t, p) or not match(t, q)
    assert (p == q) == ([str(x) for x in p.patterns] == [str(x) for x in q.patterns])


@pytest.mark.parametrize("columns", ["x DOUBLE", "x DOUBLE, s STRING"])
def test_many_tuples_and_many_constants(columns: str) -> None:
    """More constants than are looked up one by one."""
    schema = Schema.parse(columns)
    suffix = ("a",) * (len(schema) - 1)
    tuples = [(v, *suffix) for v in (*map(float, range(300)), *SPELLINGS)]
    for constants in ((NAN,), (NAN, 0.0), (*map(float, range(7)), INF, NAN), (-INF, 5.0)):
        ps = [
            Punctuation(schema, [constant(a.type, v) for a, v in zip(schema, (c, *suffix), strict=True)])
            for c in constants
        ]
        closed = PunctuationSet(schema, ps)
        frame = pl.DataFrame(tuples, schema=schema.dtypes, orient="row")
        assert closed.mask(frame).to_list() == [any(match(t, p) for p in ps) for t in tuples]
        assert {p for index in closed.groups() for p in index.matched(frame)} == set(ps)


@given(
    st.lists(st.floats(allow_nan=False) | st.none(), min_size=1), st.sampled_from([3.0, 10.0, 1e300, -0.1])
)
def test_a_quotient_is_rounded_once(values: list[float | None], divisor: float) -> None:
    column = pl.Series("x", values, pl.Float64())
    quotients = column.to_frame().select(divided(pl.col("x"), divisor))["x"].to_list()
    assert quotients == [None if x is None else x / divisor for x in values]
