"""The local engine on generated streams: its state sizes, and when it releases results."""

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
    """Run the sample query; return each result's hour with the hours read from both sensors at its release."""
    generators.write(generators.warehouse(2, HOURS, READINGS, punctuations, seed=1), str(folder))
    query = plan(SAMPLE.read_text(), {f"sensor{i}": str(folder / f"sensor{i}.xml") for i in (1, 2)})
    stats, results = RunStats("local"), []
    with closing(LocalRun(query, open_sources(query), SLICE, stats, PUNCT_NAMESPACE)) as running:
        while (result := running.advance()) is not None:
            read = [stats.inputs[f"sensor{i}"].tuples // TUPLES_PER_HOUR for i in (1, 2)]
            results += [(hour, *read) for hour in result.tuples["hour"]]
    return stats, results


def peak(stats: RunStats, operator: str) -> int:
    return next(o.state_rows_peak for o in stats.operators if o.operator == operator)


@pytest.mark.parametrize("punctuations", [1, 30])
def test_an_hour_is_released_within_two_hours_of_input(tmp_path: Path, punctuations: int) -> None:
    stats, results = run_warehouse(tmp_path, punctuations)
    assert [hour for hour, _, _ in results] == list(range(HOURS))
    assert all(max(read) < hour + 2 for hour, *read in results[:-1])
    slice_tuples = SLICE // 75  # minimum size of a report in bytes
    assert peak(stats, "union") <= TUPLES_PER_HOUR + 2 * slice_tuples
    assert peak(stats, "group-by") <= 2


def test_without_punctuations_the_state_is_the_stream(tmp_path: Path) -> None:
    stats, results = run_warehouse(tmp_path, 0)
    assert len(results) == HOURS
    union = next(o for o in stats.operators if o.operator == "union")
    assert union.state_rows_peak == union.tuples_out
    assert peak(stats, "group-by") == HOURS


def test_the_input_that_delays_results_is_read_first(tmp_path: Path) -> None:
    """Proportional reading would read one feed hours ahead, because their busy hours differ."""
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
    # A slice of the quiet feed has about ten hours; the state adds at most one busy hour.
    assert peak(stats, "union") <= 400 + 2 * 4096 // 60 + 50
    assert next(o for o in stats.operators if o.operator == "union").tuples_out > 4000


def test_only_needed_columns_are_read() -> None:
    query = plan(SAMPLE.read_text())
    for stream in query.streams:
        assert columns_read([query.root], stream) == {"currtmp", "hour"}
