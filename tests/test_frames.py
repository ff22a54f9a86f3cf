"""NaN equals NaN wherever frames are joined, however few rows they have."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest

from tests.operators.harness import check_table, give
from xmlpunct.base.frames import join
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import cast
from xmlpunct.expressions.program import compiled
from xmlpunct.operators import Aggregate, GroupBy, Join
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.slice.lateness import Lateness
from xmlpunct.types import DOUBLE, STRING

NAN = math.nan
LEFT, RIGHT = Schema.parse("k DOUBLE, v INT"), Schema.parse("l DOUBLE, w INT")
END = Punctuation.everything(LEFT)


@pytest.mark.parametrize("nulls_equal", [False, True])
@pytest.mark.parametrize("columns", [["k"], ["k", "j"]], ids=len)
def test_a_join_by_definition(columns: list[str], nulls_equal: bool) -> None:
    for sides in product(([NAN], [None], [0.0], [NAN, None, 0.0, 1.5]), repeat=2):
        left, right = (
            pl.DataFrame(dict.fromkeys(columns, pl.Series(side, dtype=pl.Float64))) for side in sides
        )
        pairs = [repr(v) for v, w in product(*sides) if repr(v) == repr(w) and (nulls_equal or v is not None)]
        inner = join(left, right, columns, "inner", nulls_equal=nulls_equal)
        assert sorted(map(repr, inner["k"])) == sorted(pairs)
        marked = right.with_columns(pl.lit(1).alias("y"))
        outer = join(left, marked, columns, "left", nulls_equal=nulls_equal, order="left")
        assert (outer["y"].count(), outer.columns) == (len(pairs), [*columns, "y"])


def test_a_join_of_one_tuple_a_side() -> None:
    check_table(Join(LEFT, RIGHT, [("k", "l")]), "1: NaN 1 ->\n 2: NaN 2 -> NaN 1 2")
    check_table(Join(LEFT, RIGHT, [("k", "l")], "semi"), "1: NaN 1 ->\n 2: NaN 2 -> NaN 1")
    check_table(Join(LEFT, RIGHT, [("k", "l")], "anti"), "1: NaN 1 ->\n 2: NaN 2 ->\n 2: P(*, *) ->")


def test_the_one_group_s_own_values() -> None:
    operator = GroupBy(LEFT, ["k"], [Aggregate("COUNT", "k", True, "n")])
    assert give(operator, 0, [(NAN, 1), (NAN, 1)]).tuples.rows()[0][1] == 1


def test_a_conversion_of_one_value() -> None:
    frame = LEFT.frame([(NAN, 1)])
    (texts,), _ = compiled(cast(Column(DOUBLE, True, "k"), STRING)).run(frame)
    assert texts.to_list() == ["NaN"]


def test_one_tuple_and_one_punctuation() -> None:
    tuples = LEFT.frame([(NAN, 1)])
    for v in ("*", "1", "[1,5]"):
        p = Punctuation.of(LEFT, k="NaN", v=v)
        punctuations = PunctuationSet(LEFT, [p])
        assert punctuations.mask(tuples).to_list() == [True]
        assert [q for index in punctuations.groups() for q in index.matched(tuples)] == [p]
        assert Lateness(LEFT).judge(Slice(tuples, [p], [0])).null_count() == 0
        assert Lateness(LEFT).judge(Slice(tuples, [p], [1])).null_count() == 1
