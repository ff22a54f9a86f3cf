"""The statistics of a run, the contents of ``--stats``.

An input has the key ``overlooked`` only if it is not empty; `xmlpunct.base.unread` documents its kinds and names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from xmlpunct.base.unread import COUNTS, Notice, Overlooked, add, end, notices
from xmlpunct.engine.why.holding import Holding
from xmlpunct.operators import Counters
from xmlpunct.slice import Slice

_IMPORTED = time.time()
_TOTALS = ("slices", "rejected", "ended_inputs")


def process_start() -> float:
    """Start time of this process, in seconds since 1970; without /proc, the time of this import."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - age
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED


@dataclass
class InputStats:
    """Counters of an input: good tuples, punctuations, rejected tuples, and bytes read from its source."""

    tuples: int = 0
    punctuations: int = 0
    rejected: int = 0
    bytes: int = 0

    def take(self, parsed: Slice, rejected: int) -> None:
        """Add a parsed slice, and its number of rejected tuples."""
        self.tuples += parsed.tuples.height
        self.punctuations += len(parsed.punctuations)
        self.rejected += rejected

    def add(self, other: InputStats) -> None:
        """Add other counters."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


IDLE_SECONDS = 1.0
"""An input without a byte for this long is idle."""


@dataclass(frozen=True)
class Idle:
    """An input without data for ``seconds``, and the number of retained tuples that wait for it (``holds_up``).

    If no tuples are retained (UNION ALL), ``holds_up`` counts punctuations. ``input`` is the stream's name, with
    ``#1``, ``#2``... for several senders.
    """

    input: str
    seconds: float
    holds_up: int


@dataclass
class OperatorStats(Counters):
    """An operator's number and name in the plan, and its counters, summed over shards."""

    id: int = 0
    operator: str = ""

    def add(self, other: Counters) -> None:
        """Add the counters of another shard for the same slice."""
        for name, value in asdict(other).items():
            if name not in ("id", "operator"):
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """The fields in the order of ``--stats``."""
        counts = asdict(self)
        del counts["forgotten"]  # reported as one sum over all operators
        return {"id": counts.pop("id"), "operator": counts.pop("operator"), **counts}


class Gauges(Protocol):
    """Measurements of a running query; called in the thread that runs it."""

    def waits(self) -> Mapping[int, Sequence[int]]:
        """For each operator and each of its inputs, the amount of retained state that waits for that input."""

    def behind(self) -> Mapping[str, int | None]:
        """For each input, the number of available bytes not read yet; None if unknown."""

    def partial(self) -> pl.DataFrame:
        """The further results if all inputs ended now. Raises `UsageError` if the engine cannot compute them."""

    def done(self) -> Mapping[str, bool]:
        """For each input, whether it has been read to its end."""


@dataclass
class OutputStats:
    """The written tuples, punctuations and bytes of an answer.

    ``late``: dropped tuples that match an earlier written punctuation. ``forgotten``: written punctuations that the
    output no longer remembers. ``complete``: nothing follows.
    """

    tuples: int = 0
    punctuations: int = 0
    bytes: int = 0
    late: int = 0
    forgotten: int = 0
    complete: bool = False


