"""A moment: a snapshot of a run's plan, operator counters, inputs, outputs and waits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xmlpunct.engine.plan import Key, Node, Punctuate, Query, Scan, Unary
from xmlpunct.engine.run.rates import Rates
from xmlpunct.engine.run.stats import Idle, OperatorStats, OutputStats, RunStats
from xmlpunct.engine.view.trend import HistoryPoint, Trend

SELECT = "SELECT"
"""The displayed name of a SELECT whose result goes to no sink."""


@dataclass(frozen=True)
class OperatorBox:
    """An operator of the plan with its counters.

    ``what`` has the operator's parameters. ``inputs`` has the numbers of its input operators. ``waits`` has, for each
    input, the number of retained tuples that wait for it. ``stream`` is the declared stream of a scan. ``part`` is the
    part of the operator's state with waiting tuples. ``rate`` is its output in tuples per second. ``punctuates`` is the
    input for which the operator makes punctuations (PUNCTUATE ORDER BY, PRIMARY KEY).
    """

    id: int
    name: str
    what: str
    inputs: tuple[int, ...] = ()
    stream: str | None = None
    part: str = ""
    punctuates: str | None = None
    tuples_in: int = 0
    tuples_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    state_rows: int = 0
    held_punctuations: int = 0
    waits: tuple[int, ...] = ()
    rate: float = 0.0
    sinks: tuple[str, ...] = ()
    """The sinks that receive its results, if the query has sinks; `SELECT` for a result without a sink."""


@dataclass(frozen=True)
class OutputMoment:
    """Totals and rate of one result of the query. ``root`` is the number of the operator that emits it."""

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
    """Totals and rate of one input.

    ``behind`` is the number of available bytes that are not read yet; None if it is unknown. ``punctuation_age`` is the
    time since its last punctuation, received or made, in seconds; None before the first one.
    ``punctuations_made`` is the number of punctuations that the run made for it.
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
    punctuations_made: int = 0


@dataclass(frozen=True)
class Moment:
    """A snapshot of a run. ``state`` is starting, running, ended, stopped or failed; ``seconds`` is its age."""

    state: str
    engine: str
    seconds: float
    boxes: tuple[OperatorBox, ...]
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
    history: tuple[HistoryPoint, ...] = ()

    @property
    def state_rows(self) -> int:
        """The number of tuples that all operators retain."""
        return sum(box.state_rows for box in self.boxes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Drawn:
    """The operators of a query, inputs before their consumers, and its results, with all counters zero."""

    boxes: tuple[OperatorBox, ...]
    outputs: tuple[OutputMoment, ...]


def plan_of(query: Query) -> Drawn:
    """The `Drawn` form of a query."""
    boxes, sinks = [], query.sinks
    for node in query.walk():
        stream = node.stream.declared if isinstance(node, Scan) else None
        input_numbers = tuple(child.number for child in node.inputs)
        serves = tuple(name or SELECT for name in sinks.get(node.number, ()))
        boxes.append(
            OperatorBox(
                node.number,
                node.name,
                _scan_text(node) if isinstance(node, Scan) else node.parameters,
                input_numbers,
                stream,
                node.waiting,
                _punctuated_input(node),
                sinks=serves,
            )
        )
    outputs = tuple(OutputMoment(answer.name or SELECT, answer.root.number) for answer in query.answers)
    return Drawn(tuple(boxes), outputs)


def _scan_text(scan: Scan) -> str:
    """The stream, its alias, and the columns read."""
    aliases = {name.rpartition(".")[0] for name in scan.names} - {"", scan.stream.declared}
    alias = f" AS {aliases.pop()}" if len(aliases) == 1 else ""
    return f"{scan.stream.name}{alias}: {', '.join(scan.columns)}"


def _punctuated_input(node: Node) -> str | None:
    """The input for which a node makes punctuations; None if it makes none, or for several senders at once."""
    if not isinstance(node, Punctuate | Key):
        return None
    below = node.input
    while isinstance(below, Unary):
        below = below.input
    return below.stream.name if isinstance(below, Scan) else None


def moment_of(plan: Drawn, stats: RunStats, state: str, trend: Trend) -> Moment:
    """The current moment of a run. Must be called in the run's own thread."""
    timestamp, gauges, rates = time.time(), stats.gauges, trend.rates
    rates.take(timestamp, _counts(stats))
    inputs = stats.inputs_so_far
    tuples_read = sum(i.tuples for i in inputs.values())
    age = round(timestamp - stats.started, 3)
    trend.add_point(HistoryPoint(age, tuples_read, stats.tuples_out, stats.state_rows))
    waits = gauges.waits() if gauges is not None else {}
    behind = gauges.behind() if gauges is not None else {}
    done = gauges.done() if gauges is not None else {}
    counters = {o.id: o for o in stats.operators}
    idle = OperatorStats()
    made = _made(plan, counters)
    times = dict(trend.made_times(timestamp, made))
    for name, received in stats.spoke.items():
        times[name] = max(received, times.get(name, received))
    return Moment(
        state,
        stats.engine,
        age,
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
                round(timestamp - times[name], 3) if name in times else None,
                done.get(name, False),
                made.get(name, 0),
            )
            for name, i in inputs.items()
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
        tuple(trend.history),
    )


def _made(plan: Drawn, counters: Mapping[int, OperatorStats]) -> dict[str, int]:
    """For each input, the number of punctuations that the run made for it. Two scans of an input make the same ones."""
    made: dict[str, int] = {}
    for box in plan.boxes:
        if box.punctuates is not None and (counted := counters.get(box.id)) is not None:
            added = counted.punctuations_out - counted.punctuations_in
            made[box.punctuates] = max(added, made.get(box.punctuates, 0))
    return made


def _output(plain: OutputMoment, stats: RunStats, rates: Rates) -> OutputMoment:
    name = "" if plain.name == SELECT else plain.name
    counted = asdict(stats.outputs.get(name, OutputStats()))
    del counted["forgotten"]  # shown only as a total over all outputs
    return replace(plain, **counted, rate=rates["sink", name])


def _counts(stats: RunStats) -> dict[object, int]:
    counts: dict[object, int] = {"output": stats.tuples_out}
    counts.update((("input", name), i.tuples) for name, i in stats.inputs_so_far.items())
    counts.update((("sink", name), o.tuples) for name, o in stats.outputs.items())
    counts.update((o.id, o.tuples_out) for o in stats.operators)
    return counts


def _waits(box: OperatorBox, stats: RunStats, waits: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """The number of retained tuples that wait for each input. With one input, all unreleased tuples wait for it."""
    if box.part and len(box.inputs) == 1:
        return (stats.holding.kept(box.id, box.part).count,)
    return tuple(waits.get(box.id, ()))


def _box(plain: OperatorBox, counted: OperatorStats, waits: tuple[int, ...], rates: Rates) -> OperatorBox:
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
    """A sentence for each silent input that delays results, sorted by the number of waiting tuples."""
    for idle in sorted(moment.idle, key=lambda i: -i.holds_up):
        yield f"{idle.holds_up:,} tuples wait for {idle.input}, silent for {idle.seconds:.0f} s"
