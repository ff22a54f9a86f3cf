"""What the engine is measured against: programs a user would write instead, each run by its name.

    python benchmarks/rivals.py NAME OUT ARGUMENT...

OUT gets JSON: the seconds from when everything was imported, and the answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lxml import etree

PUNCT = "{http://www.cse.ogi.edu/dot/niagara/punct}"
CHUNK = 2**16
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Said = dict[str, Any]


def elements(path: str, *tags: str) -> Iterator[list[etree._Element]]:
    """The elements of some names in a file, some at a time: the fastest way with lxml that looks like lxml."""
    parser = etree.XMLPullParser(events=("end",), tag=tags)
    with open(path, "rb") as file:
        while data := file.read(CHUNK):
            parser.feed(data)
            yield [element for _, element in parser.read_events()]


def lxml_warehouse(*files: str) -> Said:
    """The warehouse query as a loop. MAX needs no duplicate elimination, and whoever writes a loop knows."""
    began = time.perf_counter()
    best: dict[int, int] = {}
    for path in files:
        for found in elements(path, "tempdata"):
            for element in found:
                hour, heat = int(element[1].text), int(element[3].text)
                if hour not in best or heat > best[hour]:
                    best[hour] = heat
                element.clear()
    return {"seconds": time.perf_counter() - began, "answer": [(heat, hour) for hour, heat in best.items()]}


def _bytewax(build: Callable[[Any, Any, Callable[..., Any]], Any]) -> tuple[float, list[Any]]:
    """Run a dataflow that ``build`` makes, given the operators, a dataflow, and a way to read a file."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
    from bytewax.testing import TestingSink, run_main

    class Part(StatefulSourcePartition[Any, None]):
        def __init__(self, path: str, tags: tuple[str, ...], read: Callable[[etree._Element], Any]) -> None:
            self.batches, self.read = elements(path, *tags), read

        def next_batch(self) -> list[Any]:
            batch = []
            for element in next(self.batches):
                batch.append(self.read(element))
                element.clear()
            return batch

        def snapshot(self) -> None:
            return None

    class Source(FixedPartitionedSource[Any, None]):
        def __init__(self, *arguments: Any) -> None:
            self.arguments = arguments

        def list_parts(self) -> list[str]:
            return ["all"]

        def build_part(self, step_id: str, for_part: str, resume_state: None) -> Part:
            return Part(*self.arguments)

    flow, found = Dataflow("benchmark"), list[Any]()
    op.output("out", build(op, flow, Source), TestingSink(found))
    began = time.perf_counter()
    run_main(flow)
    return time.perf_counter() - began, found


def bytewax_warehouse(*files: str) -> Said:
    """The warehouse query: each hour's result when both files have closed the hour."""

    def read(element: etree._Element) -> tuple[str, int | None]:
        if element.tag == "tempdata":
            return element[1].text or "", int(element[3].text or "")
        # A punctuation that closes some minutes only is none for this query.
        return element[1].text or "", None if element[2].text == "*" else -1

    def step(state: list[int] | None, heat: int | None) -> tuple[list[int] | None, int | None]:
        if state is None:
            state = [-(2**63), 0]
        if heat is None:
            state[1] += 1
            return (None, state[0]) if state[1] == len(files) else (state, None)
        if heat > state[0]:
            state[0] = heat
        return state, None

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        tags = ("tempdata", f"{PUNCT}tempdata")
        inputs = [op.input(f"in{i}", flow, source(path, tags, read)) for i, path in enumerate(files)]
        hours = op.stateful_map("max", op.merge("union", *inputs), step)
        return op.filter("closed", hours, lambda pair: pair[1] is not None)

    seconds, found = _bytewax(build)
    return {"seconds": seconds, "answer": [(heat, int(hour)) for hour, heat in found]}


def bytewax_auction(items: str, bids: str) -> Said:
    """The auction: join and sum in one step, each item's result when its bids are closed."""

    def item(element: etree._Element) -> tuple[str, object]:
        return element[0].text or "", (int(element[2].text or ""),)

    def bid(element: etree._Element) -> tuple[str, object]:
        return element[0].text or "", int(element[1].text or "") if element.tag == "bid" else "closed"

    def step(state: list[Any] | None, said: object) -> tuple[list[Any] | None, int | None]:
        if state is None:
            state = [
                False,
                False,
                0,
                0,
            ]  # the item came, its bids are closed, their number, price and increases
        if isinstance(said, tuple):
            state[0] = True
            state[3] += said[0]
        elif said == "closed":
            state[1] = True
        else:
            state[2] += 1
            state[3] += said
        if state[0] and state[1]:
            return None, state[3] if state[2] else None
        return state, None

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        inputs = [
            op.input("items", flow, source(items, ("item",), item)),
            op.input("bids", flow, source(bids, ("bid", f"{PUNCT}bid"), bid)),
        ]
        sums = op.stateful_map("sum", op.merge("join", *inputs), step)
        return op.filter("closed", sums, lambda pair: pair[1] is not None)

    seconds, found = _bytewax(build)
    return {"seconds": seconds, "answer": [(int(number), total) for number, total in found]}


