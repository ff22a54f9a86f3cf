"""docs/functions.md, generated from the records of functions: ``python -m tests.functions_page`` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import polars as pl

from xmlpunct.engine.plan import Project
from xmlpunct.engine.sql import plan
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Call, Column, Doc, Expression, Function, Literal
from xmlpunct.expressions.functions import casts
from xmlpunct.expressions.program import compiled
from xmlpunct.operators.group import aggregate
from xmlpunct.operators.group.aggregate import AggregateFunction
from xmlpunct.operators.time.over.calls import AGGREGATES
from xmlpunct.types import STRING

PAGE = Path(__file__).parent.parent / "docs" / "functions.md"

SECTIONS: dict[str, tuple[ModuleType, ...]] = {
    "Numbers": (fn.arithmetic, fn.rounding, fn.powers, fn.trigonometry),
    "Text": (fn.text_functions, fn.matching, fn.regex, fn.lists, fn.json_text),
    "Dates and times": (fn.moment_functions, fn.time_buckets, fn.interval_arithmetic, fn.time_formats),
    "Conditions": (fn.conditions,),
    "Conversions and XML": (casts, fn.xml),
}
INTRODUCTION = """\
<!-- Made by python -m tests.functions_page from the records of the functions. -->
# Functions

Functions have the names and results of DuckDB; the tests compare them with DuckDB. A function returns null if an
argument is null, unless its entry states otherwise. If a function fails (a division by zero, a number that does not fit
its type, a CAST without a value), the tuple is a reject, with the reason.

A function with a tick *keeps order*: while one argument grows and the other arguments are constant, the result never
falls, or never rises. Punctuations pass through it: once all times up to 18:00 are closed, `DATE_TRUNC('hour', ts)` is
closed up to 17:00. `HOUR(ts) = 17` is not closed, because the next day has an hour 17 too. A function without a tick
passes on only punctuations about other columns.
"""
AGGREGATES_TEXT = """\
## Aggregates

Aggregates ignore nulls, except `COUNT(*)` and `ARRAY_AGG`. Without values the result is null; for counts it is 0.
Aggregates may be used in SELECT, HAVING and ORDER BY of a query with groups or windows (`TUMBLE`, `HOP`, `SESSION`).
Each accepts DISTINCT, and `FILTER (WHERE condition)` after the call: then it reads only the tuples for which the
condition is true. No result depends on the order of tuples, on slices or on shards: sums of DOUBLEs are exact, and
rounded once.

*Retained* is the state of a group until it is closed: a few numbers, one value, or all values. Shards exchange the
numbers or the one value instead of tuples. With DISTINCT, an aggregate of a few numbers retains all values. A tick in
*OVER* marks aggregates that can be used with OVER, and in *relation* aggregates over changing relations.
"""

DIFFERENCES = """\
## What differs from DuckDB

Each difference has a reason; [SQL](sql.md) lists the differences of queries.

- **CAST and TRY_CAST of a text to INT or DECIMAL** accept digits with a sign and, for DECIMAL, a point: the forms that
  a tuple of that type may have. Of any other text, TRY_CAST is null. DuckDB also accepts `'1e3'`, `'1_000'` and
  `'0x10'`, and rounds: its INT of `'1.5'` is 2, and its DECIMAL(3,2) of `'1.005'` is 1.01. Here a CAST of a text loses
  no digits, and `1e3` is a DOUBLE, like the literal. To round or truncate, cast in two steps:
  `CAST(CAST(s AS DOUBLE) AS INT)`.
- **CAST of a text to DATE or TIMESTAMP** accepts `2024-02-29`. A TIMESTAMP may continue with `T` or spaces, a time
  (`12:00`, `12:00:00` or `12:00:00.5`), and a zone (`Z` or `+01:00`). Only this order of year, month and day is
  accepted, so that no text can mean two days; STRPTIME reads other orders. The cast to DATE does not drop a time: write
  `CAST(s AS TIMESTAMP)::DATE`. The zone is applied, because a TIMESTAMP is in UTC: `12:00:00+01:00` is 11:00. DuckDB
  ignores the zone unless the type is TIMESTAMPTZ. There are no infinite dates.
