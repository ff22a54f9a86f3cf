"""Runs of the local engine that die between any two system calls, and continue as if undisturbed.

The long form kills a real process at every moment::

    XMLPUNCT_LONG=1 pytest -s tests/reliability/test_local_recovery.py
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.bench import UNION, Bench
from tests.reliability.faults import Death
from tests.reliability.support import LONG, MOST_SECONDS
from tests.threads import TURNS
from xmlpunct.base.errors import SourceError, StrictError, UsageError, XmlPunctError
from xmlpunct.engine.run.checkpoint import checkpoint as checkpoints
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local.portion import Portion
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

ROOT = Path(__file__).parents[2]
QUERIES = {
    "union": UNION,
    "join": "SELECT a.x, a.hour, b.x AS other FROM a JOIN b ON a.hour = b.hour",
    "left join": "SELECT a.x, a.hour, b.x AS other FROM a LEFT JOIN b ON a.hour = b.hour",
    "exists": "SELECT x, hour FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.hour = a.hour)",
    "not in": "SELECT x, hour FROM a WHERE hour NOT IN (SELECT hour FROM b)",
    "except": "SELECT hour FROM a EXCEPT SELECT hour FROM b",
    "sort": "SELECT hour, x FROM a ORDER BY hour, x",
    "limit": "SELECT hour, x FROM a UNION ALL SELECT hour, x FROM b LIMIT 7",
    "rejects": "SELECT hour, 100 / x AS y FROM a",
    "jumps": "SELECT x, hour FROM (SELECT x, hour FROM a) AS q PUNCTUATE ORDER BY x SLACK 9 AHEAD 1 AFTER 2",
}
FAILING = "SELECT hour, 60 / x AS y FROM a UNION SELECT hour, x FROM b"
"""A query with rejects."""


@pytest.fixture(autouse=True)
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit every slice, and skip slow syncs."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)


def statistics(stats: RunStats) -> dict[str, Any]:
    """The statistics that kills must not change."""
    entries = stats.as_dict()
    return {name: entries[name] for name in ("inputs", "output", "operators", "slices")} | {
        "rejected": stats.rejected
    }


@pytest.mark.parametrize(
    ("save", "sql"),
    [(0.0, FAILING), (1e9, FAILING), (1e9, f"{FAILING} LIMIT 2")],
    ids=["saving each slice", "by the log alone", "behind the end of the output"],
)
def test_every_moment_to_die_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, sql: str
) -> None:
    """Visible output never changes; the final output and statistics are as in an undisturbed run."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    bench = Bench(tmp_path, sql, slice_bytes=300)
    stats = statistics(bench.run())
    expected = bench.seen()
    assert stats["rejected"] > 0
    deaths = [Death(0)]
    for death in deaths:
        bench.clear()
        with death.awaited():
            bench.run()
        if not death.came:
            break
        for expected_bytes, visible in zip(expected, bench.seen(), strict=True):
            assert expected_bytes.startswith(visible), death
        assert statistics(bench.run()) == stats, death
        assert bench.seen() == expected, death
        deaths.append(death.next())
    assert len(deaths) > 50


