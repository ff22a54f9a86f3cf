"""docs/functions.md, made of the records of functions: ``python -m tests.functions_page`` writes it."""

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
    "Numbers": (fn.arithmetic, fn.rounding, fn.powers),
    "Text": (fn.text_functions, fn.matching, fn.regex, fn.lists, fn.json_text),
    "Dates and times": (fn.moment_functions, fn.time_buckets, fn.interval_arithmetic, fn.time_formats),
    "Conditions": (fn.conditions,),
    "Conversions and XML": (casts, fn.xml),
}
INTRODUCTION = """\
<!-- Made by python -m tests.functions_page from the records of the functions. -->
# Functions

Names and meaning are DuckDB's, and DuckDB is what the tests compare them with. A function of null is null, unless
its entry says otherwise. Where one fails (a division by zero, a number that does not fit its type, a CAST of what is
no such value), the tuple is a reject with its reason.

A function with a tick *keeps order*: as one of its arguments grows and the others are constants, its result never
falls, or never rises. So punctuations go through it: once all moments up to 18:00 are closed, so is
`DATE_TRUNC('hour', ts)` up to 17:00, but not `HOUR(ts) = 17`, for there is another day. What does not keep order passes
on only punctuations about other columns.
"""
AGGREGATES_TEXT = """\
## Aggregates

They leave out null (but for `COUNT(*)` and `ARRAY_AGG`), and of no values they give null, the counts 0. They stand in
SELECT, HAVING and ORDER BY of a query that groups, also by windows (`TUMBLE`, `HOP`, `SESSION`). Each takes DISTINCT,
and `FILTER (WHERE condition)` behind it: then only the tuples for which the condition is true count. No result depends
on the order in which tuples came, on slices or on shards: sums of DOUBLEs are exact, and rounded once.

*Retained* is what a group keeps until it is closed: a few numbers or one value, which shards also send each other
instead of tuples, or all its values. With DISTINCT all do as the latter, but for those that keep one value. *OVER* says
which also go with OVER, and *relation* which with changing relations.
"""

DIFFERENCES = """\
## What differs from DuckDB

Each difference has a reason; [SQL](sql.md) lists those of queries.

- **CAST of a text to INT or DECIMAL** reads digits with a sign and, for DECIMAL, a point: what a tuple of that type may
  hold. DuckDB also reads `'1e3'`, `'1_000'` and `'0x10'`, and rounds: `'1.5'` is the INT 2 there, and `'1.005'` the
  DECIMAL(3,2) 1.01. Here no text loses digits unasked, and `1e3` is a DOUBLE, as the literal is. To round or cut, name
  the type on the way: `CAST(CAST(s AS DOUBLE) AS INT)`.
- **CAST of a text to DATE or TIMESTAMP** reads `2024-02-29`; a TIMESTAMP has `T` or spaces and `12:00`, `12:00:00` or
  `12:00:00.5` behind it, and then perhaps `Z` or `+01:00`. One order of year, month and day in full, so that no text
  means two days; for others there is STRPTIME. A time is not cut from a DATE unasked: `CAST(s AS TIMESTAMP)::DATE`. A
  zone counts, because a TIMESTAMP is in UTC: `12:00:00+01:00` is 11:00. DuckDB leaves the zone out unless the type is
  TIMESTAMPTZ. There is no infinite moment.
- **White space** around a text is passed over in each CAST, as XML Schema has it: space, tab and line end. DuckDB does
  so for numbers and dates, and for the vertical tab.
- **Regular expressions** are RE2's, as there, but for `\\C` and octal numbers, which are refused. What RE2 refuses and
  polars knows (`a++`, `(?x)`) is read as polars does. `\\B` never holds inside a character; RE2 goes by bytes.
- **UPPER and LOWER** know the letters that polars knows: some newer ones than DuckDB (of Unicode 16).
- **`->`** binds as `||` does, from left to right, so `s -> 'a' = 'x'` and `s -> 'a' || 'b'` compare and join what
  stands at `'a'`. DuckDB reads `s -> ('a' = 'x')` and `s -> ('a' || 'b')`: put `(s -> 'a')` in parentheses, and both
  agree. What it gives is a STRING, since there is no type of JSON: `COALESCE(s -> 'a', 'x')` may be the text `x`.
"""


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    known = set[str]()
    for title, modules in SECTIONS.items():
        lines += [
            f"## {title}",
            "",
            "| function | what it gives | example | keeps order |",
            "|---|---|---|---|",
        ]
        for record in _records(modules):
            if record.name not in known and record.doc is not None:
                known.add(record.name)
                lines.append(_row(record, record.doc))
        lines.append("")
    lines += [
        AGGREGATES_TEXT,
        "| aggregate | what it gives | retained | OVER | relation |",
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
    said = f"{_code(doc.example)} is {_code(result(expression))}"
    return f"| {form} | {_cell(doc.meaning)} | {said} | {'✓' if keeps_order(expression) else ''} |"


def tree(sql: str) -> Expression:
    """An expression of constants."""
    root = plan(f"CREATE STREAM s (x INT) WITH (source = 's.xml'); SELECT x, {sql} AS r FROM s").root
    assert isinstance(root, Project)
    return dict([*root.columns, *root.derived])["r"]


def result(expression: Expression) -> str:
    """What an expression of constants gives, as SQL writes it."""
    (value,), reasons = compiled(expression).run(pl.DataFrame({"x": [0]}))
    assert reasons is None or reasons[0] is None, reasons
    if not expression.type.comparable:
        return str(value[0].to_list() if isinstance(value[0], pl.Series) else value[0])
    return str(Literal(expression.type, value[0] is None, value[0]))


def keeps_order(expression: Expression) -> bool:
    """Whether it is monotone in one of the constants."""
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
    over = target.name in AGGREGATES and record.after is None
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