- **STRPTIME with %Z** reads the names of the IANA database, such as `Europe/Oslo`, `UTC` and `EST`, and CST, JST and
  PST. DuckDB also reads `GMT+1` and short names that have several meanings: its BST is the time of Dhaka.
- **White space** around a text (space, tab, line end) is ignored in each CAST, as in XML Schema. DuckDB ignores it,
  and the vertical tab, for numbers and dates only.
- **Regular expressions** have the syntax of RE2, as in DuckDB, without `\\C` and octal numbers. A pattern that RE2
  refuses and polars accepts (`a++`, `(?x)`) is evaluated by polars. `\\B` never matches inside a character; RE2 works
  on bytes.
- **UPPER and LOWER** convert the letters that polars converts, among them letters of Unicode 16 that DuckDB does not.
- **`->`** has the precedence of `||`, from left to right: `s -> 'a' = 'x'` and `s -> 'a' || 'b'` compare and join the
  value at `'a'`. DuckDB reads `s -> ('a' = 'x')` and `s -> ('a' || 'b')`. With parentheses, `(s -> 'a')`, both agree.
  The result is a STRING, because there is no JSON type: `COALESCE(s -> 'a', 'x')` can be the text `x`.
"""


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    listed = set[str]()
    for title, modules in SECTIONS.items():
        lines += [
            f"## {title}",
            "",
            "| function | result | example | keeps order |",
            "|---|---|---|---|",
        ]
        for record in _records(modules):
            if record.name not in listed and record.doc is not None:
                listed.add(record.name)
                lines.append(_row(record, record.doc))
        lines.append("")
    lines += [
        AGGREGATES_TEXT,
        "| aggregate | result | retained | OVER | relation |",
        "|---|---|---|---|---|",
    ]
    for record in aggregate.FUNCTIONS.values():
        lines.append(_aggregate(record))
    return "\n".join([*lines, "", DIFFERENCES])


def _records(modules: Iterable[ModuleType]) -> Iterator[Function]:
    """The records that some modules define, in their order."""
    for module in modules:
        yield from (value for value in vars(module).values() if isinstance(value, Function))


def _row(record: Function, doc: Doc) -> str:
    called = [name for name in record.called if name not in doc.form]
    form = ", ".join([_code(doc.form), *map(_code, called)])
    expression = tree(doc.example)
    example = f"{_code(doc.example)} is {_code(result(expression))}"
    return f"| {form} | {_cell(doc.meaning)} | {example} | {'✓' if keeps_order(expression) else ''} |"


def tree(sql: str) -> Expression:
    """An expression of constants."""
    root = plan(f"CREATE STREAM s (x INT) WITH (source = 's.xml'); SELECT x, {sql} AS r FROM s").root
    assert isinstance(root, Project)
    return dict([*root.columns, *root.derived])["r"]


def result(expression: Expression) -> str:
    """Value of an expression of constants, as an SQL literal."""
    (value,), reasons = compiled(expression).run(pl.DataFrame({"x": [0]}))
    assert reasons is None or reasons[0] is None, reasons
    if not expression.type.comparable:
        return str(value[0].to_list() if isinstance(value[0], pl.Series) else value[0])
    return str(Literal(expression.type, value[0] is None, value[0]))


def keeps_order(expression: Expression) -> bool:
    """True if the expression is monotone in one of its constants."""
    if not isinstance(expression, Call):
        return False
    for i, argument in enumerate(expression.args):
        if argument.type is STRING:
            continue  # a unit, a pattern: these have to be literals
        if isinstance(argument, Literal) or (isinstance(argument, Call) and argument.constant):
            args = list(expression.args)
            args[i] = Column(argument.type, False, "x")
            step = expression.record.monotone(replace(expression, args=tuple(args)))
            if step is not None and step[0] == i:
                return True
    return False


def _aggregate(record: AggregateFunction) -> str:
    target = aggregate.FUNCTIONS[record.stands_for or record.name]
    retained = "all values" if target.gathers else "one value" if target.once else "a few numbers"
    over = target.name in AGGREGATES
    relation = target.can_retract
    called = [name for name in record.called if f"{name}(" not in record.doc.form]
    form = ", ".join([_code(record.doc.form), *map(_code, called)])
    ticks = " | ".join("✓" if yes else "" for yes in (over, relation))
    return f"| {form} | {_cell(record.doc.meaning)} | {retained} | {ticks} |"


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
