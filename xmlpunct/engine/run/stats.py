"""What a run did, in numbers: the contents of ``--stats``.

Of an input, ``overlooked`` is there only if something was: see `xmlpunct.base.unread` for its kinds and names.
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
_TOTALS = ("slices", "rejected")


def process_start() -> float:
    """When this process began, in seconds since 1970 (where the system does not tell: when this was imported)."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - age
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED


@dataclass
class InputStats:
    """What came in on a stream: good tuples, punctuations, rejected tuples, and bytes of its source read."""

    tuples: int = 0
    punctuations: int = 0
    rejected: int = 0
    bytes: int = 0

    def take(self, parsed: Slice, rejected: int) -> None:
        """Count what was parsed, and how many tuples were rejected."""
        self.tuples += parsed.tuples.height
        self.punctuations += len(parsed.punctuations)
        self.rejected += rejected


IDLE_SECONDS = 1.0
"""After this long without a byte an input is idle."""


@dataclass(frozen=True)
class Idle:
    """An input that has been silent for some ``seconds``, and how much that is retained waits for it.

    That is tuples, or where no tuples are retained (UNION ALL) punctuations. ``input`` is the stream's name,
    with ``#1``, ``#2``... where it has several senders.
    """

    input: str
    seconds: float
    holds_up: int


@dataclass
class OperatorStats(Counters):
    """An operator's counters, summed over shards, behind its number and name in the plan."""

    id: int = 0
    operator: str = ""

    def add(self, other: Counters) -> None:
        """Add another shard's counters of the same moment."""
        for name, value in asdict(other).items():
            if name not in ("id", "operator"):
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """The fields in the order they are read."""
        counts = asdict(self)
        del counts["forgotten"]  # told for all together
        return {"id": counts.pop("id"), "operator": counts.pop("operator"), **counts}


class Gauges(Protocol):
    """What can be asked of a run while it lives, in the thread that runs it."""

    def waits(self) -> Mapping[int, Sequence[int]]:
        """By operator, for each of its inputs, how much of what it retains waits for that input."""

    def behind(self) -> Mapping[str, int | None]:
        """By input, how many bytes are there that were not read yet; None where nobody knows."""

    def partial(self) -> pl.DataFrame:
        """What the query would still answer if all its inputs ended now. Raises `UsageError` where that is unknown."""

    def done(self) -> Mapping[str, bool]:
        """By input, whether it has been read to its end."""


