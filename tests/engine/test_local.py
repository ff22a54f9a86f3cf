"""The local engine over generated streams: what it retains, and when its results leave."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import columns_read
from xmlpunct.engine.run.local.local_run import open_sources
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import generators

SLICE = 16 * 1024
HOURS, READINGS = 24, 10
TUPLES_PER_HOUR = 60 * READINGS
SAMPLE = Path(__file__).parents[2] / "samples" / "warehouse.sql"


def run_warehouse(folder: Path, punctuations: int) -> tuple[RunStats, list[tuple[int, int, int]]]:
    """Run the sample query; for each result its hour, and the last hours read from the two sensors by then."""
    generators.write(generators.warehouse(2, HOURS, READINGS, punctuations, seed=1), str(folder))
    query = plan(SAMPLE.read_text(), {f"sensor{i}": str(folder / f"sensor{i}.xml") for i in (1, 2)})
    stats, seen = RunStats("local"), []
    with closing(LocalRun(query, open_sources(query), SLICE, stats, PUNCT_NAMESPACE)) as running:
        while (result := running.advance()) is not None:
            read = [stats.inputs[f"sensor{i}"].tuples // TUPLES_PER_HOUR for i in (1, 2)]
            seen += [(hour, *read) for hour in result.tuples["hour"]]
    return stats, seen


def peak(stats: RunStats, operator: str) -> int:
    return next(o.state_rows_peak for o in stats.operators if o.operator == operator)


@pytest.mark.parametrize("punctuations", [1, 30])
def test_an_hour_leaves_before_the_hour_after_the_next_is_read(tmp_path: Path, punctuations: int) -> None:
    stats, seen = run_warehouse(tmp_path, punctuations)
    assert [hour for hour, _, _ in seen] == list(range(HOURS))
    assert all(max(read) < hour + 2 for hour, *read in seen[:-1])
    slice_tuples = SLICE // 75  # bytes of a report, at least
    assert peak(stats, "union") <= TUPLES_PER_HOUR + 2 * slice_tuples
    assert peak(stats, "group-by") <= 2


def test_without_punctuations_the_state_is_the_stream(tmp_path: Path) -> None:
    stats, seen = run_warehouse(tmp_path, 0)
    assert len(seen) == HOURS
    union = next(o for o in stats.operators if o.operator == "union")
    assert union.state_rows_peak == union.tuples_out
    assert peak(stats, "group-by") == HOURS


def test_the_input_that_others_wait_for_is_read_first(tmp_path: Path) -> None:
    """Two feeds whose busy hours differ: in proportion alone, one would run hours ahead of the other."""
    schedules = {"sensor1": [400] * 12 + [4] * 12, "sensor2": [4] * 12 + [400] * 12}
    for name, reports in schedules.items():
        lines = [
            (f"{name}.xml", line)
            for hour, count in enumerate(reports)
            for line in [
                *(
                    f"<tempdata><sid>{i}</sid><hour>{hour}</hour><currtmp>{i}</currtmp></tempdata>\n"
                    for i in range(count)
                ),
                f"<punct:tempdata><hour>{hour}</hour></punct:tempdata>\n",
            ]
        ]
        generators.write(lines, str(tmp_path))
    query = plan(SAMPLE.read_text(), {name: str(tmp_path / f"{name}.xml") for name in schedules})
    stats = RunStats("local")
    with closing(LocalRun(query, open_sources(query), 4096, stats, PUNCT_NAMESPACE)) as running:
        while running.advance() is not None:
            pass
    # A slice of the quiet feed holds some ten of its hours; beside these there is one busy hour at a time.
    assert peak(stats, "union") <= 400 + 2 * 4096 // 60 + 50
    assert next(o for o in stats.operators if o.operator == "union").tuples_out > 4000


def test_only_what_is_asked_for_is_read() -> None:
    query = plan(SAMPLE.read_text())
    for stream in query.streams:
        assert columns_read([query.root], stream) == {"currtmp", "hour"}
