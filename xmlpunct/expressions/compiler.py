"""Expressions as polars expressions over columns, each operand computed once.

An expression yields two columns: its results, and its errors. An error is the number of a reason if the tuple fails,
else null. The result of a failing tuple is arbitrary; evaluation never raises. An operand that does not affect the
result (a branch not taken, an operand of AND beside one that is false) cannot fail.

A small expression becomes one polars expression. But a function may use an operand several times, and the consumer of
its result may do so too. So an operand that is too large to repeat, or too deep for polars, is first computed into a
separate column. *Stages* compute these columns, and later stages read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from xmlpunct.expressions.expression import Call, Column, Expression, Literal, NullIf, inside_out

REPEATED = 32
"""An operand that reads more columns than this is not repeated. Smaller ones are repeated, because a stage costs some
50 us for a slice of 20 tuples, and latency counts (`benchmarks/latency.py`)."""
DEEPEST = 8
"""The greatest depth of nested calls in a polars expression. In deeper ones polars takes longer for each call
(`tests/engine/test_large_expressions.py` has thousands)."""
NUMBER = pl.Int32()
"""The type of the numbers of reasons."""


@dataclass(frozen=True, eq=False)
class CompiledPart:
    """A polars expression, the first stage that can compute it, and the number of columns it reads, with repeats."""

    expr: pl.Expr
    stage: int = 0
    size: int = 0


@dataclass
class Compiled:
    """The results and the errors of an expression with ``depth`` nested calls.

    ``error`` is None where the expression cannot fail.
    """

    value: CompiledPart
    error: CompiledPart | None = None
    depth: int = 0

    @property
    def parts(self) -> list[CompiledPart]:
        return [self.value] if self.error is None else [self.value, self.error]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class Compiler:
    """Compiles expressions to ``stages`` of columns by name. An error is an index of ``reasons``."""

    def __init__(self, expressions: Sequence[Expression], used_names: Iterable[str]) -> None:
        self.stages: list[dict[str, CompiledPart]] = []
        self.reasons: list[tuple[str, Call]] = []
        self._columns: dict[CompiledPart, CompiledPart] = {}
        self._used_names = {*used_names, *(name for e in expressions for name in e.columns())}
        number_of_key: dict[object, int] = {}  # equal expressions are compiled once
        numbers: dict[int, int] = {}
        distinct: list[tuple[Expression, list[int]]] = []
        uses = Counter[int]()
        for e in inside_out(expressions, _operands):
            args = [numbers[id(a)] for a in _operands(e)]
            key = (e.function, e.type, *args) if isinstance(e, Call) else e
            numbers[id(e)] = number_of_key.setdefault(key, len(distinct))
            if numbers[id(e)] == len(distinct):
                distinct.append((e, args))
                uses.update(args)
        codes: list[Compiled] = []
        for number, (e, args) in enumerate(distinct):
            codes.append(self._compile(e, [codes[i] for i in args]))
            if uses[number] > 1 and uses[number] * codes[-1].size > REPEATED:
                self._to_columns(codes[-1])
        self.compiled = [codes[numbers[id(e)]] for e in expressions]

    def _to_columns(self, code: Compiled) -> None:
        """Compute the results and errors of an expression into columns."""
        code.value, code.error = self.column(code.value), code.error and self.column(code.error)
        code.depth = 0

    def _compile(self, e: Expression, args: list[Compiled]) -> Compiled:
        if isinstance(e, NullIf):
            shown = pl.col(e.name) != pl.lit(e.value, dtype=e.type.dtype)
            return Compiled(CompiledPart(pl.when(shown).then(pl.col(e.name)), size=2))
        if isinstance(e, Column):
            return Compiled(CompiledPart(pl.col(e.name), size=1))
        if isinstance(e, Literal):
            return Compiled(CompiledPart(pl.lit(e.value, dtype=e.type.dtype)))
        if not isinstance(e, Call):
            raise TypeError(f"{e!r} is no expression")
        compile_ = e.record.compile or _strict
        code = self.sized(lambda: compile_(self, e, args), args)
        return code if code.size else _constant(code)

    def sized(self, compile_: Callable[[], Compiled], args: Sequence[Compiled]) -> Compiled:
        """Compile a call. Its operands become columns first if the result would be too large or too deep."""
        code = compile_()
        code.depth = 1 + max((a.depth for a in args), default=0)
        if (code.size > REPEATED and code.size > sum(a.size for a in args)) or code.depth > DEEPEST:
            for a in args:
                self._to_columns(a)
            code = compile_()
            code.depth = 1
        return code

    def column(self, part: CompiledPart) -> CompiledPart:
        """A part as a column, unless it is a column or a constant already."""
        if not part.size or part.expr.meta.is_column():
            return part
        if part not in self._columns:
            self.stages += [{} for _ in range(part.stage + 1 - len(self.stages))]
            name = self.fresh()
            self.stages[part.stage][name] = part
            self._columns[part] = CompiledPart(pl.col(name), part.stage + 1, 1)
        return self._columns[part]

    def fresh(self) -> str:
        """A name that no column has."""
        number = len(self._used_names)
        while (name := f"${number}") in self._used_names:
            number += 1
        self._used_names.add(name)
        return name

    def failure(self, fails: pl.Expr, reason: str, call: Call) -> pl.Expr:
        """The errors of a call that fails under a condition."""
        self.reasons.append((reason, call))
        return pl.when(fails).then(pl.lit(len(self.reasons) - 1, dtype=NUMBER))


def _operands(e: Expression) -> Sequence[Expression]:
    return e.operands if isinstance(e, Call) else ()


def made(expr: pl.Expr, sources: Iterable[Compiled | CompiledPart]) -> CompiledPart:
    """A part whose expression is built from the expressions of other parts."""
    parts = [p for o in sources for p in (o.parts if isinstance(o, Compiled) else [o])]
    return CompiledPart(expr, max((p.stage for p in parts), default=0), len(expr.meta.root_names()))


def first(errors: Iterable[CompiledPart | None]) -> CompiledPart | None:
    """The first of several errors, in the order of evaluation."""
    parts = [e for e in errors if e is not None]
    return made(pl.coalesce([e.expr for e in parts]), parts) if len(parts) > 1 else next(iter(parts), None)


def _constant(code: Compiled) -> Compiled:
    """An expression without columns, evaluated: polars does not broadcast every single-row expression."""
    value = pl.select(code.value.expr.alias("value"))["value"]
    error = None if code.error is None else pl.select(code.error.expr).item()
    if error is not None:
        return Compiled(
            CompiledPart(pl.lit(None, dtype=value.dtype)), CompiledPart(pl.lit(error, dtype=NUMBER))
        )
    if isinstance(value.dtype, pl.List):  # polars would read a list as a column
        return Compiled(CompiledPart(pl.lit(value).first()))
    return Compiled(CompiledPart(pl.lit(value[0], dtype=value.dtype)))


Compile = Callable[[Compiler, Call, Sequence[Compiled]], Compiled]
"""Compiles a call: the rule by which a function evaluates its operands."""


def _strict(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """A function that evaluates all its operands, in their order."""
    outcome = call.record.evaluate(call, *(a.value.expr for a in args))
    # a null operand yields null and never fails; the reason of a failed operand comes first
    not_null = [a.value.expr.is_not_null() for e, a in zip(call.operands, args, strict=True) if e.nullable]
    failures = [
        made(compiler.failure(pl.all_horizontal(fails, *not_null), reason, call), args)
        for fails, reason in outcome.failures
    ]
    return Compiled(made(outcome.value, args), first([*(a.error for a in args), *failures]))


def in_pairs(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """Compile an associative function as a balanced tree: applied to pairs, then to pairs of the results.

    The function repeats its two operands several times, so a chain would grow exponentially with its length.
    """

    def combine(a: Compiled, b: Compiled) -> Compiled:
        def evaluate() -> Compiled:  # `sized` calls it again if the two became columns
            return Compiled(made(call.record.evaluate(call, a.value.expr, b.value.expr).value, [a, b]))

        return compiler.sized(evaluate, [a, b])

    left = [Compiled(a.value, depth=a.depth) for a in args]
    while len(left) > 1:
        odd = left[len(left) - len(left) % 2 :]
        left = [combine(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return Compiled(left[0].value, first(a.error for a in args))


def until(stop: Callable[[pl.Expr], pl.Expr]) -> Compile:
    """A rule for functions that evaluate operands in order, until ``stop`` holds for one."""

    def compile_(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
        values = [a.value.expr for a in args]
        errors: list[Guarded] = [(a.error, position, False) for position, a in enumerate(args)]
        value = call.record.evaluate(call, *values).value
        return Compiled(made(value, args), _guarded(compiler, args, [*map(stop, values)], errors))

    return compile_


def decided(stop: Callable[[pl.Expr], pl.Expr]) -> Compile:
    """A rule for functions such as AND: no error counts if ``stop`` holds for the result of the valid operands."""

    def compile_(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
        valid = [
            a.value.expr if a.error is None else pl.when(a.error.expr.is_null()).then(a.value.expr)
            for a in args
        ]
        value, error = made(call.record.evaluate(call, *valid).value, args), first(a.error for a in args)
        if error is None:
            return Compiled(value)
        if value.size > REPEATED:
            value = compiler.column(value)
        is_open = ~stop(value.expr).fill_null(False)
        return Compiled(value, made(pl.when(is_open).then(error.expr), [value, error]))

    return compile_


def branches(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """CASE: evaluate tests until one holds, then the result of that test."""
    tests, results = args[:-1:2], args[1::2]
    errors: list[Guarded] = []
    for position, (test, result) in enumerate(zip(tests, results, strict=True)):
        errors += [(test.error, position, False), (result.error, position, True)]
    errors.append((args[-1].error, len(tests), False))
    value = call.record.evaluate(call, *(a.value.expr for a in args)).value
    return Compiled(made(value, args), _guarded(compiler, tests, [t.value.expr for t in tests], errors))


def attempted(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """TRY: null if the operand fails."""
    (operand,) = args
    if operand.error is None:
        return Compiled(operand.value)
    return Compiled(made(pl.when(operand.error.expr.is_null()).then(operand.value.expr), args))


Guarded = tuple[CompiledPart | None, int, bool]
"""The errors of an operand, the number n of tests before it, and a flag.

The operand is evaluated if none of the first n tests holds; and, with the flag, only if the next test does.
"""


def _guarded(
    compiler: Compiler, tests: Sequence[Compiled], stops: Sequence[pl.Expr], errors: Iterable[Guarded]
) -> CompiledPart | None:
    """The first error of the operands that are evaluated. ``stops`` are the conditions under which tests hold."""
    fallible = [(error, position, exact) for error, position, exact in errors if error is not None]
    count = max((position + exact for _, position, exact in fallible), default=0)
    if not count:
        return first(error for error, _, _ in fallible)
    indices = [pl.when(stop).then(pl.lit(i, dtype=NUMBER)) for i, stop in enumerate(stops[:count])]
    first_true = made(pl.coalesce(indices).fill_null(count), tests[:count])
    if first_true.size * len(fallible) > REPEATED:
        first_true = compiler.column(first_true)
    raised = []
    for error, position, exact in fallible:
        evaluated = first_true.expr == position if exact else first_true.expr >= position
        always = not (position or exact)
        raised.append(error if always else made(pl.when(evaluated).then(error.expr), [first_true, error]))
    return first(raised)
