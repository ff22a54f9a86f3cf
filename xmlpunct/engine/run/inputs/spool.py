"""From a query's streams to inputs that can be read again: plain files as such, all else through a spool."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from xmlpunct.base.errors import SourceError, TransientError, UsageError, XmlPunctError, reading
from xmlpunct.base.printable import printable
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.local_files import read_at
from xmlpunct.connectors.source import ChangedError, Source
from xmlpunct.connectors.utf8_stream import Utf8Stream
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.durable_files import PRIVATE_FOLDER, make_folder, writing
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.segments import SpoolWriter, create, end_of, finish
from xmlpunct.firehose.labels import labels_of
from xmlpunct.firehose.slice_reader import check_files
from xmlpunct.firehose.spec import StreamSpec

_CHUNK = 2**20
"""How many bytes a spooler takes at a time, and syncs."""
_GLANCE_SECONDS = 0.02
NOTE_SECONDS = 1.0
"""How often a source's position is put down, if it has any. What came since is read again after a kill."""
_log = logging.getLogger("xmlpunct")
_OTHER_BYTES = "its content has changed since an earlier run read it"
_NOT_REPEATED = (
    "the connection of an earlier run was lost, and the new one does not begin with the same bytes"
)


class Spool(threading.Thread):
    """Copies what one part of a source gives, as UTF-8, into a spool, from where an earlier run left off.

    A file is read on from there, and a source that has positions from the last that was put down. What cannot be gone
    back in (a socket, a pipe) has to give once more what it gave to the earlier run, which is compared: anything else
    is a failure, since what is missing between then and now nobody knows. The end, and how the source failed if it
    did, go into its log.

    While as much is spooled as may be, nothing is read: whoever sends has to wait (see `segments`). The parts of a
    source are copied one after another, in one thread: the spool of a part begins when that ``before`` it is done.
    """

    def __init__(self, source: Source, part: int, path: Path, before: Spool | None = None) -> None:
        super().__init__(name=f"spool {source.name}", daemon=True)
        self._source, self._part, self._path = source, part, path
        self._before = before
        self._after: Spool | None = None
        if before is not None:
            before._after = self
        self._reader: Utf8Stream | None = None
        self._stopped = threading.Event()
        self._noted = 0.0
        self._error: XmlPunctError | None = None
        self.bell: threading.Condition | None = None
        """Rung when something has come, and at the end."""
        with writing(path):
            create(path)
            segments.recover(path)

    def start(self) -> None:
        """Begin, unless another spool is to go on with this one."""
        if self._before is None:
            super().start()

    def run(self) -> None:
        at: Spool | None = self
        done: list[Spool] = []
        while at is not None and at._is_copied(done):
            done.append(at)
            at = at._after

    def _is_copied(self, done: list[Spool]) -> bool:
        """Copy the part, once those that are ``done`` leave room; whether all of it came, in order."""
        in_order = False
        try:
            in_order = self._waits_for_room(done) and self._copy()
        except FileNotFoundError:  # the run is over, and its checkpoint was emptied or removed
            if not self._stopped.is_set():
                self._error = TransientError(self._source.name, f"its spool {self._path} no longer exists")
        except OSError as error:
            reason = f"its spool {self._path} cannot be written: {error.strerror}"
            self._error = TransientError(self._source.name, reason)
        except (SourceError, UsageError) as error:
            self._error = error
        except XmlPunctError as error:  # of the spool's log
            self._error = TransientError(self._source.name, str(error))
        self._ring()
        return in_order

    def _waits_for_room(self, done: list[Spool]) -> bool:
        """Come back when the spools that are done leave room for another; whether it is still wanted.

        Raises OSError.
        """
        while not self._stopped.is_set():
            done[:] = [spool for spool in done if segments.held_bytes(spool._path)]
            if sum(segments.held_bytes(spool._path) for spool in done) < segments.MOST_BYTES:
                return True
            self._stopped.wait(_GLANCE_SECONDS)
        return False

    def is_of(self, source: Source) -> bool:
        """Whether this spools a part of a source."""
        return self._source is source

    def check(self) -> None:
        """Raise what keeps this from being written, if anything does: then a later run goes on with it."""
        if self._error is not None:
            raise self._error

    def _copy(self) -> bool:
        failure = None
        with SpoolWriter(self._path, self._stopped) as out:
            try:
                with self._source.reader(self._part) as reader:
                    self._reader = reader
                    reader.keep()
                    if not self._stopped.is_set():
                        for data in self._further(reader, out):
                            out.append(data)
                            self._note(reader, out)
                            self._ring()
                        self._note(reader, out, is_last=True)
            except TransientError:
                raise  # which is not the end of it: a later run goes on
            except SourceError as error:
                if self._reader is not None and self._reader.can_resume:
                    raise TransientError(error.source, error.reason) from None
                failure = str(error).removeprefix(printable(error.source)).lstrip(":, ")
            out.sync()
        if self._stopped.is_set():
            return False
        finish(self._path, failure)
        return failure is None

    def _note(self, reader: Utf8Stream, out: SpoolWriter, is_last: bool = False) -> None:
        """Put down how far the source was read, if it is time to, and tell it so. Raises `SourceError`."""
        position, now = reader.position, time.monotonic()
        is_due = is_last or reader.wants_acknowledgement or now - self._noted >= NOTE_SECONDS
        is_new = position is not None and (out.mark is None or out.mark.byte < out.size)
        if is_new and is_due and not self._stopped.is_set():  # then all of it was added
            out.note(position)
            reader.acknowledge(position)
            self._noted = now

    def _ring(self) -> None:
        if self.bell is not None:
            with self.bell:
                self.bell.notify_all()

    def stop(self) -> None:
        """Copy no more, without that being an end of the source; what waits and can be interrupted is."""
        self._stopped.set()
        if self._reader is not None:
            self._reader.stop()

    def _further(self, reader: Utf8Stream, out: SpoolWriter) -> Iterator[bytes]:
        """What comes after the bytes that were spooled before. Raises `SourceError`."""
        if out.mark is not None and reader.can_resume:
            reader.resume(out.mark.position)
            if not out.continues(reader.read) and not self._stopped.is_set():
                raise ChangedError.of(reader.name, _OTHER_BYTES)
            yield from self._rest(reader)
            return
        reader.begin()
        if reader.wants_acknowledgement and reader.transcoded:
            raise SourceError(reader.name, "is compressed, or not in UTF-8: send it uncompressed, in UTF-8")
        path = self._source.files[self._part] if self._source.files else None
        if path is not None and reader.seekable and not reader.transcoded:
            self._recognise(path, out)
            reader.skip(out.size)
        elif not out.repeats(reader.read) and not self._stopped.is_set():
            if reader.seekable or self._source.parts[self._part][1] is not None:
                raise ChangedError.of(reader.name, _OTHER_BYTES)
            raise SourceError(reader.name, _NOT_REPEATED)
        yield from self._rest(reader)

    def _rest(self, reader: Utf8Stream) -> Iterator[bytes]:
        yield b""  # what was given again is acknowledged now: nothing more may come before that
        while not self._stopped.is_set() and (data := reader.read(_CHUNK)):
            yield data

    def _recognise(self, path: str, out: SpoolWriter) -> None:
        """Raise `ChangedError` if a file is not what was read of it before."""
        name = self._source.parts[self._part][0]
        with reading(name), open(path, "rb") as file:
            if not out.recognises(partial(read_at, file.fileno())):
                raise ChangedError.of(name, _OTHER_BYTES)