@dataclass
class OutputStats:
    """What was written of an answer: tuples, punctuations and bytes.

    ``late`` are tuples that were dropped, since a punctuation written before them matches them; ``forgotten`` how many
    punctuations the output has forgotten, having written them. ``complete``: nothing will follow.
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
    """By the name of a sink; empty: that of the SELECT beside them."""
    rejected: int = 0
    """All rejects: those that `inputs` counts, and those of operators."""
    operators: list[OperatorStats] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    guards: dict[int, str] = field(default_factory=dict)
    """The numbers of the operators whose rejects are their input's, with its name."""
    sinks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By the number of an operator the names of the sinks it serves, if any has one."""
    elements: dict[str, str] = field(default_factory=dict)
    """The elements of the inputs' tuples."""
    overlooked: dict[str, Overlooked] = field(default_factory=dict)
    """What looked like data in an input and was not read."""

    holding: Holding = field(default_factory=Holding)
    """What was promised and is retained, for whoever asks what a result waits for."""

    judged: dict[str, list[int]] = field(default_factory=dict)
    """How many tuples of each input, a stream from one sender, were judged, and how many of them were rejects."""
    watched: bool = False
    """Whether somebody looks at the run, or asks, while nothing comes: then it never waits for long."""
    spoke: dict[str, float] = field(default_factory=dict)
    """When the last punctuation of each input came, in seconds since 1970; of this process alone."""
    gauges: Gauges | None = field(default=None, repr=False, compare=False)
    """What can be asked beyond the numbers, once the run has begun."""

    def wrote(self, name: str, **counts: Any) -> None:
        """Take what was written by now of the answer of that name: fields of `OutputStats`."""
        before = self.outputs.get(name, OutputStats())
        self.outputs[name] = replace(before, **counts)
        if self.outputs[name].tuples > before.tuples and self.first_result_seconds is None:
            self.first_result_seconds = time.time() - process_start()

    @property
    def tuples_out(self) -> int:
        """How many tuples were written."""
        return sum(o.tuples for o in self.outputs.values())

    @property
    def punctuations_out(self) -> int:
        """How many punctuations were written."""
        return sum(o.punctuations for o in self.outputs.values())

    @property
    def bytes_out(self) -> int:
        """How long the outputs are by now."""
        return sum(o.bytes for o in self.outputs.values())

    @property
    def late(self) -> int:
        """How many results were dropped, since a punctuation written before them matches them."""
        return sum(o.late for o in self.outputs.values())

    def observe(self, operators: Iterable[OperatorStats]) -> None:
        """Take the operators' counters after a slice, keeping the peaks over slices of the sums over shards.

        What guards have left out is no good tuple of its input any more.
        """
        peaks = {o.id: (o.state_rows_peak, o.held_punctuations_peak) for o in self.operators}
        late = {o.id: o.tuples_out - o.tuples_in for o in self.operators if o.id in self.guards}
        self.operators = sorted(operators, key=lambda o: o.id)
        for o in self.operators:
            rows, held = peaks.get(o.id, (0, 0))
            o.state_rows_peak = max(rows, o.state_rows)
            o.held_punctuations_peak = max(held, o.held_punctuations)
            if o.id in self.guards:
                given, more = self.inputs[self.guards[o.id]], o.tuples_in - o.tuples_out + late.get(o.id, 0)
                given.tuples, given.rejected = given.tuples - more, given.rejected + more

    @property
    def state_rows(self) -> int:
        """What all operators retain now."""
        return sum(o.state_rows for o in self.operators)

    @property
    def all_forgotten(self) -> int:
        """How many punctuations were forgotten, by outputs and by guards: tuples they match pass unseen."""
        return sum(o.forgotten for o in self.outputs.values()) + sum(o.forgotten for o in self.operators)

    def saved(self) -> dict[str, Any]:
        """What a later run that continues this one counts on from, as plain values."""
        return {
            "inputs": {name: asdict(i) for name, i in self.inputs.items()},
            "outputs": {name: asdict(o) for name, o in self.outputs.items()},
            "operators": [asdict(o) for o in self.operators],
            "overlooked": self.overlooked,
            "judged": self.judged,
            **{name: getattr(self, name) for name in _TOTALS},
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Count on from what `saved` of an earlier run gave, or from nothing; ``inputs`` are known already."""
        for name, values in saved.get("inputs", {}).items():
            self.inputs[name] = InputStats(**values)
        for name, values in saved.get("outputs", {}).items():
            self.outputs[name] = OutputStats(**values)
        self.operators = [OperatorStats(**values) for values in saved.get("operators", [])]
        self.overlooked = saved.get("overlooked", {})
        self.judged = saved.get("judged", {})
        for name in _TOTALS:
            setattr(self, name, saved.get(name, getattr(self, name)))

    def overlook(self, name: str, more: Overlooked) -> list[Notice]:
        """Count what was overlooked in an input; gives what is to be told of it."""
        return notices(name, add(self.overlooked.setdefault(name, {}), more))

    def end(self, name: str, in_order: bool = True) -> list[Notice]:
        """Take note that nothing more is read of an input; gives what is to be told of it."""
        counts, total = self.inputs[name], self.overlooked.setdefault(name, {})
        tuples = counts.tuples + counts.rejected
        return notices(name, end(total, self.elements[name], tuples, counts.punctuations, in_order))

    def finish(self) -> list[Notice]:
        """Stop the clock; gives what is to be told of inputs that were begun and whose end was not reached."""
        self.seconds = time.time() - self.started
        begun = [name for name in self.elements if self.inputs[name].bytes]
        return [notice for name in begun for notice in self.end(name, in_order=False)]

    def as_dict(self) -> dict[str, Any]:
        """What ``--stats`` writes."""
        return {
            "engine": self.engine,
            "seconds": round(self.seconds, 3),
            "first_result_seconds": self.first_result_seconds and round(self.first_result_seconds, 3),
            "slices": self.slices,
            "inputs": {name: asdict(i) | self._shown(name) for name, i in self.inputs.items()},
            "output": _told(self.outputs.get("", OutputStats())),
            **({"sinks": named} if (named := self._named()) else {}),
            "operators": [o.as_dict() | self._of_sinks(o.id) for o in self.operators],
            "forgotten": self.all_forgotten,
            "idle": [{**asdict(i), "seconds": round(i.seconds, 1)} for i in self.idle],
        }

    def _named(self) -> dict[str, dict[str, int | bool]]:
        """What was written of each sink."""
        return {name: _told(o) for name, o in self.outputs.items() if name}

    def _of_sinks(self, number: int) -> dict[str, list[str]]:
        """The sinks that an operator serves, if any has a name."""
        return {"sinks": list(self.sinks[number])} if number in self.sinks else {}

    def _shown(self, name: str) -> dict[str, Overlooked]:
        """What was overlooked of an input, if anything."""
        kinds = self.overlooked.get(name, {}).items()
        shown = {kind: names for kind, names in kinds if kind not in COUNTS and names}
        return {"overlooked": shown} if shown else {}


def _told(output: OutputStats) -> dict[str, int | bool]:
    """The counts of an output that are told for each; what was forgotten is told for all together."""
    return {name: count for name, count in asdict(output).items() if name != "forgotten"}
