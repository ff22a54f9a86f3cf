"""The state of shards: what is read and written of it, and what a process may go on using, without Spark."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from pyspark import cloudpickle

from tests.spark.support import Warehouse
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_stages import Cluster
from xmlpunct.engine.spark import processor, state_store
from xmlpunct.engine.spark.job import Job, StageRow
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.state_store import HEAD, Cache, ShardState, StateKey
from xmlpunct.engine.spark.worker_stubs import LightProcessor, LightReader
from xmlpunct.engine.sql import plan


class Store:
    """What Spark keeps of one shard."""

    def __init__(self, held: dict[StateKey, tuple[bytes]] | None = None) -> None:
        self.held = dict(held or {})
        self.calls = Counter[str]()

    def getValue(self, key: StateKey) -> tuple[bytes] | None:  # noqa: N802
        self.calls["read"] += 1
        return self.held.get(key)

    def updateValue(self, key: StateKey, value: tuple[bytes]) -> None:  # noqa: N802
        self.calls["written"] += 1
        self.held[key] = value

    def removeKey(self, key: StateKey) -> None:  # noqa: N802
        self.calls["removed"] += 1
        del self.held[key]

    def counted(self) -> tuple[int, int, int]:
        """How often a value was read, written, removed since this was asked last."""
        calls, self.calls = self.calls, Counter()
        return calls["read"], calls["written"], calls["removed"]


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)})


def contents(state: ShardState) -> dict[str, list[int]]:
    return {name: frame["n"].to_list() for name, frame in state.frames.items()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a hundred numbers are large, and take several pieces."""
    monkeypatch.setattr(state_store, "SMALL_BYTES", 800)
    monkeypatch.setattr(state_store, "PIECE_BYTES", 500)


@pytest.mark.usefixtures("small")
def test_only_what_changed_is_written_and_read() -> None:
    store, mine, other = Store(), ShardState(), ShardState()
    assert mine.read(store)
    assert not mine
    frames = {"a": numbers(0, 100), "b": numbers(100, 200), "s": numbers(7, 1), "t": numbers(8, 1)}
    mine.write(store, frames)
    _, first, _ = store.counted()
    assert first == len(store.held) > 6
    assert not other.read(store)
    assert contents(other) == contents(mine) == {name: f["n"].to_list() for name, f in frames.items()}
    assert store.counted() == (first, 0, 0)

    mine.write(store, frames | {"b": numbers(100, 200), "s": numbers(7, 1)})
    assert store.counted() == (0, 0, 0), "equal frames are the same"
    assert mine.read(store)
    assert store.counted() == (1, 0, 0)

    mine.write(store, frames | {"s": numbers(9, 1)})
    assert store.counted() == (0, 1, 0), "the small ones lie together"
    assert not other.read(store)
    assert store.counted() == (1, 0, 0)
    assert contents(other)["s"] == [9]

    frames |= {"b": numbers(0, 100), "c": numbers(5, 100)}
    del frames["t"]
    mine.write(store, frames)
    a, b = (sum(name == wanted for name, _ in store.held) for wanted in "ab")
    assert store.counted() == (0, 2 * b + 1, first - 1 - a - b), "what is shorter now has fewer pieces"
    assert not other.read(store)
    assert store.counted() == (2 * b + 1, 0, 0), "what has not changed is not read"
    assert contents(other) == contents(mine) == {name: f["n"].to_list() for name, f in frames.items()}

    mine.write(store, {"a": numbers(0, 1)})
    assert list(store.held) == [HEAD]
    assert not other.read(store)
    assert contents(other) == {"a": [0]}
    assert not mine.read(Store()), "whose state is gone begins anew"
    assert not mine
    assert mine.frames == {}


@pytest.mark.usefixtures("small")
def test_the_cache_keeps_what_was_put_in_last() -> None:
    cache = Cache[str](limit=3333)
    for name in "abc":
        state, made = cache.take(name)
        assert made is None
        state.write(Store(), {"x": numbers(0, 150)})
        assert 1250 < state.size < 1666
        cache.put(name, state, name)
    assert len(cache) == 2
    state, made = cache.take("b")
    assert (bool(state), made) == (True, "b")
    assert len(cache) == 1, "what is worked on is not in it"
    cache.put("b", state, "b")
    fresh, made = cache.take("a")
    assert (bool(fresh), made) == (False, None)
    fresh.write(Store(), {"x": numbers(0, 150)})
    cache.put("a", fresh, "a")
    assert [cache.take(name)[1] for name in "abc"] == ["a", "b", None]
    fresh.write(Store(), {"x": numbers(0, 1000)})
    cache.put("a", fresh, "a")
    assert len(cache) == 0, "what is too large is not kept at all"