def find_inputs(
    query: Query, folder: Path, but: Container[str] = (), punct_namespace: str = PUNCT_NAMESPACE
) -> tuple[list[Input], list[Spool]]:
    """The inputs of a query, and the spools, in ``folder``, that are to be started.

    Streams ``but`` those of some names have inputs.

    Raises `SourceError` for a source that cannot be opened.
    """
    streams: dict[tuple[str, int], list[int]] = {}
    for number, stream in enumerate(query.streams):
        if stream.declared in but:
            continue
        assert stream.source is not None
        streams.setdefault((stream.source, stream.sender), []).append(number)
    opened = {name: query.opened.take(name) for name in dict.fromkeys(name for name, _ in streams)}
    inputs, spools = list[Input](), list[Spool]()
    for number, ((name, sender), carried) in enumerate(streams.items()):
        source = opened[name].sender(sender)
        check_files(source, _whole_specs(query, carried), punct_namespace)
        parts = []
        for i, (part, size) in enumerate(source.parts):
            file = source.files[i] if source.files else None
            texts = source.texts[i] if source.texts else ()
            if file is not None and size is not None and _plain(source, i):
                parts.append(Part(part, os.path.abspath(file), size, stored=size, texts=texts))
                continue
            with writing(folder):
                make_folder(folder, PRIVATE_FOLDER)
            path = (folder / f"{number}-{i}.xml").absolute()
            spools.append(Spool(source, i, path, _before(spools, source, i)))
            parts.append(Part(part, str(path), None, True, size, texts))
        labels_of(tuple(query.streams[i].spec(frozenset()) for i in carried), source.labelled)  # if they fit
        inputs.append(Input(name, tuple(carried), tuple(parts), sender))
    return inputs, spools


