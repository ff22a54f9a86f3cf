"""What hostile XML costs: memory and time, for inputs without an end and of every kind.

Each input is made while it is read, in a process of its own, and read as a stream of tuples <t><a>...</a></t>.
Every one begins with a good tuple, which must arrive whatever comes behind it.

    python benchmarks/hostile.py [--megabytes N] [--size BYTES] [--only NAME]...

Prints a table, and JSON: the tuples that arrived, what was read until the reader had had enough, the error, the
seconds of processor time, those that libexpat takes for as many bytes without giving them to anybody, and the most
memory the process ever held (``base_mb``: what one that reads next to nothing holds).
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from xmlpunct import slices
from xmlpunct.base.errors import SourceError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.schema import Schema

GOOD = b"<t><a>1</a></t>"
ROOT = b'<r xmlns:p="' + PUNCT_NAMESPACE.encode() + b'">' + GOOD
BLOCK = 2**16
FILLINGS = {
    b"{attributes}": lambda: b"".join(b" a%d='%s'" % (n, b"x" * 8000) for n in range(999)),
    b"{namespaces}": lambda: b"".join(b" xmlns:n%d='%s'" % (n, b"u" * 999) for n in range(998)),
}
"""What may stand for as much as a tag may hold."""


@dataclass(frozen=True)
class Flood:
    """An input: its head, and what follows it over and over; {} in that is a number that never comes twice,
    and each of `FILLINGS` what it stands for.

    ``encoding`` is what it is stored in.
    """

    name: str
    unit: bytes
    head: bytes = b""
    root: bytes = ROOT
    encoding: str = "utf-8"

    def open(self, size: int) -> Stream:
        """About ``size`` bytes of it."""
        return Stream(self, size)

    def _numbered(self, first: int) -> tuple[bytes, int]:
        count = max(1, BLOCK // (len(self.unit) + 6))
        return b"".join(self.unit.replace(b"{}", b"%d" % n) for n in range(first, first + count)), count

    def blocks(self) -> Callable[[], bytes]:
        """What gives one block after the other."""
        if b"{}" not in self.unit:
            unit = _filled(self.unit)
            block = (unit * (BLOCK // len(unit) + 1)).decode("latin-1").encode(self._stored)
            return lambda: block
        number = 0

        def following() -> bytes:
            nonlocal number
            block, count = self._numbered(number)
            number += count
            return block.decode().encode(self._stored)

        return following

    @property
    def _stored(self) -> str:
        """The codec of what follows the head: without a byte order mark; raw bytes are what they are."""
        return {"utf-8": "latin-1", "utf-16": "utf-16-le"}.get(self.encoding, self.encoding)

    def first(self) -> bytes:
        """The head, as it is stored."""
        return (self.root + _filled(self.head)).decode("latin-1").encode(self.encoding)


def _filled(text: bytes) -> bytes:
    for mark, filling in FILLINGS.items():
        text = text.replace(mark, filling()) if mark in text else text
    return text


class Stream(io.RawIOBase):
    """A flood as a file; ``given`` counts its bytes."""

    def __init__(self, flood: Flood, size: int) -> None:
        self._next, self._size = flood.blocks(), size
        self._ready = flood.first()
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.given >= self._size:
            return 0
        if not self._ready:
            self._ready = self._next()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self.given += count
        return count


def _flood(name: str, unit: str, head: str = "", **more: Any) -> Flood:
    return Flood(name, unit.encode("latin-1"), head.encode("latin-1"), **more)


FLOODS = (
    _flood("good tuples without a newline", "<t><a>1</a></t>"),
    _flood("rejects", "<t><a>x</a></t>"),
    _flood("text between tuples", "x"),
    _flood("text in a value", "x", "<t><a>"),
    _flood("text full of >", ">", "<t><a>"),
    _flood("text full of &lt;", "&lt;", "<t><a>"),
    _flood("white space after the root", " ", "</r>"),
    _flood("a tag's name", "x", "<"),
    _flood("an attribute value", "x", "<t b='"),
    _flood("an attribute value full of >", ">", "<t b='"),
    _flood("references in an attribute", "&#38;&lt;", "<t b='"),
    _flood("an attribute's name", "x", "<t b"),
    _flood("white space in a tag", "\n", "<t"),
    _flood("white space in an end tag", " ", "<t></t"),
    _flood("attributes", " a{}='1'", "<t"),
    _flood("namespaces", " xmlns:n{}='u'", "<t"),
    _flood("tuples under a long tag", "<t><a>1</a></t>", "<x{attributes}>"),
    _flood("tuples under many namespaces", "<t><a>1</a></t>", "<x{namespaces}>"),
    _flood("depth of long tags", "<x{attributes}>"),
    _flood("a comment", "- ", "<!--"),
    _flood("a comment full of ->", "-> ", "<!--"),
    _flood("a processing instruction", "? ", "<?x "),
    _flood("a CDATA section", "] ", "<t><a><![CDATA["),
    _flood("a DOCTYPE", "> ", "</r><!DOCTYPE r SYSTEM '"),
    _flood("a tuple of elements", "<x/>", "<t>"),
    _flood("a punctuation of elements", "<z>*</z>", "<p:t>"),
    _flood("a tuple of repeated values", "<a>1</a>", "<t>"),
    _flood("depth", "<x>"),
    _flood("depth and back", "<x>" * 190 + "</x>" * 190),
    _flood("depth in a tuple", "<x>", "<t>"),
    _flood("distinct elements between tuples", "<n{}/>"),
    _flood("distinct elements in tuples", "<t><n{}/></t>"),
    _flood("distinct elements in one tuple", "<n{}/>", "<t>"),
    _flood("distinct attributes", "<t n{}='1'/>"),
    _flood("distinct prefixes", "<t xmlns:n{}='urn:x'/>"),
    _flood("distinct namespaces", "<t xmlns='urn:n{}'/>"),
    _flood("distinct processing instructions", "<?n{} ?>"),
    _flood("documents of 60 tuples", "<r>" + "<t><a>1</a></t>" * 60 + "</r>", "</r>"),
    _flood("NUL", "\0"),
    _flood("NUL in a comment", "\0", "<!--"),
    _flood("invalid UTF-8", "\xff"),
    _flood("text in a value, UTF-16", "x", "<t><a>", encoding="utf-16"),
    _flood("distinct elements, UTF-16", "<n{}/>", encoding="utf-16"),
)
BY_NAME = {flood.name: flood for flood in FLOODS}


def read(flood: Flood, size: int, feed: int) -> dict[str, Any]:
    """Read a flood in this process."""
    stream, tuples, error = flood.open(size), 0, None
    began = time.process_time()
    try:
        source = Source.of(stream, "flood")  # type: ignore[arg-type] # a raw file
        for found in slices(source, Schema.parse("a INT"), element="t", size=feed, on_reject=bool):
            tuples += found.tuples.height
    except SourceError as failed:
        error = str(failed)
    seconds = time.process_time() - began
    return {
        "input": flood.name,
        "tuples": tuples,
        "read_mb": round(stream.given / 2**20, 1),
        "error": error,
        "seconds": round(seconds, 2),
        "peak_mb": peak_mb(),
        "expat_seconds": round(by_expat(flood, stream.given), 2),
    }


def by_expat(flood: Flood, size: int) -> float:
    """The seconds that libexpat takes to tokenise as much, or up to where it refuses it."""
    stream, parser, seconds = flood.open(size), expat.ParserCreate(namespace_separator=" "), 0.0
    with suppress(expat.ExpatError):
        while data := stream.read(BLOCK):
            began = time.process_time()
            try:
                parser.Parse(data, False)
            finally:
                seconds += time.process_time() - began
    return seconds


def peak_mb() -> int:
    """The most memory that this process has had resident, in MB."""
    try:
        # What the system counts for a process may begin with what the one had that started it; this does not.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024
    except (OSError, IndexError):
        found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return found // (2**20 if sys.platform == "darwin" else 2**10)


def measure(flood: Flood, size: int, feed: int = BLOCK) -> dict[str, Any]:
    """Read a flood in a process of its own."""
    command = [sys.executable, __file__, "--child", flood.name, "--bytes", str(size), "--size", str(feed)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout))


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows in Markdown."""
    lines = [
        "| input without an end | read, MB | seconds | libexpat | peak memory, MB | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = row["error"] or f"{row['tuples']:,} tuples"
        shown = verdict.removeprefix("flood, ").replace("|", "\\|")
        figures = [row[name] for name in ("input", "read_mb", "seconds", "expat_seconds", "peak_mb")]
        lines.append(f"| {' | '.join(map(str, figures))} | {shown} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="how much to feed of each")
    parser.add_argument("--size", type=int, default=BLOCK, help="how much to read at once")
    parser.add_argument("--only", action="append", choices=sorted(BY_NAME), help="only this input")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(read(BY_NAME[given.child], given.bytes, given.size)))
        return
    base = measure(FLOODS[0], 1000)["peak_mb"]
    rows = [measure(BY_NAME[name], given.megabytes * 2**20, given.size) for name in given.only or BY_NAME]
    print("\n".join(table(rows)), file=sys.stderr)
    print(json.dumps({"fed_mb": given.megabytes, "base_mb": base, "inputs": rows}, indent=2))


if __name__ == "__main__":
    main()
