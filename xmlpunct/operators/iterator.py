"""The stream iterator: the protocol of all operators (the paper, Section 4.2).

An operator has state and two functions over it. For a slice that arrives on a port the driver calls ``step``
with its tuples, then ``punctuate`` with its punctuations. ``punctuate`` has the paper's three functions, in this order:
*pass* returns the tuples that may be emitted now and sees every tuple of the slice; *keep* purges tuples that are no
longer needed; *prop* comes last, because the retained tuples decide which punctuations may be emitted.

``opening`` returns the punctuations that hold before any input. There is no ``final``: the end of an input is the
punctuation that matches everything.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xmlpunct.base.errors import Reject, cut_short
from xmlpunct.expressions.program import Program
from xmlpunct.operators.state import State
from xmlpunct.punctuations.ownership import ANYTHING, KeyPath, Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import DIFF
from xmlpunct.schema.provenance import BYTE, LINE, SOURCE, is_attribute
from xmlpunct.types import DOUBLE

Outcome = tuple[pl.DataFrame, PunctuationBatch]
"""The result of `Operator.punctuate`: the tuples it releases, and the punctuations now true of the output."""

NOTHING = State()
"""The state of an operator that retains nothing."""


class Operator(ABC):
    """A stream iterator.

    Tuples arrive and leave as data frames that have the columns of a schema, in its order. `step` and `punctuate`
    are called by one thread at a time, slice by slice.

    Parameters
    ----------
    inputs : tuple of Schema
        The schema of each port.
    schema : Schema
        The schema of the output.

    Attributes
    ----------
    name : str
        The operator's name in plans and statistics.
    number : int
        The number of its node in the plan; 0 without a plan.
    state : State
        The retained tuples and punctuations, which checkpoints save.
    rejects : list of Reject
        Tuples that the operator could not handle. The driver empties the list after each slice.

    Notes
    -----
    Section 3 of docs/semantics.md defines pass, keep and prop; section 4 has the rules of each operator.
    """

    name: str
    tuplewise = False
    """bool: True if `step` handles each tuple by itself. Then it may run in any thread, before the slice's turn.

    For operators with one input only. With two inputs, the same slice can arrive on both ports.
    """
    speaks = False
    """bool: True if `punctuate` must be called for every slice, even without punctuations."""
    ends = True
    """bool: True if the operator has nothing more to do once its output has ended."""
    drops_rejects = False
    """bool: True if rejects are dropped, because another operator reports the same tuples."""
    ownership: Ownership = ANYTHING
    """Ownership: the output punctuations that must be emitted although implied (semantics 5.3)."""
    key_paths: Sequence[KeyPath] = ()
    """sequence of KeyPath: The parts to which `ownership` applies, with their names of the output's attributes."""

    def __init__(self, inputs: tuple[Schema, ...], schema: Schema) -> None:
        self.inputs, self.schema = inputs, schema
        self.number, self.state = 0, NOTHING
        self.rejects: list[Reject] = []

    def emit_implied(self, ways: Ways = (), all_needed: bool = False) -> None:
        """Emit some punctuations of the output even if earlier ones imply them. Called before any input.

        Parameters
        ----------
        ways : sequence of sequences of str
            On several shards: the attributes that hold the partition values of an output tuple, one sequence for
            each way to find them. Punctuations that list these values are emitted.
        all_needed : bool
            True if an operator above withholds punctuations that its tuples match. All punctuations are emitted.

        Notes
        -----
        Section 5.3 of docs/semantics.md.
        """
        self.ownership = Ownership(self.schema, ways, all_needed)
        for part, names in self.key_paths:
            part.ownership = self.ownership.over(part.schema, names)

    def opening(self) -> list[Punctuation]:
        """The punctuations that are true of the output from the start, for any input.

        Returns
        -------
        list of Punctuation
            Punctuations of `schema`; empty by default.

        Notes
        -----
        Section 4.1 of docs/semantics.md has an example: a selection whose predicate excludes a range.
        """
        return []

    @abstractmethod
    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Receive the tuples of a slice; return the results that can be emitted at once.

        Parameters
        ----------
        port : int
            The input, from 0.
        tuples : polars.DataFrame
            Tuples with the columns and dtypes of ``inputs[port]``; shape (tuples, attributes). The driver passes at
            least one tuple.

        Returns
        -------
        polars.DataFrame
            Any number of rows, with the columns and dtypes of `schema`.

        Notes
        -----
        The part of pass that needs no punctuations (section 3 of docs/semantics.md). All tuples of a slice precede its
        punctuations (section 1.3). Tuples that fail go to ``rejects``, without an exception (section 6).
        """

    def reduced(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """A subset of the tuples for which `step` returns the same. May run in any thread, before the slice's turn.

        Parameters
        ----------
        tuples : polars.DataFrame
            The tuples of a slice, as for `step`.

        Returns
        -------
        polars.DataFrame
            Some of the rows, in their order; the same object (the default) if there is nothing to drop.

        Notes
        -----
        Affects latency, not results: section 1.3 of docs/semantics.md.
        """
        return tuples

    @abstractmethod
    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        """Receive the punctuations of a slice; return the tuples and punctuations that they release.

        Parameters
        ----------
        port : int
            The input, from 0.
        batch : PunctuationBatch
            Punctuations of ``inputs[port]``; empty only if `speaks`.

        Returns
        -------
        polars.DataFrame
            The released tuples, with the columns and dtypes of `schema`; after those that `step` returned.
        PunctuationBatch
            Punctuations of `schema` that are true of the output from now on.

        Notes
        -----
        Pass, keep and prop, in this order (section 3 of docs/semantics.md). The end of an input is one of its
        punctuations (section 1.5).
        """

    @property
    def forgotten(self) -> int:
        """int: The number of punctuations that were dropped because there was no room to retain them.

        Notes
        -----
        Section 1.4 of docs/semantics.md. Only operators that judge lateness have a limit.
        """
        return 0

    def waits(self) -> Sequence[int]:
        """The amount of state that waits for punctuations of each input.

        Returns
        -------
        sequence of int
            For each port, the number of retained tuples or pending punctuations that wait for it.
        """
        return [0] * len(self.inputs)

    def passing(self, tuples: pl.DataFrame, condition: Program) -> pl.DataFrame:
        """The tuples for which a condition is true. Tuples for which it fails are rejected.

        Parameters
        ----------
        tuples : polars.DataFrame
            Tuples with the columns that the condition reads.
        condition : Program
            A compiled condition, with one result of dtype Boolean.

        Returns
        -------
        polars.DataFrame
            Some of the rows, in their order. A condition that is null is not true.

        Notes
        -----
        Sections 4.1 and 6 of docs/semantics.md.
        """
        if condition.simple is not None:
            return tuples.filter(condition.simple)
        results, reasons = condition.run(tuples)
        (holds,) = results
        if reasons is None:
            return tuples.filter(holds)
        self.reject_failures(tuples, reasons)
        return tuples.filter(holds & reasons.is_null())

    def reject_failures(self, tuples: pl.DataFrame, reasons: pl.Series) -> pl.DataFrame:
        """Reject the tuples that have a reason; return the remaining tuples.

        Parameters
        ----------
        tuples : polars.DataFrame
            Tuples, with or without a change count.
        reasons : polars.Series
            Why each tuple failed; dtype String, null where it did not; shape (tuples,).

        Returns
        -------
        polars.DataFrame
            The rows without a reason, in their order.

        Notes
        -----
        Section 6 of docs/semantics.md. A relation's tuple is reported when it is inserted, not when it is deleted.
        """
        failed = reasons.is_not_null()
        if not failed.any():
            return tuples
        reported = failed & (tuples[DIFF] > 0) if DIFF in tuples.columns else failed
        rows = tuples.filter(reported).iter_rows(named=True)
        for row, reason in zip(rows, reasons.filter(reported), strict=True):
            self.reject(row, reason)
        return tuples.filter(~failed)

    def reject(self, row: Mapping[str, Any], reason: str) -> None:
        """Reject one tuple, with its position in the input if it has columns for that.

        Parameters
        ----------
        row : mapping of str to value
            The tuple, by column name.
        reason : str
            The message to the user.
        """
        if not self.drops_rejects:
            for schema in self.inputs:
                row = schema.as_written(row)
            source = str(row.get(SOURCE, f"{self.name} #{self.number}"))
            self.rejects.append(Reject(source, row.get(LINE), row.get(BYTE), reason, as_text(row)))


def as_text(row: Mapping[str, Any]) -> str:
    """A computed tuple as the text of a reject: JSON, cut to the same length as text from a document."""
    values = {name: _json_value(value) for name, value in row.items() if is_attribute(name)}
    return cut_short(json.dumps(values, default=str))


def _json_value(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity, not even inside arrays."""
    if isinstance(value, list):
        return [_json_value(v) for v in value]
    if isinstance(value, dict):
        return {name: _json_value(v) for name, v in value.items()}
    return DOUBLE.format(value) if isinstance(value, float) and not math.isfinite(value) else value
