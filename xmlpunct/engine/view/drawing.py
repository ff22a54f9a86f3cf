"""The plan of a moment as an SVG picture: operators with their counts, edges with their rates or waiting tuples."""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from xmlpunct.base.printable import printable
from xmlpunct.engine.view.moment import Moment, OperatorBox

_SVG = "http://www.w3.org/2000/svg"

WIDTH, HEIGHT = 208, 62
"""The size of a box, in pixels."""
_GAP_X, _GAP_Y, _MARGIN = 92, 26, 12
_LETTERS = 32
"""Maximum length of a line in a box. The box's title has the full text."""

WAITS, FLOWS, STILL = "waits", "flows", "still"
"""States of an edge: retained tuples wait for its punctuations, tuples flow through it, or neither."""


@dataclass(frozen=True)
class BoxCorner:
    """The upper left corner of a box."""

    x: float
    y: float


def box_corners(boxes: tuple[OperatorBox, ...]) -> dict[int, BoxCorner]:
    """The corner of each box. Scans are in the left column; an operator is to the right of all its inputs.

    >>> scans = OperatorBox(1, "scan", "a"), OperatorBox(2, "scan", "b")
    >>> corners = box_corners((*scans, OperatorBox(3, "join", "", (1, 2))))
    >>> corners[1].x == corners[2].x < corners[3].x, corners[1].y < corners[3].y < corners[2].y
    (True, True)
    """
    depths: dict[int, int] = {}
    rows: dict[int, float] = {}
    depth_rows: dict[int, list[float]] = {}
    leaves = 0
    for box in boxes:  # inputs precede their operator
        depths[box.id] = 1 + max((depths[below] for below in box.inputs), default=-1)
        if box.inputs:
            rows[box.id] = sum(rows[below] for below in box.inputs) / len(box.inputs)
        else:
            rows[box.id], leaves = leaves, leaves + 1
        same_depth = depth_rows.setdefault(depths[box.id], [])
        while close := [
            row for row in same_depth if abs(row - rows[box.id]) < 1
        ]:  # two operators may share an input
            rows[box.id] = max(close) + 1
        same_depth.append(rows[box.id])
    return {
        box.id: BoxCorner(
            _MARGIN + depths[box.id] * (WIDTH + _GAP_X), _MARGIN + rows[box.id] * (HEIGHT + _GAP_Y)
        )
        for box in boxes
    }


def does(moment: Moment, box: OperatorBox, port: int) -> str:
    """The state of the edge into a port of a box."""
    below = next(b for b in moment.boxes if b.id == box.inputs[port])
    if port < len(box.waits) and box.waits[port]:
        return WAITS
    return FLOWS if below.rate > 0 else STILL


def draw(moment: Moment) -> str:
    """The picture as SVG. An edge has the class `WAITS`, `FLOWS` or `STILL`; a box has the class ``box``, id ``box-N``.

    >>> scans = OperatorBox(1, "scan", "a: x < 3"), OperatorBox(2, "scan", "b")
    >>> union = OperatorBox(3, "union", "", (1, 2), waits=(0, 7))
    >>> picture = draw(Moment("running", "local", 1.0, (*scans, union)))
    >>> picture.count('class="edge waits"'), "7 wait" in picture, "x &lt; 3" in picture
    (1, True, True)
    """
    corners = box_corners(moment.boxes)
    width = max(p.x for p in corners.values()) + WIDTH + _MARGIN
    height = max(p.y for p in corners.values()) + HEIGHT + _MARGIN
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    picture = etree.Element("svg", size, xmlns=_SVG, role="img")
    _add(picture, "title", text="The plan: inputs on the left, the result on the right")
    for box in moment.boxes:
        for port, below in enumerate(box.inputs):
            _edge(picture, corners[below], corners[box.id], moment, box, port)
    for box in moment.boxes:
        _box(picture, box, corners[box.id])
    return etree.tostring(picture, encoding="unicode")


def _add(parent: etree._Element, tag: str, text: str = "", **attributes: str) -> etree._Element:
    """Append an element. In attribute names an underscore becomes a hyphen; a trailing underscore is removed."""
    svg_attributes = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    element = etree.SubElement(parent, tag, svg_attributes)
    element.text = printable(text, keep="\n") or None
    return element


def _edge(
    picture: etree._Element, start: BoxCorner, end: BoxCorner, moment: Moment, box: OperatorBox, port: int
) -> None:
    kind = does(moment, box, port)
    share = (port + 1) / (len(box.inputs) + 1)
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT * share
    middle = (x1 + x2) / 2
    edge = _add(picture, "g", class_=f"edge {kind}")
    curve = f"M{x1:g} {y1:g} C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
    _add(edge, "path", d=curve, fill="none")
    below = next(b for b in moment.boxes if b.id == box.inputs[port])
    if label := f"{box.waits[port]:,} wait" if kind == WAITS else f"{below.rate:,.0f}/s" * (kind == FLOWS):
        _add(edge, "text", label, x=f"{middle:g}", y=f"{(y1 + y2) / 2 - 6:g}", text_anchor="middle")


def _box(picture: etree._Element, box: OperatorBox, corner: BoxCorner) -> None:
    counts = f"{box.tuples_out:,} tuples, {box.punctuations_out:,} punctuations out"
    if box.state_rows or box.held_punctuations:
        counts = f"retains {box.state_rows:,} + {box.held_punctuations:,}; {box.tuples_out:,} out"
    group = _add(
        picture, "g", class_="box", id=f"box-{box.id}", transform=f"translate({corner.x:g} {corner.y:g})"
    )
    serves = f"\nfor {', '.join(box.sinks)}" if box.sinks else ""
    _add(group, "title", f"#{box.id} {box.name} {box.what}".rstrip() + f"\n{counts}{serves}")
    _add(group, "rect", width=str(WIDTH), height=str(HEIGHT), rx="6")
    lines = {"name": f"#{box.id} {box.name}", "what": box.what, "counts": counts}
    for number, (kind, line) in enumerate(lines.items()):
        _add(group, "text", _shorten(line, _LETTERS), class_=kind, x="10", y=str(19 + 17 * number))
    if box.sinks:
        sink_names = _shorten(", ".join(box.sinks), _LETTERS - len(lines["name"]) - 2)
        _add(group, "text", sink_names, class_="what", x=str(WIDTH - 10), y="19", text_anchor="end")


def _shorten(line: str, letters: int) -> str:
    """The line, shortened to this number of letters."""
    return line if len(line) <= letters else f"{line[: letters - 1]}…"
