"""Two processes of the same run: one that seemed dead continues. Only one of them commits.

The lock of a checkpoint prevents a second run. These tests disable it, as on a network file system without locks.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.bench import Bench
from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan


class Paused(Bench):
    """A run that calls a function in the middle."""

    def run_around(self, after: int, block: Callable[[], object]) -> None:
        """Run, and call ``block`` after ``after`` slices."""
        slices_left = after

        def on_progress(_: RunStats) -> None:
            nonlocal slices_left
            slices_left -= 1
            if slices_left == 0:
                block()

        sources = {name: str(path) for name, path in self.sources.items()}
        local.run(plan(self.sql, sources), self.options, RunStats("local"), on_progress)


@pytest.mark.parametrize("after", [1, 2, 5, 8])
def test_a_superseded_run_writes_nothing_more(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Paused(tmp_path)
    bench.run()
    expected = bench.seen()
    bench.clear()
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(XmlPunctError, match=r"another run has taken over .*checkpoint"):
        bench.run_around(after, bench.run)
    assert bench.seen() == expected
    bench.run()
    assert bench.seen() == expected


def test_two_superseded_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third run supersedes the second, which superseded the first; then both continue."""
    bench = Paused(tmp_path)
    bench.run()
    expected = bench.seen()
    bench.clear()
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)

    def second() -> None:
        with pytest.raises(XmlPunctError, match="taken over"):
            bench.run_around(3, bench.run)

    with pytest.raises(XmlPunctError, match="taken over"):
        bench.run_around(4, second)
    assert bench.seen() == expected


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    """A second run into the same file is refused, even with another checkpoint."""
    bench = Paused(tmp_path)

    def another() -> None:
        first = bench.options.checkpoint
        bench.options = type(bench.options)(**{**vars(bench.options), "checkpoint": f"{first}-2"})
        with pytest.raises(UsageError, match=r"another run is writing .*out\.xml"):
            bench.run()

    bench.run_around(2, another)


def test_only_the_last_owner_writes_to_a_log(tmp_path: Path) -> None:
    first, second = WriteAheadLog(tmp_path / "log"), WriteAheadLog(tmp_path / "log")
    first.replace({"a": b"1"})
    first.append({"a": b"2"})
    assert len(second.read()) == 2
    second.take_over()
    for add in (first.append, first.replace):
        with pytest.raises(XmlPunctError, match="another run"):
            add({"a": b"3"})
    second.append({"b": b"3"})
    second.replace({"b": b"4"})
    assert WriteAheadLog(tmp_path / "log").read() == [{"b": b"4"}]
    first.close()
    second.close()
