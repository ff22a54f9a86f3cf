"""A moment of a run: its plan with what each operator did, its inputs, its output, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xmlpunct.engine.plan import Query, Scan
from xmlpunct.engine.run.rates import Rates
from xmlpunct.engine.run.stats import Idle, OperatorStats, OutputStats, RunStats

SELECT = "SELECT"
"""What the SELECT beside the sinks is called."""


@dataclass(frozen=True)
class Box:
    """An operator of the plan: what it did and retains, the numbers of those it reads from, and what waits for each.

    ``stream`` is the declared stream that it reads, if it is a scan; ``part`` the part of its state with what waits.
    ``rate`` is in tuples a second, of those it gave.
    """

    id: int
    name: str
    what: str
    inputs: tuple[int, ...] = ()
    stream: str | None = None
    part: str = ""
    tuples_in: int = 0
    tuples_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    state_rows: int = 0
    held_punctuations: int = 0
    waits: tuple[int, ...] = ()
    rate: float = 0.0
    sinks: tuple[str, ...] = ()
    """The sinks that it serves, where there are any; `SELECT` is what stands beside them."""


@dataclass(frozen=True)
class OutputMoment:
    """What was written of an answer, in all and a second. ``root`` is the number of the operator that gives it."""

    name: str
    root: int
    tuples: int = 0
    punctuations: int = 0
    bytes: int = 0
    late: int = 0
    complete: bool = False
    rate: float = 0.0


@dataclass(frozen=True)
class InputMoment:
    """An input: what came of it, in all and a second, and what is there still (None: nobody knows).

    ``punctuation_age`` tells, in seconds, how long ago its last punctuation came; None if none has.
    """

    name: str
    tuples: int
    punctuations: int
    rejected: int
    bytes: int
    rate: float
    behind: int | None
    punctuation_age: float | None
    ended: bool


@dataclass(frozen=True)
class Moment:
    """A run at one time. ``state`` is starting, running, ended, stopped or failed; seconds count from its start."""

    state: str
    engine: str
    seconds: float
    boxes: tuple[Box, ...]
    inputs: tuple[InputMoment, ...] = ()
    idle: tuple[Idle, ...] = ()
    slices: int = 0
    tuples_out: int = 0
    punctuations_out: int = 0
    bytes_out: int = 0
    rate_out: float = 0.0
    late: int = 0
    rejected: int = 0
    forgotten: int = 0
    first_result_seconds: float | None = None
    outputs: tuple[OutputMoment, ...] = ()

    @property
    def state_rows(self) -> int:
        """How many tuples all operators retain."""
        return sum(box.state_rows for box in self.boxes)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Drawn:
    """A query before anything happened: its operators, each behind those it reads from, and its answers."""

    boxes: tuple[Box, ...]
    outputs: tuple[OutputMoment, ...]


def plan_of(query: Query) -> Drawn:
    """A query before anything happened."""
    boxes, sinks = [], query.sinks
    for node in query.walk():
        stream = node.stream.declared if isinstance(node, Scan) else None
        below = tuple(other.number for other in node.inputs)
        serves = tuple(name or SELECT for name in sinks.get(node.number, ()))
        boxes.append(Box(node.number, node.name, node.parameters, below, stream, node.waiting, sinks=serves))
    outputs = tuple(OutputMoment(answer.name or SELECT, answer.root.number) for answer in query.answers)
    return Drawn(tuple(boxes), outputs)


def moment_of(plan: Drawn, stats: RunStats, state: str, rates: Rates) -> Moment:
    """A run as it stands. To be asked in the thread that runs it."""
    now, gauges = time.time(), stats.gauges
    rates.take(now, _counts(stats))
    waits = gauges.waits() if gauges is not None else {}
    behind = gauges.behind() if gauges is not None else {}
    done = gauges.done() if gauges is not None else {}
    counters = {o.id: o for o in stats.operators}
    idle = OperatorStats()
    return Moment(
        state,
        stats.engine,
        round(now - stats.started, 3),
        tuple(_box(box, counters.get(box.id, idle), _waits(box, stats, waits), rates) for box in plan.boxes),
        tuple(
            InputMoment(
                name,
                i.tuples,
                i.punctuations,
                i.rejected,
                i.bytes,
                rates["input", name],
                behind.get(name),
                round(now - stats.spoke[name], 3) if name in stats.spoke else None,
                done.get(name, False),
            )
            for name, i in stats.inputs.items()
        ),
        tuple(stats.idle),
        stats.slices,
        stats.tuples_out,
        stats.punctuations_out,
        stats.bytes_out,
        rates["output"],
        stats.late,
        stats.rejected,
        stats.all_forgotten,
        stats.first_result_seconds,
        tuple(_output(plain, stats, rates) for plain in plan.outputs),
    )


def _output(plain: OutputMoment, stats: RunStats, rates: Rates) -> OutputMoment:
    name = "" if plain.name == SELECT else plain.name
    counted = asdict(stats.outputs.get(name, OutputStats()))
    del counted["forgotten"]  # told for all together
    return replace(plain, **counted, rate=rates["sink", name])


def _counts(stats: RunStats) -> dict[object, int]:
    counts: dict[object, int] = {"output": stats.tuples_out}
    counts.update((("input", name), i.tuples) for name, i in stats.inputs.items())
    counts.update((("sink", name), o.tuples) for name, o in stats.outputs.items())
    counts.update((o.id, o.tuples_out) for o in stats.operators)
    return counts


def _waits(box: Box, stats: RunStats, waits: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """How much waits for each input: if there is one only, all that the operator has not released."""
    if box.part and len(box.inputs) == 1:
        return (stats.holding.kept(box.id, box.part).count,)
    return tuple(waits.get(box.id, ()))


def _box(plain: Box, counted: OperatorStats, waits: tuple[int, ...], rates: Rates) -> Box:
    return replace(
        plain,
        tuples_in=counted.tuples_in,
        tuples_out=counted.tuples_out,
        punctuations_in=counted.punctuations_in,
        punctuations_out=counted.punctuations_out,
        state_rows=counted.state_rows,
        held_punctuations=counted.held_punctuations,
        waits=waits,
        rate=rates[plain.id],
    )


def waiting(moment: Moment) -> Iterator[str]:
    """Who waits for whom, in words, the worst first."""
    for idle in sorted(moment.idle, key=lambda i: -i.holds_up):
        yield f"{idle.holds_up:,} tuples wait for {idle.input}, silent for {idle.seconds:.0f} s"
