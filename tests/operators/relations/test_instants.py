"""Instants: arithmetic at the ends of a type."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct.operators.relations.instants import Instants, up
from xmlpunct.types import DATE, INT, TIMESTAMP, Type

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NUMBERS = st.integers(LOWEST, HIGHEST) | st.sampled_from([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST])
LENGTHS = st.integers(0, 20) | st.integers(0, 2**65) | st.sampled_from([HIGHEST, 2**63, 2**64 - 1, 2**64])


@given(st.lists(NUMBERS, min_size=1), LENGTHS, NUMBERS)
def test_later_is_the_sum_where_it_is_in_t(numbers: list[int], length: int, greatest: int) -> None:
    numbers = [min(n, greatest) for n in numbers]
    shifted, within = Instants(INT, None, greatest).shift(np.array(numbers), length)
    assert within.tolist() == [n + length <= greatest for n in numbers]
    assert shifted[within].tolist() == [n + length for n in numbers if n + length <= greatest]


@given(st.lists(NUMBERS, min_size=1), LENGTHS.filter(bool), NUMBERS, NUMBERS)
def test_up_is_the_next_multiple_where_it_is_in_t(
    numbers: list[int], slide: int, origin: int, greatest: int
) -> None:
    numbers = [min(n, greatest) for n in numbers]
    exact = [origin - (origin - n) // slide * slide for n in numbers]
    assert [up(n, slide, origin) for n in numbers] == exact
    rounded, within = Instants(INT, None, greatest).up(np.array(numbers), slide, origin)
    assert within.tolist() == [n <= greatest for n in exact]
    assert rounded[within].tolist() == [n for n in exact if n <= greatest]


@pytest.mark.parametrize("type_", [INT, DATE, TIMESTAMP])
def test_columns_and_prefixes_reach_the_ends_of_a_type(type_: Type) -> None:
    values = [type_.lowest, type_.highest]
    instants = Instants(type_)
    ordinals = instants.ordinals(pl.Series("t", values, dtype=type_.dtype))
    assert ordinals.tolist() == [instants.lo, instants.last]
    column = instants.column("t", ordinals)
    assert (column.name, column.dtype, column.to_list()) == ("t", type_.dtype, values)
    assert instants.within(ordinals).tolist() == [False, True]
    bounds = [instants.lo - 1, instants.lo, instants.lo + 1, instants.last - 1, instants.last]
    assert [instants.bound(instants.prefix(bound)) for bound in bounds] == bounds
