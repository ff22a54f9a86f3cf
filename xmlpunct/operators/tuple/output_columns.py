"""The columns of a project's output: chosen from the input's, or computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from xmlpunct.expressions.expression import Column, Expression, NullIf
from xmlpunct.expressions.program import Program
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute


class OutputColumns:
    """Output columns, each with its expression over the attributes of ``source``.

    ``chosen`` maps each copied column to its attribute. A plain copy inherits the declaration of the attribute.
    """

    def __init__(self, source: Schema, columns: Sequence[tuple[str, Expression]]) -> None:
        self.columns = tuple(columns)
        self.chosen = {name: e.name for name, e in columns if isinstance(e, Column)}
        self.schema = Schema.of(
            replace(source[e.name], name=name, path=name)
            if isinstance(e, Column) and not isinstance(e, NullIf)
            else Attribute(name, e.type, e.nullable)
            for name, e in columns
        )

    def of(self, tuples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        """The output columns of tuples; and the reason of each tuple that fails, or None if all succeed."""
        if self._are_plain:
            return pl.DataFrame([tuples[source].alias(name) for name, source in self.chosen.items()]), None
        return self._program.run(tuples)

    @cached_property
    def _are_plain(self) -> bool:
        """True if nothing is computed, and there is a column."""
        are_copies = 0 < len(self.chosen) == len(self.columns)
        return are_copies and not any(isinstance(e, NullIf) for _, e in self.columns)

    @cached_property
    def _program(self) -> Program:
        """Compiled when the first tuples arrive: a planner needs only the schema."""
        return Program(self.columns)
