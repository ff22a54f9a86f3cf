"""Scalar expressions: trees over the columns of a tuple, with their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xmlpunct.types import Type, Value


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

    def __str__(self) -> str:
        return "NULL" if self.value is None else self.type.format(self.value)


@dataclass(frozen=True)
class Call(Expression):
    """A function or an infix operator applied to arguments. ``function`` names a row of the table in evaluate.py."""

    function: str
    args: tuple[Expression, ...]

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self.args
