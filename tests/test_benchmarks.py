"""The benchmarks run and say what they promise, at sizes that measure nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def printed(name: str, *options: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(name: str, data: Path | None, *options: str) -> dict[str, Any]:
    """What a benchmark reports, of test data in ``data`` if it uses any."""
    usual = () if data is None else ("--data", str(data), "--rounds", "1")
    found: dict[str, Any] = json.loads(printed(name, *usual, *options))
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


def test_threads_give_the_same(data: Path) -> None:
    found = said("threads", data, "--threads", "1,3", "--hours", "2", "--readings", "1")
    assert found["speed"].keys() == {"1", "3"}


def test_the_auction_keeps_few_items_open(data: Path) -> None:
    found = said("auction", data, "--items", "20", "--bids", "100", "--open", "5")
    assert found["tuples"] == 120
    assert found["state_rows_peak"]["join"] <= 120


def test_the_figures_of_the_paper(data: Path) -> None:
    small = ("--only", "warehouse", "--hours", "3", "--scale", "5", "--per-hour", "30")
    found = said("punctuations", data, *small)["warehouse"]
    states = found["state_of_union"]
    assert states["punctuated"]["peak"] < states["plain"]["peak"]
    assert states["plain"]["points"][-1][0] == found["tuples"] == 1800
    assert list(found["by_punctuations_per_hour"]) == ["0", "30"]


def test_punctuations_are_traded_for_state(data: Path) -> None:
    small = (
        "--hours",
        "3",
        "--every",
        "10",
        "60",
        "--inputs",
        "2",
        "4",
        "--items",
        "100",
        "--groups",
        "1",
        "16",
    )
    found = said("punctuations", data, "--only", "union", "join", *small)
    never, often, seldom = found["union"]["by_minutes_between"].values()
    assert often["punctuation_bytes"] > seldom["punctuation_bytes"] > never["punctuation_bytes"] == 0
    assert often["union_rows"] < seldom["union_rows"] < never["union_rows"]
    assert often["half_out"] < never["half_out"] == 1

    # What is declared of an attribute lets promises of its values add up; of the hour alone they need not.
    by_attribute = {name: of["union_rows"] for name, of in found["union"]["by_attribute"].items()}
    helps = {"hour", "the same, sid declared", "the same, min declared"}
    assert max(by_attribute[name] for name in helps) < min(
        by_attribute[n] for n in by_attribute if n not in helps
    )
    assert list(found["union"]["by_inputs"]) == ["2", "4"]

    by_attribute = {name: of["join_rows"] for name, of in found["join"]["by_attribute"].items()}
    assert min(by_attribute, key=by_attribute.__getitem__) == "both: itemid"
    assert max(by_attribute, key=by_attribute.__getitem__) == "nothing"
    one, many = found["join"]["by_items_at_a_time"].values()
    assert one["punctuation_bytes"] > many["punctuation_bytes"]
    assert one["join_rows"] < many["join_rows"]


def test_windows_are_traded_for_the_answer(data: Path) -> None:
    small = ("--hours", "3", "--items", "200", "--windows", "25", "200", "--lags", "0", "60")
    found = said("punctuations", data, "--only", "windows", *small)["windows"]
    exact, short, long = found["auction"].values()
    assert short["exact"] < long["exact"] == exact["exact"] == 1
    assert exact["group_by_rows"] < short["group_by_rows"]
    assert exact["half_out"] < short["half_out"] == 1
    in_step, late = found["out_of_step"].values()
    assert in_step["in_order"] < late["in_order"]
    assert late["groups"] < late["in_order"]


def test_live_senders_are_watched(data: Path) -> None:
    found = said("punctuations", data, "--only", "live", "--hours", "2", "--rate", "2400")["live"]
    assert found["punctuated"]["union_rows"] < found["plain"]["union_rows"]
    assert {of["results"][-1][1] for of in found.values()} == {2}  # one for each hour


def test_scaling_fits_exponents(data: Path) -> None:
    found = said(
        "scaling",
        data,
        "--only",
        "equality",
        "pairs",
        "ranges",
        "output",
        "large",
        "windows",
        "--retained",
        "100",
        "200",
        "--slices",
        "2",
        "--most",
        "20000",
        "--large",
        "100",
    )
    for name in ("equality", "pairs", "ranges", "output"):
        assert len(found[name]["points"]) >= 2
        assert isinstance(found[name]["exponent"], float)
    assert found["large"]["dupelim"]["tuples"] == 100
    assert [p["n"] for p in found["windows"]["session"]["points"]] == [100, 200]


def test_latency_counts_all_results() -> None:
    found = said("latency", None, "--seconds", "0.5", "--rate", "2000", "--group", "50")
    assert found["results"] == 20
    assert 0 < found["median_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert list(found["targets"]) == ["p99_ms"]


def test_what_is_retained_does_not_count() -> None:
    found = said("retained", None, "--retained", "1000", "2000", "--pieces", "2")
    for name in ("distinct", "join", "except"):
        assert [point["n"] for point in found[name]["points"]] == [1000, 2000]
        assert found[name]["largest_against_smallest"] > 0


SMALL = ("--items", "2000", "--hours", "1", "--mib", "1", "--cores", "8")


def test_capacity_measures_what_it_plans_with(data: Path) -> None:
    found = said("capacity", data, *SMALL)
    machine, queries = found["machine"], found["queries"]
    assert {
        "P",
        "Pc",
        "cp",
        "cr",
        "m",
        "M0",
        "t",
        "r",
        "u",
        "v",
        "g",
        "W",
        "rp",
        "rt",
        "wt",
    } == machine.keys()
    assert machine["M0"] > 2**20
    # What does not depend on the clock is known beforehand: an hour of two sensors, and ten bids for each item.
    assert queries["warehouse"]["q"] == pytest.approx(2 / 36000)
    assert queries["auction"]["q"] == pytest.approx(2 / 11)
    assert 0 < queries["warehouse"]["d"] < 0.1
    assert queries["auction"]["d"] == 1
    assert 0 < queries["auction"]["y"] <= 1 / 11
    plan = found["plans"]["auction"]
    each = plan["seconds_per_million_tuples"]
    assert each["reading"] == pytest.approx(1e6 * queries["auction"]["x"] / machine["P"])
    assert plan["tuples_per_second"] == pytest.approx(8e6 / sum(each.values()))
    assert plan["saturates_first"] in {"cores", *plan["limits"]}


def test_capacity_prints_the_tables_of_its_page(data: Path) -> None:
    tables = printed("capacity", "--data", str(data), "--rounds", "1", "--markdown", *SMALL).splitlines()
    page = (BENCHMARKS.parent / "docs" / "capacity.md").read_text().splitlines()

    def heads(lines: list[str]) -> list[str]:
        return [line.replace("1,000", "8") for line, below in pairwise(lines) if below.startswith("| --- |")]

    assert heads(tables) == heads(page)

    def names(lines: list[str]) -> set[str]:
        return {line.split("|")[1].strip() for line in lines if line.startswith("| `")}

    assert names(page) - names(tables) == {"`b`", "`bs`"}  # which take Spark
    assert names(tables) <= names(page)


def test_a_contender_may_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pygixml.py").write_text("import os\n\ndef parse_string(text):\n    os.abort()\n")
    (tmp_path / "pygixml-1.dist-info").mkdir()
    (tmp_path / "pygixml-1.dist-info" / "METADATA").write_text("Name: pygixml\nVersion: 1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(BENCHMARKS), *sys.path])
    readers = import_module("readers")

    wanted = readers.Wanted(("r", "t"), {"a": ("a",)}, {"a": pl.Int64})
    can, cannot = readers.able(wanted, b"<r><t><a>1</a></t></r>", pl.DataFrame({"a": [1]}))
    assert "lxml" in can
    assert cannot["pygixml"] == "crashes on this document"


def test_windows_agree_with_polars_and_retain_what_is_open(data: Path) -> None:
    small = (
        "--range",
        "3000",
        "--slices",
        "1000",
        "--length",
        "2000",
        "--windows",
        "200",
        "400",
        "--steps",
        "2",
    )
    found = said("windows", data, *small, "--tuples", "3000")
    assert found["tumble"]["contenders"]["xmlpunct"]["tuples_per_second"] > 0
    assert found["range"]["slices"]["1000"]["of_polars_speed"] > 0
    once, *longer = (point["rows_peak"] for point in found["join"]["points"])
    assert [once, once] == longer
    assert found["sliding"].keys() == {"SUM, RANGE", "MIN, RANGE", "ROWS", "SUM, OVER", "SESSION"}


def test_nexmark_gives_a_figure_for_a_query(data: Path) -> None:
    figures = said("nexmark", data, "--events", "200", "--queries", "q3")["queries"]
    assert figures["q3"]["events_per_second"] > 0
    assert figures["q3"]["published_on_other_machines"] == {"Flink 1.13": 152_000, "Feldera": 413_000}


@pytest.mark.long
@pytest.mark.spark
def test_starting_is_taken_apart(data: Path) -> None:
    found = said("start", data, "--master", "local[1]")
    assert found["times"].keys() == {"wall", "cpu"}
    for of_it in found["contenders"].values():
        assert 0 < sum(of_it["stages"].values()) <= of_it["wall_seconds"]
        assert of_it["later_micro_batch"] > 0


@pytest.mark.long
@pytest.mark.spark
def test_the_workers_of_a_cluster_are_watched(data: Path) -> None:
    small = ("--data", str(data), "--files", "20", "--hours", "8", "--readings", "2", "--only", "steady")
    found = json.loads(printed("cluster", *small))
    executors = found["runs"]["steady"]["executors"]
    assert len(executors) == 2
    assert all(of_it["tasks"] and 0 < of_it["busy"] <= 1 for of_it in executors.values())
