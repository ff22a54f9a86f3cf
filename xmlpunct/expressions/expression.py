"""Scalar expressions: trees over the columns of a tuple, with their types.

The trees are values: they compare, hash and pickle. `xmlpunct.expressions.functions` builds typed calls,
`xmlpunct.expressions.program` compiles them, ``str`` prints them as SQL.

A tree may be thousands of calls deep, and calls in it may share an argument. So nothing here recurses, and what
looks at a whole tree looks at each call once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from xmlpunct.expressions.non_null import Inference, of_all
from xmlpunct.types import DOUBLE, Type, Value


@dataclass(frozen=True)
class Expression:
    """An expression. ``type`` is its result's, ``nullable`` whether the result may be null."""

    type: Type
    nullable: bool

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return ()

    def columns(self) -> Iterator[str]:
        """The names of the columns that it reads, each as often as it is an argument."""
        if isinstance(self, Column):
            yield self.name
        for part in inside_out([self]):
            yield from (a.name for a in part.arguments if isinstance(a, Column))

    def rewrite(self, change: Callable[[Expression], Expression | None]) -> Expression:
        """The tree with every part replaced for which ``change`` gives another one, topmost parts first."""
        changed: dict[int, Expression] = {}

        def unchanged(e: Expression) -> Sequence[Expression]:
            new = change(e)
            if new is None:
                return e.arguments
            changed[id(e)] = new
            return ()

        for e in inside_out([self], unchanged):
            if isinstance(e, Call) and id(e) not in changed:
                args = tuple(changed.get(id(a), a) for a in e.args)
                if any(new is not old for new, old in zip(args, e.args, strict=True)):
                    changed[id(e)] = e.record.call(e.type, *args)
        return changed.get(id(self), self)


def inside_out(
    roots: Sequence[Expression],
    arguments: Callable[[Expression], Sequence[Expression]] = lambda e: e.arguments,
) -> Iterator[Expression]:
    """Some expressions and all that they are made of, each once and after its ``arguments``."""
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
    """The null of a key of which there is no tuple: in an outer join of relations, or left out by a grouping set."""

    def __reduce__(self) -> tuple[type[Literal], tuple[Type, bool, Value]]:
        return (Absent, (self.type, self.nullable, self.value))

    def __str__(self) -> str:
        return super().__str__()


def replaced(expression: Expression, new: Mapping[Expression, Expression]) -> Expression:
    """An expression with other ones for some of its parts, which may be null: so may be what is computed of them."""
    changed: dict[int, Expression] = {}
    for e in inside_out([expression]):
        if e in new:
            changed[id(e)] = new[e]
        elif isinstance(e, Call) and any(id(a) in changed for a in e.args):
            changed[id(e)] = Call(e.type, True, e.function, tuple(changed.get(id(a), a) for a in e.args))
    return changed.get(id(expression), expression)


LONGEST = 1_000_000
"""A longer text of an expression is cut, because calls that share arguments can make it endless."""


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """A function or an operator applied to arguments.

    ``function`` is the name of its record (see `Function`). CAST takes its target from ``type``; CASE has WHEN, THEN,
    WHEN, THEN, ... and last the ELSE.
    """

    function: str
    args: tuple[Expression, ...]
    constant: bool = field(init=False)
    """Whether it reads no column."""
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
        """What is known of its function."""
        return FUNCTIONS[self.function]

    @property
    def operands(self) -> Sequence[Expression]:
        """The arguments; of an associative function those of the whole chain.

        An AND that stands in another one twice counts once, and so does an OR.
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
        """What it is, but for its arguments."""
        return (self.type, self.nullable, self.function, len(self.args))

    def __reduce__(self) -> tuple[Callable[[list[Any]], Expression], tuple[list[Any]]]:
        """As a list of its parts, in which a call's arguments are places of others."""
        parts: list[Any] = []
        places: dict[int, int] = {}
        for e in inside_out([self]):
            places[id(e)] = len(parts)
            if isinstance(e, Call):
                parts.append((e.type, e.nullable, e.function, [places[id(a)] for a in e.args]))
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

    def operand(self, place: int) -> Pieces:
        """An argument of an operator, in parentheses where another tree would be read without them."""
        argument = self.args[place]
        if not isinstance(argument, Call):
            return [argument]
        mine, its = self.record.notation, argument.record.notation
        joined = place == 0 and mine.joins
        same = self.record.idempotent and argument.function == self.function
        loose = its.binding < mine.binding or (its.binding == mine.binding and not (joined or same))
        return ["(", argument, ")"] if loose else [argument]


def _restored(parts: list[Any]) -> Expression:
    """The inverse of `Call.__reduce__`."""
    made: list[Expression] = []
    for part in parts:
        if isinstance(part, Expression):
            made.append(part)
        else:
            type_, nullable, function, places = part
            made.append(Call(type_, nullable, function, tuple(made[i] for i in places)))
    return made[-1]


