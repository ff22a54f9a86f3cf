"""The function registry: its records are consistent with each other, with SQL and with evaluated expressions."""

from __future__ import annotations

import polars as pl
import pytest
from sqlglot import exp

from tests.expressions.test_evaluation import TYPES, column, typed
from xmlpunct.expressions.expression import FUNCTIONS, Call, Function
from xmlpunct.expressions.functions import call, number
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import can_fail, compiled
from xmlpunct.types import BOOLEAN, INT

BY_READERS = {
    "CAST",
    "CASE",
    "DATE_ADD",
    "IS NULL",
    "NEG",
    "SINGLE",
    "TRIM",
    "XMLATTRIBUTE",
    "XMLELEMENT",
    "XMLFOREST",
    "XMLTEXT",
    "TIME_BUCKET",
    "TRY_CAST",
}
"""Functions that the planner reads by special code."""


def test_each_has_its_own_syntax() -> None:
    nodes = [f.syntax.node for f in FUNCTIONS.values() if f.syntax]
    assert len(set(nodes)) == len(nodes)
    assert {f.name for f in FUNCTIONS.values() if not (f.syntax or f.called)} == BY_READERS
    names = [name for f in FUNCTIONS.values() for name in f.called]
    assert len(set(names)) == len(names)
    for f in FUNCTIONS.values():
        if f.syntax:
            assert {*f.syntax.operands.split(), *f.syntax.unread.split()} <= getattr(
                exp, f.syntax.node
            ).arg_types.keys()


@pytest.mark.parametrize("record", FUNCTIONS.values(), ids=lambda f: f.name)
def test_too_few_and_too_many_arguments(record: Function) -> None:
    min_count, max_count = record.arity
    for count in (min_count - 1, max_count + 1):
        if 0 <= count < 2000:
            with pytest.raises(ValueError, match="takes"):
                record(*[number("1")] * count)


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no function SOUNDEX"):
        call("SOUNDEX", number("1"))


@pytest.mark.parametrize("record", [f for f in FUNCTIONS.values() if f.holds], ids=lambda f: f.name)
def test_the_record_of_a_comparison_agrees_with_its_results(record: Function) -> None:
    for second, holds in zip(("2", "1", "0"), record.holds or (), strict=True):
        truth = record(number("1"), number(second))
        assert isinstance(truth, Call)
        assert truth.type is BOOLEAN
        assert str(truth) == f"1 {record.name} {second}"
        assert compiled(truth).run(pl.DataFrame({"x": [0]})).columns.item() is holds


@pytest.mark.parametrize("record", FUNCTIONS.values(), ids=lambda f: f.name)
def test_every_typed_call_can_be_examined(record: Function) -> None:
    """Each call that typing returns can be printed, compiled and tested for monotonicity."""
    for types in ([t] for t in TYPES), ([t, u] for t in TYPES for u in TYPES):
        for argument_types in types:
            expression = typed(
                record.name, *(column(name, t) for name, t in zip("ab", argument_types, strict=False))
            )
            if isinstance(expression, Call):
                assert str(expression)
                assert can_fail(expression) in (True, False)
                monotone = Monotone.of(expression)
                assert monotone is None or monotone.source in "ab"


def test_facts_of_a_call_are_composed() -> None:
    a = column("a", INT)
    falling = call("-", number("3"), call("/", a, number("-2")))
    assert Monotone.of(falling) == Monotone(falling, "a", True)
    assert Monotone.of(call("%", a, number("2"))) is None
    assert Monotone.of(call("+", a, a)) is None
    assert Monotone.of(a) is None
