"""The plan of a moment as an SVG picture: operators with their counts, edges with their rates or waiting tuples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lxml import etree

from xmlpunct.base.printable import printable
from xmlpunct.engine.view.folding import fold_plan
from xmlpunct.engine.view.moment import Moment, OperatorBox

_SVG = "http://www.w3.org/2000/svg"

WIDTH, HEIGHT = 200, 62
"""The size of a box, in pixels."""
_LINE_HEIGHT = 26
"""The height of a scan in a plan with many inputs."""
_GAP_X, _GAP_Y, _MARGIN = 80, 22, 12
_LINE_GAP = 8
_LETTERS, _NAME_LETTERS = 31, 23
"""Maximum lengths of a line in a box, and of its first, bold line. The box's title has the full text."""

WAITS, FLOWS, STILL = "waits", "flows", "still"
"""States of an edge: retained tuples wait for its punctuations, tuples flow through it, or neither."""


@dataclass(frozen=True)
class BoxCorner:
    """The upper left corner of a box, and its height."""

    x: float
    y: float
    height: float = HEIGHT

    @property
    def middle(self) -> float:
        """The y coordinate of its output."""
        return self.y + self.height / 2


def box_corners(boxes: tuple[OperatorBox, ...], has_lines: bool = False) -> dict[int, BoxCorner]:
    """The corner of each box. An operator is in the column to the right of its inputs; roots are in the last one.

    ``has_lines``: a scan is one line high.

    >>> scans = OperatorBox(1, "scan", "a"), OperatorBox(2, "scan", "b")
    >>> corners = box_corners((*scans, OperatorBox(3, "join", "", (1, 2))))
    >>> corners[1].x == corners[2].x < corners[3].x, corners[1].y < corners[3].y < corners[2].y
    (True, True)
    """
    columns: dict[int, int] = {}  # from the right
    for box in reversed(boxes):
        column = columns.setdefault(box.id, 0)
        for below in box.inputs:
            columns[below] = max(columns.get(below, 0), column + 1)
    last_column = max(columns.values(), default=0)
    corners: dict[int, BoxCorner] = {}
    column_bottoms: dict[int, float] = {}
    next_leaf = float(_MARGIN)
    for box in boxes:  # inputs precede their operator
        is_line = has_lines and not box.inputs
        height, gap = (_LINE_HEIGHT, _LINE_GAP) if is_line else (HEIGHT, _GAP_Y)
        y = next_leaf
        if box.inputs:
            y = sum(corners[below].middle for below in box.inputs) / len(box.inputs) - height / 2
        column = columns[box.id]
        y = max(y, column_bottoms.get(column, float(_MARGIN)))
        corners[box.id] = BoxCorner(_MARGIN + (last_column - column) * (WIDTH + _GAP_X), y, height)
        column_bottoms[column] = y + height + gap
        next_leaf = max(next_leaf, y + height + gap)
    return corners


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
    plan = fold_plan(moment.boxes)
    moment = replace(moment, boxes=plan.boxes)
    corners = box_corners(plan.boxes, plan.has_many_scans)
    width = max(c.x for c in corners.values()) + WIDTH + _MARGIN
    height = max(c.y + c.height for c in corners.values()) + _MARGIN
    picture = svg_picture(width, height, "The plan: inputs on the left, the result on the right")
    labels = etree.Element("g")
    for box in plan.boxes:
        for port in range(len(box.inputs)):
            _edge(picture, labels, corners, moment, box, port)
    picture.append(labels)  # above all edges
    for box in plan.boxes:
        draw_box = _line if corners[box.id].height == _LINE_HEIGHT else _box
        draw_box(picture, box, plan.members[box.id], corners[box.id])
    return as_svg(picture)


def svg_picture(width: float, height: float, title: str) -> etree._Element:
    """An empty picture of this size."""
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    picture = etree.Element("svg", size, xmlns=_SVG, role="img")
    add_element(picture, "title", title)
    return picture


def as_svg(picture: etree._Element) -> str:
    """The text of a picture."""
    return etree.tostring(picture, encoding="unicode")


