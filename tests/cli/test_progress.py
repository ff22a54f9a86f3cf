"""The line of progress on the terminal."""

import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.cli.screen import screen, terminal_run, wait_for_message
from xmlpunct.cli import progress
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.engine.run.stats import Idle, InputStats, RunStats


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_the_line_shows_starting_spark_and_then_the_rate_of_the_last_seconds(
    clock: list[float],
) -> None:
    shown = ProgressLine("spark", Console(file=StringIO(), force_terminal=True))
    stats = RunStats("spark", inputs={"bids": InputStats()})
    with shown:
        assert _text(shown) == "starting Spark"
        shown.show(stats)
        assert _text(shown) == "starting Spark"
        stats.activity, clock[0] = "first rows: 1 of 4 tasks", 101.0
        shown.show(stats)
        assert _text(shown) == "first rows: 1 of 4 tasks"
        for second, tuples in ((20, 10), (21, 1_010), (22, 2_010), (40, 20_010), (50, 20_010)):
            clock[0] = 100.0 + second
            stats.inputs["bids"].tuples = tuples
            shown.show(stats)
            if second == 22:
                assert _text(shown).startswith("2,010 tuples  1,000/s")
        assert _text(shown).startswith("20,010 tuples  0/s")


def test_an_input_that_is_silent_from_the_beginning_is_named(clock: list[float]) -> None:
    with ProgressLine("local", Console(file=StringIO(), force_terminal=True), "tcp://h:1") as shown:
        assert _text(shown) == "reading tcp://h:1"
        shown.show(RunStats("local", inputs={"bids": InputStats()}, idle=[Idle("bids", 3.0, 0)]))
        assert "waiting for bids since 3 s" in _text(shown)


def test_reading_shows_the_share_that_was_read(clock: list[float]) -> None:
    reader: Any = SimpleNamespace(bytes_read=0, remaining=4_000_000)
    with ProgressLine("local", Console(file=StringIO(), force_terminal=True), "a.xml") as shown:
        shown.show_reading(reader, 0)
        assert _text(shown) == "reading a.xml"
        for read, tuples, line in (
            (1_000_000, 500, "500 tuples  0/s  read 25%"),
            (3_000_000, 1_500, "1,500 tuples  1,000/s  read 75%"),
        ):
            clock[0] += 1
            reader.bytes_read, reader.remaining = read, 4_000_000 - read
            shown.show_reading(reader, tuples)
            assert _text(shown) == line
        clock[0] += 1
        reader.remaining = None
        shown.show_reading(reader, 1_500)
        assert "read" not in _text(shown)


@pytest.mark.parametrize(
    "command", [("run", "--engine", "local"), ("parse",), ("check",)], ids=lambda c: c[0]
)
def test_a_terminal_shows_progress(command: tuple[str, ...], tmp_path: Path) -> None:
    """What is read, and how much of it; in the end, nothing of the line is left.

    A file that is read before the line is drawn a second time is too small for this, so a larger one follows.
    """
    query = f"SELECT COUNT(*) AS n FROM '{tmp_path}/t.xml'"
    arguments = ["-q", query] if "run" in command else [f"{tmp_path}/t.xml"]
    shown = ""
    for tuples in (600_000, 3_000_000):
        (tmp_path / "t.xml").write_bytes(b"<s>" + b"<t><a>1</a><b>some text</b></t>" * tuples + b"</s>")
        shown = terminal_run(*command, *arguments, has_results=False)
        assert screen(shown) == []
        if re.search(r"[1-9][\d,]* tuples  [\d,]+/s[\w\s,]*\sread\s+[1-9]\d?%", shown):
            break
    else:
        raise AssertionError(f"no share of the file in {shown!r}")
    assert "reading" in shown or "run" in command


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("run", "--engine", "local", "-q", "SELECT COUNT(*) FROM '-'"), "planning the query"),
        (("run", "--engine", "spark", "-q", "SELECT COUNT(*) FROM '-'"), "planning the query"),
        (("infer", "-"), "reading the beginning of -"),
        (("parse", "-"), "reading -"),
        (("check", "-"), "reading -"),
    ],
    ids=lambda command: command[0] if isinstance(command, tuple) else "",
)
def test_the_first_line_comes_before_any_input(command: tuple[str, ...], line: str) -> None:
    wait_for_message(line, *command)


def test_no_line_is_printed_without_a_terminal() -> None:
    out = StringIO()
    with ProgressLine("local", Console(file=out)) as shown:
        shown.show(RunStats("local", inputs={"bids": InputStats(tuples=7)}))
    assert out.getvalue() == ""


def _text(shown: ProgressLine) -> str:
    assert shown._status is not None
    return str(shown._status.status)
