"""From a query's streams to inputs that can be read again: plain files as such, all else through a spool."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from xmlpunct.engine.durable.parts import Input, Part
from xmlpunct.engine.durable.ranges import end_marker
from xmlpunct.engine.plan import Query
from xmlpunct.errors import SourceError, UsageError
from xmlpunct.firehose import PartReader, Source, open_source

_CHUNK = 2**20
_NOT_REPEATED = "the connection of an earlier run was lost, and this one does not begin with the same bytes"


class Spool(threading.Thread):
    """Copies what one part of a source gives, as UTF-8, into a file, from where an earlier run left off.

    A file is read on from there. What cannot be gone back in (a socket, a pipe) has to give once more what it
    gave to the earlier run, which is compared: anything else is a failure, since what is missing between then
    and now nobody knows. The end, and how the source failed if it did, go into a marker file behind it.
    """

    def __init__(self, source: Source, part: int, path: Path) -> None:
        super().__init__(name=f"spool {source.name}", daemon=True)
        self._source, self._part, self._path = source, part, path
        self._reader: PartReader | None = None
        self._stopped = False
        path.touch()

    def run(self) -> None:
        failure = None
        try:
            with open(self._path, "ab") as out, self._source.reader(self._part) as reader:
                self._reader = reader
                if self._stopped:
                    return
                for data in self._further(reader, out.tell()):
                    out.write(data)
                    out.flush()
                if self._stopped:
                    return
                os.fsync(out.fileno())
        except SourceError as error:
            failure = error.reason
        except OSError as error:
            failure = f"cannot be copied to {self._path}: {error.strerror}"
        if self._stopped:
            return
        marker = end_marker(self._path)
        half = marker.with_suffix(".half")
        half.write_text(json.dumps({"failure": failure}))
        half.replace(marker)

    def stop(self) -> None:
        """Copy no more, without that being an end of the source; what waits and can be interrupted is."""
        self._stopped = True
        if self._reader is not None:
            self._reader.stop()

    def _further(self, reader: PartReader, known: int) -> Iterator[bytes]:
        """What comes after the first ``known`` bytes. Raises `SourceError`."""
        if reader.seekable:
            reader.begin(known)
        else:
            reader.begin()
            with open(self._path, "rb") as before:
                while known:
                    data = reader.read(min(known, _CHUNK))
                    if not data or data != before.read(len(data)):
                        raise SourceError(reader.name, _NOT_REPEATED)
                    known -= len(data)
        while not self._stopped and (data := reader.read(_CHUNK)):
            yield data


def find_inputs(query: Query, folder: Path) -> tuple[list[Input], list[Spool]]:
    """The inputs of a query, and the spools, in ``folder``, that are to be started.

    Raises `SourceError` for a source that cannot be opened and `UsageError` for one of several senders.
    """
    streams: dict[str, list[int]] = {}
    for number, stream in enumerate(query.streams):
        assert stream.source is not None
        streams.setdefault(stream.source, []).append(number)
    inputs, spools = [], []
    for number, (name, carried) in enumerate(streams.items()):
        source = open_source(name)
        if source.senders:
            raise UsageError(f"{name}: several senders take --engine local; Spark reads one per stream")
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
                source = source or open_source(given.source)
                found.append(Spool(source, i, Path(part.path)))
    return found


def _plain(source: Source, part: int) -> bool:
    """Whether a part is UTF-8 as it is stored, so that its offsets are those of the file."""
    with source.open(part) as reader:
        return not reader.transcoded