def add_element(parent: etree._Element, tag: str, text: str = "", **attributes: str) -> etree._Element:
    """Append an element. In attribute names an underscore becomes a hyphen; a trailing underscore is removed."""
    svg_attributes = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    element = etree.SubElement(parent, tag, svg_attributes)
    element.text = printable(text, keep="\n") or None
    return element


def _edge(
    picture: etree._Element,
    labels: etree._Element,
    corners: dict[int, BoxCorner],
    moment: Moment,
    box: OperatorBox,
    port: int,
) -> None:
    """An edge, and its label: beside its start, or in its middle if several operators read the same input."""
    kind, number = does(moment, box, port), box.inputs[port]
    start, end = corners[number], corners[box.id]
    x1, y1, x2 = start.x + WIDTH, start.middle, end.x
    y2, middle = end.y + end.height * (port + 1) / (len(box.inputs) + 1), (x1 + x2) / 2
    edge = add_element(picture, "g", class_=f"edge {kind}")
    curve = f"M{x1:g} {y1:g} C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
    add_element(edge, "path", d=curve, fill="none")
    below = next(b for b in moment.boxes if b.id == number)
    if label := f"{box.waits[port]:,} wait" if kind == WAITS else f"{below.rate:,.0f}/s" * (kind == FLOWS):
        share = 0.5 if sum(b.inputs.count(number) for b in moment.boxes) > 1 else 0.0
        x, y = x1 + 4 + (x2 - x1) * share, y1 - 5 + (y2 - y1) * share
        add_element(labels, "text", label, class_=f"label {kind}", x=f"{x:g}", y=f"{y:g}")


def _group(
    picture: etree._Element, box: OperatorBox, members: list[OperatorBox], corner: BoxCorner
) -> etree._Element:
    """The group of a box: its outline, and a title with the texts and counts of all its operators."""
    position = f"translate({corner.x:g} {corner.y:g})"
    group = add_element(picture, "g", class_="box", id=f"box-{box.id}", transform=position)
    group.set("data-operator", f"{box.name} #{box.id}")
    lines = [f"#{box.id} {box.name} {box.what}".rstrip()]
    lines += [f"#{b.id} {b.name} {b.what}: {b.tuples_out:,} tuples out" for b in members]
    serves = [f"for {', '.join(box.sinks)}"] if box.sinks else []
    add_element(group, "title", "\n".join([*lines, _counts(box), *serves]))
    add_element(group, "rect", width=str(WIDTH), height=f"{corner.height:g}", rx="6")
    return group


def _counts(box: OperatorBox) -> str:
    if box.state_rows or box.held_punctuations:
        return f"retains {box.state_rows:,} + {box.held_punctuations:,}; {box.tuples_out:,} out"
    return f"{box.tuples_out:,} tuples, {box.punctuations_out:,} punct."


def _line(picture: etree._Element, box: OperatorBox, members: list[OperatorBox], corner: BoxCorner) -> None:
    """A scan on one line: its number and stream, and its number of tuples."""
    group = _group(picture, box, members, corner)
    count = f"{box.tuples_out:,}"
    name = f"#{box.id} {box.what.partition(':')[0]}"
    add_element(group, "text", _shorten(name, _NAME_LETTERS - len(count)), class_="name", x="10", y="17")
    add_element(group, "text", count, class_="counts", x=str(WIDTH - 10), y="17", text_anchor="end")


def _box(picture: etree._Element, box: OperatorBox, members: list[OperatorBox], corner: BoxCorner) -> None:
    group = _group(picture, box, members, corner)
    added = f" +{len(members)}" if members else ""
    name = _shorten(f"#{box.id} {box.name}{added}", _NAME_LETTERS)
    for number, (kind, line) in enumerate({"name": name, "what": box.what, "counts": _counts(box)}.items()):
        add_element(group, "text", _shorten(line, _LETTERS), class_=kind, x="10", y=str(19 + 17 * number))
    if box.sinks:
        sink_names = _shorten(", ".join(box.sinks), _NAME_LETTERS - len(name))
        add_element(group, "text", sink_names, class_="what", x=str(WIDTH - 10), y="19", text_anchor="end")


def _shorten(line: str, letters: int) -> str:
    """The line, shortened to this number of letters; empty if only an ellipsis would remain."""
    return line if len(line) <= letters else f"{line[: letters - 1]}…" if letters > 3 else ""
