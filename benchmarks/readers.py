"""What else reads XML into columns, as a user would write it: a document in memory to a data frame.

Each takes what is `Wanted`, prepares what needs no document, and gives a function from a document to a frame.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import polars as pl
from lxml import etree

Read = Callable[[bytes], pl.DataFrame]
_ARROW = {pl.Int64: "Int64", pl.Float64: "Float64", pl.String: "Utf8"}


@dataclass(frozen=True)
class Wanted:
    """Columns, by name the steps to their text from the element that is a row; and the elements down to that one.

    ``space`` is the namespace of them all.
    """

    row: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    types: dict[str, Any]
    space: str = ""

    def frame(self, rows: list[list[str | None]]) -> pl.DataFrame:
        """The rows with their values read."""
        texts = pl.DataFrame(rows, dict.fromkeys(self.columns, pl.String), orient="row")
        return texts.cast(self.types)


def lxml(wanted: Wanted) -> Read:
    """A loop over a pull parser."""
    mark = f"{{{wanted.space}}}" if wanted.space else ""
    own, below = [], []
    for place, path in enumerate(wanted.columns.values()):
        steps = "/".join(mark + step for step in path if step[0] != "@") or "."
        (own if steps == "." else below).append((place, steps, path[-1][1:] if path[-1][0] == "@" else None))

    def read(data: bytes) -> pl.DataFrame:
        parser = etree.XMLPullParser(("end",), tag=mark + wanted.row[-1])
        rows = []
        for at in range(0, len(data), 2**16):
            parser.feed(data[at : at + 2**16])
            for _, element in parser.read_events():
                row: list[str | None] = [None] * len(wanted.columns)
                for place, _, name in own:
                    row[place] = element.get(name) if name else element.text
                for place, steps, name in below:
                    found = element.find(steps)
                    if found is not None:
                        row[place] = found.get(name) if name else found.text or ""
                rows.append(row)
                element.clear()
        return wanted.frame(rows)

    return read


def xml2arrow(wanted: Wanted) -> Read:
    """Rust: https://pypi.org/project/xml2arrow. Every child of one element is a row."""
    from xml2arrow import XmlToArrowParser

    whole = "/" + "/".join(wanted.row)
    fields = [
        {
            "name": name,
            "xml_path": f"{whole}/{'/'.join(path)}",
            "data_type": _ARROW[wanted.types[name]],
            "nullable": True,
        }
        for name, path in wanted.columns.items()
    ]
    table = {"name": "rows", "xml_path": whole.rpartition("/")[0], "levels": [], "fields": fields}
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "config.yaml"
        config.write_text(json.dumps({"tables": [table]}))  # JSON is YAML
        parser = XmlToArrowParser(config)

    def read(data: bytes) -> pl.DataFrame:
        found = pl.from_arrow(parser.parse(data)["rows"])
        assert isinstance(found, pl.DataFrame)
        return found

    return read


def pygixml(wanted: Wanted) -> Read:
    """C++, the whole document in memory: https://pypi.org/project/pygixml."""
    import pygixml

    def text(node: Any, path: tuple[str, ...]) -> str | None:
        for step in path:
            if step[0] == "@":
                found = node.attribute(step[1:])
                return found.value if found else None
            node = node.child(step)
            if not node:
                return None
        return node.child_value() or ""

    def read(data: bytes) -> pl.DataFrame:
        rows: list[list[str | None]] = []

        def below(node: Any, path: tuple[str, ...]) -> None:
            for child in node.children():
                if child.name == path[0] and len(path) > 1:
                    below(child, path[1:])
                elif child.name == path[0]:
                    rows.append([text(child, steps) for steps in wanted.columns.values()])

        below(pygixml.parse_string(data.decode()).root, wanted.row[1:])
        return wanted.frame(rows)

    return read


ALL = {"lxml": lxml, "xml2arrow": xml2arrow, "pygixml": pygixml}


def able(wanted: Wanted, data: bytes, right: pl.DataFrame) -> tuple[dict[str, Read], dict[str, str]]:
    """Who gives the right frame of a document (a missing text may be an empty one), and why others do not."""
    can: dict[str, Read] = {}
    cannot: dict[str, str] = {}
    for name, prepare in ALL.items():
        if not common.installed(name):
            cannot[name] = "is not installed"
            continue
        if not survives(name, wanted, data):
            cannot[name] = "crashes on this document"
            continue
        try:
            read = prepare(wanted)
            same = _plain(read(data)).equals(_plain(right))
        except Exception as error:
            cannot[name] = f"fails: {error}"
            continue
        if same:
            can[name] = read
        else:
            cannot[name] = "gives other columns"
    return can, cannot


def survives(name: str, wanted: Wanted, data: bytes) -> bool:
    """Whether a contender leaves its process alive: it is tried in one of its own."""
    given = pickle.dumps((wanted, data))
    command = [sys.executable, "-W", "ignore", __file__, name]
    return subprocess.run(command, input=given, stderr=subprocess.DEVNULL).returncode >= 0


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.String).fill_null(""))


if __name__ == "__main__":
    asked, document = pickle.load(sys.stdin.buffer)
    ALL[sys.argv[1]](asked)(document)