def _clock() -> Any:
    """bytewax's event time in milliseconds, of tuples that begin with it. They come in order: nothing is late."""
    from bytewax.operators.windowing import EventClock

    return EventClock(
        lambda found: EPOCH + timedelta(milliseconds=found[0]),
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: EPOCH,
        to_system_utc=lambda _: None,
    )


def _never(*states: Any) -> Any:
    """How two windows are merged, which none of these ever are."""
    raise AssertionError


def bytewax_tumble(path: str, size: str) -> Said:
    """The number of tuples of each key and window."""
    from bytewax.operators import windowing as win

    length = int(size)

    def read(element: etree._Element) -> tuple[int, str]:
        return int(element[2].text or ""), element[0].text or ""

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        tuples = op.input("in", flow, source(path, ("t",), read))
        windower = win.TumblingWindower(timedelta(milliseconds=length), EPOCH)
        return win.count_window("count", tuples, _clock(), windower, lambda pair: pair[1]).down

    seconds, found = _bytewax(build)
    return {"seconds": seconds, "answer": [(int(key), number * length, n) for key, (number, n) in found]}


def _bid(auction: etree._Element) -> tuple[int, int, int, int] | None:
    """The time, auction, bidder and price of a bid in NEXMark's stream."""
    bidder = auction[0]
    if bidder.tag != "bidder":
        return None
    time, person, price = bidder
    return (
        int(time.text or ""),
        int(auction.get("id", "")),
        int(person.get("person", "")),
        int(price.text or ""),
    )


def _bids(op: Any, flow: Any, source: Callable[..., Any], path: str) -> Any:
    """NEXMark's bids."""
    return op.filter_map("bids", op.input("in", flow, source(path, ("open_auction",), _bid)), lambda bid: bid)


def _newcomer(element: etree._Element) -> tuple[int, str, Any] | None:
    """A person of NEXMark's stream, or an auction's seller: when it came, who it is, and what is said."""
    if element.tag == "person":
        name, _, address, registered = element
        said: Any = (name.text, address[1].text, address[2].text)
        return int(registered.text or ""), element.get("id", ""), said
    if element.get("new") is None:
        return None
    said = int(element.get("id", "")), int(element[2].text or "")
    return int(element[5][0].text or ""), element[0].get("person", ""), said


def _newcomers(op: Any, flow: Any, source: Callable[..., Any], path: str) -> Any:
    """NEXMark's people and auctions, by person and seller."""
    found = op.input("in", flow, source(path, ("person", "open_auction"), _newcomer))
    return op.key_on("by", op.filter_map("new", found, lambda new: new), lambda new: new[1])


def _seconds(seconds: int) -> timedelta:
    return timedelta(seconds=seconds)