class Unreliable:
    """The stages of a job on processes that lose tasks, and run some that come to nothing."""

    def __init__(self, job: Job, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job, self.rng, self._patch = job, random.Random(seed), monkeypatch
        self.processes = [Cache[processor.Shard](limit) for limit in (2**20, 2**20, 3000)]
        self.stores: dict[tuple[int, int], Store] = {}
        self.seen = Counter[str]()

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        """What reaches the sink of a micro-batch."""
        for stage in range(self.job.sink):
            here, rows = [r for r in rows if r.stage == stage], [r for r in rows if r.stage != stage]
            for number, key in enumerate(shard_keys(self.job.shards)):
                if mine := [r for r in here if r.shard == key]:
                    rows += self._task(stage, number, key, mine)
        return rows

    def _task(self, stage: int, number: int, key: int, rows: list[StageRow]) -> list[StageRow]:
        store = self.stores.setdefault((stage, number), Store())
        while True:
            self._patch.setattr(processor, "KEPT", self.rng.choice(self.processes))
            attempt = Store(store.held)
            task = LightProcessor(self.job.to_text(), [stage])
            task.init(SimpleNamespace(getMapState=lambda *_, values=attempt: values))
            self.seen["tasks"] += 1
            output = task.handleInputRows((key,), iter(rows), None)
            if self.rng.random() < 0.2:
                self.seen["lost"] += 1
                next(output)
                output.close()
                continue
            found = [StageRow(*row) for row in output]
            if self.rng.random() < 0.2:
                self.seen["uncommitted"] += 1
                continue
            store.held = attempt.held
            return found


@pytest.mark.parametrize(("name", "shards"), [("hottest", 3), ("hours_by_heat", 2), ("joined", 1)])
def test_a_process_goes_on_only_with_what_the_store_holds(
    tmp_path: Path, warehouse: Warehouse, name: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does what, and whatever comes to nothing: the same rows as from shards restored each time."""
    monkeypatch.setattr(state_store, "SMALL_BYTES", 700)
    restored = Counter[str]()
    restore = processor.Shard.restore

    def counting(shard: processor.Shard, frames: dict[str, pl.DataFrame]) -> None:
        restored["times"] += 1
        restore(shard, frames)

    query = getattr(warehouse, name)() if name != "joined" else joined(warehouse)
    job = job_of(query, tmp_path, shards, 900)
    batches, plain = micro_batches(job), Cluster(job)
    expected = [plain.push(rows) for rows in batches]
    monkeypatch.setattr(processor.Shard, "restore", counting)
    cluster = Unreliable(job, shards, monkeypatch)
    for rows, wanted in zip(batches, expected, strict=True):
        assert sorted(cluster.push(rows)) == sorted(wanted)
    seen = cluster.seen
    assert min(seen["lost"], seen["uncommitted"]) > 0
    assert 3 < restored["times"] < seen["tasks"] - 3, "some go on, some do not"


def joined(warehouse: Warehouse) -> object:
    """Two streams joined by the hour, outer so that much is retained."""
    return plan(
        "".join(
            f"CREATE STREAM {name} (sid STRING, hour INT NOT NULL, currtmp INT) "
            f"WITH (source = '{warehouse.folder}/sensor{n}.xml', element = 'tempdata');"
            for n, name in ((1, "a"), (2, "b"))
        )
        + "SELECT a.sid, a.hour, b.currtmp FROM a LEFT JOIN b ON a.hour = b.hour AND a.currtmp = b.currtmp"
    )


ASKED = """
import sys
from types import SimpleNamespace
from pyspark import cloudpickle
reader, processor = cloudpickle.loads(sys.stdin.buffer.read())
processor.init(SimpleNamespace(getMapState=lambda name, key, value: print(name, key, value, sep="; ")))
print([name for name in sys.modules if name.startswith("xmlpunct")])
"""


def test_a_process_that_spark_asks_for_the_names_of_states_alone_does_not_load_the_engine() -> None:
    """Nor does one that only passes the source on. Neither has to have xmlpunct."""
    given = cloudpickle.dumps((LightReader("a job"), LightProcessor("a job", [3, 5])))
    found = subprocess.run([sys.executable, "-c", ASKED], input=given, capture_output=True, check=True)
    assert found.stdout.decode().splitlines() == [
        "fragment3; name STRING, piece INT; data BINARY",
        "fragment5; name STRING, piece INT; data BINARY",
        "[]",
    ]
