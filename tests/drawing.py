"""SVG shapes and texts for the pictures in docs, legible on light and dark pages.

>>> sheet = Sheet("A dot", 40, 20)
>>> sheet.dot(10, 10)
>>> "<circle" in sheet.svg()
True
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

COLOURS = {
    "panel": ("#ffffff", "#161b22"),
    "ink": ("#24292f", "#e6edf3"),
    "dim": ("#57606a", "#9da7b3"),
    "shade": ("#eaeef2", "#2d333b"),
    "tuple": ("#3f51b5", "#8c9eff"),
    "promise": ("#c2410c", "#ffa657"),
    "result": ("#2e7d32", "#7ee787"),
}
"""Each colour on a light page and on a dark page."""
WIDTH = 720
"""The usual width of a sheet."""


def _style() -> str:
    rules = [".line{fill:none;stroke-width:1.5}", ".dash{stroke-dasharray:5 4}", ".bold{font-weight:600}"]
    for number, (start, end) in enumerate((("", ""), ("@media (prefers-color-scheme: dark){", "}"))):
        colours = "".join(
            f".{name}{{fill:{c[number]}}}.line.{name}{{fill:none;stroke:{c[number]}}}"
            for name, c in COLOURS.items()
        )
        rules.append(f"{start}{colours}{end}")
    return "".join(rules)


class Sheet:
    """A picture, in pixels from its upper left corner. Colours are names of `COLOURS`."""

    def __init__(self, title: str, height: int, width: int = WIDTH) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []

    def svg(self) -> str:
        """The picture as SVG, with a background of its own."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'role="img" font-family="system-ui, sans-serif" font-size="13">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{_style()}</style>",
                f'<rect class="panel" width="{self.width}" height="{self.height}" rx="8"/>',
                *self.parts,
                "</svg>\n",
            ]
        )

    def text(
        self, x: float, y: float, text: str, colour: str = "ink", anchor: str = "start", bold: bool = False
    ) -> None:
        """One line of text; ``x`` is its ``start``, ``middle`` or ``end``, ``y`` its baseline."""
        weight = " bold" if bold else ""
        self.parts.append(
            f'<text class="{colour}{weight}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def dot(self, x: float, y: float, colour: str = "tuple", radius: float = 6) -> None:
        """A tuple."""
        self.parts.append(f'<circle class="{colour}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def bar(self, x: float, top: float, bottom: float) -> None:
        """A punctuation: an upright bar."""
        self.rect(x - 3, top, 6, bottom - top, "promise")

    def rect(self, x: float, y: float, width: float, height: float, colour: str, round_: float = 0) -> None:
        """A filled rectangle."""
        self.parts.append(
            f'<rect class="{colour}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_:g}"/>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: Sequence[str],
        colour: str = "ink",
        bold: bool = True,
    ) -> None:
        """A frame with lines of text in its middle; the first one is its name."""
        self.rect(x, y, width, height, "shade", 6)
        self.parts.append(
            f'<rect class="line {colour}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
        )
        first = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            line_colour = "dim" if number else "ink"
            self.text(x + width / 2, first + 18 * number, line, line_colour, "middle", bold and not number)

    def path(self, points: Sequence[tuple[float, float]], colour: str = "dim", dashed: bool = False) -> None:
        """A line through points."""
        way = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="line {colour}{" dash" if dashed else ""}" d="M{way}"/>')

    def arrow(self, points: Sequence[tuple[float, float]], colour: str = "dim", dashed: bool = False) -> None:
        """A line through points with a head at its end. Its last piece is level or upright."""
        self.path(points, colour, dashed)
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        left, right = (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx), (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx)
        self.parts.append(
            f'<path class="{colour}" d="M{x:g} {y:g}L{left[0]:g} {left[1]:g}L{right[0]:g} {right[1]:g}Z"/>'
        )
