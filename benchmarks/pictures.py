"""The pictures of `punctuations.py`: each draws what its section has found into matplotlib's axes."""

from __future__ import annotations

from typing import Any

from experiments import Curve

Figures = dict[str, Any]


def warehouse(axes: Any, found: Figures) -> None:
    state, time = axes
    for name, of_run in found["state_of_union"].items():
        curve(state, of_run["points"], name, ":" if name == "punctuated" else "-")
    state.set(xlabel="tuples", ylabel="tuples retained by union")
    times = found["by_punctuations_per_hour"]
    for name, style in (
        ("first_result_seconds", "--"),
        ("last_result_seconds", "-"),
        ("total_cpu_seconds", ":"),
    ):
        measured(time, times, name, style)
    time.set(xlabel="punctuations per hour", ylabel="seconds")
    time.set_ylim(bottom=0)


def union(axes: Any, found: Figures) -> None:
    often, attribute, inputs = axes
    minutes = {n: point for n, point in found["by_minutes_between"].items() if n != "0"}
    for name in ("punctuation_bytes", "union_rows"):
        measured(often, minutes, name, "o-")
    often.set(xlabel="minutes between punctuations", xscale="log", yscale="log")
    by_attribute = found["by_attribute"]
    attribute.barh(list(by_attribute), [point["union_rows"] for point in by_attribute.values()])
    attribute.invert_yaxis()
    attribute.set(xlabel="tuples retained by union, by what is promised")
    for name in ("union_rows", "held_punctuations"):
        measured(inputs, found["by_inputs"], name, "o-")
    inputs.set(xlabel="inputs", xscale="log", yscale="log")
    inputs.set_xticks([int(n) for n in found["by_inputs"]], list(found["by_inputs"]))
    inputs.minorticks_off()


def join(axes: Any, found: Figures) -> None:
    attribute, group = axes
    for name, of_run in found["by_attribute"].items():
        curve(attribute, of_run["points"], name)
    attribute.set(xlabel="tuples", ylabel="tuples retained by join")
    for name in ("punctuation_bytes", "join_rows"):
        measured(group, found["by_items_at_a_time"], name, "o-")
    group.set(xlabel="items that a punctuation closes", xscale="log", yscale="log")


def windows(axes: Any, found: Figures) -> None:
    auction, sensors = axes
    lengths = {n: point for n, point in found["auction"].items() if n != "punctuations"}
    auction.plot(
        [p["rows"] for p in lengths.values()], [p["exact"] for p in lengths.values()], "o-", label="windows"
    )
    for length, point in lengths.items():
        auction.annotate(length, (point["rows"], point["exact"]), xytext=(4, -10), textcoords="offset points")
    exact = found["auction"]["punctuations"]
    auction.plot([exact["rows"]], [exact["exact"]], "s", label="punctuations")
    auction.set(
        xlabel="rows retained, without those of group-by",
        ylabel="share of items with their sum",
        xscale="log",
    )
    for name in ("in_order", "groups"):
        measured(sensors, found["out_of_step"], name, "o-")
    sensors.set(xlabel="minutes that one sensor is late", ylabel="rows retained", yscale="symlog")


def live(axes: Any, found: Figures) -> None:
    state, results = axes
    for name, of_run in found.items():
        curve(state, of_run["state"], name)
        curve(results, of_run["results"], name)
    state.set(xlabel="seconds", ylabel="tuples retained by union")
    results.set(xlabel="seconds", ylabel="results")


def curve(axes: Any, points: Curve, label: str, style: str = "-") -> None:
    axes.plot(*zip(*points, strict=True), style, label=label)


def measured(axes: Any, by_number: dict[str, Figures], name: str, style: str) -> None:
    """One of the figures over the numbers it was measured for."""
    axes.plot(
        [int(n) for n in by_number],
        [p[name] for p in by_number.values()],
        style,
        label=name.replace("_", " "),
    )
