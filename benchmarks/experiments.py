"""Queries that are watched slice by slice, and the streams that the paper's questions are asked of.

The streams are those of the paper's two examples, and what they promise is an argument: how often, and of which
attribute. Everything is made from a seed, and a run takes slices of a fixed size, so rows and bytes repeat exactly.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.engine.run.local.local_run import run
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.firehose.replay_server import Replay

POINTS = 60
HOUR = 60
"""Minutes of an hour."""

Line = tuple[str, str]
Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class Moment:
    """What had come, what had come out and what was retained by operator, so many seconds after the start."""

    seconds: float
    tuples: int
    results: int
    rows: Mapping[str, int]


@dataclass(frozen=True)
class Watched:
    """A run: its moments, one per slice, what it gave, and what it did in numbers."""

    moments: list[Moment]
    answer: list[tuple[object, ...]]
    stats: RunStats

    def peak(self, *operators: str) -> int:
        """The most tuples that these operators retained between two slices (all operators, if none is named)."""
        return max(rows(moment, operators) for moment in self.moments)

    def state(self, *operators: str, live: bool = False) -> Curve:
        """What these operators retained over the tuples that had come, or over the seconds of a ``live`` run."""
        return thin([(m.seconds if live else m.tuples, rows(m, operators)) for m in self.moments])

    def results(self, live: bool = False) -> Curve:
        """The results that had come out over the tuples that had come, or over the seconds of a ``live`` run."""
        return thin([(m.seconds if live else m.tuples, m.results) for m in self.moments])

    @property
    def half_out(self) -> float:
        """The share of the input that had come when half of the results were out: 1 if all wait for the end."""
        last = self.moments[-1]
        half = next(m for m in self.moments if 2 * m.results >= last.results)
        return round(half.tuples / last.tuples, 3)

    @property
    def held(self) -> int:
        """The most punctuations that were held."""
        return sum(o.held_punctuations_peak for o in self.stats.operators)


def rows(moment: Moment, operators: Collection[str]) -> int:
    return sum(count for name, count in moment.rows.items() if not operators or name in operators)


def thin(points: Curve) -> Curve:
    """Few enough points to read: the highest of each stretch, and the last."""
    step = max(1, len(points) // POINTS)
    peaks = [max(points[i : i + step], key=lambda point: point[1]) for i in range(0, len(points), step)]
    return list(dict.fromkeys([*peaks, points[-1]]))


def watch(query: str, sources: Mapping[str, Path | str], slice_bytes: int | None = None) -> Watched:
    """Run a query in this process on the local engine."""
    moments: list[Moment] = []
    began = time.monotonic()

    def look(stats: RunStats) -> None:
        state: dict[str, int] = {}
        for o in stats.operators:
            state[o.operator] = state.get(o.operator, 0) + o.state_rows
        tuples = sum(given.tuples for given in stats.inputs.values())
        moments.append(Moment(time.monotonic() - began, tuples, stats.tuples_out, state))

    planned = plan(query, {name: str(source) for name, source in sources.items()})
    stats = RunStats("local")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out.jsonl")
        run(planned, RunOptions(output=str(out), format="jsonl", slice_bytes=slice_bytes), stats, look)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    look(stats)
    answer = sorted(tuple(line.values()) for line in lines if "$punct" not in line)
    return Watched(moments, answer, stats)


def watch_live(query: str, sources: Mapping[str, Path], rates: Mapping[str, float]) -> Watched:
    """Run a query over live senders: each sends its file over a socket, so many tuples a second."""
    with ExitStack() as stack:
        senders = {
            name: stack.enter_context(
                Replay(open_source(path), SocketAddress("127.0.0.1", 0, True), rates[name])
            )
            for name, path in sources.items()
        }
        threads = [threading.Thread(target=sender.run, daemon=True) for sender in senders.values()]
        for thread in threads:
            thread.start()
        ports = {name: f"tcp://127.0.0.1:{sender.address.port}" for name, sender in senders.items()}
        watched = watch(query, ports)
        for thread in threads:
            thread.join()
    return watched


def promised(sources: Iterable[Path]) -> dict[str, float]:
    """How many bytes of the sources are punctuations, and which share of all that is."""
    lines = [line for path in sources for line in path.read_bytes().splitlines(keepends=True)]
    said = sum(len(line) for line in lines if line.startswith(b"<punct:"))
    return {"punctuation_bytes": said, "share_of_bytes": round(said / sum(map(len, lines)), 4)}


# The warehouse

Said = Callable[[int, int], str]
"""What a sensor promises at the end of a minute, counted from the beginning."""


def report(sensor: int, minute: int, heat: int) -> str:
    hour, rest = divmod(minute, HOUR)
    inside = f"<sid>S{sensor:02}</sid><hour>{hour}</hour><min>{rest}</min><currtmp>{heat}</currtmp>"
    return f"<tempdata>{inside}</tempdata>\n"


def promise(**patterns: object) -> str:
    """A punctuation of temperature reports; what is not named is a wildcard."""
    names = ("sid", "hour", "min", "currtmp")
    inside = "".join(f"<{name}>{patterns.get(name, '*')}</{name}>" for name in names)
    return f"<punct:tempdata>{inside}</punct:tempdata>\n"


def warehouse(sensors: int, minutes: int, readings: int, said: Said) -> Iterator[Line]:
    """Temperature reports, a file per sensor, so many a minute."""
    for sensor in range(1, sensors + 1):
        random, file = Random(sensor), f"sensor{sensor}.xml"
        heat = random.randint(60, 80)
        for minute in range(minutes):
            for _ in range(readings):
                heat = min(max(heat + random.randint(-2, 2), 20), 95)
                yield file, report(sensor, minute, heat)
            if text := said(sensor, minute):
                yield file, text


def every(minutes: int) -> Said:
    """A punctuation each so many minutes (0: none): a divisor or a multiple of 60."""

    def said(_: int, minute: int) -> str:
        if not minutes or (minute + 1) % minutes:
            return ""
        hour, last = divmod(minute, HOUR)
        if minutes > HOUR:
            return promise(hour=f"[{(minute + 1 - minutes) // HOUR},{hour}]")
        return promise(hour=hour, **({} if minutes == HOUR else {"min": f"[{last + 1 - minutes},{last}]"}))

    return said


def of_sensor(sensor: int, minute: int) -> str:
    """Each hour, about the sensor's own reports alone."""
    return promise(sid=f"S{sensor:02}", hour=minute // HOUR) if minute % HOUR == HOUR - 1 else ""


def of_temperature(_: int, minute: int) -> str:
    """What the sensor cannot measure, once."""
    return promise(currtmp="(95,)") + promise(currtmp="(,20)") if minute == 0 else ""


def gateway(sensors: int, hours: int, readings: int, lag: int) -> Iterator[Line]:
    """The reports of all sensors in one file, as they arrive: the last sensor's so many minutes late."""
    random = Random(sensors)
    for now in range(hours * HOUR + lag):
        for sensor in range(1, sensors + 1):
            minute = now - lag if sensor == sensors else now
            if 0 <= minute < hours * HOUR:
                for _ in range(readings):
                    yield "gateway.xml", report(sensor, minute, random.randint(20, 95))
                if text := of_sensor(sensor, minute):
                    yield "gateway.xml", text


# The auction


def closing(element: str, attribute: str | None, values: list[str]) -> Iterator[Line]:
    """One punctuation of some consecutive values."""
    if attribute and values:
        pattern = values[0] if len(values) == 1 else f"[{values[0]},{values[-1]}]"
        yield "auction.xml", f"<punct:{element}><{attribute}>{pattern}</{attribute}></punct:{element}>\n"


def auction(
    items: int, bids: int, open_items: int, on_items: str | None, on_bids: str | None, group: int
) -> Iterator[Line]:
    """Items that are over in the order in which they came, ``bids`` for each while it is open.

    ``on_items`` and ``on_bids`` are the attributes that the two streams promise, each for so many items at a time.
    """
    random = Random(items)
    running: deque[int] = deque()
    new: list[str] = []
    over: list[str] = []
    for item in range(items):
        seller = f"P{item:06}"
        text = f"<itemid>{item}</itemid><seller>{seller}</seller><price>{random.randint(1, 500)}</price>"
        yield "auction.xml", f"<item>{text}</item>\n"
        new.append(seller if on_items == "seller" else str(item))
        running.append(item)
        for _ in range(bids):
            at, buyer = running[random.randrange(len(running))], random.randint(1, 9999)
            text = (
                f"<itemid>{at}</itemid><increase>{random.randint(1, 20)}</increase><buyerid>{buyer}</buyerid>"
            )
            yield "auction.xml", f"<bid>{text}</bid>\n"
        last = item == items - 1
        while running and (last or len(running) >= open_items):
            over.append(str(running.popleft()))
            if len(over) == group:
                yield from closing("bid", on_bids, over)
                over.clear()
        if last or len(new) == group:
            yield from closing("item", on_items, new)
            new.clear()
    yield from closing("bid", on_bids, over)


def timed_auction(items: int, bids: int, shortest: int, punctuated: bool) -> Iterator[Line]:
    """An item at each instant, open for ``shortest`` instants at least, and some for much longer, to the end at most.

    If ``punctuated``, its number is closed in both streams, as soon as that is true.
    """
    random = Random(items)
    events: list[tuple[int, int, str, str]] = []
    for item in range(items):
        over = min(item + int(shortest * random.paretovariate(1)), items)
        text = f"<itemid>{item}</itemid><seller>P{item:06}</seller><at>{item}</at>"
        events.append((item, 0, "auction.xml", f"<item>{text}</item>\n"))
        for _ in range(bids):
            at, increase = random.randint(item, over), random.randint(1, 20)
            text = f"<itemid>{item}</itemid><increase>{increase}</increase><at>{at}</at>"
            events.append((at, 1, "auction.xml", f"<bid>{text}</bid>\n"))
        if punctuated:
            events += [(item, 2, *line) for line in closing("item", "itemid", [str(item)])]
            events += [(over, 2, *line) for line in closing("bid", "itemid", [str(item)])]
    for _, _, file, line in sorted(events):
        yield file, line
