"""The state of shards without Spark: reads, writes, and the states that a process reuses."""

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
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.engine.spark.state_store import HEAD, Cache, ShardState, StateKey
from xmlpunct.engine.spark.worker_stubs import LightProcessor, LightReader
from xmlpunct.engine.sql import plan


class Store:
    """Spark's state store of one shard."""

    def __init__(self, contents: dict[StateKey, tuple[bytes]] | None = None) -> None:
        self.contents = dict(contents or {})
        self.calls = Counter[str]()

    def getValue(self, key: StateKey) -> tuple[bytes] | None:  # noqa: N802
        self.calls["read"] += 1
        return self.contents.get(key)

    def updateValue(self, key: StateKey, value: tuple[bytes]) -> None:  # noqa: N802
        self.calls["written"] += 1
        self.contents[key] = value

    def removeKey(self, key: StateKey) -> None:  # noqa: N802
        self.calls["removed"] += 1
        del self.contents[key]

    def counted(self) -> tuple[int, int, int]:
        """The numbers of values read, written and removed since the last call."""
        calls, self.calls = self.calls, Counter()
        return calls["read"], calls["written"], calls["removed"]


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)})


def contents(state: ShardState) -> dict[str, list[int]]:
    return {name: frame["n"].to_list() for name, frame in state.frames.items()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of a hundred numbers exceeds the limit of a small one, and takes several pieces."""
    monkeypatch.setattr(state_store, "SMALL_BYTES", 800)
    monkeypatch.setattr(state_store, "PIECE_BYTES", 500)


@pytest.mark.usefixtures("small")
def test_only_changed_frames_are_written_and_read() -> None:
    store, writer_state, reader_state = Store(), ShardState(), ShardState()
    assert writer_state.read(store)
    assert not writer_state
    frames = {"a": numbers(0, 100), "b": numbers(100, 200), "s": numbers(7, 1), "t": numbers(8, 1)}
    writer_state.write(store, frames)
    _, first, _ = store.counted()
    assert first == len(store.contents) > 6
    assert not reader_state.read(store)
    assert (
        contents(reader_state)
        == contents(writer_state)
        == {name: f["n"].to_list() for name, f in frames.items()}
    )
    assert store.counted() == (first, 0, 0)

    writer_state.write(store, frames | {"b": numbers(100, 200), "s": numbers(7, 1)})
    assert store.counted() == (0, 0, 0), "equal frames are not written"
    assert writer_state.read(store)
    assert store.counted() == (1, 0, 0)

    writer_state.write(store, frames | {"s": numbers(9, 1)})
    assert store.counted() == (0, 1, 0), "small frames share one value"
    assert not reader_state.read(store)
    assert store.counted() == (1, 0, 0)
    assert contents(reader_state)["s"] == [9]

    frames |= {"b": numbers(0, 100), "c": numbers(5, 100)}
    del frames["t"]
    writer_state.write(store, frames)
    a, b = (sum(name == frame_name for name, _ in store.contents) for frame_name in "ab")
    assert store.counted() == (0, 2 * b + 1, first - 1 - a - b), "a shorter frame has fewer pieces"
    assert not reader_state.read(store)
    assert store.counted() == (2 * b + 1, 0, 0), "unchanged frames are not read"
    assert (
        contents(reader_state)
        == contents(writer_state)
        == {name: f["n"].to_list() for name, f in frames.items()}
    )

    writer_state.write(store, {"a": numbers(0, 1)})
    assert list(store.contents) == [HEAD]
    assert not reader_state.read(store)
    assert contents(reader_state) == {"a": [0]}
    assert not writer_state.read(Store()), "an empty store means an empty state"
    assert not writer_state
    assert writer_state.frames == {}


@pytest.mark.usefixtures("small")
def test_the_cache_retains_the_latest_states() -> None:
    cache = Cache[str](limit=3333)
    for name in "abc":
        state, cached_value = cache.take(name)
        assert cached_value is None
        state.write(Store(), {"x": numbers(0, 150)})
        assert 1250 < state.size < 1666
        cache.put(name, state, name)
    assert len(cache) == 2
    state, cached_value = cache.take("b")
    assert (bool(state), cached_value) == (True, "b")
    assert len(cache) == 1, "a state in use is not in the cache"
    cache.put("b", state, "b")
    new_state, cached_value = cache.take("a")
    assert (bool(new_state), cached_value) == (False, None)
    new_state.write(Store(), {"x": numbers(0, 150)})
    cache.put("a", new_state, "a")
    assert [cache.take(name)[1] for name in "abc"] == ["a", "b", None]
    new_state.write(Store(), {"x": numbers(0, 1000)})
    cache.put("a", new_state, "a")
    assert len(cache) == 0, "a state above the limit is not cached"


class Unreliable:
    """The stages of a job on processes in which tasks fail, or succeed without a commit."""

    def __init__(self, job: Job, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job, self.rng, self._patch = job, random.Random(seed), monkeypatch
        self.processes = [Cache[processor.Shard](limit) for limit in (2**20, 2**20, 3000)]
        self.stores: dict[tuple[int, int], Store] = {}
        self.counts = Counter[str]()

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        """The rows of a micro-batch that reach the sink."""
        for stage in range(self.job.sink):
            stage_rows, rows = [r for r in rows if r.stage == stage], [r for r in rows if r.stage != stage]
            for number, key in enumerate(shard_keys(self.job.shards)):
                if shard_rows := [r for r in stage_rows if r.shard == key]:
                    rows += self._task(stage, number, key, shard_rows)
        return rows

    def _task(self, stage: int, number: int, key: int, rows: list[StageRow]) -> list[StageRow]:
        store = self.stores.setdefault((stage, number), Store())
        while True:
            self._patch.setattr(processor, "KEPT", self.rng.choice(self.processes))
            attempt = Store(store.contents)
            task = LightProcessor(self.job.to_text(), [stage])
            task.init(SimpleNamespace(getMapState=lambda *_, values=attempt: values))
            self.counts["tasks"] += 1
            output = task.handleInputRows((key,), iter(rows), None)
            if self.rng.random() < 0.2:
                self.counts["lost"] += 1
                next(output)
                output.close()
                continue
            rows_out = [StageRow(*row) for row in output]
            if self.rng.random() < 0.2:
                self.counts["uncommitted"] += 1
                continue
            store.contents = attempt.contents
            return rows_out


@pytest.mark.parametrize(("name", "shards"), [("hottest", 3), ("hours_by_heat", 2), ("joined", 1)])
def test_a_process_reuses_its_state_only_if_the_store_has_it(
    tmp_path: Path, warehouse: Warehouse, name: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows equal those of shards that are restored for each micro-batch."""
    monkeypatch.setattr(state_store, "SMALL_BYTES", 700)
    restored = Counter[str]()
    restore = processor.Shard.restore

    def counting(shard: processor.Shard, frames: dict[str, pl.DataFrame]) -> None:
        restored["times"] += 1
        restore(shard, frames)

    query = getattr(warehouse, name)() if name != "joined" else joined(warehouse)
    job = job_of(query, tmp_path, shards, 900)
    batches, reference = micro_batches(job), Cluster(job)
    expected = [reference.push(rows) for rows in batches]
    monkeypatch.setattr(processor.Shard, "restore", counting)
    cluster = Unreliable(job, shards, monkeypatch)
    for rows, expected_rows in zip(batches, expected, strict=True):
        assert sorted(cluster.push(rows)) == sorted(expected_rows)
    counts = cluster.counts
    assert min(counts["lost"], counts["uncommitted"]) > 0
    assert 3 < restored["times"] < counts["tasks"] - 3, "some tasks restore their state, some reuse it"


def joined(warehouse: Warehouse) -> object:
    """Two streams in a left join on the hour, so that much is retained."""
    return plan(
        "".join(
            f"CREATE STREAM {name} (sid STRING, hour INT NOT NULL, currtmp INT) "
            f"WITH (source = '{warehouse.folder}/sensor{n}.xml', element = 'tempdata');"
            for n, name in ((1, "a"), (2, "b"))
        )
        + "SELECT a.sid, a.hour, b.currtmp FROM a LEFT JOIN b ON a.hour = b.hour AND a.currtmp = b.currtmp"
    )


NAMES_SCRIPT = """
import sys
from types import SimpleNamespace
from pyspark import cloudpickle
reader, processor = cloudpickle.loads(sys.stdin.buffer.read())
processor.init(SimpleNamespace(getMapState=lambda name, key, value: print(name, key, value, sep="; ")))
print([name for name in sys.modules if name.startswith("xmlpunct")])
"""


def test_the_names_of_states_do_not_need_the_engine() -> None:
    """A process that only forwards the source does not need the engine either."""
    pickled = cloudpickle.dumps((LightReader("a job"), LightProcessor("a job", [3, 5])))
    process = subprocess.run(
        [sys.executable, "-c", NAMES_SCRIPT], input=pickled, capture_output=True, check=True
    )
    assert process.stdout.decode().splitlines() == [
        "fragment3; name STRING, piece INT; data BINARY",
        "fragment5; name STRING, piece INT; data BINARY",
        "[]",
    ]
