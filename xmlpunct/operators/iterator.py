"""The stream iterator: what every operator is (the paper, Section 4.2).

An operator has state and two functions over it. For a slice that arrives on a port the driver calls ``step``
with its tuples, then ``punctuate`` with its punctuations. There the paper's three functions come in this order:
*pass* gives the tuples that may go out now and sees every tuple of the slice; *keep* drops what is no longer
needed; *prop* comes last, since what is still retained decides what may be promised.

``opening`` says what an operator knows before any input. There is no ``final``: the end of an input is the punctuation
that matches everything.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xmlpunct.base.errors import Reject, cut
from xmlpunct.expressions.program import Program
from xmlpunct.operators.state import State
from xmlpunct.punctuations.ownership import ANYTHING, Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import DIFF
from xmlpunct.schema.provenance import BYTE, LINE, SOURCE, is_attribute
from xmlpunct.types import DOUBLE

Outcome = tuple[pl.DataFrame, PunctuationBatch]
"""The further tuples that punctuations let pass, and the punctuations now true of the output, each once."""

NOTHING = State()
"""The state of an operator that retains nothing."""


class Operator(ABC):
    """A stream iterator.

    ``inputs`` has the schema of each port, ``schema`` is the output's, ``state`` is what is retained. ``name`` and
    ``number`` are those of its node in the plan. Tuples come and go as data frames in schema order. A tuple that an
    operator cannot handle goes to ``rejects``, which the driver empties.
    """

    name: str
    tuplewise = False
    """Whether `step` takes each tuple by itself, so that it may be done before the slice's turn, in any thread. Only of
    operators with one input: others may get something twice of one slice, by each of their ports."""
    speaks = False
    """Whether `punctuate` may have something to say where no punctuation came in."""
    ends = True
    """Whether it has nothing more to do once its output has ended."""
    quiet = False
    """Whether it drops its rejects, because another operator rejects the same tuples."""
    ownership: Ownership = ANYTHING
    """Which punctuations of the output somebody has to hear although others imply them."""
    sifted = False
    """Whether an operator above holds back punctuations that its own tuples match, and so may need implied ones."""

    def __init__(self, inputs: tuple[Schema, ...], schema: Schema) -> None:
        self.inputs, self.schema = inputs, schema
        self.number, self.state = 0, NOTHING
        self.rejects: list[Reject] = []

    def spread(self, ways: Ways) -> None:
        """Before any input: ask for punctuations even if others, or the end, imply them (semantics 5.3).

        ``ways`` are those of the output on several shards, or `ONE_SHARD`.
        """
        self.ownership = Ownership(self.schema, ways, self.sifted)

    def opening(self) -> list[Punctuation]:
        """The punctuations that are true of the output from the start, whatever comes in."""
        return []

    @abstractmethod
    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Take the tuples of a slice; return those that can be output at once."""

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Fewer tuples of which `step` gives the same; found before the slice's turn, in any thread."""
        return tuples

    @abstractmethod
    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Take the punctuations of a slice; return what they let out."""

    @property
    def forgotten(self) -> int:
        """How many punctuations it had no room to retain."""
        return 0

    def waits(self) -> Sequence[int]:
        """For each port, how many retained tuples, or punctuations that could pass, wait for it."""
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
        """Reject the tuples that have a reason; return the others."""
        failed = reasons.is_not_null()
        if not failed.any():
            return tuples
        told = failed & (tuples[DIFF] > 0) if DIFF in tuples.columns else failed  # it comes, and goes, once
        rows = tuples.filter(told).iter_rows(named=True)
        for row, reason in zip(rows, reasons.filter(told), strict=True):
            self.reject(row, reason)
        return tuples.filter(~failed)

    def reject(self, row: Mapping[str, Any], reason: str) -> None:
        """Reject one tuple. Its own columns say where it stood, if it has them."""
        if not self.quiet:
            source = str(row.get(SOURCE, f"{self.name} #{self.number}"))
            self.rejects.append(Reject(source, row.get(LINE), row.get(BYTE), reason, as_text(row)))


def as_text(row: Mapping[str, Any]) -> str:
    """A computed tuple as the text of a reject, cut as that of one that was read."""
    told = {name: _told(value) for name, value in row.items() if is_attribute(name)}
    return cut(json.dumps(told, default=str))


def _told(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity, inside an array either."""
    if isinstance(value, list):
        return [_told(v) for v in value]
    if isinstance(value, dict):
        return {name: _told(v) for name, v in value.items()}
    return DOUBLE.format(value) if isinstance(value, float) and not math.isfinite(value) else value
