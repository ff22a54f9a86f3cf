"""The driver: runs a tree of operators over slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from xmlpunct.errors import Reject
from xmlpunct.frames import Snapshot, grouped, snapshot_of
from xmlpunct.operators.finished import FINISHED, Finished
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.slice import Slice, concat


@dataclass(slots=True)
class Counters:
    """What went through an operator, and what it retains after keep."""

    tuples_in: int = 0
    tuples_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    state_rows: int = 0
    state_rows_peak: int = 0
    held_punctuations: int = 0
    held_punctuations_peak: int = 0
    forgotten: int = 0

    def counts(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in Counters.__slots__}


def run(operator: Operator, port: int, given: Slice) -> Slice:
    """Give one slice to one operator."""
    at_once = operator.step(port, given.tuples) if given.tuples.height else operator.schema.empty()
    if not given.punctuations and not operator.speaks:
        return Slice(at_once)
    passed, promised = operator.punctuate(port, given.punctuations)
    if passed.height:
        at_once = pl.concat([at_once, passed]) if at_once.height else passed
    return Slice(at_once, promised)


Edge = tuple[int, int]
"""An operator's place in its pipeline, and one of its ports."""


@dataclass
class Pipeline:
    """Operators wired into a directed acyclic graph with one output.

    ``operators`` are in an order in which each comes after those it reads from; the last one's output is the
    pipeline's. ``inputs[i]`` lists the (operator, port) pairs that the pipeline's own input i feeds, and
    ``targets[o]`` the one pair that operator o's output feeds (None for the last).

    When an operator's output ends, a `Finished` takes its place and its tuples go.
    """

    operators: list[Operator]
    inputs: Sequence[Sequence[Edge]]
    targets: Sequence[Edge | None]
    counters: list[Counters] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recount()

    def open(self) -> Slice:
        """The output of what the operators know before any input. Call it once, and first."""
        outputs = []
        for place, operator in enumerate(self.operators):
            if said := operator.opening():
                self.counters[place].punctuations_out += len(said)
                if PunctuationBatch.of(said).has_end:
                    self._end(place)
                outputs.append(self._climb(self.targets[place], Slice(operator.schema.empty(), said)))
        return concat(self.operators[-1].schema, outputs)

    def push(self, port: int, given: Slice) -> Slice:
        """Give a slice to input ``port``; return what comes out at the end."""
        output = self.operators[-1].schema if self.operators else None
        if output is None:
            return given
        return concat(output, [self._climb(edge, given) for edge in self.inputs[port]])

    def _climb(self, edge: Edge | None, given: Slice) -> Slice:
        while edge is not None:
            place, port = edge
            operator, counters = self.operators[place], self.counters[place]
            counters.tuples_in += given.tuples.height
            counters.punctuations_in += len(given.punctuations)
            given = run(operator, port, given)
            counters.tuples_out += given.tuples.height
            counters.punctuations_out += len(given.punctuations)
            if operator.ends and given.punctuations.has_end:
                self._end(place)
            now = self.operators[place]
            counters.state_rows, counters.held_punctuations = now.state.rows, now.state.held
            counters.forgotten = now.forgotten
            counters.state_rows_peak = max(counters.state_rows_peak, counters.state_rows)
            counters.held_punctuations_peak = max(counters.held_punctuations_peak, counters.held_punctuations)
            if operator.rejects:
                self.rejects += operator.rejects
                operator.rejects = []
            edge = self.targets[place]
        return given

    def recount(self) -> None:
        """Reset the counters and drop the rejects."""
        self.counters = [Counters() for _ in self.operators]
        self.rejects = []

    def _end(self, place: int) -> None:
        self.operators[place] = Finished(self.operators[place])

    def waits(self) -> list[int]:
        """For each input of the pipeline, how much of what is retained waits for it."""
        amounts, each = [0] * len(self.inputs), [operator.waits() for operator in self.operators]
        for i, edges in enumerate(self.inputs):
            for edge in edges:
                at: Edge | None = edge
                while at is not None:
                    place, port = at
                    amounts[i] += each[place][port]
                    at = self.targets[place]
        return amounts

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The state of all operators. A frame that did not change is the same object as before."""
        return snapshot_of({str(i): operator.state for i, operator in enumerate(self.operators)})

    def restore(self, snapshot: Snapshot) -> None:
        """Take the state of a snapshot."""
        states = grouped(snapshot)
        for place in range(len(self.operators)):
            state = states.get(str(place), {})
            if FINISHED in grouped(state):
                self._end(place)
            self.operators[place].state.restore(state)
