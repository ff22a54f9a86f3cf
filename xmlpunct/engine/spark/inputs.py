"""From a query's streams to inputs that can be read again: plain files as such, all else through a spool."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from xmlpunct.engine.plan import Query
from xmlpunct.engine.spark.job import Input, Part
from xmlpunct.engine.spark.ranges import end_marker
from xmlpunct.errors import SourceError
from xmlpunct.firehose import Source, open_source

_CHUNK = 2**20


class Spool(threading.Thread):
    """Copies what one part of a source gives, as UTF-8, into a file, from where an earlier run left off.

    The end, and how the source failed if it did, go into a marker file behind it.
    """

    def __init__(self, source: Source, part: int, path: Path) -> None:
        super().__init__(name=f"spool {source.name}", daemon=True)
        self._source, self._part, self._path = source, part, path
        path.touch()

    def run(self) -> None:
        failure = None
        try:
            with open(self._path, "ab") as out, self._source.open(self._part, out.tell()) as part:
                while data := part.read(_CHUNK):
                    out.write(data)
                    out.flush()
                os.fsync(out.fileno())
        except SourceError as error:
            failure = error.reason
        except OSError as error:
            failure = f"cannot be copied to {self._path}: {error.strerror}"
        marker = end_marker(self._path)
        half = marker.with_suffix(".half")
        half.write_text(json.dumps({"failure": failure}))
        half.replace(marker)


def find_inputs(query: Query, folder: Path) -> tuple[list[Input], list[Spool]]:
    """The inputs of a query, and the spools, in ``folder``, that are to be started.

    Raises `SourceError` for a source that cannot be opened.
    """
    streams: dict[str, list[int]] = {}
    for number, stream in enumerate(query.streams):
        assert stream.source is not None
        streams.setdefault(stream.source, []).append(number)
    inputs, spools = [], []
    for number, (name, carried) in enumerate(streams.items()):
        source = _standard_input() if name == "-" else open_source(name)
        parts = []
        for i, (part, size) in enumerate(source.parts):
            if size is not None and _plain(source, i):
                parts.append(Part(part, os.path.abspath(part), size))
                continue
            folder.mkdir(parents=True, exist_ok=True)
            path = (folder / f"{number}-{i}.xml").absolute()
            spools.append(Spool(source, i, path))
            parts.append(Part(part, str(path), None, True))
        inputs.append(Input(name, tuple(carried), tuple(parts)))
    return inputs, spools


def unfinished(inputs: list[Input]) -> list[Spool]:
    """The spools of inputs that an earlier run found and did not complete."""
    found = []
    for given in inputs:
        source: Source | None = None
        for i, part in enumerate(given.parts):
            if part.spooled and not end_marker(part.path).exists():
                source = source or (_standard_input() if given.source == "-" else open_source(given.source))
                found.append(Spool(source, i, Path(part.path)))
    return found


def _plain(source: Source, part: int) -> bool:
    """Whether a part is UTF-8 as it is stored, so that its offsets are those of the file."""
    with source.open(part) as reader:
        return not reader.transcoded


def _standard_input() -> Source:
    """Standard input without Python's buffer, whose lock a waiting thread would hold when Python ends."""
    try:
        raw = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    except (OSError, AttributeError, ValueError):
        return open_source("-")
    return Source.of(raw, "-")
