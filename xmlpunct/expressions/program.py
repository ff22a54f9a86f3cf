"""Compiled expressions, evaluated over data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from xmlpunct.expressions.compiler import CompiledPart, Compiler, first
from xmlpunct.expressions.expression import Call, Column, Expression, Literal, inside_out
from xmlpunct.expressions.non_null import ALL, NonNull
from xmlpunct.types import BOOLEAN


class ColumnResults(NamedTuple):
    """A column for each expression, and the reason of each tuple that fails; None if no tuple fails."""

    columns: pl.DataFrame
    reasons: pl.Series | None


class Program:
    """Computes named expressions over data frames. A tuple's reason is that of the first expression that fails.

    >>> from xmlpunct.expressions.expression import Column
    >>> from xmlpunct.expressions.functions import call, number
    >>> from xmlpunct.types import INT
    >>> ratio = Program([("ratio", call("/", number("7"), Column(INT, False, "n")))])
    >>> results = ratio.run(pl.DataFrame({"n": [2, -2, 0]}))
    >>> results.columns["ratio"].to_list(), results.reasons.to_list()
    ([3, -3, None], [None, None, 'division by zero: 7 / n'])
    """

    def __init__(self, columns: Iterable[tuple[str, Expression]]) -> None:
        expressions = dict(columns)
        compiler = Compiler(list(expressions.values()), expressions)
        self._names, self._reasons, self._error = list(expressions), compiler.reasons, ""
        results = {name: column.value for name, column in zip(expressions, compiler.compiled, strict=True)}
        error = first(column.error for column in compiler.compiled)
        if error is not None:
            self._error = compiler.fresh()
            results[self._error] = error
        direct = [part.expr.alias(name) for name, part in results.items() if not part.stage]
        self._direct = _in_full_height(direct) if direct else None
        staged = {name: part for name, part in results.items() if part.stage}
        self._stages = [*map(_in_full_height, _stage_columns([*compiler.stages, staged]))] if staged else []
        self.simple = direct[0] if len(results) == 1 and not staged else None
        """The program as one polars expression, if one suffices. Its result may have one row for all tuples."""

    @property
    def can_fail(self) -> bool:
        """True if it can fail on some tuple."""
        return bool(self._error)

    def run(self, tuples: pl.DataFrame) -> ColumnResults:
        """The results of the expressions for each tuple."""
        results = frame = tuples
        for stage in self._stages:
            frame = frame.select(stage).to_series().struct.unnest()
        if self._direct is None:
            results = frame
        else:
            results = tuples.select(self._direct).to_series().struct.unnest()
            if self._stages:
                results = results.hstack(frame.drop(_HEIGHT).get_columns())
        if not self._error:
            return ColumnResults(results[self._names], None)
        errors, results = results[self._error], results[self._names]
        if errors.null_count() == len(errors):
            return ColumnResults(results, None)
        texts = {n: f"{self._reasons[n][0]}: {self._reasons[n][1]}" for n in errors.unique().drop_nulls()}
        return ColumnResults(results, pl.Series([texts.get(n) for n in errors], dtype=pl.String))


_HEIGHT = "$height"


def _in_full_height(columns: Sequence[pl.Expr]) -> pl.Expr:
    """The columns as fields of a struct, which have the height of the frame. Columns of ``select`` may have one row.

    polars computes some expressions over columns of one value as one value: ``pl.lit(5) < scalar_column`` has one row,
    and select does not broadcast it.
    """
    names = (name for column in columns for name in column.meta.root_names())
    full = next(map(pl.col, names), pl.int_range(pl.len()))
    return pl.struct(full.alias(_HEIGHT), *columns)


def _stage_columns(stages: list[dict[str, CompiledPart]]) -> list[list[pl.Expr]]:
    """For each stage, the columns that it computes and the ones that it forwards to later stages."""
    *earlier, last = stages
    plan, read = [[part.expr.alias(name) for name, part in last.items()]], _columns_read(last)
    for stage in reversed(earlier):
        computed = {name: part for name, part in stage.items() if name in read}
        forwarded = [pl.col(name) for name in read if name not in stage]
        plan.append([*forwarded, *(part.expr.alias(name) for name, part in computed.items())])
        read = dict.fromkeys(name for name in read if name not in stage) | _columns_read(computed)
    return plan[::-1]


def _columns_read(stage: dict[str, CompiledPart]) -> dict[str, None]:
    return dict.fromkeys(name for part in stage.values() for name in part.expr.meta.root_names())


def compiled(expression: Expression) -> Program:
    """The cached program of one expression."""
    program: Program | None = expression.__dict__.get("_program")
    if program is None:
        program = Program([("value", expression)])
        if isinstance(expression, Call):  # not pickled: a call pickles its fields only
            expression.__dict__["_program"] = program
    return program


class Facts(NamedTuple):
    """Properties of an expression beside its type and nullability."""

    can_fail: bool = False
    """True if evaluation may fail on some tuple."""
    monotone: tuple[str, bool] | None = None
    """The only column it depends on, and True if it never falls as that grows, False if it never rises."""


def facts(expression: Expression) -> Facts:
    """The properties of an expression, from the records of its functions."""
    for e in inside_out([expression]):
        if isinstance(e, Call) and "_facts" not in e.__dict__:
            e.__dict__["_facts"] = _facts(e)
    return _cached_facts(expression)


def can_fail(expression: Expression) -> bool:
    """Whether evaluation may fail on some tuple."""
    return facts(expression).can_fail


def _cached_facts(e: Expression) -> Facts:
    if isinstance(e, Column):
        return Facts(monotone=(e.name, True))
    cached: Facts = e.__dict__.get("_facts", Facts())
    return cached


def _facts(call: Call) -> Facts:
    """The facts of a call whose arguments already have theirs."""
    if call.constant:
        return Facts(compiled(call).can_fail)
    arguments, slope = [_cached_facts(a) for a in call.args], call.record.monotone(call)
    monotone = None
    if slope is not None and (inner := arguments[slope[0]].monotone) is not None:
        monotone = (inner[0], inner[1] == slope[1])
    fails = any(a.can_fail for a in arguments)
    return Facts(
        fails or bool(call.record.evaluate(call, *(pl.col("") for _ in call.args)).failures), monotone
    )


def non_null(expression: Expression) -> NonNull:
    """The columns that are not null wherever an expression is not null, is true, and is false (semantics 7).

    >>> from xmlpunct.expressions.functions import call, number
    >>> from xmlpunct.types import INT
    >>> x, y = Column(INT, True, "x"), Column(INT, True, "y")
    >>> sorted(non_null(call("AND", call(">", x, number("3")), call("NOT", call("IS NULL", y)))).true)
    ['x', 'y']
    """
    sets: dict[int, NonNull] = {}
    for e in inside_out([expression]):
        if isinstance(e, Call):
            sets[id(e)] = e.record.non_null(e, [sets[id(a)] for a in e.args])
        elif isinstance(e, Column):
            names = frozenset([e.name])
            sets[id(e)] = NonNull(names, names, names)
        else:
            sets[id(e)] = _of_literal(e)
    return sets[id(expression)]


def _of_literal(e: Expression) -> NonNull:
    """The sets of a constant. A truth value that it does not have fits no tuple, so all columns count."""
    no_columns = frozenset[str]()
    if not isinstance(e, Literal) or e.value is None:
        return ALL
    if e.type is not BOOLEAN:
        return NonNull(no_columns, no_columns, no_columns)
    return NonNull(no_columns, no_columns if e.value else None, None if e.value else no_columns)
