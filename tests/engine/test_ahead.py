"""Reading ahead in several threads changes nothing of what a run gives, slice by slice."""

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
from xmlpunct.engine.run.inputs.ahead import Helpers
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
    """Tuples in rooms, a punctuation for each hour, things that look like tuples, and perhaps an early end."""
    found = [f"<r xmlns:punct='{PUNCT_NAMESPACE}'>"]
    for hour in range(hours):
        for _ in range(chance.randrange(4)):
            tuples = "".join(
                f"<t><hour>{hour}</hour><n>{chance.randrange(3)}</n></t>" for _ in range(chance.randrange(12))
            )
            found.append(f"<in room='{chance.choice('xyz')}'>{chance.choice(ODD)}{tuples}</in>")
        found.append(f"<punct:t><hour>{hour}</hour></punct:t>")
    whole = "".join([*found, "</r>"]).encode()
    if chance.random() < 0.3:
        at = chance.randrange(len(whole))
        return whole[:at] + chance.choice([b"", b"</wrong>", b"&nothing;", b"\x00"])
    return whole


def sources(chance: random.Random, folder: Path) -> dict[str, str]:
    """A file, or a directory of some, for each stream."""
    found = {}
    for name in "ab":
        place = folder / name
        if chance.random() < 0.5:
            place.mkdir()
            for i in range(chance.randrange(1, 4)):
                (place / f"{i}.xml").write_bytes(document(chance, 5))
            found[name] = f"{place}/"
        else:
            place.write_bytes(document(chance, 9))
            found[name] = str(place)
    return found


def story(sql: str, given: dict[str, str], size: int, threads: int) -> list[object]:
    """All that a run gives, slice by slice: results, rejects, counts, where its inputs stand, and how it ends."""
    query, stats, told = plan(STREAMS + sql, given), RunStats("local"), list[object]()
    running = LocalRun(query, open_sources(query), size, stats, PUNCT_NAMESPACE, threads=threads)
    with closing(running):
        try:
            while (result := running.advance()) is not None:
                told += [sorted(result.tuples.rows(), key=repr), sorted(map(str, result.punctuations))]
                told += [[*map(str, running.rejects)], running.snapshot()[0], running.behind()]
                told += [{name: vars(counts).copy() for name, counts in stats.inputs.items()}]
                told += [asdict(counts) for counts in stats.operators]
                running.rejects.clear()
                assert sum(f.reader.begun for f in running._feeds if not f.done) <= SLICES_AHEAD * threads
        except SourceError as error:
            told.append(str(error))
    return told


@pytest.mark.parametrize("seed", range(2000 if LONG else 40))
def test_threads_change_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    given, size = sources(chance, tmp_path), chance.choice([20, 50, 300, 2000, 2**20])
    sql = QUERIES[seed % len(QUERIES)]
    expected = story(sql, given, size, 1)
    for threads in (2, 3, 8):
        assert story(sql, given, size, threads) == expected
    assert not [t for t in threading.enumerate() if t.name == "read ahead"]


def test_runs_that_are_not_told_take_turns_in_tests() -> None:
    """Those of tests that kill and cut, that is: see `tests.threads`."""
    query = plan("CREATE STREAM a (n INT) WITH (element = 't'); SELECT n FROM a", {"a": ""})
    found = []
    for _ in COUNTS:
        given = {"a": Source.of(b"<s/>", "a")}
        with closing(LocalRun(query, given, None, RunStats("local"), PUNCT_NAMESPACE)) as run:
            found.append(run._helpers.count)
    assert sorted(found) == sorted(COUNTS)
    assert str(TURNS) == " ".join(map(str, found))
    commands = ("run --engine local", "run --engine local --threads 3", "run --engine spark", "say local")
    told = [TURNS.options(command.split()) for command in commands]
    assert told == [["--threads", str(found[0])], [], [], []]


def test_what_nobody_has_begun_is_done_by_the_one_who_waits() -> None:
    helpers, done = Helpers(1), list[int]()
    for i in range(3):
        helpers.do(lambda i=i: done.append(i))  # type: ignore[misc]
    assert not done
    helpers.wait(lambda: len(done) == 3)
    assert done == [0, 1, 2]


def test_there_are_no_more_threads_than_asked_for() -> None:
    helpers, begun, go = Helpers(4), set[int](), threading.Event()

    def task() -> None:
        begun.add(threading.get_ident())
        go.wait()

    for _ in range(10):
        helpers.do(task)
    assert len([t for t in threading.enumerate() if t.name == "read ahead"]) == 3
    go.set()
    helpers.close()
    assert len(begun) <= 3


def test_one_of_them_may_collect_a_run_that_somebody_left() -> None:
    helpers, told, over = Helpers(2), list[object](), threading.Event()

    def task() -> None:
        try:
            told.append(helpers.close())
        except RuntimeError as error:
            told.append(error)
        over.set()

    helpers.do(task)
    assert over.wait(10)
    assert told == [None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_says_that_what_was_begun_is_another_process(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("most", "each"), [(10**6, SLICES_AHEAD), (2000, 2), (100, 1)])
def test_of_large_slices_fewer_are_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, each: int
) -> None:
    monkeypatch.setattr(running_, "MOST_BYTES", most)
    (tmp_path / "a").write_bytes(document(random.Random(1), 300))
    query = plan(STREAMS + "SELECT hour FROM a", {"a": str(tmp_path / "a")})
    running = LocalRun(query, open_sources(query), 2500, RunStats("local"), PUNCT_NAMESPACE, threads=2)
    with closing(running):
        begun = [running._feeds[0].reader.begun for _ in range(5) if running.advance() is not None]
    assert max(begun) == 2 * each
