"""Twice the punctuations, sinks or UNION inputs execute at most 2.5 times as many lines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.engine.test_wide_streams import lines_run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = (
    "union",
    "union all",
    "except",
    "inner join",
    "left join",
    "left join in slices",
    "strings",
    "left join of strings",
    "inputs of a union",
    "sinks",
    "sinks, explained",
    "sinks of views",
)


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_work(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    growth = import_module("growth")
    cases = growth.CASES | growth.PLANNED
    assert set(NAMES) == cases.keys()
    cases[name](tmp_path, 5)()  # warm up: imports and one-time work
    fewest = 50 if name in growth.PLANNED else 100 if "strings" in name else 800 if "slices" in name else 400
    few, many = (lines_run(cases[name](tmp_path, n)) for n in (fewest, 2 * fewest))
    assert many < 2.5 * few
