"""Scalar expressions: trees over the columns of a tuple, with their types.

The trees are values: they compare, hash and pickle. `xmlpunct.expressions.functions` builds typed calls,
`xmlpunct.expressions.program` compiles them, ``str`` prints them as SQL.

A tree may be thousands of calls deep, and calls in it may share an argument. So no function here recurses, and a
traversal visits each call once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from xmlpunct.expressions.non_null import NonNullRule, of_all
from xmlpunct.types import DOUBLE, Type, Value


@dataclass(frozen=True)
class Expression:
    """An expression. ``type`` is the type of its result; ``nullable`` is True if the result may be null."""

    type: Type
    nullable: bool

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return ()

    def columns(self) -> Iterator[str]:
        """The names of the columns that it reads, once for each use as an argument."""
        if isinstance(self, Column):
            yield self.name
        for part in inside_out([self]):
            yield from (a.name for a in part.arguments if isinstance(a, Column))

    def rewrite(self, change: Callable[[Expression], Expression | None]) -> Expression:
        """The tree with each part replaced for which ``change`` returns another one, topmost parts first."""
        changed: dict[int, Expression] = {}

        def arguments_to_search(e: Expression) -> Sequence[Expression]:
            new = change(e)
            if new is None:
                return e.arguments
            changed[id(e)] = new
            return ()

        for e in inside_out([self], arguments_to_search):
            if isinstance(e, Call) and id(e) not in changed:
                args = tuple(changed.get(id(a), a) for a in e.args)
                if any(new is not old for new, old in zip(args, e.args, strict=True)):
                    changed[id(e)] = e.record.call(e.type, *args)
        return changed.get(id(self), self)


def inside_out(
    roots: Sequence[Expression],
    arguments: Callable[[Expression], Sequence[Expression]] = lambda e: e.arguments,
) -> Iterator[Expression]:
    """All parts of some expressions in postorder: each once, after its ``arguments``."""
    waiting: list[tuple[Expression, bool]] = [(e, False) for e in reversed(roots)]
    entered = set[int]()
    while waiting:
        e, complete = waiting.pop()
        if complete:
            yield e
        elif id(e) not in entered:
            entered.add(id(e))
            waiting.append((e, True))
            waiting += [(a, False) for a in reversed(arguments(e))]


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class NullIf(Column):
    """The value of a column, or null for one ``value``, which users do not see. ``nullable`` is True.

    A project of it keeps the punctuations on the column, except a punctuation on ``value`` alone.
    """

    value: Value

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal(Expression):
    """A constant (None: null)."""

    value: Value

    def __post_init__(self) -> None:
        if self.type is DOUBLE and self.value is not None:
            object.__setattr__(self, "value", DOUBLE.accept(self.value))  # in canonical form

    def __reduce__(self) -> tuple[type[Literal], tuple[Type, bool, Value]]:
        return (Literal, (self.type, self.nullable, self.value))

    def __str__(self) -> str:
        return "NULL" if self.value is None else self.type.sql(self.value)


@dataclass(frozen=True)
class Absent(Literal):
    """The null of a missing key: of the unmatched side of an outer join, or of a column not in a grouping set."""

    def __reduce__(self) -> tuple[type[Literal], tuple[Type, bool, Value]]:
        return (Absent, (self.type, self.nullable, self.value))

    def __str__(self) -> str:
        return super().__str__()


def replaced(expression: Expression, new: Mapping[Expression, Expression]) -> Expression:
    """An expression with some parts replaced. The new parts may be null, and so all calls that use them."""
    changed: dict[int, Expression] = {}
    for e in inside_out([expression]):
        if e in new:
            changed[id(e)] = new[e]
        elif isinstance(e, Call) and any(id(a) in changed for a in e.args):
            changed[id(e)] = Call(e.type, True, e.function, tuple(changed.get(id(a), a) for a in e.args))
    return changed.get(id(expression), expression)


LONGEST = 1_000_000
"""The longest text of an expression; shared arguments can make the full text exponentially long."""


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """A function or an operator applied to arguments.

    ``function`` is the name of its record (see `Function`). CAST takes its target from ``type``; CASE has WHEN, THEN,
    WHEN, THEN, ... and last the ELSE.
    """

    function: str
    args: tuple[Expression, ...]
    constant: bool = field(init=False)
    """True if it reads no column."""
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        constant = all(a.constant if isinstance(a, Call) else isinstance(a, Literal) for a in self.args)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "_hash", hash((self.type, self.nullable, self.function, self.args)))

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self.args

    @property
    def record(self) -> Function:
        """The record of its function."""
        return FUNCTIONS[self.function]

    @property
    def operands(self) -> Sequence[Expression]:
        """The arguments; for an associative function the arguments of the whole chain of nested calls.

        If the function is idempotent (AND, OR), a nested call that occurs twice is expanded once.
        """
        if not self.record.associative:
            return self.args
        operands: list[Expression] = []
        waiting: list[Expression] = [self]
        entered = set[int]()
        while waiting:
            part = waiting.pop()
            if not (isinstance(part, Call) and part.function == self.function):
                operands.append(part)
            elif not self.record.idempotent or id(part) not in entered:
                entered.add(id(part))
                waiting += reversed(part.args)
        return operands

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        waiting: list[tuple[object, object]] = [(self, other)]
        equal = set[tuple[int, int]]()
        while waiting:
            a, b = waiting.pop()
            if a is b or (id(a), id(b)) in equal:
                continue
            if not (isinstance(a, Call) and isinstance(b, Call)):
                if isinstance(a, Call) or isinstance(b, Call) or a != b:
                    return False
                continue
            if a._hash != b._hash or a._head != b._head:
                return False
            equal.add((id(a), id(b)))
            waiting += zip(a.args, b.args, strict=True)
        return True

    @property
    def _head(self) -> tuple[Any, ...]:
        """The fields other than the arguments, for equality."""
        return (self.type, self.nullable, self.function, len(self.args))

    def __reduce__(self) -> tuple[Callable[[list[Any]], Expression], tuple[list[Any]]]:
        """Pickle a list of the parts in postorder. The arguments of a call are indices of this list."""
        parts: list[Any] = []
        indices: dict[int, int] = {}
        for e in inside_out([self]):
            indices[id(e)] = len(parts)
            if isinstance(e, Call):
                parts.append((e.type, e.nullable, e.function, [indices[id(a)] for a in e.args]))
            else:
                parts.append(e)
        return _restored, (parts,)

    def __repr__(self) -> str:
        return f"Call({str(self)!r})"

    def __str__(self) -> str:
        texts, length = list[str](), 0
        waiting: list[str | Expression] = [self]
        while waiting and length <= LONGEST:
            piece = waiting.pop()
            if isinstance(piece, Call):
                waiting += reversed(piece.record.notation.write(piece))
            else:
                texts.append(str(piece))
                length += len(texts[-1])
        return "".join([*texts, "..."] if waiting else texts)

    def operand(self, position: int) -> CallText:
        """The text of an operand, in parentheses if SQL would be parsed differently without them."""
        argument = self.args[position]
        if not isinstance(argument, Call):
            return [argument]
        outer, inner = self.record.notation, argument.record.notation
        is_joined = position == 0 and outer.joins
        is_repeated = self.record.idempotent and argument.function == self.function
        needs_parentheses = inner.binding < outer.binding or (
            inner.binding == outer.binding and not (is_joined or is_repeated)
        )
        return ["(", argument, ")"] if needs_parentheses else [argument]


def _restored(parts: list[Any]) -> Expression:
    """The inverse of `Call.__reduce__`."""
    expressions: list[Expression] = []
    for part in parts:
        if isinstance(part, Expression):
            expressions.append(part)
        else:
            type_, nullable, function, indices = part
            expressions.append(Call(type_, nullable, function, tuple(expressions[i] for i in indices)))
    return expressions[-1]


CallText = list[str | Expression]
"""The text of a call, in which arguments are not printed yet."""


def comma_separated(args: Iterable[Expression]) -> CallText:
    """Arguments separated by commas."""
    return [piece for a in args for piece in (", ", a)][1:]


def _as_call(call: Call) -> CallText:
    return [f"{call.function}(", *comma_separated(call.args), ")"]


def _as_infix(call: Call) -> CallText:
    return [*call.operand(0), f" {call.function} ", *call.operand(1)]


@dataclass(frozen=True)
class Notation:
    """The printed form of a call.

    ``binding`` is the precedence of an operator. With ``joins``, a left operand of the same precedence needs no
    parentheses.
    """

    write: Callable[[Call], CallText] = _as_call
    binding: int = 99
    joins: bool = False


def infix(binding: int, joins: bool = True) -> Notation:
    """An operator between its two operands."""
    return Notation(_as_infix, binding, joins)


class Syntax(NamedTuple):
    """The parsed form of a call: the class of sqlglot's node, and its arguments that are operands or lists of operands.

    ``unread`` arguments are ignored. All three fields are names separated by spaces.
    """

    node: str
    operands: str = "this"
    unread: str = ""


class Doc(NamedTuple):
    """An entry of docs/functions.md: the form of a call, the meaning of its result, and an example that runs."""

    form: str
    meaning: str
    example: str = ""


class FunctionResult(NamedTuple):
    """The result of a call: its values, and its failures, each a condition and a reason."""

    value: pl.Expr
    failures: Sequence[tuple[pl.Expr, str]] = ()


def _no_evaluation(call: Call, *operands: pl.Expr) -> FunctionResult:
    raise TypeError(f"{call.function} is built from other functions")


def any_null(args: Sequence[Expression]) -> bool:
    """True if an argument may be null."""
    return any(a.nullable for a in args)


Typing = Callable[["Function", tuple[Expression, ...]], Expression]


@dataclass(frozen=True, eq=False)
class Function:
    """The record of a SQL function. The modules in `xmlpunct.expressions.functions` have one for each function.

    - ``typing`` returns the call, or an equivalent expression, for typed arguments. It adds the casts that the function
      needs, and raises ValueError if the function does not take these types.
    - ``evaluate`` takes a call and the results of its operands. A null operand never fails.
    - ``nullable``: whether the result can be null, by the arguments. ``non_null``: the columns that are not null
      wherever the call is not null, from the same sets of the arguments. The default is `of_all`, for strict functions.
    - ``monotone``: the index of the only argument that is no constant, and True if the call never falls as it grows,
      False if it never rises. None for other calls.
    - ``arity``: the least and the greatest number of arguments.
    - ``syntax`` and ``notation``: the forms in which SQL is parsed and printed. ``called``: names of a function that is
      only written ``NAME(argument, ...)``. If neither suffices, the planner has a reader.
    - ``doc``: its entry in docs/functions.md.
    - ``compile``: the evaluation of operands (None: all of them, in order), see `xmlpunct.expressions.compiler`.
    - ``holds``: for a comparison, whether it holds if the first operand is less, equal, and greater.
    - ``takes_whole``: True if it takes XML and arrays, types without comparisons.
    - ``associative``: a chain of calls is one call of many operands; ``idempotent``: repeated operands count once.
    """

    name: str
    typing: Typing
    evaluate: Callable[..., FunctionResult] = _no_evaluation
    syntax: Syntax | None = None
    notation: Notation = Notation()
    called: tuple[str, ...] = ()
    doc: Doc | None = None
    arity: tuple[int, int] = (2, 2)
    nullable: Callable[[Sequence[Expression]], bool] = any_null
    non_null: NonNullRule = of_all
    monotone: Callable[[Call], tuple[int, bool] | None] = lambda call: None
    compile: Callable[[Any, Call, Any], Any] | None = None
    holds: tuple[bool, bool, bool] | None = None
    takes_whole: bool = False
    associative: bool = False
    idempotent: bool = False

    def __post_init__(self) -> None:
        FUNCTIONS[self.name] = self

    def __call__(self, *args: Expression) -> Expression:
        least, greatest = self.arity
        if not least <= len(args) <= greatest:
            counts = str(least) if least == greatest else f"{least} to {greatest}"
            raise ValueError(f"{self.name} takes {counts} argument{'s' * (counts != '1')}, not {len(args)}")
        incomparable = next((a.type for a in args if not a.type.comparable), None)
        if incomparable is not None and not self.takes_whole:
            raise ValueError(f"{self.name} does not take {incomparable.kind}: its values cannot be compared")
        return self.typing(self, args)

    def call(self, type_: Type, *args: Expression) -> Call:
        """A call whose arguments already have the types that the function needs."""
        return Call(type_, self.nullable(args), self.name, args)


MANY = (1, 1000)
"""The arity of functions with any number of arguments. Tests go up to this limit."""

FUNCTIONS: dict[str, Function] = {}
"""Every function by name."""
