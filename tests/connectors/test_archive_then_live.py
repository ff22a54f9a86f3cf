"""THEN: an archive, then a live source, as one stream."""

from __future__ import annotations

import gzip
import random
import signal
import time
from pathlib import Path

import pytest

from tests.connectors.test_watched_folders import document, drop, spool_bytes
from tests.reliability.support import LONG, MOST_SECONDS, launch
from xmlpunct import SourceError, SqlError, UsageError, query
from xmlpunct.engine.run.inputs.spool import find_inputs
from xmlpunct.engine.sql import plan


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two compressed files, in different directories."""
    for n, name in enumerate(("2025/a", "2026/a")):
        path = tmp_path / "archive" / f"{name}.xml.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(document(2 * n + 1, 2 * n + 2)))
    (tmp_path / "inbox").mkdir()
    return tmp_path / "archive"


def stream(archive: Path, live: str, clause: str = "") -> str:
    sources = f"'{archive}/**/*.xml.gz' THEN '{live}' CONTIGUOUS"
    return f"CREATE STREAM s (a INT NOT NULL) WITH (source = {sources}, element = 't'){clause};"


def test_the_archive_comes_first(archive: Path) -> None:
    live = archive.parent / "live.xml"
    live.write_bytes(document(5, 6))
    assert query(f"{stream(archive, str(live))} SELECT a FROM s").to_polars()["a"].to_list() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_results_of_the_archive_leave_before_the_live_source_gives_anything(archive: Path) -> None:
    """One order goes through both: the end of the archive closes nothing, the first live tuple closes 4."""
    live = archive.parent / "live.xml"
    live.write_bytes(b"<s>")
    counts = " PUNCTUATE ORDER BY a"
    results = query(f"{stream(archive, f'follow:{live}', counts)} SELECT a, COUNT(*) AS n FROM s GROUP BY a")
    tuples = (result for result in results if isinstance(result, tuple))
    assert [next(tuples) for _ in range(3)] == [(1, 1), (2, 1), (3, 1)]
    with live.open("ab") as file:
        file.write(b"<t><a>4</a></t><t><a>5</a></t>")
    assert next(tuples) == (4, 2)
    results.close()


def test_a_late_tuple_of_the_live_source(archive: Path) -> None:
    """The promises of the archive hold for the live source."""
    live = archive.parent / "live.xml"
    live.write_bytes(document(3, 5))
    results = query(f"{stream(archive, str(live), ' PUNCTUATE ORDER BY a')} SELECT a FROM s")
    assert results.to_polars()["a"].to_list() == [1, 2, 3, 4, 5]


def test_the_live_source_is_spooled_while_the_archive_is_not(archive: Path, tmp_path: Path) -> None:
    """The parts of an archive are spooled one after another, the live source from the beginning of the run."""
    live = archive.parent / "live.xml"
    live.write_bytes(b"<s><t><a>5</a></t>")
    (input_,), spools = find_inputs(
        plan(f"{stream(archive, f'follow:{live}')} SELECT a FROM s"), tmp_path / "spool"
    )
    assert len(spools) == 3
    last = spools[-1]
    last.start()
    until = time.monotonic() + MOST_SECONDS
    while not spool_bytes(input_.parts[-1].path):
        assert time.monotonic() < until
        time.sleep(0.01)
    last.stop()
    last.join()
    assert not spool_bytes(input_.parts[0].path)
    spools[0].start()
    spools[0].join()
    assert all(b"</s>" in spool_bytes(part.path) for part in input_.parts[:2])


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("'{0}' THEN 'tcp://h:1'", "THEN needs overlap = 'key' or a column in order"),
        ("'{0}' THEN", "the quoted live source behind THEN"),
        ("'tcp://h:1' THEN '{0}' CONTIGUOUS", "tcp://h:1 may never end, so nothing can follow it"),
        (
            "'{0}' THEN 'tcp-listen://:7000?connections=2' CONTIGUOUS",
            "has 2 senders: an archive and its live",
        ),
        ("'{0}/{{a}}.xml' THEN 'tcp://h:1' CONTIGUOUS", "columns in the names of files cannot be combined"),
        ("'{0}/none/*.xml' THEN 'tcp://h:1' CONTIGUOUS", "no file matches it"),
    ],
)
def test_refused(archive: Path, sources: str, message: str) -> None:
    with pytest.raises((SqlError, UsageError, SourceError), match=message):
        query(
            f"CREATE STREAM s (a INT) WITH (source = {sources.format(archive)}, element = 't'); SELECT a FROM s"
        ).to_polars()


def test_killed_while_it_goes_from_the_archive_to_the_folder(archive: Path) -> None:
    """A process, killed with -9 at random moments, on an archive and then a watched folder: each tuple once."""
    rng, folder, count = random.Random(3), archive.parent, 40 if LONG else 8
    out = folder / "out.csv"
    sql = f"{stream(archive, f'watch:{folder}/inbox/*.xml')} SELECT a FROM s"
    options = ["--engine", "local", "--checkpoint", str(folder / "cp"), "-o", str(out), "--format", "csv"]
    arrivals, tuples, until = list(range(5, 5 + count)), list[str](), time.monotonic() + MOST_SECONDS
    while len(tuples) < 4 + count:
        run = launch("run", "-q", sql, *options)
        lives_until = time.monotonic() + rng.uniform(0.5, 3)
        while time.monotonic() < lives_until and len(tuples) < 4 + count:
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < until
            if arrivals and rng.random() < 0.3:
                drop(folder / "inbox", f"{arrivals[0]:02d}.xml", arrivals.pop(0))
            time.sleep(0.02)
            tuples = out.read_text().split()[1:] if out.exists() else []
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert [*map(int, tuples)] == list(range(1, 5 + count))
