"""A run that reads ahead in several threads gives the same results slice by slice."""

from __future__ import annotations

import os
import random
import threading
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.reliability.support import LONG
from tests.threads import COUNTS, TURNS
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs.helper_threads import HelperThreads
from xmlpunct.engine.run.local import running as running_
from xmlpunct.engine.run.local.local_run import open_sources
from xmlpunct.engine.run.local.running import SLICES_AHEAD, LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

STREAMS = """CREATE STREAM a (hour INT NOT NULL, n INT, room STRING PATH '../@room') WITH (element = 't');
CREATE STREAM b (hour INT NOT NULL, n INT) WITH (element = 't');
"""
QUERIES = (
    "SELECT a.hour, a.room, a.n, COUNT(*) AS c FROM a JOIN b ON a.hour = b.hour GROUP BY a.hour, a.room, a.n",
    "SELECT hour, MAX(n) AS m FROM (SELECT hour, n FROM a UNION SELECT hour, n FROM b) GROUP BY hour",
    "SELECT hour, 6 / n AS x FROM a WHERE 4 / (n - 1) > 0 UNION ALL SELECT hour, n FROM b WHERE n > 0",
    "SELECT DISTINCT hour + n AS x, n FROM a",
    "SELECT 6 / n AS x FROM (SELECT hour AS n FROM a UNION ALL SELECT n FROM a)",
    "SELECT DISTINCT n + 1 AS n FROM (SELECT hour AS n FROM a UNION ALL SELECT n FROM a)",
    "SELECT hour, 2 / n AS x FROM a INTERSECT SELECT hour, n FROM b",
    "SELECT hour, n FROM a UNION SELECT hour, 1 / n FROM b LIMIT 3",
    "SELECT window_start, COUNT(*) AS c FROM HOP(TABLE a, DESCRIPTOR(hour), 2, 4) GROUP BY window_start, window_end",
)
ODD = ("<!-- <t> -->", "<![CDATA[ <t> ]]>", "<?t <t> ?>", "<other/>", "\n", "<t><hour>x</hour></t>")


def document(chance: random.Random, hours: int) -> bytes:
    """Tuples in rooms, a punctuation per hour, text that looks like tuples; sometimes malformed."""
    parts = [f"<r xmlns:punct='{PUNCT_NAMESPACE}'>"]
    for hour in range(hours):
        for _ in range(chance.randrange(4)):
            tuples = "".join(
                f"<t><hour>{hour}</hour><n>{chance.randrange(3)}</n></t>" for _ in range(chance.randrange(12))
            )
            parts.append(f"<in room='{chance.choice('xyz')}'>{chance.choice(ODD)}{tuples}</in>")
        parts.append(f"<punct:t><hour>{hour}</hour></punct:t>")
    text = "".join([*parts, "</r>"]).encode()
    if chance.random() < 0.3:
        at = chance.randrange(len(text))
        return text[:at] + chance.choice([b"", b"</wrong>", b"&nothing;", b"\x00"])
    return text


def sources(chance: random.Random, folder: Path) -> dict[str, str]:
    """For each stream a file or a directory of files."""
    paths = {}
    for name in "ab":
        path = folder / name
        if chance.random() < 0.5:
            path.mkdir()
            for i in range(chance.randrange(1, 4)):
                (path / f"{i}.xml").write_bytes(document(chance, 5))
            paths[name] = f"{path}/"
        else:
            path.write_bytes(document(chance, 9))
            paths[name] = str(path)
    return paths


def outcome(sql: str, sources: dict[str, str], size: int, threads: int) -> list[object]:
    """Results, rejects, counts and input positions after each slice, and the final error."""
    query, stats, events = plan(STREAMS + sql, sources), RunStats("local"), list[object]()
    running = LocalRun(query, open_sources(query), size, stats, PUNCT_NAMESPACE, threads=threads)
    with closing(running):
        try:
            while (result := running.advance()) is not None:
                events += [sorted(result.tuples.rows(), key=repr), sorted(map(str, result.punctuations))]
                events += [[*map(str, running.rejects)], running.snapshot()[0], running.behind()]
                events += [{name: vars(counts).copy() for name, counts in stats.inputs.items()}]
                events += [asdict(counts) for counts in stats.operators]
                running.rejects.clear()
                assert sum(f.prefetcher.begun for f in running._feeds if not f.done) <= SLICES_AHEAD * threads
        except SourceError as error:
            events.append(str(error))
    return events


