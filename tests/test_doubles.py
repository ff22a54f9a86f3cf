"""DOUBLEs: their one form, what polars makes of them, and punctuations about them."""

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
"""Values in pieces that are to be concatenated."""
MARKED = st.lists(st.sampled_from(SPELLINGS[:-1]), min_size=1, max_size=4).map(
    lambda values: [[v] for v in sorted(values, key=DOUBLE.key)]
)
"""One by one and in order: polars marks what they are concatenated to as sorted."""


def series(pieces: list[list[float | None]]) -> pl.Series:
    return pl.concat([pl.Series("x", piece, dtype=pl.Float64) for piece in pieces])


def values(pieces: list[list[float | None]]) -> list[float | None]:
    return [value for piece in pieces for value in piece]


@given(ROWS)
def test_the_one_form(pieces: list[list[float | None]]) -> None:
    given, column = values(pieces), series(pieces)
    expected = list(map(same, given))
    for found in (canonical_column(column), column.to_frame().select(canonical(pl.col("x"))).to_series()):
        assert list(map(same, found)) == expected
        assert all(map(is_canonical, found))
        assert (found.name, found.dtype) == ("x", pl.Float64)
    assert [v is None for v in bits("b", column)] == [v is None for v in given]
    known = [(same(v), word) for v, word in zip(given, words(column).tolist(), strict=True) if v is not None]
    assert all((v == w) == (a == b) for (v, a), (w, b) in product(known, repeat=2))
    assert len(set(zip(expected, shard_of(column.to_frame(), 1000).tolist(), strict=True))) == len(
        set(expected)
    )


def test_a_frame_of_tuples_is_a_border() -> None:
    schema = Schema.parse("x DOUBLE, n INT, y DOUBLE")
    frame = schema.frame([(-0.0, 1, -NAN), (None, None, -0.0)])
    assert all(is_canonical(v) for t in frame.rows() for v in t)
    assert dict(frame.schema) == schema.dtypes
    assert schema.frame([]).schema == frame.schema


