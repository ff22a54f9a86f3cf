"""Scalar expressions: trees over the columns of a tuple, with their types.

The trees are values: they compare, hash and pickle. `xmlpunct.expressions.functions` builds typed calls,
`xmlpunct.expressions.program` compiles them, ``str`` prints them as SQL.

A tree may be thousands of calls deep, and calls in it may share an argument. So nothing here recurses, and what
looks at a whole tree looks at each call once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xmlpunct.types import BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Type, Value


@dataclass(frozen=True)
class Expression:
    """An expression. ``type`` is its result's, ``nullable`` whether the result may be null."""

    type: Type
    nullable: bool

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return ()

    def columns(self) -> Iterator[str]:
        """The names of the columns it reads, one for each call's argument that is one."""
        if isinstance(self, Column):
            yield self.name
        for part in inside_out([self]):
            yield from (a.name for a in part.arguments if isinstance(a, Column))

    def rewrite(self, change: Callable[[Expression], Expression | None]) -> Expression:
        """The tree with every part for which ``change`` gives another one replaced, topmost parts first."""
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
                    changed[id(e)] = Call(e.type, e.nullable, e.function, args)
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
        if self.value is None:
            return "NULL"
        text = self.type.format(self.value)
        if self.type is STRING:
            return _quoted(text)
        if self.type in (DATE, TIMESTAMP):
            return f"{self.type} {_quoted(text)}"
        if self.type is BOOLEAN:
            return text.upper()
        if self.type is DOUBLE:
            plain = text.lstrip("-").replace(".", "").isdigit()
            return f"{text}e0" if plain else text if "e" in text else f"CAST({_quoted(text)} AS DOUBLE)"
        return text


LONGEST = 1_000_000
"""Of an expression with a longer text the rest is left out: calls that share arguments have no end of text."""


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expression):
    """A function or an operator applied to arguments. ``function`` names a row of the table in functions.py.

    CAST takes its target from ``type``; CASE has WHEN, THEN, WHEN, THEN, ... and last the ELSE.
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
                waiting += reversed(piece._pieces())
            else:
                texts.append(str(piece))
                length += len(texts[-1])
        return "".join([*texts, "..."] if waiting else texts)

    def _pieces(self) -> list[str | Expression]:
        """Its text, with arguments in the place of theirs."""
        name, args = self.function, self.args
        if name == "CASE":
            whens = zip(args[::2], args[1::2], strict=False)
            pairs = [piece for when, then in whens for piece in (" WHEN ", when, " THEN ", then)]
            return ["CASE", *pairs, " ELSE ", args[-1], " END"]
        if name == "CAST":
            return ["CAST(", args[0], f" AS {self.type})"]
        if name == "IN":
            return [*self._inner(0), " IN (", *_listed(args[1:]), ")"]
        if name in PREFIX:
            return ["-" if name == "NEG" else f"{name} ", *self._inner(0)]
        if name in POSTFIX:
            return [*self._inner(0), f" {name}"]
        if name == "LIKE" and len(args) == 3:
            return [*self._inner(0), " LIKE ", args[1], " ESCAPE ", args[2]]
        if name in INFIX:
            return [*self._inner(0), f" {name} ", *self._inner(1)]
        return [f"{name}(", *_listed(args), ")"]

    def _inner(self, place: int) -> list[str | Expression]:
        """An argument, in parentheses where the tree would read otherwise without."""
        argument = self.args[place]
        if not isinstance(argument, Call):
            negative = isinstance(argument, Literal) and str(argument).startswith("-")
            return ["(", argument, ")"] if negative and self.function == "NEG" else [argument]
        mine, its = _BINDING.get(self.function, 0), _BINDING.get(argument.function, 99)
        joined = place == 0 and self.function in INFIX and self.function not in COMPARISONS
        associative = self.function in ("AND", "OR") and argument.function == self.function
        loose = its < mine or (its == mine and not (joined or associative))
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


def _listed(args: Iterable[Expression]) -> list[str | Expression]:
    """Arguments with commas between them."""
    return [piece for a in args for piece in (", ", a)][1:]


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
INFIX = ("OR", "AND", *COMPARISONS, "LIKE", "||", "+", "-", "*", "/", "%")
PREFIX = ("NOT", "NEG")
POSTFIX = ("IS NULL",)

_BINDING = (
    {"OR": 1, "AND": 2, "NOT": 3, "IS NULL": 5, "IN": 5, "LIKE": 5, "||": 6, "+": 7, "-": 7, "*": 8}
    | {"/": 8, "%": 8, "NEG": 9}
    | dict.fromkeys(COMPARISONS, 4)
)
"""How tightly an operator binds; what is not here stands in parentheses of its own."""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