@dataclass
class RunStats:
    """The statistics of a run. Times are in seconds; the first result counts from the start of the process."""

    engine: str
    started: float = field(default_factory=time.time)
    seconds: float = 0.0
    first_result_seconds: float | None = None
    slices: int = 0
    inputs: dict[str, InputStats] = field(default_factory=dict)
    outputs: dict[str, OutputStats] = field(default_factory=dict)
    """By sink name; the empty name is the SELECT without a sink."""
    uncommitted: dict[str, InputStats] = field(default_factory=dict)
    """On Spark, the counts of the first micro-batch while its tasks read; when it is committed, ``inputs`` has them."""
    rejected: int = 0
    """All rejects, of inputs and of operators."""
    ended_inputs: list[str] = field(default_factory=list)
    """The inputs that were read to their end."""
    operators: list[OperatorStats] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    guards: dict[int, str] = field(default_factory=dict)
    """Operators whose rejects count as rejects of an input: number, and name of the input."""
    sinks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Sink names by operator number, if any sink is named."""
    elements: dict[str, str] = field(default_factory=dict)
    """Tuple element of each input."""
    overlooked: dict[str, Overlooked] = field(default_factory=dict)
    """Input content that looked like data and was not read."""

    holding: Holding = field(default_factory=Holding)
    """Received punctuations and retained state, from which `why` explains the result that is still open."""

    judged: dict[str, list[int]] = field(default_factory=dict)
    """By input (a stream from one sender): number of tuples checked by `RejectLimit`, and of rejects among them."""
    watched: bool = False
    """True if a user interface polls the run: then it never waits long for input."""
    spoke: dict[str, float] = field(default_factory=dict)
    """Arrival time of the last punctuation of each input in this process, in seconds since 1970."""
    activity: str = ""
    """The current step of the engine before the first data arrives, such as planning; shown on the terminal."""
    gauges: Gauges | None = field(default=None, repr=False, compare=False)
    """Live measurements, once the run has begun."""

    def wrote(self, name: str, **counts: Any) -> None:
        """Update the counters of the answer ``name``; ``counts`` are fields of `OutputStats`."""
        before = self.outputs.get(name, OutputStats())
        self.outputs[name] = replace(before, **counts)
        if self.outputs[name].tuples > before.tuples and self.first_result_seconds is None:
            self.first_result_seconds = time.time() - process_start()

    @property
    def inputs_so_far(self) -> dict[str, InputStats]:
        """The sum of ``inputs`` and ``uncommitted``."""
        if not self.uncommitted:
            return self.inputs
        totals = {name: replace(counted) for name, counted in self.inputs.items()}
        for name, counted in self.uncommitted.items():
            totals[name].add(counted)
        return totals

    @property
    def tuples_out(self) -> int:
        """Number of written tuples."""
        return sum(o.tuples for o in self.outputs.values())

    @property
    def punctuations_out(self) -> int:
        """Number of written punctuations."""
        return sum(o.punctuations for o in self.outputs.values())

    @property
    def bytes_out(self) -> int:
        """Total length of the outputs in bytes."""
        return sum(o.bytes for o in self.outputs.values())

    @property
    def late(self) -> int:
        """Number of results that were dropped because they match an earlier written punctuation."""
        return sum(o.late for o in self.outputs.values())

    def observe(self, operators: Iterable[OperatorStats]) -> None:
        """Update the operators' counters after a slice. Peaks are maxima over slices of the sums over shards.

        Tuples that a guard rejects move from the good tuples of its input to the rejected ones.
        """
        peaks = {o.id: (o.state_rows_peak, o.held_punctuations_peak) for o in self.operators}
        late = {o.id: o.tuples_out - o.tuples_in for o in self.operators if o.id in self.guards}
        self.operators = sorted(operators, key=lambda o: o.id)
        for o in self.operators:
            rows, punctuations = peaks.get(o.id, (0, 0))
            o.state_rows_peak = max(rows, o.state_rows)
            o.held_punctuations_peak = max(punctuations, o.held_punctuations)
            if o.id in self.guards:
                counts = self.inputs[self.guards[o.id]]
                rejects = o.tuples_in - o.tuples_out + late.get(o.id, 0)
                counts.tuples, counts.rejected = counts.tuples - rejects, counts.rejected + rejects

    @property
    def state_rows(self) -> int:
        """Number of tuples that all operators retain."""
        return sum(o.state_rows for o in self.operators)

    @property
    def lost_inputs(self) -> list[str]:
        """The inputs that ended and had tuples, all of which were rejected."""
        return [name for name in self.ended_inputs if (i := self.inputs[name]).rejected and not i.tuples]

    @property
    def all_forgotten(self) -> int:
        """Number of punctuations dropped by outputs and guards; late tuples that match them are not detected."""
        return sum(o.forgotten for o in self.outputs.values()) + sum(o.forgotten for o in self.operators)

    def saved(self) -> dict[str, Any]:
        """The counters for a checkpoint, as plain values."""
        return {
            "inputs": {name: asdict(i) for name, i in self.inputs.items()},
            "outputs": {name: asdict(o) for name, o in self.outputs.items()},
            "operators": [asdict(o) for o in self.operators],
            "overlooked": self.overlooked,
            "judged": self.judged,
            **{name: getattr(self, name) for name in _TOTALS},
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Restore the counters that `saved` returned; an empty mapping changes nothing."""
        for name, values in saved.get("inputs", {}).items():
            self.inputs[name] = InputStats(**values)
        for name, values in saved.get("outputs", {}).items():
            self.outputs[name] = OutputStats(**values)
        self.operators = [OperatorStats(**values) for values in saved.get("operators", [])]
        self.overlooked = saved.get("overlooked", {})
        self.judged = saved.get("judged", {})
        for name in _TOTALS:
            setattr(self, name, saved.get(name, getattr(self, name)))

    def overlook(self, name: str, overlooked: Overlooked) -> list[Notice]:
        """Add overlooked content of an input, and return the notices to log."""
        return notices(name, add(self.overlooked.setdefault(name, {}), overlooked))

    def end(self, name: str, in_order: bool = True) -> list[Notice]:
        """Record the end of an input, and return the notices to log."""
        counts, total = self.inputs[name], self.overlooked.setdefault(name, {})
        if in_order and name not in self.ended_inputs:
            self.ended_inputs.append(name)
        tuples = counts.tuples + counts.rejected
        return notices(name, end(total, self.elements[name], tuples, counts.punctuations, in_order))

    def finish(self) -> list[Notice]:
        """Stop the clock, and return the notices of inputs that were not read to their end."""
        self.seconds = time.time() - self.started
        begun = [name for name in self.elements if self.inputs[name].bytes]
        return [notice for name in begun for notice in self.end(name, in_order=False)]

    def as_dict(self) -> dict[str, Any]:
        """The contents of ``--stats``."""
        return {
            "engine": self.engine,
            "seconds": round(self.seconds, 3),
            "first_result_seconds": self.first_result_seconds and round(self.first_result_seconds, 3),
            "slices": self.slices,
            "inputs": {name: asdict(i) | self._overlooked(name) for name, i in self.inputs.items()},
            "output": _output_counts(self.outputs.get("", OutputStats())),
            **({"sinks": named} if (named := self._sink_counts()) else {}),
            "operators": [o.as_dict() | self._sink_names(o.id) for o in self.operators],
            "forgotten": self.all_forgotten,
            "idle": [{**asdict(i), "seconds": round(i.seconds, 1)} for i in self.idle],
        }

    def _sink_counts(self) -> dict[str, dict[str, int | bool]]:
        """The counters of each named sink."""
        return {name: _output_counts(o) for name, o in self.outputs.items() if name}

    def _sink_names(self, number: int) -> dict[str, list[str]]:
        """The key ``sinks`` of an operator, if any sink is named."""
        return {"sinks": list(self.sinks[number])} if number in self.sinks else {}

    def _overlooked(self, name: str) -> dict[str, Overlooked]:
        """The key ``overlooked`` of an input, if it is not empty."""
        kinds = self.overlooked.get(name, {}).items()
        shown = {kind: names for kind, names in kinds if kind not in COUNTS and names}
        return {"overlooked": shown} if shown else {}


def _output_counts(output: OutputStats) -> dict[str, int | bool]:
    """The counters of an output, without ``forgotten``, which is reported as one sum."""
    return {name: count for name, count in asdict(output).items() if name != "forgotten"}