def _before(spools: Sequence[Spool], source: Source, part: int) -> Spool | None:
    """The spool that has to be complete before that of a part begins; None for the live part behind an archive."""
    follows = spools and spools[-1].is_of(source) and part != source.first_live
    return spools[-1] if follows else None


def _whole_specs(query: Query, streams: Iterable[int]) -> list[StreamSpec]:
    """The specifications of streams, with all columns."""
    return [query.streams[i].spec(frozenset(query.streams[i].sent.names)) for i in streams]


def unfinished(inputs: list[Input], query: Query, punct_namespace: str = PUNCT_NAMESPACE) -> list[Spool]:
    """The spools of inputs that an earlier run of a query found and did not complete.

    Raises `SourceError` for a source that cannot be opened, or has another size than it had.
    """
    spools: list[Spool] = []
    opened: dict[str, Source] = {}
    for input_ in inputs:
        for part in input_.parts:
            if not part.spooled:
                with suppress(OSError):  # one that is gone may have been read
                    _compare_sizes(part, os.stat(part.path).st_size)
            elif end_of(part.path) is None:
                if input_.source not in opened:
                    opened[input_.source] = open_source(input_.source)
                source = opened[input_.source].sender(input_.sender)
                check_files(source, _whole_specs(query, input_.streams), punct_namespace)
                # A directory may have other files by now.
                sizes = dict(source.parts)
                if part.name not in sizes:
                    raise ChangedError.of(input_.source, f"it no longer has {part.name}")
                _compare_sizes(part, sizes[part.name])
                number = [*sizes].index(part.name)
                spools.append(Spool(source, number, Path(part.path), _before(spools, source, number)))
            else:
                with reading(part.path):
                    segments.recover(part.path)
    return spools


def warn_of_growth(sources: Iterable[Source | Input]) -> None:
    """Say of which files more is there than when the run began: they were read as they were then."""
    for source in dict.fromkeys(sources):
        if isinstance(source, Input):
            sizes = [(part.path, part.stored) for part in source.parts if not part.spooled]
        else:
            files = zip(source.files, source.parts, strict=False)
            sizes = [(file, size) for file, (_, size) in files if file is not None]
        for path, size in sizes:
            with suppress(OSError):
                if size is not None and (new_size := os.stat(path).st_size) > size:
                    grown = f"{path} has grown by {new_size - size:,} bytes since the run began"
                    _log.warning("%s, which were not read: use follow:%s to read them", grown, path)


def _compare_sizes(part: Part, size: int | None) -> None:
    if part.stored is not None and part.stored != size:
        state = "it is no file" if size is None else f"it has {size:,} bytes"
        remedy = "follow:PATH is for a file that grows"
        raise ChangedError.of(part.name, f"{state}, and had {part.stored:,} when the run began; {remedy}")


def _plain(source: Source, part: int) -> bool:
    """Whether a part is UTF-8 as it is stored, and not compressed, so that its offsets are those of the file."""
    with source.open(part) as reader:
        return not reader.transcoded