@settings(max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
@given(ROWS | MARKED, ROWS | MARKED, st.booleans(), st.booleans())
def test_joins(
    one: list[list[float | None]], other: list[list[float | None]], two_keys: bool, nulls_equal: bool
) -> None:
    def frame(pieces: list[list[float | None]], number: str) -> pl.DataFrame:
        return series(pieces).to_frame().with_columns(j=pl.lit("j")).with_row_index(number)

    left, right = frame(one, "l"), frame(other, "r").rename({"x": "y", "j": "k"})
    on, right_on = (["x", "j"], ["y", "k"]) if two_keys else (["x"], ["y"])
    pairs = [
        (i, k)
        for (i, v), (k, w) in product(enumerate(values(one)), enumerate(values(other)))
        if same(v) == same(w) and (nulls_equal or v is not None)
    ]
    matched = {i for i, _ in pairs}
    alone = [i for i in range(left.height) if i not in matched]

    inner = join(left, right, on, "inner", right_on=right_on, nulls_equal=nulls_equal, order="left_right")
    assert inner.select("l", "r").rows() == pairs
    assert inner.columns == ["l", "x", "j", "r", *([] if two_keys else ["k"])]
    outer = join(left, right, on, "left", right_on=right_on, nulls_equal=nulls_equal)
    assert Counter(outer.select("l", "r").rows()) == Counter([*pairs, *((i, None) for i in alone)])
    for how, rows in (("semi", sorted(matched)), ("anti", alone)):
        some = join(left, right, on, how, right_on=right_on, nulls_equal=nulls_equal, order="left")  # type: ignore[arg-type]
        assert some["l"].to_list() == rows
        assert some.columns == left.columns
    assert list(map(str, left["x"])) == list(map(str, values(one)))


@given(ROWS | MARKED, st.sampled_from(SPELLINGS[:-1]))
def test_what_is_taken_for_granted_of_polars(pieces: list[list[float | None]], other: float) -> None:
    """All that operators use, but for joins, holds NaN equal to itself and greatest and -0 equal to 0."""
    given, column = values(pieces), series(pieces)
    frame = column.to_frame().with_columns(j=pl.lit(0))
    known = [v for v in given if v is not None]
    counts, key = Counter(map(same, given)), DOUBLE.key

    assert Counter(map(same, column.unique())) == Counter(list(counts))
    assert column.n_unique() == frame.unique(maintain_order=True).height == len(counts)
    for by in (["x"], ["x", "j"]):
        groups = frame.group_by(by, maintain_order=True).agg(n=pl.len())
        assert {same(x): n for x, n in zip(groups["x"], groups["n"], strict=True)} == counts
    in_order = column.drop_nulls().unique().sort()
    assert list(map(key, in_order)) == sorted({key(v) for v in known})
    ranks = [sorted({key(v) for v in known}).index(key(v)) + 1 if v is not None else None for v in given]
    assert column.rank("dense").to_list() == ranks
    for side, count in (("left", lambda v: key(v) < key(other)), ("right", lambda v: key(v) <= key(other))):
        found = in_order.search_sorted(pl.Series([other], dtype=pl.Float64), side=side)  # type: ignore[arg-type]
        assert found.to_list() == [sum(map(count, in_order))]
    assert column.is_in(pl.Series([other]).implode()).to_list() == [
        None if v is None else same(v) == same(other) for v in given
    ]
    for down in (False, True):
        ordered = sorted(map(key, known), reverse=down)
        for at in ("x", ["x", "j"]):
            found = frame.sort(at, descending=down, nulls_last=True)["x"]
            assert [key(v) for v in found if v is not None] == ordered
    comparisons: dict[str, Callable[[Hashable, Hashable], bool]] = {
        "eq": lambda a, b: a == b,
        "lt": lambda a, b: a < b,  # type: ignore[operator]
        "ge": lambda a, b: a >= b,  # type: ignore[operator]
    }
    for name, compare in comparisons.items():
        test = getattr(pl.col("x"), name)(pl.lit(other))
        hits = [v is not None and compare(key(v), key(other)) for v in given]
        assert frame.select(test.fill_null(False)).to_series().to_list() == hits
    if known:
        least, most = frame.group_by("j").agg(a=pl.col("x").min(), b=pl.col("x").nan_max()).row(0)[1:]
        assert (key(least), key(most)) == (min(map(key, known)), max(map(key, known)))


# Punctuations

SPACE = Space.of(x=SPECIAL, y=SPECIAL)
NANS = (NAN, -NAN, OTHER_NAN, float("nan"), "NaN")


@pytest.mark.parametrize("value", NANS)
def test_nan_is_one_constant(value: object) -> None:
    schema = SPACE.schema
    p, q = Punctuation.of(schema, x=value), Punctuation.parse(schema, "<NaN, *>")
    for other in (q, pickle.loads(pickle.dumps(p)), copy.deepcopy(p), Punctuation.of(schema, x="[NaN,)")):
        assert p == other
        assert hash(p) == hash(other)
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
    found = [Punctuation.of(schema, x=v) for v in (0, 0.0, -0.0, "0", "-0", "-0.0e7", "[0,-0]", "{0,-0.0}")]
    assert len({*found, *map(str, found)}) == 2
    assert all(match((v, 1.0), found[0]) for v in (0.0, -0.0))


@given(SPACE.punctuations(), SPACE.punctuations())
def test_what_punctuations_mean(p: Punctuation, q: Punctuation) -> None:
    """Also of tuples in other spellings, as Python code has them."""
    tuples = list(product((*SPELLINGS, 7.0), repeat=2))
    both = combine(p, q)
    for t in tuples:
        canonical_ = tuple(None if v is None else DOUBLE.accept(v) for v in t)
        assert match(t, p) == match(canonical_, p)
        assert (both is not None and match(t, both)) == (match(t, p) and match(t, q))
        assert not covers(p, q) or match(t, p) or not match(t, q)
    assert (p == q) == ([str(x) for x in p.patterns] == [str(x) for x in q.patterns])


@pytest.mark.parametrize("columns", ["x DOUBLE", "x DOUBLE, s STRING"])
def test_many_tuples_and_many_constants(columns: str) -> None:
    """More than are looked up one by one."""
    schema = Schema.parse(columns)
    rest = ("a",) * (len(schema) - 1)
    given = [(v, *rest) for v in (*map(float, range(300)), *SPELLINGS)]
    for constants in ((NAN,), (NAN, 0.0), (*map(float, range(7)), INF, NAN), (-INF, 5.0)):
        ps = [
            Punctuation(schema, [constant(a.type, v) for a, v in zip(schema, (c, *rest), strict=True)])
            for c in constants
        ]
        held = PunctuationSet(schema, ps)
        frame = pl.DataFrame(given, schema=schema.dtypes, orient="row")
        assert held.mask(frame).to_list() == [any(match(t, p) for p in ps) for t in given]
        assert set(held.unmatched(frame)) == set()
        assert held.unmatched(frame.head(0)) == ps


@given(
    st.lists(st.floats(allow_nan=False) | st.none(), min_size=1), st.sampled_from([3.0, 10.0, 1e300, -0.1])
)
def test_a_quotient_is_rounded_once(values: list[float | None], by: float) -> None:
    column = pl.Series("x", values, pl.Float64())
    quotients = column.to_frame().select(divided(pl.col("x"), by))["x"].to_list()
    assert quotients == [None if x is None else x / by for x in values]
