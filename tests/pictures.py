"""The pictures in docs: ``python -m tests.pictures`` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.drawing import WIDTH, Sheet

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"


def meeting() -> Sheet:
    """A union: it emits a punctuation once both inputs have emitted it."""
    s = Sheet("Two sensors' promises meet: hour 17 is final when the slower one has closed it", 190)
    for y, name in ((45, "sensor1"), (95, "sensor2"), (150, "result")):
        s.text(16, y + 5, name)
        s.path([(90, y), (700, y)])
    for x, y in ((130, 45), (190, 45), (150, 95), (270, 95), (350, 95)):
        s.dot(x, y)
    s.bar(260, 32, 58)
    s.bar(440, 82, 108)
    s.text(260, 24, "hour 17 is over", anchor="middle")
    s.text(440, 74, "hour 17 is over", anchor="middle")
    s.path([(260, 58), (260, 146)], "promise", dashed=True)
    s.path([(440, 108), (440, 140)], "promise", dashed=True)
    s.text(272, 132, "waits for sensor2", "promise")
    s.dot(460, 150, "result", 7)
    s.text(462, 132, "81 in hour 17: final", "result")
    s.bar(500, 137, 163)
    s.text(500, 180, "no more for hour 17", anchor="middle")
    return s


NORTH = ((7, "4 kg"), (3, "9 kg"), (7, "2 kg"), {7}, (3, "1 kg"), {1, 2, 3, 4, 5}, (9, "6 kg"))
"""samples/punctuations/north.xml: tuples as (van, weight), punctuations as sets of closed vans."""


def stream() -> Sheet:
    """A stream as dots and bars, with the open vans as lines."""
    s = Sheet(
        "The north gate's stream: a tuple is a dot, a punctuation closes a van for all time after it", 206
    )
    rows = {9: 50, 7: 95, 3: 140}
    for van, y in rows.items():
        s.text(16, y + 5, f"van {van}")
        closed = [
            115 + 82 * n for n, element in enumerate(NORTH) if isinstance(element, set) and van in element
        ]
        s.path([(80, y), (min([700, *closed]), y)])
    for number, element in enumerate(NORTH):
        x = 115 + 82 * number
        if isinstance(element, set):
            for y in (rows[van] for van in rows if van in element):
                s.rect(x, y - 15, 700 - x, 30, "shade")
                s.bar(x, y - 15, y + 15)
            label = f"van {min(element)}" if len(element) == 1 else f"vans {min(element)} to {max(element)}"
            s.text(x, 26, label, "promise", "middle")
        else:
            s.dot(x, rows[element[0]])
            s.text(x, rows[element[0]] - 12, element[1], "dim", "middle")
    s.text(445, 100, "no tuple of van 7 here", "dim")
    s.text(540, 145, "none of van 3 here", "dim")
    s.arrow([(80, 176), (700, 176)])
    s.text(80, 196, "the stream goes on", "dim")
    return s


def patterns() -> Sheet:
    """The five patterns over the vans 1 to 9."""
    s = Sheet("The five patterns over the vans 1 to 9", 232)
    for van in range(1, 10):
        s.text(250 + 45 * van, 28, str(van), "dim", "middle")
    s.text(735 - 20, 28, "null", "dim", "end")
    kinds: tuple[tuple[str, str, Callable[[int], bool]], ...] = (
        ("*", "wildcard", lambda van: True),
        ("7", "constant", lambda van: van == 7),
        ("[3,6)", "range", lambda van: 3 <= van < 6),
        ("{1,3,9}", "list", lambda van: van in (1, 3, 9)),
        ("{}", "empty", lambda van: False),
    )
    for row, (text, name, matches) in enumerate(kinds):
        y = 62 + 38 * row
        s.text(24, y + 5, text, bold=True)
        s.text(120, y + 5, name, "dim")
        s.path([(270, y), (680, y)], "shade")
        for van in range(1, 10):
            s.dot(250 + 45 * van, y, "promise" if matches(van) else "shade", 8)
        s.dot(702, y, "promise" if text == "*" else "shade", 8)
    return s


def iterator() -> Sheet:
    """An operator: the paths of tuples and punctuations through it."""
    s = Sheet("An operator: step takes tuples; pass, keep and prop take punctuations", 262)
    s.box(130, 16, 460, 208, [])
    s.text(146, 40, "operator", bold=True)
    s.box(170, 164, 380, 44, ["retained", "indexed by key, and by what punctuations close"], "tuple")
    s.text(60, 62, "tuples", anchor="middle")
    s.dot(60, 76)
    s.arrow([(72, 76), (168, 76)], "tuple")
    s.box(170, 58, 70, 36, ["step"], "tuple")
    s.arrow([(240, 68), (646, 68)], "result")
    s.arrow([(205, 94), (205, 162)], "tuple")
    s.bar(60, 118, 142)
    s.text(60, 160, "punctuations", anchor="middle")
    s.arrow([(72, 130), (288, 130)], "promise")
    for x, name in ((290, "pass"), (380, "keep"), (470, "prop")):
        s.box(x, 114, 70, 32, [name], "promise")
    s.arrow([(360, 130), (378, 130)], "promise")
    s.arrow([(450, 130), (468, 130)], "promise")
    s.arrow([(540, 130), (646, 130)], "promise")
    s.arrow([(325, 164), (325, 148)], "tuple")
    s.arrow([(325, 114), (325, 84), (646, 84)], "result")
    s.arrow([(415, 146), (415, 162)], "promise")
    s.arrow([(505, 164), (505, 148)], "tuple")
    s.text(660, 62, "results", anchor="middle")
    s.dot(660, 76, "result")
    s.bar(660, 118, 142)
    s.text(660, 160, "punctuations", anchor="middle")
    s.text(
        16,
        248,
        "First all tuples of a slice, then its punctuations. What is retained after keep decides prop.",
        "dim",
    )
    return s


Step = tuple[str, Sequence[str], Sequence[str]]
"""(input, retained state, output). A text that begins with ``<`` is a punctuation."""


def steps(title: str, rows: Sequence[Step]) -> Sheet:
    """An operator at work, line by line."""
    s = Sheet(title, 52 + 36 * len(rows))
    for x, name in ((24, "comes in"), (230, "is retained then"), (500, "goes out")):
        s.text(x, 28, name, "dim", bold=True)
    for number, (element, retained, out) in enumerate(rows):
        y = 60 + 36 * number
        s.path([(16, y - 20), (WIDTH - 16, y - 20)], "shade")
        _chips(s, 24, y, [element], "tuple")
        _chips(s, 230, y, retained or ["nothing"], "tuple" if retained else "dim", "shade")
        _chips(s, 500, y, out, "result")
    return s


def _chips(s: Sheet, x: float, y: float, texts: Sequence[str], colour: str, ground: str = "panel") -> None:
    for text in texts:
        width = 7.2 * len(text) + 16
        s.rect(x - 6, y - 14, width, 24, ground, 5)
        s.text(x + 2, y + 3, text, "promise" if text.startswith("<") else colour)
        x += width + 6


def group_by() -> Sheet:
    """SUM(kg) by van, over samples/punctuations/north.xml."""
    return steps(
        "A group leaves when its van is closed, and is forgotten",
        [
            ("7, 4 kg", ["7: 4"], []),
            ("3, 9 kg", ["7: 4", "3: 9"], []),
            ("7, 2 kg", ["7: 6", "3: 9"], []),
            ("<van 7>", ["3: 9"], ["7: 6", "<van 7>"]),
            ("3, 1 kg", ["3: 10"], []),
            ("<vans 1 to 5>", [], ["3: 10", "<vans 1 to 5>"]),
            ("9, 6 kg", ["9: 6"], []),
        ],
    )


def join() -> Sheet:
    """Parcels and drivers of vans."""
    return steps(
        "A join forgets a tuple when the other input has closed its van",
        [
            ("parcel 1, van 7", ["parcel 1"], []),
            ("driver of 7: Bo", ["parcel 1", "Bo"], ["1: Bo"]),
            ("<no other driver of 7>", ["Bo"], []),
            ("parcel 3, van 7", ["Bo"], ["3: Bo"]),
            ("<no other parcel of 7>", [], ["<van 7>"]),
        ],
    )


def frontiers() -> Sheet:
    """One watermark for all vans, compared with punctuations for each van."""
    s = Sheet("A watermark is one line for all vans; punctuations close each van by itself", 236)
    ends = {3: 190, 5: 130, 7: 270, 9: 90}
    """The progress of each van: x from the left edge of its panel."""
    for left, name, colour in ((60, "one watermark", "dim"), (410, "punctuations", "promise")):
        s.text(left, 26, name, bold=True)
        slowest = min(ends.values())
        for row, (van, end) in enumerate(ends.items()):
            y = 60 + 38 * row
            progress = end if colour == "promise" else slowest
            s.rect(left, y - 14, progress, 28, "shade")
            s.path([(left, y), (left + 290, y)])
            for x in range(20, end - 5, 40):
                s.dot(left + x, y, "result" if x < progress else "tuple", 5)
            s.text(left - 10, y + 5, f"{van}", "dim", "end")
            if colour == "promise":
                s.bar(left + end, y - 14, y + 14)
        if colour == "dim":
            s.path([(left + slowest, 40), (left + slowest, 195)], "promise", dashed=True)
    s.dot(70, 216, "result", 5)
    s.text(82, 221, "answered")
    s.dot(170, 216, "tuple", 5)
    s.text(182, 221, "waits")
    s.text(260, 221, "Van 9 is slow. On the left all wait for it; on the right only van 9 does.", "dim")
    return s


def house() -> Sheet:
    """The folders of the package, each above the folders that it imports from."""
    floors = (
        (("cli", "options and messages; the only folder that prints"),),
        (("python", "query, parse, slices, scan_xml"), ("spark", "the public PySpark interface")),
        (("engine", "sql, plan, rules, partition, run, spark, view, why"),),
        (("firehose", "XML to slices, slices to XML"), ("operators", "one relational operator per file")),
        (("connectors", "files, sockets, HTTP, brokers, databases"),),
        (("expressions", "one record for each SQL function"), ("slice", "tuples and punctuations")),
        (("punctuations", "sets, indexes and joint covers of punctuations"),),
        (("schema", "attributes and column lists"), ("types", "types, patterns, interval sets")),
        (("base", "errors, secrets, names, frames"),),
    )
    height = 52 * len(floors)
    s = Sheet("The house: a module imports from its own floor and from the floors below", height + 90)
    s.path([(40, 40), (360, 10), (680, 40)])
    for row, rooms in enumerate(floors):
        width = (640 - 10 * (len(rooms) - 1)) / len(rooms)
        for number, (name, content) in enumerate(rooms):
            s.box(40 + number * (width + 10), 46 + 52 * row, width, 46, [name, content])
    s.text(40, height + 70, "firehose and operators do not import from each other", "dim")
    return s


def way() -> Sheet:
    """One tuple from bytes to output, on both engines."""
    s = Sheet(
        "The way of a tuple: reader, slices, operators, output; the same operators on both engines", 330
    )
    s.text(16, 26, "local: one process", bold=True)
    stations = (
        ("source", "bytes"),
        ("reader", "a walk, in C"),
        ("slice", "columns"),
        ("operators", "the whole plan"),
        ("writer", "bytes"),
    )
    for number, lines in enumerate(stations):
        x = 16 + 144 * number
        s.box(x, 40, 112, 54, lines)
        if number:
            s.arrow([(x - 32, 67), (x - 2, 67)])
    s.text(16, 134, "spark: the same, cut where the partitioning changes", bold=True)
    for row in range(2):
        y = 150 + 70 * row
        s.box(16, y, 196, 54, ["reader, edge fragment", f"task {row}: a split"])
        s.box(318, y, 196, 54, ["stateful fragment", f"shard {row}"], "tuple")
        s.path([(212, y + 27), (232, y + 27), (298, 247 - 70 * row)], "promise", dashed=True)
        s.arrow([(212, y + 27), (316, y + 27)], "promise")
        s.path([(514, y + 27), (536, y + 27), (536, 212)])
    s.arrow([(536, 212), (558, 212)])
    s.path([(232, 177), (298, 247), (316, 247)], "promise", dashed=True)
    s.box(560, 178, 144, 68, ["merge", "then the writer,", "in the driver"])
    s.text(
        16,
        302,
        "exchange: a tuple goes by the hash of its key, a punctuation to all shards that it concerns.",
        "dim",
    )
    s.text(16, 320, "A receiver of N shards uses a punctuation when all N have emitted it.", "dim")
    return s


PICTURES: dict[str, Callable[[], Sheet]] = {
    "meeting": meeting,
    "stream": stream,
    "patterns": patterns,
    "iterator": iterator,
    "group-by": group_by,
    "join": join,
    "frontiers": frontiers,
    "house": house,
    "way": way,
}
"""Pictures by file name."""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())
