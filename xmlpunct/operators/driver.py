"""The driver: runs a tree of operators over slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from xmlpunct.base.errors import Reject
from xmlpunct.base.frames import Snapshot, nested_snapshot, snapshot_of
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.tuple.finished import FINISHED, Finished
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice, concat


@dataclass(slots=True)
class Counters:
    """The traffic of an operator, and its state after keep."""

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


class Done(NamedTuple):
    """Work of an operator on the tuples of a slice, before the slice's turn.

    If ``stepped``, ``tuples`` are the result of `Operator.step`, and ``rejects`` its rejects. Otherwise ``tuples`` are
    the input, reduced by `Operator.reduced`.
    """

    tuples: pl.DataFrame
    rejects: list[Reject]
    stepped: bool


def run(operator: Operator, port: int, slice_: Slice, done: Done | None = None) -> Slice:
    """Run one operator on one slice; return its output. ``done`` is the precomputed part of the work."""
    if done is not None and done.stepped:
        output = done.tuples
    else:
        tuples = slice_.tuples if done is None else done.tuples
        output = operator.step(port, tuples) if tuples.height else operator.schema.empty()
    if not slice_.punctuations and not operator.speaks:
        return Slice(output)
    released, punctuations = operator.punctuate(port, slice_.punctuations)
    if released.height:
        output = pl.concat([output, released]) if output.height else released
    return Slice(output, punctuations)


InputPort = tuple[int, int]
"""The index of an operator in its pipeline, and one of its ports."""
Precomputed = Mapping[InputPort, Done]
"""Precomputed work on a slice, by operator and port."""
NOT_PRECOMPUTED: Precomputed = {}
OutputSlices = dict[int, list[Slice]]
"""The output slices of each output operator, by its index."""


@dataclass
class Pipeline:
    """Operators wired into a directed acyclic graph.

    ``operators`` are in topological order: each stands after the operators that it reads from. ``inputs[i]`` lists the
    (operator, port) pairs that the pipeline's own input i feeds, and ``targets[o]`` the pairs that operator o's output
    feeds. ``outputs`` are the operators whose outputs are the pipeline's; by default the last operator. `open_all` and
    `push_all` return a slice for each output, `open` and `push` the slice of the only output.

    When an operator's output ends, a `Finished` replaces it and its tuples are purged.
    """

    operators: list[Operator]
    inputs: Sequence[Sequence[InputPort]]
    targets: Sequence[Sequence[InputPort]]
    outputs: Sequence[int] = ()
    counters: list[Counters] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    _stopped_operators: set[int] = field(default_factory=set)
    """The operators that serve no output any more."""
    _stopped_outputs: set[int] = field(default_factory=set)
    """The indices in ``outputs`` of the outputs that were stopped."""
    _consumer_counts: list[int] = field(default_factory=list)
    """For each operator, how many outputs of the pipeline and ports of operators need its results."""
    _producers: list[list[int]] = field(default_factory=list)
    """For each operator, the operators that feed its ports."""

    def __post_init__(self) -> None:
        self.outputs = self.outputs or [len(self.operators) - 1]
        self._consumer_counts = [*map(len, self.targets)]
        self._producers = [[] for _ in self.operators]
        for place, targets in enumerate(self.targets):
            for above, _ in targets:
                self._producers[above].append(place)
        for place in self.outputs if self.operators else ():
            self._consumer_counts[place] += 1
        self.recount()

    def open(self) -> Slice:
        """As `open_all`, of the only output."""
        (output,) = self.open_all()
        return output

    def precompute(self, port: int, tuples: pl.DataFrame) -> Precomputed:
        """Run stateless operators on a slice for input ``port`` before its turn, in any thread, for `push_all`."""
        precomputed: dict[InputPort, Done] = {}
        waiting = [(edge, tuples) for edge in self.inputs[port]]
        while waiting:
            (index, operator_port), tuples = edge, _ = waiting.pop()
            operator = copy(self.operators[index])  # a copy, with a list of rejects of its own
            operator.rejects = []
            if not tuples.height:
                continue
            if operator.tuplewise:
                precomputed[edge] = Done(operator.step(operator_port, tuples), operator.rejects, True)
                waiting += [(target, precomputed[edge].tuples) for target in self.targets[index]]
            elif (reduced := operator.reduced(tuples)) is not tuples:
                precomputed[edge] = Done(reduced, [], False)
        return precomputed

    def push(self, port: int, slice_: Slice) -> Slice:
        """As `push_all`, of the only output. A pipeline without operators returns the slice itself."""
        if not self.operators:
            return slice_
        (output,) = self.push_all(port, slice_)
        return output

    def open_all(self) -> list[Slice]:
        """The outputs for the punctuations that hold before any input. Call it once, and first."""
        outputs: OutputSlices = {index: [] for index in self.outputs}
        for index, operator in enumerate(self.operators):
            if punctuations := operator.opening():
                self.counters[index].punctuations_out += len(punctuations)
                if PunctuationBatch.of(punctuations).has_end:
                    self._end(index)
                self._emit(index, Slice(operator.schema.empty(), punctuations), outputs)
        return self._concatenate(outputs)

    def push_all(self, port: int, slice_: Slice, precomputed: Precomputed = NOT_PRECOMPUTED) -> list[Slice]:
        """Run the pipeline on a slice of input ``port``; return a slice for each output."""
        outputs: OutputSlices = {index: [] for index in self.outputs}
        for edge in self.inputs[port]:
            self._push_to(edge, slice_, outputs, precomputed)
        return self._concatenate(outputs)

    def _concatenate(self, outputs: OutputSlices) -> list[Slice]:
        return [concat(self.operators[index].schema, outputs[index]) for index in self.outputs]

    def _emit(
        self, index: int, slice_: Slice, outputs: OutputSlices, precomputed: Precomputed = NOT_PRECOMPUTED
    ) -> None:
        """Push an operator's output to all its targets."""
        if index in outputs:
            outputs[index].append(slice_)
        for edge in self.targets[index]:
            self._push_to(edge, slice_, outputs, precomputed)

    def _push_to(
        self, edge: InputPort, slice_: Slice, outputs: OutputSlices, precomputed: Precomputed
    ) -> None:
        """Run an operator on a slice, then all operators above it; collect the pipeline's output in ``outputs``."""
        index, port = edge
        operator, counters = self.operators[index], self.counters[index]
        if index not in self._stopped_operators:
            counters.tuples_in += slice_.tuples.height
            counters.punctuations_in += len(slice_.punctuations)
            if isinstance(operator, Finished):  # it may have finished after the work was precomputed
                precomputed = NOT_PRECOMPUTED
            done = precomputed.get(edge)
            output = run(operator, port, slice_, done)
            counters.tuples_out += output.tuples.height
            counters.punctuations_out += len(output.punctuations)
            if operator.ends and output.punctuations.has_end:
                self._end(index)
            current = self.operators[index]
            counters.state_rows, counters.held_punctuations = current.state.rows, current.state.held
            counters.forgotten = current.forgotten
            counters.state_rows_peak = max(counters.state_rows_peak, counters.state_rows)
            counters.held_punctuations_peak = max(counters.held_punctuations_peak, counters.held_punctuations)
            if done is not None:
                self.rejects += done.rejects
            if operator.rejects:
                self.rejects += operator.rejects
                operator.rejects = []
            self._emit(index, output, outputs, precomputed)

    def stop(self, output: int) -> None:
        """Stop an output: operators that serve no other output receive nothing, and purge their state.

        An output cannot be resumed. Checkpoints do not record that it was stopped.
        """
        if output in self._stopped_outputs or not self.operators:
            return
        self._stopped_outputs.add(output)
        unneeded = [self.outputs[output]]
        while unneeded:
            index = unneeded.pop()
            self._consumer_counts[index] -= 1
            if not self._consumer_counts[index]:
                self.operators[index].ownership = ANYTHING
                self._end(index)
                self._stopped_operators.add(index)
                unneeded += self._producers[index]

    def is_stopped(self, port: int) -> bool:
        """Whether all operators that read input ``port`` are stopped."""
        return all(index in self._stopped_operators for index, _ in self.inputs[port])

    def recount(self) -> None:
        """Reset the counters and drop the rejects."""
        self.counters = [Counters() for _ in self.operators]
        self.rejects = []

    def _end(self, index: int) -> None:
        self.operators[index] = Finished(self.operators[index])

    def waits(self) -> list[int]:
        """For each input of the pipeline, the number of retained tuples and punctuations that wait for it."""
        counts, operator_counts = [0] * len(self.inputs), [operator.waits() for operator in self.operators]
        for i, edges in enumerate(self.inputs):
            waiting, visited = list(edges), set[InputPort]()
            while waiting:
                edge = waiting.pop()
                if edge not in visited:
                    visited.add(edge)
                    index, port = edge
                    counts[i] += operator_counts[index][port]
                    waiting += self.targets[index]
        return counts

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The state of all operators. A frame that did not change is the same object as before."""
        return snapshot_of({str(i): operator.state for i, operator in enumerate(self.operators)})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of all operators from a snapshot."""
        states = nested_snapshot(snapshot)
        for index in range(len(self.operators)):
            state = states.get(str(index), {})
            if FINISHED in nested_snapshot(state):
                self._end(index)
            self.operators[index].state.restore(state)
