"""The line of progress on the terminal."""

from io import StringIO

import pytest
from rich.console import Console

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


def test_no_line_is_printed_without_a_terminal() -> None:
    out = StringIO()
    with ProgressLine("local", Console(file=out)) as shown:
        shown.show(RunStats("local", inputs={"bids": InputStats(tuples=7)}))
    assert out.getvalue() == ""


def _text(shown: ProgressLine) -> str:
    assert shown._status is not None
    return str(shown._status.status)