def test_dying_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is killed after a few calls, also during its restart."""
    bench, rng = Bench(tmp_path), random.Random(1)
    stats = statistics(bench.run())
    expected = bench.seen()
    for _ in range(3):
        bench.clear()
        visible, deaths = (b"", b""), 0
        while True:
            monkeypatch.setattr(ledger, "SAVE_SECONDS", rng.choice([0.0, 1e9]))
            death = Death(rng.randrange(20 + 6 * deaths), rng.random() < 0.5)
            with death.awaited():
                run_stats = bench.run()
            for before, after in zip(visible, bench.seen(), strict=True):
                assert after[: len(before)] == before
            visible = bench.seen()
            if not death.came:
                break
            deaths += 1
        assert deaths > 2
        assert bench.seen() == expected
        assert statistics(run_stats) == stats


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_state_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Each slice is processed by a new run, from the saved state of the previous one."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    bench = Bench(tmp_path, sql)
    stats = statistics(bench.run())
    expected = bench.seen()
    bench.clear()
    lives = 0

    class SliceDone(Exception):
        pass

    take = ledger.Ledger.commit_if_due

    def commit_and_stop(self: ledger.Ledger) -> None:
        take(self)
        raise SliceDone

    monkeypatch.setattr(ledger.Ledger, "commit_if_due", commit_and_stop)
    while True:
        lives += 1
        try:
            run_stats = bench.run()
            break
        except SliceDone:
            continue
    assert lives > 3
    assert bench.seen() == expected
    assert statistics(run_stats) == stats


def test_stopped_between_reading_and_taking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input that was read but not processed at an interrupt is read again."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    bench = Bench(tmp_path)
    stats = statistics(bench.run())
    expected = bench.seen()
    bench.clear()
    read, lives = LocalRun.read, 0

    def interrupted(self: LocalRun) -> Portion | None:
        portion = read(self)
        if self.stats.slices > lives:
            raise KeyboardInterrupt
        return portion

    monkeypatch.setattr(LocalRun, "read", interrupted)
    while True:
        with suppress(KeyboardInterrupt):
            run_stats = bench.run()
            break
        lives += 1
    assert lives > 3
    assert bench.seen() == expected
    assert statistics(run_stats) == stats


def test_a_finished_run_has_nothing_to_do(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stats = statistics(bench.run())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in bench.sources.values():
        path.unlink()
        del before[path]
    assert statistics(bench.run()) == stats
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in bench.checkpoint.iterdir()) == ["lock", "log"]


def test_a_finished_run_warns_of_an_output_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    bench.run()
    size = bench.out.stat().st_size
    bench.run()
    assert not caplog.messages
    bench.out.unlink()
    bench.run()
    (message,) = caplog.messages
    assert f"{bench.out} no longer has the {size:,} bytes" in message


def test_a_failed_source_fails_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier results are released, wherever the run is killed."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 1e9)
    bench = Bench(tmp_path, "SELECT x, hour FROM a")
    text = bench.sources["a"].read_text()
    bench.sources["a"].write_text(text.replace("</s>", "<t><x>9</x><hour>7</hour></t><t></wrong>"))
    with pytest.raises(SourceError) as first:
        bench.run()
    expected = bench.seen()
    assert b"<hour>7</hour>" in expected[0]
    assert b"</stream>" not in expected[0]
    with pytest.raises(SourceError) as repeated:
        bench.run()
    assert str(repeated.value) == str(first.value)
    assert bench.seen() == expected
    number, has_died = 0, True
    while has_died:
        bench.clear()
        death = Death(number)
        with suppress(SourceError), death.awaited():
            bench.run()
        has_died = death.came
        with pytest.raises(SourceError, match="wrong") as repeated:
            bench.run()
        assert str(repeated.value) == str(first.value)
        assert bench.seen() == expected
        number += 5


def test_a_failure_is_saved_with_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed after it saved its state, but before it reported the failure, must still fail."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    bench = Bench(tmp_path, "SELECT x, hour FROM a")
    bench.sources["a"].write_text("<s><t><x>9</x><hour>7</hour></t><t></wrong>")
    with pytest.raises(SourceError) as first:
        bench.run()
    bench.clear()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "finish", die)
        with pytest.raises(Killed):
            bench.run()
    with pytest.raises(SourceError) as repeated:
        bench.run()
    assert str(repeated.value) == str(first.value)
    assert not bench.out.read_text().endswith("</stream>\n")


def test_strict_stops_at_the_same_tuple_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "SELECT hour, x FROM a", strict=True)
    path = bench.sources["a"]
    path.write_text(path.read_text().replace("<hour>2</hour></t>", "<hour>two</hour></t>", 1))
    outcomes = []
    for _ in range(2):
        with pytest.raises(StrictError) as stopped:
            bench.run()
        out, rejects = bench.seen()
        assert b"<hour>0</hour>" in out
        assert b"<hour>2</hour>" not in out
        outcomes.append((str(stopped.value), out, rejects))
        assert rejects.count(b"\n") == 1
    assert outcomes[0] == outcomes[1]


def test_a_different_run_cannot_continue_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    death = Death(30)
    with death.awaited():
        bench.run()
    assert death.came
    before = bench.seen()
    sql, options = bench.sql, bench.options
    for changed, difference in [
        (sql.replace("MAX", "MIN"), "query"),
        (sql.replace("x INT", "x DOUBLE"), "query"),
        (replace(options, output=str(tmp_path / "other.xml")), "output"),
        (replace(options, format="jsonl"), "format"),
        (replace(options, slice_bytes=300), "slice size"),
        (replace(options, rejects=str(tmp_path / "others")), "rejects file"),
        (replace(options, punct_namespace="urn:x"), "punctuation namespace"),
    ]:
        if isinstance(changed, str):
            bench.sql = changed
        else:
            bench.options = changed
        with pytest.raises(UsageError, match=f"another {difference}"):
            bench.run()
        bench.sql, bench.options = sql, options
    with monkeypatch.context() as patch:
        patch.setitem(bench.sources, "b", bench.sources["a"])
        with pytest.raises(UsageError, match="another source"):
            bench.run()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "VERSION", -1)
        with pytest.raises(UsageError, match="finish the run with that version, or start again"):
            bench.run()
    asked = plan(bench.sql, {n: str(p) for n, p in bench.sources.items()})
    with (
        checkpoints.Checkpoint(bench.checkpoint, asked, options, "spark") as other,
        pytest.raises(UsageError, match="another engine"),
    ):
        other.find()
    with (
        checkpoints.Checkpoint(bench.checkpoint, asked, options, "local"),
        pytest.raises(UsageError, match="another run is using"),
    ):
        bench.run()
    assert bench.seen() == before
    bench.run()


@pytest.mark.parametrize(
    "files", [{"job": b'{"made_by": {"version": 4}}', "log": b"", "commit": b"x"}, {"log": b""}]
)
def test_an_unreadable_checkpoint_is_refused_and_unchanged(tmp_path: Path, files: dict[str, bytes]) -> None:
    """A checkpoint of version 0.1.0, and one whose log has no header."""
    bench = Bench(tmp_path)
    bench.checkpoint.mkdir()
    for name, data in files.items():
        (bench.checkpoint / name).write_bytes(data)
    reason = (
        "made by another version of xmlpunct: finish" if "job" in files else "log is damaged: start again"
    )
    with pytest.raises(XmlPunctError, match=reason):
        bench.run()
    assert {name: (bench.checkpoint / name).read_bytes() for name in files} == files
    assert bench.seen() == (b"", b"")


def test_a_changed_input_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 1e9)
    bench = Bench(tmp_path, "SELECT x, hour FROM a")
    with (death := Death(45)).awaited():
        bench.run()
    assert death.came
    text = bench.sources["a"].read_text()
    bench.sources["a"].write_text(text.replace("<hour>0</hour></t>", "<hour>5</hour></t>", 1))
    with pytest.raises(XmlPunctError, match="an input has changed"):
        bench.run()
    bench.sources["a"].write_text(text[:60])
    with pytest.raises(XmlPunctError, match=r"again|changed"):
        bench.run()


def test_a_shortened_output_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    bench = Bench(tmp_path)
    with (death := Death(60)).awaited():
        bench.run()
    assert death.came
    bench.out.write_bytes(bench.out.read_bytes()[:5])
    with pytest.raises(XmlPunctError, match="shorter than"):
        bench.run()


def test_a_log_survives_any_cut(tmp_path: Path) -> None:
    """All complete records of a torn log are read, and more can be appended."""
    path, records = tmp_path / "log", [{"a": b"one"}, {"b": b"\0" * 9}, {"c": b"three" * 9, "d": b""}]
    log, ends = WriteAheadLog(path), [0]
    for record in records:
        log.append(record)
        ends.append(path.stat().st_size)
    log.close()
    data = path.read_bytes()
    for size in range(len(data) + 1):
        for tail in (b"", b"\0" * 64, b"\xff" * 7) if size in ends else (b"",):
            path.write_bytes(data[:size] + tail)
            log = WriteAheadLog(path)
            read_records = log.read()
            assert read_records == records[: len(read_records)]
            assert len(read_records) == 3 or size < len(data)
            log.append({"more": b""})
            log.close()
            assert WriteAheadLog(path).read() == [*read_records, {"more": b""}]


def test_a_stream_gets_all_at_least_once(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Standard output over all restarts: no line is missing, and only whole groups are repeated."""
    bench = Bench(tmp_path, "SELECT x, hour FROM a")
    bench.run()
    expected = bench.seen()[0].splitlines()
    bench.clear()
    bench.options = replace(bench.options, output=None)
    capfdbinary.readouterr()
    lines: list[bytes] = []
    deaths = 0
    for number in (26, 8, 12, 10, 10_000):
        with (death := Death(number)).awaited():
            bench.run()
        deaths += death.came
        lines += capfdbinary.readouterr().out.splitlines()
    assert deaths == 4
    position = 0
    for line in expected:
        position = lines.index(line, position) if line in lines[position:] else -1
        assert position >= 0, line
        position += 1
    assert len(expected) <= len(lines) <= len(expected) + deaths * 5


def test_a_process_that_dies_in_the_middle(tmp_path: Path) -> None:
    """Kill real processes at these moments; the short form tests only some."""
    bench = Bench(tmp_path)
    feeds = [word for name, path in bench.sources.items() for word in ("-s", f"{name}={path}")]
    options = [
        "--checkpoint",
        bench.checkpoint,
        "-o",
        bench.out,
        "--slice",
        "200",
        "--rejects",
        bench.rejects,
    ]
    command = ["run", "-q", bench.sql, "--engine", "local", *feeds, *map(str, options)]

    def live(number: int, torn: str) -> int:
        driver = [sys.executable, "-m", "tests.reliability.faults", str(number), torn, *command]
        driver += TURNS.options(command)
        return subprocess.run(driver, stderr=subprocess.PIPE, timeout=MOST_SECONDS, cwd=ROOT).returncode

    assert live(10**6, "") == 0
    expected = bench.seen()
    number = 0 if LONG else 37
    while True:
        bench.clear()
        code = live(number, "torn" if number % 2 else "")
        if code == 0:
            break
        assert code == 9
        assert live(10**6, "") == 0
        assert bench.seen() == expected
        number += 1 if LONG else 40
    assert number > 60
