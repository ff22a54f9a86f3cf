"""Every function has the same results over literals, null columns and scalar columns as over plain columns.

polars has several similar kinds of columns: plain ones, literals (height 1) and *scalar columns* (one value and a
height; for example ``with_columns(pl.lit(...))``, or COALESCE of an all-null column). Its operators treat them
differently: ``pl.lit(5) < scalar`` has height 1. The registry lists the functions, so a new function is tested without
a new line here: over columns of all types that it accepts, and in its example in docs/functions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

import polars as pl
import pytest
from sqlglot import exp, parse_one

from xmlpunct.base.errors import SqlError
from xmlpunct.engine.plan import Project
from xmlpunct.engine.sql import plan
from xmlpunct.expressions import compiler
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import FUNCTIONS, Call, Column, Expression, Function, Literal
from xmlpunct.expressions.program import Program, compiled
from xmlpunct.operators import Select
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

MONEY, FINE = decimal(9, 2), decimal(20, 4)
VALUES: dict[Type, list[Any]] = {
    INT: [2, -3, 7],
    DOUBLE: [10.0, float("nan"), -28.0],
    MONEY: [Decimal("2.50"), Decimal("-3.00"), Decimal("0.25")],
    FINE: [Decimal("2.5000"), Decimal("-3.0001"), Decimal("7.0000")],
    STRING: ["b", "a,b", "Straße 7"],
    BOOLEAN: [True, False, True],
    DATE: [date(2024, 2, 29), date(1969, 12, 31), date(2024, 3, 1)],
    TIMESTAMP: [
        datetime(2024, 2, 29, 23, 59, 59, 5, UTC),
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(2024, 3, 1, tzinfo=UTC),
    ],
}
"""The values of a plain column. Literals and scalar columns have the first of them."""
COLUMNS = ("plain", "nulls", "scalar", "scalar null")
CONSTANTS = ("literal", "null", "coalesced")
"""Arguments that are not columns. A coalesced one is COALESCE(a column of nulls, a literal)."""
HEIGHTS = (0, 1, 3)
NAMES = ("a", "b", "c", "d")

Result = tuple[Any, str | None]
"""A value, or the reason of a failure."""


class Form(NamedTuple):
    """A way to write a function: ``make`` takes its arguments; None if they are badly typed.

    values: for each argument, its type and the values of a plain column.
    """

    make: Callable[[Sequence[Expression]], Expression | None]
    values: Sequence[tuple[Type, Sequence[Any]]]

    def columns(self) -> list[Column]:
        return [Column(type_, True, name) for name, (type_, _) in zip(NAMES, self.values, strict=False)]

    def arguments(self, kinds: Sequence[str]) -> list[Expression]:
        arguments: list[Expression] = []
        for column, kind, (type_, values) in zip(self.columns(), kinds, self.values, strict=True):
            constant = Literal(type_, kind == "null", None if kind == "null" else values[0])
            coalesced = fn.call("COALESCE", column, constant) if type_.comparable else constant
            arguments.append(
                {"literal": constant, "null": constant, "coalesced": coalesced}.get(kind, column)
            )
        return arguments

    def frame(self, kinds: Sequence[str], height: int) -> pl.DataFrame:
        """The columns that arguments of these kinds read, and a plain column ``row``."""
        frame = pl.DataFrame({"row": range(height)}, schema={"row": pl.Int64})
        for column, kind, (type_, values) in zip(self.columns(), kinds, self.values, strict=True):
            value = values[0] if kind == "scalar" else None
            if kind.startswith("scalar"):
                frame = frame.with_columns(pl.lit(value, dtype=type_.dtype).alias(column.name))
            else:
                plain = values[:height] if kind == "plain" else [None] * height
                frame = frame.hstack([pl.Series(column.name, plain, dtype=type_.dtype)])
        return frame

    def rows(self, kinds: Sequence[str], height: int) -> Iterator[tuple[Any, ...]]:
        """The arguments of each tuple of a frame."""
        for n in range(height):
            yield tuple(
                values[n]
                if kind == "plain"
                else None
                if kind in ("nulls", "scalar null", "null")
                else values[0]
                for kind, (_, values) in zip(kinds, self.values, strict=True)
            )

    def expected(self) -> dict[tuple[Any, ...], Result]:
        """The results over plain columns, by the arguments."""
        rows = list(product(*([*values, None] for _, values in self.values)))
        dtypes = [type_.dtype for type_, _ in self.values]
        series = [
            pl.Series(name, column, dtype=dtype)
            for name, column, dtype in zip(NAMES, zip(*rows, strict=True), dtypes, strict=False)
        ]
        e = self.make(self.columns())
        assert e is not None
        keys = [tuple(map(_key, row)) for row in rows]
        return dict(zip(keys, results(Program([("r", e)]), pl.DataFrame(series)), strict=True))


def _key(value: Any) -> Any:
    """A key that is equal for equal values only, to the last bit; NaN equals NaN."""
    return repr(value.to_list()) if isinstance(value, pl.Series) else repr(value)


def results(program: Program, frame: pl.DataFrame) -> list[Result]:
    """The result of a program for each tuple."""
    computed, reasons = program.run(frame)
    computed = computed.rename({"value": "r"}, strict=False)
    assert computed.height == frame.height
    assert reasons is None or len(reasons) == frame.height
    failures = [None] * frame.height if reasons is None else reasons.to_list()
    values = computed["r"].to_list()
    return [
        (None if why else _key(value), why and why.partition(":")[0])
        for value, why in zip(values, failures, strict=True)
    ]


MOST_FORMS = 12
"""The largest number of tested forms of a function, evenly chosen."""


def signatures(record: Function) -> list[Form]:
    """Forms of a function over columns of all accepted types, with few arguments."""
    forms: list[Form] = []
    if record.name in ("CAST", "TRY_CAST"):
        convert = fn.cast if record.name == "CAST" else fn.try_cast
        for source, target in product(VALUES, [*VALUES, decimal(4, 1)]):
            forms.append(
                Form(partial(_attempt, lambda a, to=target: convert(a, to)), [(source, VALUES[source])])
            )
    else:
        min_count, max_count = record.arity
        for count in sorted({max(min_count, 1), min(max(min_count, 1) + 1, max_count, 3)}):
            for types in product(VALUES, repeat=count):
                forms.append(Form(partial(_attempt, record), [(t, VALUES[t]) for t in types]))
    forms = [form for form in forms if isinstance(form.make(form.columns()), Call)]
    return forms[:: -(-len(forms) // MOST_FORMS) or 1]


def _attempt(make: Callable[..., Expression], args: Sequence[Expression]) -> Expression | None:
    """None if the arguments are badly typed."""
    try:
        return make(*args)
    except ValueError:
        return None


def example(record: Function) -> list[Form]:
    """The example of a function in docs/functions.md, with columns instead of as many literals as possible."""
    if record.doc is None:
        return []
    tree = parse_one(record.doc.example, dialect="duckdb")
    holes = [hole for leaf in tree.find_all(exp.Literal) if (hole := _Hole.for_literal(leaf)) is not None]
    for count in range(len(NAMES), 0, -1):
        for chosen in combinations(holes, min(count, len(holes))):
            form = Form(partial(_planned, tree, chosen), [(hole.type, hole.values) for hole in chosen])
            if form.make(form.columns()) is not None:
                return [form]
    return []


class _Hole(NamedTuple):
    """A literal of an example, with the type and the values of the column that replaces it."""

    node: exp.Expression
    type: Type
    values: Sequence[Any]

    @classmethod
    def for_literal(cls, leaf: exp.Literal) -> _Hole | None:
        text = leaf.this
        if isinstance(leaf.parent, exp.Interval):
            return cls(leaf, INT, [int(text), *VALUES[INT][:2]])
        if isinstance(leaf.parent, exp.Cast):
            type_ = {"DATE": DATE, "TIMESTAMP": TIMESTAMP}.get(leaf.parent.to.sql("duckdb"), STRING)
            return cls(leaf.parent, type_, [type_.parse_sql(text), *VALUES[type_][:2]])
        if leaf.is_string:
            return cls(leaf, STRING, [text, *VALUES[STRING][:2]])
        number = fn.number(text)
        return cls(leaf, number.type, [number.value, number.type.accept(number.value * 0), number.value])


def _planned(tree: exp.Expression, holes: Sequence[_Hole], args: Sequence[Expression]) -> Expression | None:
    """An example with other arguments in its holes; None if it cannot be planned."""
    texts = [f"CAST(NULL AS {a.type})" if str(a) == "NULL" else str(a) for a in args]
    sql = _with(tree, {id(hole.node): text for hole, text in zip(holes, texts, strict=True)})
    declared = ", ".join(f"{name} {hole.type}" for name, hole in zip(NAMES, holes, strict=False))
    try:
        root = plan(
            f"CREATE STREAM s ({declared}, row INT) WITH (source = '-'); SELECT row, {sql} AS r FROM s"
        ).root
    except SqlError:
        return None
    if not isinstance(root, Project):
        return None  # a plain column
    expression = dict([*root.columns, *root.derived])["r"]
    return expression.rewrite(
        lambda e: replace(e, name=e.name.removeprefix("s.")) if isinstance(e, Column) else None
    )


def _with(tree: exp.Expression, texts: Mapping[int, str]) -> str:
    """The SQL of a tree in which some nodes are replaced by other SQL."""
    copy = tree.copy()
    for node, copied in zip(list(tree.walk()), list(copy.walk()), strict=True):
        if id(node) in texts:
            replacement = exp.Paren(this=parse_one(texts[id(node)], dialect="duckdb"))
            if copied is copy:
                return texts[id(node)]
            copied.replace(replacement)
    return copy.sql(dialect="duckdb")


def variants(count: int) -> Iterator[tuple[str, ...]]:
    """Kinds of ``count`` arguments: one argument of any kind, the remaining ones of one common kind."""
    for common_kind, kind in product(("plain", "scalar", "literal"), (*COLUMNS, *CONSTANTS)):
        for position in range(count):
            yield tuple(kind if i == position else common_kind for i in range(count))


def check(form: Form) -> None:
    """Height, values and failures do not depend on the kinds of arguments, nor on how operators compute them."""
    expected = form.expected()
    of_columns = form.make(form.columns())
    assert of_columns is not None
    programs: dict[tuple[str, ...], Expression | None] = {}
    row_programs: dict[tuple[str, ...], Program] = {}
    for kinds in dict.fromkeys(variants(len(form.values))):
        spelled = tuple(kind if kind in CONSTANTS else "column" for kind in kinds)
        if spelled not in programs:
            expression = form.make(form.arguments(kinds))
            programs[spelled] = expression and fn.cast(expression, of_columns.type)
        e = programs[spelled]
        for height in HEIGHTS:
            expected_results = [expected[tuple(map(_key, row))] for row in form.rows(kinds, height)]
            if e is None:  # an invalid literal is refused before the run
                assert all(why for _, why in expected_results), kinds
                continue
            frame, context = form.frame(kinds, height), f"{e} over {kinds}, height {height}"
            assert results(compiled(e), frame) == expected_results, context
            if height < HEIGHTS[-1]:
                continue
            if spelled not in row_programs:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(compiler, "REPEATED", 0)  # so operands become columns of their own
                    row_programs[spelled] = Program([("row", Column(INT, False, "row")), ("r", e)])
            assert results(row_programs[spelled], frame) == expected_results, context
            if e.type is BOOLEAN:
                output = Select(Schema.parse("row INT"), e).step(0, frame)
                true = [n for n, (value, _) in enumerate(expected_results) if value == "True"]
                assert output["row"].to_list() == true, context


@pytest.mark.parametrize("record", FUNCTIONS.values(), ids=lambda f: f.name)
def test_every_function_over_every_kind_of_column(record: Function) -> None:
    if record.arity == (0, 0):
        return
    forms = [*signatures(record), *example(record)]
    assert forms, f"{record.name} has no example with a column, and takes no columns alone"
    for form in forms:
        check(form)