def bytewax_q0(path: str) -> Said:
    """Pass through."""

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        return op.map("columns", _bids(op, flow, source, path), lambda b: (b[1], b[2], b[3], b[0]))

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q1(path: str) -> Said:
    """Currency."""

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        return op.map("euros", _bids(op, flow, source, path), lambda b: (b[1], b[2], b[3] * 908 / 1000, b[0]))

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q2(path: str) -> Said:
    """Selection."""

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        some = op.filter("some", _bids(op, flow, source, path), lambda b: b[1] % 23 == 0)
        return op.map("columns", some, lambda b: (b[1], b[3]))

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q3(path: str) -> Said:
    """Local items: each person and the auctions before it wait for each other, and are never forgotten."""

    def step(state: list[Any] | None, new: tuple[int, str, Any]) -> tuple[list[Any], list[Any]]:
        person, auctions = state or [None, []]
        said = new[2]
        if len(said) == 3:
            return [said, []], [(*said, auction) for auction in auctions if said[2] in ("OR", "ID", "CA")]
        if said[1] != 10:
            return [person, auctions], []
        if person is None:
            return [None, [*auctions, said[0]]], []
        return [person, []], [(*person, said[0])] if person[2] in ("OR", "ID", "CA") else []

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        joined = op.stateful_flat_map("join", _newcomers(op, flow, source, path), step)
        return op.map("columns", joined, lambda pair: pair[1])

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q5(path: str) -> Said:
    """Hot items: a window counts the bids of all auctions, and gives those that have most."""
    from bytewax.operators import windowing as win

    def count(counts: dict[int, int], bid: tuple[int, int, int, int]) -> dict[int, int]:
        counts[bid[1]] = counts.get(bid[1], 0) + 1
        return counts

    def hottest(found: tuple[str, tuple[int, dict[int, int]]]) -> list[tuple[int, int, int, int]]:
        number, counts = found[1]
        most = max(counts.values())
        start = number * 2000
        return [(auction, most, start, start + 10_000) for auction, n in counts.items() if n == most]

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        bids = op.key_on("all", _bids(op, flow, source, path), lambda _: "all")
        windows = win.SlidingWindower(_seconds(10), _seconds(2), EPOCH)
        counts = win.fold_window("count", bids, _clock(), windows, dict, count, _never, ordered=False)
        return op.flat_map("hottest", counts.down, hottest)

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q7(path: str) -> Said:
    """The highest bid of every ten seconds, and those that are as high."""
    from bytewax.operators import windowing as win

    def higher(best: list[Any], bid: tuple[int, int, int, int]) -> list[Any]:
        if not best or bid[3] > best[0][3]:
            return [bid]
        if bid[3] == best[0][3]:
            best.append(bid)
        return best

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        bids = op.key_on("all", _bids(op, flow, source, path), lambda _: "all")
        windows = win.TumblingWindower(_seconds(10), EPOCH)
        best = win.fold_window("best", bids, _clock(), windows, list, higher, _never, ordered=False)
        return op.flat_map(
            "columns", best.down, lambda found: [(b[1], b[2], b[3], b[0]) for b in found[1][1]]
        )

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def bytewax_q8(path: str) -> Said:
    """New users: who came, and began to sell, in one window."""
    from bytewax.operators import windowing as win

    def meet(state: list[Any], new: tuple[int, str, Any]) -> list[Any]:
        state[len(new[2]) == 2] = new[2][0]
        return state

    def named(found: tuple[str, tuple[int, list[Any]]]) -> tuple[int, str, int] | None:
        person, (number, (name, auction)) = found
        return None if name is None or auction is None else (int(person), name, number * 10_000)

    def build(op: Any, flow: Any, source: Callable[..., Any]) -> Any:
        newcomers = _newcomers(op, flow, source, path)
        windows = win.TumblingWindower(_seconds(10), EPOCH)
        met = win.fold_window(
            "meet", newcomers, _clock(), windows, lambda: [None, None], meet, _never, ordered=False
        )
        return op.filter_map("columns", met.down, named)

    return dict(zip(("seconds", "answer"), _bytewax(build), strict=True))


def spark_warehouse(distinct: str, master: str, *folders: str) -> Said:
    """The warehouse query on Spark's own streaming: its xml source, a watermark, and native operators."""
    import tempfile

    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    with tempfile.TemporaryDirectory() as scratch:
        builder = SparkSession.builder.master(master).config("spark.local.dir", scratch)
        builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.log.level", "OFF")
        spark = builder.getOrCreate()
        began = time.perf_counter()
        streams = []
        for folder in folders:
            reader = (
                spark.readStream.format("xml").option("rowTag", "tempdata").option("maxFilesPerTrigger", 1)
            )
            streams.append(reader.schema("sid STRING, hour INT, min INT, currtmp INT").load(folder))
        union = streams[0]
        for stream in streams[1:]:
            union = union.unionByName(stream)
        hours = union.select("currtmp", f.timestamp_seconds(f.col("hour") * 3600).alias("at"))
        hours = hours.withWatermark("at", "1 hour")
        if distinct == "distinct":
            hours = hours.dropDuplicates(["currtmp", "at"])
        result = hours.groupBy("at").agg(f.max("currtmp").alias("maxtemp"))
        found: dict[int, int] = {}

        def keep(batch: Any, _: int) -> None:
            found.update((int(r.at.timestamp()) // 3600, r.maxtemp) for r in batch.collect())

        writer = result.writeStream.outputMode("append").foreachBatch(keep)
        query = (
            writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True).start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - began
        spark.stop()
    return {"seconds": seconds, "hours": len(found)}  # the last hours stay below the watermark


PROGRAMS = {
    "lxml-warehouse": lxml_warehouse,
    "bytewax-warehouse": bytewax_warehouse,
    "bytewax-auction": bytewax_auction,
    "bytewax-tumble": bytewax_tumble,
    "bytewax-q0": bytewax_q0,
    "bytewax-q1": bytewax_q1,
    "bytewax-q2": bytewax_q2,
    "bytewax-q3": bytewax_q3,
    "bytewax-q5": bytewax_q5,
    "bytewax-q7": bytewax_q7,
    "bytewax-q8": bytewax_q8,
    "spark-warehouse": spark_warehouse,
}


if __name__ == "__main__":
    name, out, *arguments = sys.argv[1:]
    Path(out).write_text(json.dumps(PROGRAMS[name](*arguments)))
