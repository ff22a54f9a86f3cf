"""Every function over literals, null columns and scalar columns gives what it gives over plain columns.

polars has several kinds of columns that look alike: plain ones, literals (height 1) and *scalar columns* (one value and
a height: what ``with_columns(pl.lit(...))`` makes, or COALESCE of a column that is null throughout). Its operators do
not treat them alike: ``pl.lit(5) < scalar`` has height 1. The functions come from the registry, so a new one is tested
without a new line here: over columns of all types that it takes, and in its example in docs/functions.md.
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
"""The values of a plain column. Literals and scalar columns have the first."""
COLUMNS = ("plain", "nulls", "scalar", "scalar null")
CONSTANTS = ("literal", "null", "coalesced")
"""Arguments that are no columns. A coalesced one is COALESCE(a column of nulls, a literal)."""
HEIGHTS = (0, 1, 3)
NAMES = ("a", "b", "c", "d")

Result = tuple[Any, str | None]
"""A value, or why there is none."""


class Form(NamedTuple):
    """A way to write a function: ``make`` takes its arguments; None where they have no type.

    ``values`` has for each argument its type and the values of a plain column.
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
        """The columns that arguments of these kinds read, and a plain one beside them."""
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
    """A value as one that equals itself, and to the last bit."""
    return repr(value.to_list()) if isinstance(value, pl.Series) else repr(value)


def results(program: Program, frame: pl.DataFrame) -> list[Result]:
    """What a program gives for each tuple: as many results as there are tuples."""
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
"""Of more forms of a function only so many are tested, from all over."""


