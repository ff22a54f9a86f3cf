"""Scalar expressions: trees over the columns of a tuple, with their types.

The trees are values: they compare, hash and pickle. `xmlpunct.operators.functions` builds typed calls,
`xmlpunct.operators.evaluate` compiles them, ``str`` prints them as SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

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
        """The names of the columns it reads."""
        for argument in self.arguments:
            yield from argument.columns()

    def rewrite(self, change: Callable[[Expression], Expression | None]) -> Expression:
        """The tree with every part for which ``change`` gives another one replaced, topmost parts first."""
        return change(self) or self


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str

    def columns(self) -> Iterator[str]:
        yield self.name

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


@dataclass(frozen=True)
class Call(Expression):
    """A function or an operator applied to arguments. ``function`` names a row of the table in functions.py.

    CAST takes its target from ``type``; CASE has WHEN, THEN, WHEN, THEN, ... and last the ELSE.
    """

    function: str
    args: tuple[Expression, ...]

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self.args

    def rewrite(self, change: Callable[[Expression], Expression | None]) -> Expression:
        found = change(self)
        if found is not None:
            return found
        return replace(self, args=tuple(argument.rewrite(change) for argument in self.args))

    def __str__(self) -> str:
        name, args = self.function, self.args
        if name == "CASE":
            whens = "".join(f" WHEN {w} THEN {t}" for w, t in zip(args[::2], args[1::2], strict=False))
            return f"CASE{whens} ELSE {args[-1]} END"
        if name == "CAST":
            return f"CAST({args[0]} AS {self.type})"
        if name == "IN":
            return f"{self._inner(0)} IN ({', '.join(map(str, args[1:]))})"
        if name in PREFIX:
            text = self._inner(0)
            return f"-{text}" if name == "NEG" else f"{name} {text}"
        if name in POSTFIX:
            return f"{self._inner(0)} {name}"
        if name == "LIKE" and len(args) == 3:
            return f"{self._inner(0)} LIKE {args[1]} ESCAPE {args[2]}"
        if name in INFIX:
            return f"{self._inner(0)} {name} {self._inner(1)}"
        return f"{name}({', '.join(map(str, args))})"

    def _inner(self, place: int) -> str:
        """An argument, in parentheses where the tree would read otherwise without."""
        argument = self.args[place]
        negative = isinstance(argument, Literal) and str(argument).startswith("-")
        if not isinstance(argument, Call):
            return f"({argument})" if negative and self.function == "NEG" else str(argument)
        mine, its = _BINDING.get(self.function, 0), _BINDING.get(argument.function, 99)
        joined = place == 0 and self.function in INFIX and self.function not in COMPARISONS
        associative = self.function in ("AND", "OR") and argument.function == self.function
        loose = its < mine or (its == mine and not (joined or associative))
        return f"({argument})" if loose else str(argument)


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