@pytest.mark.parametrize("seed", range(2000 if LONG else 40))
def test_threads_change_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    paths, size = sources(chance, tmp_path), chance.choice([20, 50, 300, 2000, 2**20])
    sql = QUERIES[seed % len(QUERIES)]
    expected = outcome(sql, paths, size, 1)
    for threads in (2, 3, 8):
        assert outcome(sql, paths, size, threads) == expected
    assert not [t for t in threading.enumerate() if t.name == "read ahead"]


def test_runs_without_a_thread_count_take_turns_in_tests() -> None:
    """In tests, runs without a thread count use the next of `COUNTS`; see `tests.threads`."""
    query = plan("CREATE STREAM a (n INT) WITH (element = 't'); SELECT n FROM a", {"a": ""})
    counts = []
    for _ in COUNTS:
        sources = {"a": Source.of(b"<s/>", "a")}
        with closing(LocalRun(query, sources, None, RunStats("local"), PUNCT_NAMESPACE)) as run:
            counts.append(run._helpers.count)
    assert sorted(counts) == sorted(COUNTS)
    assert str(TURNS) == " ".join(map(str, counts))
    commands = ("run --engine local", "run --engine local --threads 3", "run --engine spark", "say local")
    options = [TURNS.options(command.split()) for command in commands]
    assert options == [["--threads", str(counts[0])], [], [], []]


def test_the_waiting_thread_runs_tasks_that_no_helper_began() -> None:
    helpers, done = HelperThreads(1), list[int]()
    for i in range(3):
        helpers.do(lambda i=i: done.append(i))  # type: ignore[misc]
    assert not done
    helpers.wait(lambda: len(done) == 3)
    assert done == [0, 1, 2]


def test_there_are_no_more_threads_than_requested() -> None:
    helpers, begun, go = HelperThreads(4), set[int](), threading.Event()

    def task() -> None:
        begun.add(threading.get_ident())
        go.wait()

    for _ in range(10):
        helpers.do(task)
    assert len([t for t in threading.enumerate() if t.name == "read ahead"]) == 3
    go.set()
    helpers.close()
    assert len(begun) <= 3


def test_a_helper_thread_may_close_its_own_pool() -> None:
    helpers, outcomes, over = HelperThreads(2), list[object](), threading.Event()

    def task() -> None:
        try:
            outcomes.append(helpers.close())
        except RuntimeError as error:
            outcomes.append(error)
        over.set()

    helpers.do(task)
    assert over.wait(10)
    assert outcomes == [None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_reading_a_run_in_a_forked_process_is_an_error(tmp_path: Path) -> None:
    chance = random.Random(1)
    (tmp_path / "a").write_bytes(document(chance, 9))
    query = plan("CREATE STREAM a (n INT) WITH (element = 't'); SELECT n FROM a", {"a": str(tmp_path / "a")})
    running = LocalRun(query, open_sources(query), 50, RunStats("local"), PUNCT_NAMESPACE, threads=2)
    with closing(running):
        running.read()
        child = os.fork()
        if child == 0:
            try:
                running.read()
            except UsageError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(("limit", "per_thread"), [(10**6, SLICES_AHEAD), (2000, 2), (100, 1)])
def test_fewer_large_slices_are_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, per_thread: int
) -> None:
    monkeypatch.setattr(running_, "MOST_BYTES", limit)
    (tmp_path / "a").write_bytes(document(random.Random(1), 300))
    query = plan(STREAMS + "SELECT hour FROM a", {"a": str(tmp_path / "a")})
    running = LocalRun(query, open_sources(query), 2500, RunStats("local"), PUNCT_NAMESPACE, threads=2)
    with closing(running):
        begun = [running._feeds[0].prefetcher.begun for _ in range(5) if running.advance() is not None]
    assert max(begun) == 2 * per_thread
