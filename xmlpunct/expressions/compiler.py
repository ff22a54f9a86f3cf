"""Expressions as polars expressions over columns, each operand computed once.

An expression gives two columns: its results, and for a tuple that fails the number of the reason (else null). The
result of a failing tuple is arbitrary; nothing raises. An operand that decides nothing (a branch not taken, the other
operand of AND where one is false) cannot fail.

A small expression becomes one polars expression. But a function may name an operand several times, and what reads its
result may do so too. So an operand that is too large to repeat, or too deep for polars, first gets a column of its own.
*Stages* compute such columns, and later stages read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from xmlpunct.expressions.expression import Call, Column, Expression, Literal, inside_out

REPEATED = 32
"""An operand that reads more columns than that is not repeated. Others are: a stage costs a slice of 20 tuples some
50 us, and latency counts (`benchmarks/latency.py`)."""
DEEPEST = 8
"""No more calls than that stand inside each other in a polars expression. Deeper ones take polars longer for each call
(`tests/engine/test_large_expressions.py` has thousands)."""
NUMBER = pl.Int32()
"""The type of the numbers of reasons."""


@dataclass(frozen=True, eq=False)
class Part:
    """A polars expression: the first stage that can compute it, and how many columns it reads, repeated ones too."""

    expr: pl.Expr
    stage: int = 0
    size: int = 0


@dataclass
class Compiled:
    """The results and the errors of an expression in which ``depth`` calls stand inside each other.

    ``error`` is None where the expression cannot fail.
    """

    value: Part
    error: Part | None = None
    depth: int = 0

    @property
    def parts(self) -> list[Part]:
        return [self.value] if self.error is None else [self.value, self.error]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class Compiler:
    """Compiles expressions to ``stages`` of columns by name. ``reasons`` has what the numbers of reasons stand for."""

    def __init__(self, expressions: Sequence[Expression], taken: Iterable[str]) -> None:
        self.stages: list[dict[str, Part]] = []
        self.reasons: list[tuple[str, Call]] = []
        self._columns: dict[Part, Part] = {}
        self._taken = {*taken, *(name for e in expressions for name in e.columns())}
        alike: dict[object, int] = {}  # expressions that are alike are compiled once
        places: dict[int, int] = {}
        different: list[tuple[Expression, list[int]]] = []
        uses = Counter[int]()
        for e in inside_out(expressions, _operands):
            args = [places[id(a)] for a in _operands(e)]
            key = (e.function, e.type, *args) if isinstance(e, Call) else e
            places[id(e)] = alike.setdefault(key, len(different))
            if places[id(e)] == len(different):
                different.append((e, args))
                uses.update(args)
        made: list[Compiled] = []
        for place, (e, args) in enumerate(different):
            made.append(self._compile(e, [made[i] for i in args]))
            if uses[place] > 1 and uses[place] * made[-1].size > REPEATED:
                self._keep(made[-1])
        self.compiled = [made[places[id(e)]] for e in expressions]

    def _keep(self, code: Compiled) -> None:
        """Put what an expression gives into columns."""
        code.value, code.error = self.column(code.value), code.error and self.column(code.error)
        code.depth = 0

    def _compile(self, e: Expression, args: list[Compiled]) -> Compiled:
        if isinstance(e, Column):
            return Compiled(Part(pl.col(e.name), size=1))
        if isinstance(e, Literal):
            return Compiled(Part(pl.lit(e.value, dtype=e.type.dtype)))
        if not isinstance(e, Call):
            raise TypeError(f"{e!r} is no expression")
        compile_ = e.record.compile or _strict
        code = self.sized(lambda: compile_(self, e, args), args)
        return code if code.size else _constant(code)

    def sized(self, compile_: Callable[[], Compiled], args: Sequence[Compiled]) -> Compiled:
        """What is compiled of operands. They become columns first if they are too large or too deep."""
        code = compile_()
        code.depth = 1 + max((a.depth for a in args), default=0)
        if (code.size > REPEATED and code.size > sum(a.size for a in args)) or code.depth > DEEPEST:
            for a in args:
                self._keep(a)
            code = compile_()
            code.depth = 1
        return code

    def column(self, part: Part) -> Part:
        """A part as a column, unless it is one or a constant."""
        if not part.size or part.expr.meta.is_column():
            return part
        if part not in self._columns:
            self.stages += [{} for _ in range(part.stage + 1 - len(self.stages))]
            name = self.fresh()
            self.stages[part.stage][name] = part
            self._columns[part] = Part(pl.col(name), part.stage + 1, 1)
        return self._columns[part]

    def fresh(self) -> str:
        """A name that no column has."""
        number = len(self._taken)
        while (name := f"${number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name

    def failure(self, fails: pl.Expr, reason: str, call: Call) -> pl.Expr:
        """The errors of a call that fails under a condition."""
        self.reasons.append((reason, call))
        return pl.when(fails).then(pl.lit(len(self.reasons) - 1, dtype=NUMBER))


def _operands(e: Expression) -> Sequence[Expression]:
    return e.operands if isinstance(e, Call) else ()


def made(expr: pl.Expr, of: Iterable[Compiled | Part]) -> Part:
    """An expression made of others."""
    parts = [p for o in of for p in (o.parts if isinstance(o, Compiled) else [o])]
    return Part(expr, max((p.stage for p in parts), default=0), len(expr.meta.root_names()))


def first(errors: Iterable[Part | None]) -> Part | None:
    """The first of several errors, in the order of evaluation."""
    known = [e for e in errors if e is not None]
    return made(pl.coalesce([e.expr for e in known]), known) if len(known) > 1 else next(iter(known), None)


def _constant(code: Compiled) -> Compiled:
    """An expression without columns as its one result, since polars does not broadcast every single value."""
    value = pl.select(code.value.expr.alias("value"))["value"]
    error = None if code.error is None else pl.select(code.error.expr).item()
    if error is not None:
        return Compiled(Part(pl.lit(None, dtype=value.dtype)), Part(pl.lit(error, dtype=NUMBER)))
    if isinstance(value.dtype, pl.List):  # a list would be read as a column
        return Compiled(Part(pl.lit(value).first()))
    return Compiled(Part(pl.lit(value[0], dtype=value.dtype)))


Compile = Callable[[Compiler, Call, Sequence[Compiled]], Compiled]
"""How a function evaluates its operands."""


def _strict(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """A function that evaluates all its operands, in their order."""
    outcome = call.record.evaluate(call, *(a.value.expr for a in args))
    # a null operand gives null and never fails; the reason of an operand that failed comes first
    known = [a.value.expr.is_not_null() for e, a in zip(call.operands, args, strict=True) if e.nullable]
    own = [
        made(compiler.failure(pl.all_horizontal(fails, *known), reason, call), args)
        for fails, reason in outcome.failures
    ]
    return Compiled(made(outcome.value, args), first([*(a.error for a in args), *own]))


def in_pairs(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """A function that evaluates all its operands. It is applied to pairs, then to pairs of the results.

    It names its two operands several times, so a chain would grow with every level.
    """

    def of(a: Compiled, b: Compiled) -> Compiled:
        def best() -> Compiled:  # again, if the two have become columns meanwhile
            return Compiled(made(call.record.evaluate(call, a.value.expr, b.value.expr).value, [a, b]))

        return compiler.sized(best, [a, b])

    left = [Compiled(a.value, depth=a.depth) for a in args]
    while len(left) > 1:
        odd = left[len(left) - len(left) % 2 :]
        left = [of(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return Compiled(left[0].value, first(a.error for a in args))


def until(stop: Callable[[pl.Expr], pl.Expr]) -> Compile:
    """Functions that evaluate no operand after one for which ``stop`` holds."""

    def compile_(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
        values = [a.value.expr for a in args]
        errors: list[Guarded] = [(a.error, place, False) for place, a in enumerate(args)]
        value = call.record.evaluate(call, *values).value
        return Compiled(made(value, args), _guarded(compiler, args, [*map(stop, values)], errors))

    return compile_


def decided(stop: Callable[[pl.Expr], pl.Expr]) -> Compile:
    """Functions whose result one operand can decide. Where ``stop`` holds of the result, no other operand fails."""

    def compile_(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
        known = [
            a.value.expr if a.error is None else pl.when(a.error.expr.is_null()).then(a.value.expr)
            for a in args
        ]
        value, error = made(call.record.evaluate(call, *known).value, args), first(a.error for a in args)
        if error is None:
            return Compiled(value)
        if value.size > REPEATED:
            value = compiler.column(value)
        is_open = ~stop(value.expr).fill_null(False)
        return Compiled(value, made(pl.when(is_open).then(error.expr), [value, error]))

    return compile_


def branches(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """CASE: it evaluates tests until one holds, then the result of that one."""
    tests, results = args[:-1:2], args[1::2]
    errors: list[Guarded] = []
    for place, (test, result) in enumerate(zip(tests, results, strict=True)):
        errors += [(test.error, place, False), (result.error, place, True)]
    errors.append((args[-1].error, len(tests), False))
    value = call.record.evaluate(call, *(a.value.expr for a in args)).value
    return Compiled(made(value, args), _guarded(compiler, tests, [t.value.expr for t in tests], errors))


def attempted(compiler: Compiler, call: Call, args: Sequence[Compiled]) -> Compiled:
    """TRY: null where its operand fails."""
    (operand,) = args
    if operand.error is None:
        return Compiled(operand.value)
    return Compiled(made(pl.when(operand.error.expr.is_null()).then(operand.value.expr), args))


Guarded = tuple[Part | None, int, bool]
"""The errors of an operand. It is evaluated if none of so many tests holds, and if True, the next one does."""


def _guarded(
    compiler: Compiler, tests: Sequence[Compiled], stops: Sequence[pl.Expr], errors: Iterable[Guarded]
) -> Part | None:
    """The first of the errors of the operands that are evaluated. ``stops`` tells where tests hold."""
    known = [(error, place, exact) for error, place, exact in errors if error is not None]
    count = max((place + exact for _, place, exact in known), default=0)
    if not count:
        return first(error for error, _, _ in known)
    places = [pl.when(stop).then(pl.lit(i, dtype=NUMBER)) for i, stop in enumerate(stops[:count])]
    held = made(pl.coalesce(places).fill_null(count), tests[:count])
    if held.size * len(known) > REPEATED:
        held = compiler.column(held)
    raised = []
    for error, place, exact in known:
        evaluated = held.expr == place if exact else held.expr >= place
        always = not (place or exact)
        raised.append(error if always else made(pl.when(evaluated).then(error.expr), [held, error]))
    return first(raised)
