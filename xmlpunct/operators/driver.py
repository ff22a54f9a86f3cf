"""The driver: runs a tree of operators over slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from xmlpunct.base.errors import Reject
from xmlpunct.base.frames import Snapshot, grouped, snapshot_of
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.tuple.finished import FINISHED, Finished
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
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


class Done(NamedTuple):
    """What was done with the tuples of a slice before its turn: what they come to at an operator, and its rejects; or
    fewer tuples to be given to it."""

    tuples: pl.DataFrame
    rejects: list[Reject]
    stepped: bool


def run(operator: Operator, port: int, given: Slice, done: Done | None = None) -> Slice:
    """Give one slice to one operator, of which something may be ``done``."""
    if done is not None and done.stepped:
        at_once = done.tuples
    else:
        tuples = given.tuples if done is None else done.tuples
        at_once = operator.step(port, tuples) if tuples.height else operator.schema.empty()
    if not given.punctuations and not operator.speaks:
        return Slice(at_once)
    passed, promised = operator.punctuate(port, given.punctuations)
    if passed.height:
        at_once = pl.concat([at_once, passed]) if at_once.height else passed
    return Slice(at_once, promised)


Edge = tuple[int, int]
"""An operator's place in its pipeline, and one of its ports."""
Ahead = Mapping[Edge, Done]
"""What was done before a slice's turn."""
NOT_AHEAD: Ahead = {}
Found = dict[int, list[Slice]]
"""What came out of each operator whose output is the pipeline's, by its place."""


@dataclass
class Pipeline:
    """Operators wired into a directed acyclic graph.

    ``operators`` are in an order in which each comes after those it reads from. ``inputs[i]`` lists the (operator,
    port) pairs that the pipeline's own input i feeds, and ``targets[o]`` those that operator o's output feeds.
    ``outputs`` are the operators whose outputs are the pipeline's: the last one, if nothing is said. `open_all` and
    `push_all` give a slice for each of them, `open` and `push` that of the only one.

    When an operator's output ends, a `Finished` takes its place and its tuples go.
    """

    operators: list[Operator]
    inputs: Sequence[Sequence[Edge]]
    targets: Sequence[Sequence[Edge]]
    outputs: Sequence[int] = ()
    counters: list[Counters] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)
    """The operators that serve no output any more."""
    _silent: set[int] = field(default_factory=set)
    """The outputs that were stopped."""
    _served: list[int] = field(default_factory=list)
    """For each operator, how many outputs of the pipeline and ports of operators it serves."""
    _feeders: list[list[int]] = field(default_factory=list)
    """For each operator, the operators that feed its ports."""

    def __post_init__(self) -> None:
        self.outputs = self.outputs or [len(self.operators) - 1]
        self._served = [*map(len, self.targets)]
        self._feeders = [[] for _ in self.operators]
        for place, targets in enumerate(self.targets):
            for above, _ in targets:
                self._feeders[above].append(place)
        for place in self.outputs if self.operators else ():
            self._served[place] += 1
        self.recount()

    def open(self) -> Slice:
        """As `open_all`, of the only output."""
        (output,) = self.open_all()
        return output

    def ahead(self, port: int, tuples: pl.DataFrame) -> Ahead:
        """What can be done of a slice for input ``port`` before its turn, in any thread, for `push_all`."""
        done: dict[Edge, Done] = {}
        waiting = [(edge, tuples) for edge in self.inputs[port]]
        while waiting:
            (place, own), tuples = edge, _ = waiting.pop()
            operator = copy(self.operators[place])  # whose rejects are its own
            operator.rejects = []
            if not tuples.height:
                continue
            if operator.tuplewise:
                done[edge] = Done(operator.step(own, tuples), operator.rejects, True)
                waiting += [(above, done[edge].tuples) for above in self.targets[place]]
            elif (fewer := operator.reduced(tuples)) is not tuples:
                done[edge] = Done(fewer, [], False)
        return done

    def push(self, port: int, given: Slice) -> Slice:
        """As `push_all`, of the only output. A pipeline without operators gives what it takes."""
        if not self.operators:
            return given
        (output,) = self.push_all(port, given)
        return output

    def open_all(self) -> list[Slice]:
        """The outputs of what the operators know before any input. Call it once, and first."""
        found: Found = {place: [] for place in self.outputs}
        for place, operator in enumerate(self.operators):
            if said := operator.opening():
                self.counters[place].punctuations_out += len(said)
                if PunctuationBatch.of(said).has_end:
                    self._end(place)
                self._onward(place, Slice(operator.schema.empty(), said), found)
        return self._gathered(found)

    def push_all(self, port: int, given: Slice, ahead: Ahead = NOT_AHEAD) -> list[Slice]:
        """Give a slice to input ``port``; return what comes out of each output."""
        found: Found = {place: [] for place in self.outputs}
        for edge in self.inputs[port]:
            self._climb(edge, given, found, ahead)
        return self._gathered(found)

    def _gathered(self, found: Found) -> list[Slice]:
        return [concat(self.operators[place].schema, found[place]) for place in self.outputs]

    def _onward(self, place: int, given: Slice, found: Found, ahead: Ahead = NOT_AHEAD) -> None:
        """Give an operator's output to whoever reads it."""
        if place in found:
            found[place].append(given)
        for edge in self.targets[place]:
            self._climb(edge, given, found, ahead)

    def _climb(self, edge: Edge, given: Slice, found: Found, ahead: Ahead) -> None:
        """Give a slice to an operator, and what comes of it to all above; ``found`` takes what comes out."""
        place, port = edge
        operator, counters = self.operators[place], self.counters[place]
        if place not in self._stopped:
            counters.tuples_in += given.tuples.height
            counters.punctuations_in += len(given.punctuations)
            if isinstance(operator, Finished):  # since then
                ahead = NOT_AHEAD
            done = ahead.get(edge)
            given = run(operator, port, given, done)
            counters.tuples_out += given.tuples.height
            counters.punctuations_out += len(given.punctuations)
            if operator.ends and given.punctuations.has_end:
                self._end(place)
            now = self.operators[place]
            counters.state_rows, counters.held_punctuations = now.state.rows, now.state.held
            counters.forgotten = now.forgotten
            counters.state_rows_peak = max(counters.state_rows_peak, counters.state_rows)
            counters.held_punctuations_peak = max(counters.held_punctuations_peak, counters.held_punctuations)
            if done is not None:
                self.rejects += done.rejects
            if operator.rejects:
                self.rejects += operator.rejects
                operator.rejects = []
            self._onward(place, given, found, ahead)

    def stop(self, output: int) -> None:
        """Do no more for an output: operators that serve no other one take nothing, and retain nothing.

        An output stays stopped, and that is not part of the state.
        """
        if output in self._silent or not self.operators:
            return
        self._silent.add(output)
        left = [self.outputs[output]]
        while left:
            place = left.pop()
            self._served[place] -= 1
            if not self._served[place]:
                self.operators[place].ownership = ANYTHING
                self._end(place)
                self._stopped.add(place)
                left += self._feeders[place]

    def is_stopped(self, port: int) -> bool:
        """Whether nothing becomes of what input ``port`` is given."""
        return all(place in self._stopped for place, _ in self.inputs[port])

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
            waiting, seen = list(edges), set[Edge]()
            while waiting:
                edge = waiting.pop()
                if edge not in seen:
                    seen.add(edge)
                    place, port = edge
                    amounts[i] += each[place][port]
                    waiting += self.targets[place]
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