def signatures(record: Function) -> list[Form]:
    """A function over columns of the types that it takes, with few arguments."""
    forms: list[Form] = []
    if record.name in ("CAST", "TRY_CAST"):
        convert = fn.cast if record.name == "CAST" else fn.try_cast
        for source, target in product(VALUES, [*VALUES, decimal(4, 1)]):
            forms.append(
                Form(partial(_attempt, lambda a, to=target: convert(a, to)), [(source, VALUES[source])])
            )
    else:
        least, most = record.arity
        for count in sorted({max(least, 1), min(max(least, 1) + 1, most, 3)}):
            for types in product(VALUES, repeat=count):
                forms.append(Form(partial(_attempt, record), [(t, VALUES[t]) for t in types]))
    forms = [form for form in forms if isinstance(form.make(form.columns()), Call)]
    return forms[:: -(-len(forms) // MOST_FORMS) or 1]


def _attempt(make: Callable[..., Expression], args: Sequence[Expression]) -> Expression | None:
    """None where arguments have no type together."""
    try:
        return make(*args)
    except ValueError:
        return None


def example(record: Function) -> list[Form]:
    """The example of a function in docs/functions.md, with columns for all literals that may be columns."""
    if record.doc is None:
        return []
    tree = parse_one(record.doc.example, dialect="duckdb")
    holes = [hole for leaf in tree.find_all(exp.Literal) if (hole := _Hole.of(leaf)) is not None]
    for count in range(len(NAMES), 0, -1):
        for chosen in combinations(holes, min(count, len(holes))):
            form = Form(partial(_planned, tree, chosen), [(hole.type, hole.values) for hole in chosen])
            if form.make(form.columns()) is not None:
                return [form]
    return []


class _Hole(NamedTuple):
    """A literal of an example, with the type and the values of a column in its stead."""

    node: exp.Expression
    type: Type
    values: Sequence[Any]

    @classmethod
    def of(cls, leaf: exp.Literal) -> _Hole | None:
        text = leaf.this
        if isinstance(leaf.parent, exp.Interval):
            return cls(leaf, INT, [int(text), *VALUES[INT][:2]])
        if isinstance(leaf.parent, exp.Cast):
            type_ = {"DATE": DATE, "TIMESTAMP": TIMESTAMP}.get(leaf.parent.to.sql("duckdb"), STRING)
            return cls(leaf.parent, type_, [type_.parse_sql(text), *VALUES[type_][:2]])
        if leaf.is_string:
            return cls(leaf, STRING, [text, *VALUES[STRING][:2]])
        known = fn.number(text)
        return cls(leaf, known.type, [known.value, known.type.accept(known.value * 0), known.value])


def _planned(tree: exp.Expression, holes: Sequence[_Hole], args: Sequence[Expression]) -> Expression | None:
    """An example with other arguments in its holes."""
    written = [f"CAST(NULL AS {a.type})" if str(a) == "NULL" else str(a) for a in args]
    sql = _with(tree, {id(hole.node): text for hole, text in zip(holes, written, strict=True)})
    declared = ", ".join(f"{name} {hole.type}" for name, hole in zip(NAMES, holes, strict=False))
    try:
        root = plan(
            f"CREATE STREAM s ({declared}, row INT) WITH (source = '-'); SELECT row, {sql} AS r FROM s"
        ).root
    except SqlError:
        return None
    if not isinstance(root, Project):
        return None  # nothing is left to compute
    made = dict([*root.columns, *root.derived])["r"]
    return made.rewrite(
        lambda e: replace(e, name=e.name.removeprefix("s.")) if isinstance(e, Column) else None
    )


def _with(tree: exp.Expression, texts: Mapping[int, str]) -> str:
    """The SQL of a tree with other texts for some of its nodes."""
    copy = tree.copy()
    for mine, its in zip(list(tree.walk()), list(copy.walk()), strict=True):
        if id(mine) in texts:
            new = exp.Paren(this=parse_one(texts[id(mine)], dialect="duckdb"))
            if its is copy:
                return texts[id(mine)]
            its.replace(new)
    return copy.sql(dialect="duckdb")


def variants(count: int) -> Iterator[tuple[str, ...]]:
    """The kinds of so many arguments: each in turn of every kind, with the others all of one kind."""
    for others, mine in product(("plain", "scalar", "literal"), (*COLUMNS, *CONSTANTS)):
        for place in range(count):
            yield tuple(mine if i == place else others for i in range(count))


def check(form: Form) -> None:
    """The same height, values and failures, whatever the arguments are; in every way that operators compute them."""
    expected = form.expected()
    of_columns = form.make(form.columns())
    assert of_columns is not None
    programs: dict[tuple[str, ...], Expression | None] = {}
    beside: dict[tuple[str, ...], Program] = {}
    for kinds in dict.fromkeys(variants(len(form.values))):
        spelled = tuple(kind if kind in CONSTANTS else "column" for kind in kinds)
        if spelled not in programs:
            made = form.make(form.arguments(kinds))
            programs[spelled] = made and fn.cast(made, of_columns.type)
        e = programs[spelled]
        for height in HEIGHTS:
            wanted = [expected[tuple(map(_key, row))] for row in form.rows(kinds, height)]
            if e is None:  # a literal that is no such value is refused before anything runs
                assert all(why for _, why in wanted), kinds
                continue
            frame, context = form.frame(kinds, height), f"{e} over {kinds}, height {height}"
            assert results(compiled(e), frame) == wanted, context
            if height < HEIGHTS[-1]:
                continue
            if spelled not in beside:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(compiler, "REPEATED", 0)  # so operands become columns of their own
                    beside[spelled] = Program([("row", Column(INT, False, "row")), ("r", e)])
            assert results(beside[spelled], frame) == wanted, context
            if e.type is BOOLEAN:
                passed = Select(Schema.parse("row INT"), e).step(0, frame)
                true = [n for n, (value, _) in enumerate(wanted) if value == "True"]
                assert passed["row"].to_list() == true, context


@pytest.mark.parametrize("record", FUNCTIONS.values(), ids=lambda f: f.name)
def test_every_function_over_every_kind_of_column(record: Function) -> None:
    forms = [*signatures(record), *example(record)]
    assert forms, f"{record.name} has no example with a column, and takes no columns alone"
    for form in forms:
        check(form)
