"""Charts of a run's history as SVG: tuples read, results, and retained tuples over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xmlpunct.engine.view.drawing import add_element, as_svg, svg_picture
from xmlpunct.engine.view.trend import HistoryPoint

WIDTH, HEIGHT = 300, 96
"""The size of a chart, in pixels."""
_LEFT, _TOP, _BOTTOM, _GAP = 8, 24, 20, 24


def rates(points: Sequence[HistoryPoint], counter: str) -> list[float]:
    """Growth of a counter per second, between each two adjacent points.

    >>> rates([HistoryPoint(0, 0, 0, 0), HistoryPoint(2, 10, 0, 0)], "tuples_in")
    [5.0]
    """
    return [
        max(0, getattr(after, counter) - getattr(before, counter)) / (after.seconds - before.seconds)
        for before, after in pairwise(points)
    ]


def draw_history(points: Sequence[HistoryPoint]) -> str:
    """Three charts side by side; empty before the second point.

    >>> draw_history([HistoryPoint(0, 0, 0, 0)])
    ''
    >>> "tuples read: 5/s, at most 5/s" in draw_history([HistoryPoint(0, 0, 0, 0), HistoryPoint(2, 10, 0, 0)])
    True
    """
    if len(points) < 2:
        return ""
    series = {
        "tuples read": (rates(points, "tuples_in"), "/s"),
        "results": (rates(points, "tuples_out"), "/s"),
        "retained tuples": ([float(point.state_rows) for point in points[1:]], ""),
    }
    picture = svg_picture(len(series) * (WIDTH + _GAP) - _GAP, HEIGHT, "Rates over time")
    times = [point.seconds for point in points[1:]]
    begun, span = points[0].seconds, times[-1] - points[0].seconds
    for number, (name, (values, unit)) in enumerate(series.items()):
        highest, low = max(values), HEIGHT - _BOTTOM
        chart = add_element(picture, "g", class_="chart", transform=f"translate({number * (WIDTH + _GAP)} 0)")
        line = f"{name}: {_number(values[-1])}{unit}, at most {_number(highest)}{unit}"
        add_element(chart, "text", line, x=str(_LEFT), y="14")
        corners = [(float(_LEFT), low - (low - _TOP) * values[0] / (highest or 1))]
        corners += [
            (
                _LEFT + (WIDTH - 2 * _LEFT) * (second - begun) / span,
                low - (low - _TOP) * value / (highest or 1),
            )
            for second, value in zip(times, values, strict=True)
        ]
        curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        base = f"{_LEFT},{low} {curve} {WIDTH - _LEFT},{low}"
        add_element(chart, "polygon", points=base, class_="area")
        add_element(chart, "polyline", points=curve, fill="none")
        add_element(chart, "text", f"{begun:,.0f} s", x=str(_LEFT), y=str(HEIGHT - 5), class_="time")
        last = add_element(chart, "text", f"{times[-1]:,.0f} s", x=str(WIDTH - _LEFT), y=str(HEIGHT - 5))
        last.set("class", "time")
        last.set("text-anchor", "end")
    return as_svg(picture)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
