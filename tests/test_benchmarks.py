"""The benchmarks run and say what they promise, at sizes that measure nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def said(name: str, data: Path, *options: str) -> dict[str, Any]:
    """What a benchmark prints."""
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--data", str(data), "--rounds", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.pop("measured_on")["packages"]["xmlpunct"]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def test_the_warehouse_agrees_with_the_loops(data: Path) -> None:
    found = said("warehouse", data, "--hours", "2", "--readings", "1", "--punctuations", "30")
    assert found["tuples"] == 240
    assert {"xmlpunct", "lxml"} <= found["contenders"].keys()
    assert found["times_the_seconds"].keys() == found["contenders"].keys() - {"xmlpunct"}


def test_the_auction_keeps_few_items_open(data: Path) -> None:
    found = said("auction", data, "--items", "20", "--bids", "100", "--open", "5")
    assert found["tuples"] == 120
    assert found["state_rows_peak"]["join"] <= 120


def test_the_figures_of_the_paper(data: Path) -> None:
    found = said("punctuations", data, "--hours", "3", "--scale", "5", "--per-hour", "30")
    states = found["state_of_union"]
    assert states["punctuated"]["peak"] < states["plain"]["peak"]
    assert states["plain"]["points"][-1][0] == found["tuples"] == 1800
    assert list(found["by_punctuations_per_hour"]) == ["0", "30"]


def test_scaling_fits_exponents(data: Path) -> None:
    found = said("scaling", data, "--only", "equality", "pairs", "ranges", "output", "--most", "20000")
    for name in ("equality", "pairs", "ranges", "output"):
        assert len(found[name]["points"]) >= 2
        assert isinstance(found[name]["exponent"], float)