Pieces = list[str | Expression]
"""The text of a call, with arguments in the place of theirs."""


def listed(args: Iterable[Expression]) -> Pieces:
    """Arguments with commas between them."""
    return [piece for a in args for piece in (", ", a)][1:]


def _as_call(call: Call) -> Pieces:
    return [f"{call.function}(", *listed(call.args), ")"]


def _as_infix(call: Call) -> Pieces:
    return [*call.operand(0), f" {call.function} ", *call.operand(1)]


@dataclass(frozen=True)
class Notation:
    """How a call is printed.

    ``binding`` says how tightly an operator binds its operands. With ``joins``, a left operand that binds alike needs
    no parentheses.
    """

    write: Callable[[Call], Pieces] = _as_call
    binding: int = 99
    joins: bool = False


def infix(binding: int, joins: bool = True) -> Notation:
    """An operator between its two operands."""
    return Notation(_as_infix, binding, joins)


class Syntax(NamedTuple):
    """How SQL is read: the class of sqlglot's node, and those of its arguments that are operands or lists of them.

    Arguments that are ``unread`` change nothing. All three are words with spaces between them.
    """

    node: str
    operands: str = "this"
    unread: str = ""


class Doc(NamedTuple):
    """An entry of docs/functions.md: how a function is written, what it gives, and an example that can be computed."""

    form: str
    meaning: str
    example: str = ""


class Outcome(NamedTuple):
    """What a function gives: results, and the ways it can fail, each a condition and a reason."""

    value: pl.Expr
    failures: Sequence[tuple[pl.Expr, str]] = ()


def _no_evaluation(call: Call, *operands: pl.Expr) -> Outcome:
    raise TypeError(f"{call.function} is built from other functions")


def any_null(args: Sequence[Expression]) -> bool:
    """Null where one of the arguments is."""
    return any(a.nullable for a in args)


Typing = Callable[["Function", tuple[Expression, ...]], Expression]


@dataclass(frozen=True, eq=False)
class Function:
    """All that is known of a SQL function. The modules in `xmlpunct.expressions.functions` have one for each.

    - ``typing`` makes the call, or what stands for it, of arguments. It casts them as the function needs them, and
      raises ValueError where it has no type for them.
    - ``evaluate`` takes a call and the results of its operands. A null operand never fails.
    - ``nullable``: whether the result can be null, by the arguments. ``non_null``: the columns that are not null
      wherever the call is not null, from those of the arguments. The default is `of_all`, for strict functions.
    - ``monotone``: the place of the one argument that is no constant, and whether the call never falls as that grows
      (True) or never rises (False). Otherwise None.
    - ``arity``: how many arguments there are at least and at most.
    - ``syntax`` and ``notation``: how SQL is read and printed. ``called``: the names of a function that is read as
      ``NAME(argument, ...)`` and nothing else. Where neither is enough, the planner has a reader.
    - ``doc``: its entry in docs/functions.md.
    - ``compile``: how operands are evaluated (None: all of them, in order), see `xmlpunct.expressions.compiler`.
    - ``holds``: of a comparison, whether it holds where the first operand is less, equal, and greater.
    - ``takes_whole``: whether it takes XML and arrays, which are compared with nothing.
    - ``associative``: a chain of calls is one call of many operands; ``idempotent``: one that comes twice counts once.
    """

    name: str
    typing: Typing
    evaluate: Callable[..., Outcome] = _no_evaluation
    syntax: Syntax | None = None
    notation: Notation = Notation()
    called: tuple[str, ...] = ()
    doc: Doc | None = None
    arity: tuple[int, int] = (2, 2)
    nullable: Callable[[Sequence[Expression]], bool] = any_null
    non_null: Inference = of_all
    monotone: Callable[[Call], tuple[int, bool] | None] = lambda call: None
    compile: Callable[[Any, Call, Any], Any] | None = None
    holds: tuple[bool, bool, bool] | None = None
    takes_whole: bool = False
    associative: bool = False
    idempotent: bool = False

    def __post_init__(self) -> None:
        FUNCTIONS[self.name] = self

    def __call__(self, *args: Expression) -> Expression:
        least, most = self.arity
        if not least <= len(args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ValueError(f"{self.name} takes {wanted} argument{'s' * (wanted != '1')}, not {len(args)}")
        whole = next((a.type for a in args if not a.type.comparable), None)
        if whole is not None and not self.takes_whole:
            raise ValueError(f"{self.name} does not take {whole.kind}, which is compared with nothing")
        return self.typing(self, args)

    def call(self, type_: Type, *args: Expression) -> Call:
        """A call whose arguments are already as the function needs them."""
        return Call(type_, self.nullable(args), self.name, args)


MANY = (1, 1000)
"""The arity of functions of any number of arguments: more than people write, and as many as tests try."""

FUNCTIONS: dict[str, Function] = {}
"""Every function there is, by name."""
