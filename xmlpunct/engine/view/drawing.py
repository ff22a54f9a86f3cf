"""The plan of a moment as a picture: what flows, what is retained, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from xmlpunct.base.printable import printable
from xmlpunct.engine.view.moment import Box, Moment

_SVG = "http://www.w3.org/2000/svg"

WIDTH, HEIGHT = 208, 62
"""Of a box, in pixels."""
_GAP_X, _GAP_Y, _MARGIN = 92, 26, 12
_LETTERS = 32
"""So many letters of a line have room in a box; a box's title has all of them."""

WAITS, FLOWS, STILL = "waits", "flows", "still"
"""What an edge does: tuples wait for what it brings, tuples come through it, or neither."""


@dataclass(frozen=True)
class Place:
    """Where a box stands: its upper left corner."""

    x: float
    y: float


def places(boxes: tuple[Box, ...]) -> dict[int, Place]:
    """Where each box stands: inputs on the left, below each other; an operator right of all that it reads from.

    >>> found = places((Box(1, "scan", "a"), Box(2, "scan", "b"), Box(3, "join", "", (1, 2))))
    >>> found[1].x == found[2].x < found[3].x, found[1].y < found[3].y < found[2].y
    (True, True)
    """
    depths: dict[int, int] = {}
    rows: dict[int, float] = {}
    taken: dict[int, list[float]] = {}
    leaves = 0
    for box in boxes:  # those it reads from come first
        depths[box.id] = 1 + max((depths[below] for below in box.inputs), default=-1)
        if box.inputs:
            rows[box.id] = sum(rows[below] for below in box.inputs) / len(box.inputs)
        else:
            rows[box.id], leaves = leaves, leaves + 1
        beside = taken.setdefault(depths[box.id], [])
        while close := [row for row in beside if abs(row - rows[box.id]) < 1]:  # of two that read one
            rows[box.id] = max(close) + 1
        beside.append(rows[box.id])
    return {
        box.id: Place(_MARGIN + depths[box.id] * (WIDTH + _GAP_X), _MARGIN + rows[box.id] * (HEIGHT + _GAP_Y))
        for box in boxes
    }


def does(moment: Moment, box: Box, port: int) -> str:
    """What the edge into a port of a box does."""
    below = next(b for b in moment.boxes if b.id == box.inputs[port])
    if port < len(box.waits) and box.waits[port]:
        return WAITS
    return FLOWS if below.rate > 0 else STILL


def draw(moment: Moment) -> str:
    """The picture, as SVG. Classes of edges are `WAITS`, `FLOWS` and `STILL`, those of boxes ``box``; ids ``box-N``.

    >>> boxes = (Box(1, "scan", "a: x < 3"), Box(2, "scan", "b"), Box(3, "union", "", (1, 2), waits=(0, 7)))
    >>> picture = draw(Moment("running", "local", 1.0, boxes))
    >>> picture.count('class="edge waits"'), "7 wait" in picture, "x &lt; 3" in picture
    (1, True, True)
    """
    at = places(moment.boxes)
    width = max(p.x for p in at.values()) + WIDTH + _MARGIN
    height = max(p.y for p in at.values()) + HEIGHT + _MARGIN
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    picture = etree.Element("svg", size, xmlns=_SVG, role="img")
    _add(picture, "title", text="The plan: inputs on the left, the result on the right")
    for box in moment.boxes:
        for port, below in enumerate(box.inputs):
            _edge(picture, at[below], at[box.id], moment, box, port)
    for box in moment.boxes:
        _box(picture, box, at[box.id])
    return etree.tostring(picture, encoding="unicode")


def _add(parent: etree._Element, tag: str, text: str = "", **attributes: str) -> etree._Element:
    """A new element; underscores in attributes' names stand for hyphens, at the end for nothing."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    element = etree.SubElement(parent, tag, named)
    element.text = printable(text, keep="\n") or None
    return element


def _edge(picture: etree._Element, start: Place, end: Place, moment: Moment, box: Box, port: int) -> None:
    kind = does(moment, box, port)
    share = (port + 1) / (len(box.inputs) + 1)
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT * share
    middle = (x1 + x2) / 2
    edge = _add(picture, "g", class_=f"edge {kind}")
    curve = f"M{x1:g} {y1:g} C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
    _add(edge, "path", d=curve, fill="none")
    below = next(b for b in moment.boxes if b.id == box.inputs[port])
    if said := f"{box.waits[port]:,} wait" if kind == WAITS else f"{below.rate:,.0f}/s" * (kind == FLOWS):
        _add(edge, "text", said, x=f"{middle:g}", y=f"{(y1 + y2) / 2 - 6:g}", text_anchor="middle")


def _box(picture: etree._Element, box: Box, place: Place) -> None:
    counts = f"{box.tuples_out:,} tuples, {box.punctuations_out:,} punctuations out"
    if box.state_rows or box.held_punctuations:
        counts = f"retains {box.state_rows:,} + {box.held_punctuations:,}; {box.tuples_out:,} out"
    group = _add(
        picture, "g", class_="box", id=f"box-{box.id}", transform=f"translate({place.x:g} {place.y:g})"
    )
    serves = f"\nfor {', '.join(box.sinks)}" if box.sinks else ""
    _add(group, "title", f"#{box.id} {box.name} {box.what}".rstrip() + f"\n{counts}{serves}")
    _add(group, "rect", width=str(WIDTH), height=str(HEIGHT), rx="6")
    lines = {"name": f"#{box.id} {box.name}", "what": box.what, "counts": counts}
    for number, (kind, line) in enumerate(lines.items()):
        _add(group, "text", _cut(line, _LETTERS), class_=kind, x="10", y=str(19 + 17 * number))
    if box.sinks:
        shown = _cut(", ".join(box.sinks), _LETTERS - len(lines["name"]) - 2)
        _add(group, "text", shown, class_="what", x=str(WIDTH - 10), y="19", text_anchor="end")


def _cut(line: str, letters: int) -> str:
    """As much of a line as there is room for."""
    return line if len(line) <= letters else f"{line[: letters - 1]}…"
