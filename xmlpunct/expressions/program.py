"""Expressions that are computed for data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from xmlpunct.expressions.compiler import Compiler, Part, first
from xmlpunct.expressions.expression import Call, Column, Expression, Literal, inside_out
from xmlpunct.expressions.non_null import ALL, NonNull
from xmlpunct.types import BOOLEAN


class Results(NamedTuple):
    """A column for each expression, and each tuple's reason if one of them fails; None if no tuple fails."""

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
        given = dict(columns)
        compiler = Compiler(list(given.values()), given)
        self._names, self._reasons, self._error = list(given), compiler.reasons, ""
        results = {name: column.value for name, column in zip(given, compiler.compiled, strict=True)}
        error = first(column.error for column in compiler.compiled)
        if error is not None:
            self._error = compiler.fresh()
            results[self._error] = error
        direct = [part.expr.alias(name) for name, part in results.items() if not part.stage]
        self._direct = _in_full_height(direct) if direct else None
        staged = {name: part for name, part in results.items() if part.stage}
        self._stages = [*map(_in_full_height, _planned([*compiler.stages, staged]))] if staged else []
        self.simple = direct[0] if len(results) == 1 and not staged else None
        """The program as one polars expression, if that is all it is. Its result may have one row for all tuples."""

    @property
    def can_fail(self) -> bool:
        """Whether it can fail on some tuple."""
        return bool(self._error)

    def run(self, tuples: pl.DataFrame) -> Results:
        """What the expressions give for each of these tuples."""
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
            return Results(results[self._names], None)
        errors, results = results[self._error], results[self._names]
        if errors.null_count() == len(errors):
            return Results(results, None)
        texts = {n: f"{self._reasons[n][0]}: {self._reasons[n][1]}" for n in errors.unique().drop_nulls()}
        return Results(results, pl.Series([texts.get(n) for n in errors], dtype=pl.String))


_HEIGHT = "$height"


def _in_full_height(columns: Sequence[pl.Expr]) -> pl.Expr:
    """The columns as fields of a struct, which have the height of the frame. As columns of ``select`` they may not.

    polars computes some expressions over columns of one value as one value: ``pl.lit(5) < scalar_column`` has one row,
    and select does not broadcast it.
    """
    names = (name for column in columns for name in column.meta.root_names())
    full = next(map(pl.col, names), pl.int_range(pl.len()))
    return pl.struct(full.alias(_HEIGHT), *columns)


def _planned(stages: list[dict[str, Part]]) -> list[list[pl.Expr]]:
    """For each stage, what it computes and what it passes on to later ones."""
    *before, last = stages
    plan, read = [[part.expr.alias(name) for name, part in last.items()]], _read(last)
    for stage in reversed(before):
        computed = {name: part for name, part in stage.items() if name in read}
        passed = [pl.col(name) for name in read if name not in stage]
        plan.append([*passed, *(part.expr.alias(name) for name, part in computed.items())])
        read = dict.fromkeys(name for name in read if name not in stage) | _read(computed)
    return plan[::-1]


def _read(stage: dict[str, Part]) -> dict[str, None]:
    return dict.fromkeys(name for part in stage.values() for name in part.expr.meta.root_names())


def compiled(expression: Expression) -> Program:
    """The program of one expression, which is compiled once."""
    program: Program | None = expression.__dict__.get("_program")
    if program is None:
        program = Program([("value", expression)])
        if isinstance(expression, Call):  # which pickles no more than its fields
            expression.__dict__["_program"] = program
    return program


class Facts(NamedTuple):
    """What is known of an expression beside its type and whether it can be null."""

    can_fail: bool = False
    """Whether evaluation can fail on some tuple, or may."""
    monotone: tuple[str, bool] | None = None
    """The one column it depends on, and whether it never falls (or else never rises) as that grows."""


def facts(expression: Expression) -> Facts:
    """What the records of its functions say of an expression."""
    for e in inside_out([expression]):
        if isinstance(e, Call) and "_facts" not in e.__dict__:
            e.__dict__["_facts"] = _facts(e)
    return _known(expression)


def can_fail(expression: Expression) -> bool:
    """Whether evaluation can fail on some tuple, or may."""
    return facts(expression).can_fail


def _known(e: Expression) -> Facts:
    if isinstance(e, Column):
        return Facts(monotone=(e.name, True))
    known: Facts = e.__dict__.get("_facts", Facts())
    return known


def _facts(call: Call) -> Facts:
    """The facts of a call, of whose arguments they are known."""
    if call.constant:
        return Facts(compiled(call).can_fail)
    arguments, step = [_known(a) for a in call.args], call.record.monotone(call)
    monotone = None
    if step is not None and (below := arguments[step[0]].monotone) is not None:
        monotone = (below[0], below[1] == step[1])
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
    known: dict[int, NonNull] = {}
    for e in inside_out([expression]):
        if isinstance(e, Call):
            known[id(e)] = e.record.non_null(e, [known[id(a)] for a in e.args])
        elif isinstance(e, Column):
            names = frozenset([e.name])
            known[id(e)] = NonNull(names, names, names)
        else:
            known[id(e)] = _of_literal(e)
    return known[id(expression)]


def _of_literal(e: Expression) -> NonNull:
    """Those of a constant: a value that it has not stands for no tuple."""
    nothing = frozenset[str]()
    if not isinstance(e, Literal) or e.value is None:
        return ALL
    if e.type is not BOOLEAN:
        return NonNull(nothing, nothing, nothing)
    return NonNull(nothing, nothing if e.value else None, None if e.value else nothing)
