"""The stream iterator: what every operator is (the paper, Section 4.2).

An operator has state and two functions over it. For a slice that arrives on a port the driver calls ``step``
with its tuples, then ``punctuate`` with its punctuations. There the paper's three functions come in this order:
*pass* gives the tuples that may go out now and sees every tuple of the slice; *keep* drops what is no longer
needed; *prop* comes last, since what is still retained decides what may be promised.

What an operator knows before any input, ``opening`` says. There is no ``final``: the end of an input is the
punctuation that matches everything.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xmlpunct.errors import Reject, cut
from xmlpunct.expressions.program import Program
from xmlpunct.frames import Snapshot
from xmlpunct.operators.state import State
from xmlpunct.provenance import BYTE, LINE, SOURCE, is_attribute
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import ANYTHING, Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE

Outcome = tuple[pl.DataFrame, PunctuationBatch]
"""What punctuations let out: the further tuples that pass, and the punctuations now true of the output, each once."""


NOTHING = State()
"""The state of an operator that retains nothing."""


class Operator(ABC):
    """A stream iterator.

    ``name`` is what people call it, ``inputs`` holds the schema of each port, ``schema`` the output's, ``state``
    what is retained.
    Tuples come and go as data frames in schema order. An operator that cannot handle a tuple leaves it out
    of its output and says so in ``rejects``, which the driver empties. ``number`` is its node's in the plan.
    """

    name: str
    speaks = False
    """Whether `punctuate` may have something to say where no punctuation came in."""
    ends = True
    """Whether it has nothing more to do once its output has ended."""
    quiet = False
    """Whether nobody is to hear what it rejects, since another operator rejects the same."""
    ownership: Ownership = ANYTHING
    """Which punctuations of the output somebody has to hear though others imply them."""
    sifted = False
    """Whether an operator above holds back what tuples of its own match, so that it may need what is implied."""

    def __init__(self, inputs: tuple[Schema, ...], schema: Schema) -> None:
        self.inputs, self.schema = inputs, schema
        self.number, self.state = 0, NOTHING
        self.rejects: list[Reject] = []

    def spread(self, ways: Ways) -> None:
        """Before any input: leave nothing unsaid because something else, the end even, implies it (SEMANTICS 5).

        ``ways`` are those of the output on several shards, or `ONE_SHARD`.
        """
        self.ownership = Ownership(self.schema, ways, self.sifted)

    def opening(self) -> list[Punctuation]:
        """The punctuations that are true of the output from the start, whatever comes in."""
        return []

    @abstractmethod
    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Take the tuples of a slice; return those that can be output at once."""

    @abstractmethod
    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Take the punctuations of a slice; return what they let out."""

    @property
    def rows(self) -> int:
        """How many tuples (or groups) are retained."""
        return self.state.rows

    @property
    def held(self) -> int:
        """How many punctuations are retained."""
        return self.state.held

    @property
    def forgotten(self) -> int:
        """How many punctuations it has dropped that it should have retained."""
        return 0

    def waits(self) -> Sequence[int]:
        """For each port, how much that is retained waits for it: tuples, or punctuations that could pass."""
        return [0] * len(self.inputs)

    def passing(self, tuples: pl.DataFrame, condition: Program) -> pl.DataFrame:
        """The tuples for which a condition is true. Those for which it fails are rejected."""
        if condition.simple is not None:
            return tuples.filter(condition.simple)
        results, reasons = condition.run(tuples)
        (holds,) = results
        if reasons is None:
            return tuples.filter(holds)
        self.reject_failures(tuples, reasons)
        return tuples.filter(holds & reasons.is_null())

    def reject_failures(self, tuples: pl.DataFrame, reasons: pl.Series) -> pl.DataFrame:
        """The tuples that have no reason; the others are rejected for it."""
        failed = reasons.is_not_null()
        if not failed.any():
            return tuples
        rows = tuples.filter(failed).iter_rows(named=True)
        for row, reason in zip(rows, reasons.drop_nulls(), strict=True):
            self.reject(row, reason)
        return tuples.filter(~failed)

    def reject(self, row: Mapping[str, Any], reason: str) -> None:
        """Leave out one tuple, which stood where it says itself, if it does."""
        if not self.quiet:
            source = str(row.get(SOURCE, f"{self.name} #{self.number}"))
            self.rejects.append(Reject(source, row.get(LINE), row.get(BYTE), reason, as_text(row)))

    def snapshot(self) -> Snapshot:
        """The state, for a checkpoint."""
        return self.state.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Take the state of a snapshot instead of this operator's own."""
        self.state.restore(snapshot)


def as_text(row: Mapping[str, Any]) -> str:
    """A computed tuple as the text of a reject, cut as that of one that was read."""
    told = {name: _told(value) for name, value in row.items() if is_attribute(name)}
    return cut(json.dumps(told, default=str))


def _told(value: Any) -> Any:
    """A value as JSON knows it, which has no NaN and no infinity."""
    return DOUBLE.format(value) if isinstance(value, float) and not math.isfinite(value) else value
