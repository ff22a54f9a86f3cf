"""The columns that are not null where an expression has a value, compared with all rows of a small domain."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.expressions.test_evaluation import column, typed
from tests.functions_page import tree
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import FUNCTIONS, Column, Expression, Function, Literal, inside_out
from xmlpunct.expressions.non_null import ColumnNames
from xmlpunct.expressions.program import compiled, non_null
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, INT

SCHEMA = Schema.parse("a INT, b INT, p BOOLEAN, n INT NOT NULL")
A, B, P, N = (Column(x.type, x.nullable, x.name) for x in SCHEMA)
ROWS = SCHEMA.frame(list(product((None, 0, 1), (None, 0, 2), (None, False, True), (0, 1))))
NULL = Literal(INT, True, None)

COMPARED = ["=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def called(names: str, *operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Well-typed calls of some functions."""
    calls = st.builds(
        lambda name, *arguments: typed(name, *arguments), st.sampled_from(names.split(", ")), *operands
    )
    return calls.filter(lambda e: e is not None)  # type: ignore[return-value]


VALUES = st.recursive(
    st.sampled_from([A, B, N, NULL, *(fn.literal(INT, n) for n in (0, 1, 2**62))]),
    lambda e: called("+, *, /, %, GREATEST, LEAST, COALESCE, NULLIF", e, e) | called("TRY, NEG", e),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.one_of(
        st.sampled_from([P, *(Literal(BOOLEAN, value is None, value) for value in (None, False, True))]),
        called(", ".join(COMPARED), VALUES, VALUES),
        called("IS NULL", VALUES),
        called("BETWEEN, IN", VALUES, VALUES, VALUES),
        called("IN", VALUES, st.just(fn.literal(INT, 1)), st.just(NULL)),
    ),
    lambda c: st.one_of(
        called("AND, OR, COALESCE, NULLIF, GREATEST, IS DISTINCT FROM, IS NOT DISTINCT FROM", c, c),
        called("NOT, IS NULL, TRY", c),
        called("CASE", c, c, c),
        called("CASE", c, c, st.just(Literal(BOOLEAN, True, None))),
        called("=", called("CASE", c, VALUES, VALUES), VALUES),
    ),
    max_leaves=4,
)


def check(e: Expression, rows: pl.DataFrame) -> None:
    """No row with a null in a reported column has a value, is true, or is false, respectively."""
    (results,), reasons = compiled(e).run(rows)
    rows_with_value = rows.with_columns(results.alias("$value"))
    if reasons is not None:
        rows_with_value = rows_with_value.filter(reasons.is_null())
    columns = non_null(e)
    values: list[tuple[ColumnNames, pl.Expr]] = [(columns.value, pl.col("$value").is_not_null())]
    if e.type is BOOLEAN:
        values += [(columns.true, pl.col("$value").eq(True)), (columns.false, pl.col("$value").eq(False))]
    for names, holds in values:
        matching_rows = rows_with_value.filter(holds)
        if names is None:
            assert not matching_rows.height, str(e)
        else:
            nulls = [name for name in names if matching_rows[name].has_nulls()]
            assert not nulls, f"{e} of {nulls}: {non_null(e)}"


@settings(max_examples=10 * settings.default.max_examples)  # type: ignore[union-attr]
@given(condition=CONDITIONS)
def test_conditions(condition: Expression) -> None:
    check(condition, ROWS)


@given(value=VALUES)
def test_values(value: Expression) -> None:
    check(value, ROWS)


@pytest.mark.parametrize("record", [f for f in FUNCTIONS.values() if f.doc], ids=lambda f: f.name)
def test_every_function(record: Function) -> None:
    """Replace each constant of its documented example by a nullable column, alone and all at once."""
    example = tree(record.doc.example if record.doc else "")
    constants = [e for e in inside_out([example]) if isinstance(e, Literal) and e.value is not None]
    if record.name == "IN":  # with other members than constants it is rewritten to = and OR
        constants = constants[:1]
    choices = [[e] for e in constants] + [constants] * (1 < len(constants) < 9)
    if record.name == "CONCAT_WS":
        choices = choices[1:]  # issue 29, line 1: constant texts give one row only
    for chosen in choices:
        names = {id(e): f"c{i}" for i, e in enumerate(chosen)}
        values = [[e.value, None] for e in chosen]
        rows = pl.DataFrame(
            list(product(*values)), {names[id(e)]: e.type.dtype for e in chosen}, orient="row"
        )

        columns = {id(e): column(names[id(e)], e.type) for e in chosen}
        changed = example.rewrite(lambda e, columns=columns: columns.get(id(e)))  # type: ignore[misc]
        try:
            compiled(changed)
        except (TypeError, ValueError, AssertionError):
            continue  # a pattern, a unit or a path must be constant
        check(changed, rows)


def test_rules_of_the_paper() -> None:
    """Semantics 7.2, for functions that are not strict."""
    strict = fn.call("+", A, B)
    for e, value in [
        (fn.call("COALESCE", A, B), set()),
        (fn.call("COALESCE", A, NULL), {"a"}),
        (fn.call("NULLIF", A, B), {"a"}),
        (fn.call("TRY", fn.call("/", A, B)), {"a", "b"}),
        (fn.call("GREATEST", strict, A), {"a"}),
    ]:
        assert non_null(e).value == frozenset(value), str(e)
    for e, true, false in [
        (fn.call("BETWEEN", A, B, N), {"a", "b", "n"}, {"a"}),
        (fn.call("IN", A, fn.literal(INT, 1), fn.literal(INT, 2)), {"a"}, {"a"}),
        (fn.call("IS NULL", strict), set(), {"a", "b"}),
        (fn.call("IS DISTINCT FROM", strict, A), {"a"}, set()),
        (fn.call("IS NOT DISTINCT FROM", P, fn.literal(BOOLEAN, True)), {"p"}, set()),
        (fn.call("OR", fn.call(">", A, N), fn.call("IS NULL", B)), set(), {"a", "b", "n"}),
    ]:
        columns = non_null(e)
        assert (columns.true, columns.false) == (frozenset(true), frozenset(false)), str(e)
