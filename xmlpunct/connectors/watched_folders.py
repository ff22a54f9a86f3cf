"""``watch:`` and a directory or a pattern: the files that arrive there, each once it is complete.

The files form one stream, in the order in which they are taken. Before a file is taken, it is read to its end and
checked. The order is durable: a position names the file that is read, and it is recorded before the file's first byte
is returned. With a checkpoint, a file is removed or moved once its bytes are in the checkpoint.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.base.printable import printable
from xmlpunct.connectors.contract import FOLDER_OPTIONS, WATCH, Connector
from xmlpunct.connectors.inlet import Inlet, InletFile
from xmlpunct.connectors.listing import files_below, files_matching, is_pattern, matches
from xmlpunct.connectors.local_files import Files
from xmlpunct.connectors.source import ChangedError, FileGate, Source, UnopenedPart, assembled, binary

GLANCE_SECONDS = 0.1
"""The least time between two listings; a listing takes at most a tenth of the time (large directories)."""
LISTED_SECONDS = 1.0
"""For how long the files of a listing are taken before the next listing."""
PIECE_BYTES = 2**20
"""The greatest number of bytes in a piece."""
SEPARATOR = b"<_/>\n"
"""A document without tuples before each file: the position behind it is recorded before the file is read."""
_OPTIONS = re.compile(rf"\?((?:{'|'.join(FOLDER_OPTIONS)})=[^?]*)$")
_AFTER = "after is leave, remove, or move: and a directory"
_log = logging.getLogger("xmlpunct")


@dataclass(frozen=True)
class WatchedFolder:
    """A directory or pattern, and its options.

    done: the suffix of the file that must stand beside a complete one. settle: the seconds for which a complete file
    has not changed. by_time: take the files in the order of their modification times. after: ``leave``, ``remove`` or
    ``move``. moved_to, quarantine: directories.
    """

    path: str
    done: str = ""
    settle: float = 0.0
    by_time: bool = False
    after: str = "leave"
    moved_to: str = ""
    quarantine: str = ""

    @classmethod
    def parse(cls, spec: str) -> WatchedFolder:
        """Read ``watch:PATTERN?done=.done&settle=5&order=time&after=move:DIR&quarantine=DIR``.

        Raises `UsageError`.

        >>> WatchedFolder.parse("watch:in/*.xml?order=time&after=move:old").moved_to
        'old'
        >>> WatchedFolder.parse("watch:in/?.xml").path
        'in/?.xml'
        """
        path = spec.removeprefix(WATCH)
        match = _OPTIONS.search(path)
        options: dict[str, str] = {}
        for name, value in parse_qsl(match[1], keep_blank_values=True) if match else ():
            if name not in FOLDER_OPTIONS:
                raise UsageError(
                    f"{spec}: {name} is no option of watch: there are {', '.join(FOLDER_OPTIONS)}"
                )
            if not value:
                raise UsageError(f"{spec}: {name} needs a value")
            options[name] = value
        path = path[: match.start()] if match else path
        if not path:
            raise UsageError(f"{spec} names no directory: write watch:inbox/*.xml")
        after, _, moved_to = options.get("after", "leave").partition(":")
        if after not in ("leave", "remove", "move") or bool(moved_to) != (after == "move"):
            raise UsageError(f"{spec}: {_AFTER}")
        if options.get("order", "name") not in ("name", "time"):
            raise UsageError(f"{spec}: order is name or time")
        if "/" in options.get("done", ""):
            raise UsageError(f"{spec}: done is the end of a file name, such as .done")
        try:
            settle = float(options.get("settle", "0"))
        except ValueError:
            settle = -1
        if not 0 <= settle < float("inf"):
            raise UsageError(f"{spec}: settle is a number of seconds")
        by_time = options.get("order") == "time"
        quarantine = options.get("quarantine", "")
        return cls(path, options.get("done", ""), settle, by_time, after, moved_to, quarantine)

    def files(self) -> list[str]:
        """The files that match, without the files of ``done`` and the directories to which files are moved."""
        listed = files_matching(self.path) if is_pattern(self.path) else [*files_below(self.path)]
        away = tuple(os.path.join(os.path.abspath(d), "") for d in (self.moved_to, self.quarantine) if d)
        return [
            path
            for path in listed
            if not (self.done and path.endswith(self.done))
            and not os.path.abspath(path).startswith(away or ("\0",))
        ]

    def base(self) -> str:
        """The directory that has to exist."""
        if not is_pattern(self.path):
            return self.path
        fixed: list[str] = []
        for part in Path(self.path).parts[:-1]:
            if glob.has_magic(part):
                break
            fixed.append(part)
        return os.path.join(*fixed) if fixed else "."


class FileStamp(NamedTuple):
    """A file: its path, and properties that differ in a later file of the same name."""

    path: str
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> FileStamp:
        """The file at a path. Raises OSError."""
        status = os.stat(path)
        return cls(path, status.st_ino, status.st_size, status.st_mtime_ns)

    def is_unchanged(self) -> bool:
        """True if the path still refers to the file, as it was. Raises OSError."""
        try:
            return FileStamp.of(self.path) == self
        except FileNotFoundError:
            return False


class WatchedFolders(Connector):
    """``watch:`` and a directory or pattern whose files are read as they arrive: see `WatchedFolder`."""

    quotes = False

    def source(self, spec: str, name: str) -> Source:
        folder, gate = WatchedFolder.parse(spec), FileGate()
        base = folder.base()
        if not os.path.isdir(base):
            raise SourceError(base, "cannot be watched: it is no directory")
        part = UnopenedPart(spec, None, lambda: binary(InletFile(WatchInlet(folder, spec, gate))))
        return assembled(name, [part], gate)

    def paths(self, spec: str) -> list[str]:
        path = WatchedFolder.parse(spec).path
        return matches(path) if is_pattern(path) else [path]


class WatchInlet(Inlet):
    """Returns the files of a folder, one after the other; it waits for further files for ever.

    A position has the ``file`` that is read, its ``part`` (for an archive) and the ``byte`` in it. ``left`` are digests
    of the paths of files that were read and are still there, ``taken`` the files that are to be moved or removed.
    """

    can_seek = wants_acknowledgement = True

    def __init__(self, folder: WatchedFolder, name: str, gate: FileGate) -> None:
        self._folder, self._name, self._gate = folder, name, gate
        if folder.after != "leave":
            text = f"after = '{folder.after}' needs a checkpoint, which has the contents: --checkpoint DIR"
            self.needs_checkpoint = f"{name}: {text}"
        self._left: dict[str, None] = {}
        self._taken: dict[str, FileStamp] = {}
        self._stopped = threading.Event()
        self._seen: dict[str, tuple[FileStamp, float]] = {}  # when a file was first seen with its stamp
        self._complete_files, self._listed = deque[FileStamp](), 0.0
        self._current: FileStamp | None = None
        self._pieces: Iterator[tuple[bytes, Any]] | None = None

    def open(self, position: Any) -> None:
        if position is None:
            return
        self._left = dict.fromkeys(position["left"])
        self._taken = {stamp[0]: FileStamp(*stamp) for stamp in position["taken"]}
        self._put_away()
        if position["file"] is not None:
            file = FileStamp(*position["file"])
            if not file.is_unchanged():
                raise ChangedError.of(file.path, "it was read in part, and is now another file, or missing")
            self._current = file
            self._pieces = self._read(file, position["part"], position["byte"])

    def read(self) -> tuple[bytes, Any] | None:
        if self._pieces is not None:
            piece = next(self._pieces, None)
            if piece is not None:
                return piece
            self._pieces = None
        file = self._next_file()
        if file is None:
            return None
        self._current = file
        self._pieces = self._read(file, 0, 0)
        return SEPARATOR, self._position(0, 0)

    def _position(self, part: int, byte: int) -> dict[str, Any]:
        state = {"left": [*self._left], "taken": [*self._taken.values()]}
        return {"file": self._current, "part": part, "byte": byte, **state}

    def _read(self, file: FileStamp, part: int, byte: int) -> Iterator[tuple[bytes, Any]]:
        """The pieces of a file from a byte of a part on. The last one has the position behind the file."""
        source, last = Files().source(file.path, file.path), b""
        for number in range(part, len(source.parts)):
            with source.open(number, byte if number == part else 0) as stream:
                at = byte if number == part else 0
                while data := stream.read(PIECE_BYTES):
                    if last:
                        yield last, self._position(number, at)
                    last, at = data, at + len(data)
            last += b"\n"
        self._current = None
        if self._folder.after == "leave":
            self._left[_digest(file.path)] = None
        else:
            self._taken[file.path] = file
        yield last or b"\n", self._position(0, 0)

    def _next_file(self) -> FileStamp | None:
        """Wait for a complete file, and take it; None after `stop`."""
        while not self._stopped.is_set():
            began = time.monotonic()
            if not self._complete_files or began > self._listed + LISTED_SECONDS:
                self._complete_files, self._listed = deque(self._complete()), began
                if not self._complete_files:
                    self._stopped.wait(max(GLANCE_SECONDS, 9 * (time.monotonic() - began)))
                    continue
            file = self._complete_files.popleft()
            if file.is_unchanged() and self._is_accepted(file):
                return file
        return None

    def _complete(self) -> list[FileStamp]:
        """The complete files that were not taken yet, in order."""
        files, seen = list[FileStamp](), dict[str, tuple[FileStamp, float]]()
        paths = self._folder.files()
        digests = dict(zip(paths, map(_digest, paths), strict=True))
        self._left = {digest: None for digest in digests.values() if digest in self._left}
        for path in paths:
            try:
                file = FileStamp.of(path)
            except FileNotFoundError:
                continue  # it was removed after the listing
            if digests[path] in self._left or self._taken.get(path) == file:
                continue
            if self._folder.done and not os.path.exists(path + self._folder.done):
                continue
            if self._folder.settle:
                before = self._seen.get(path)
                since = before[1] if before is not None and before[0] == file else time.monotonic()
                seen[path] = (file, since)
                unchanged = max(time.time() - file.modified / 1e9, time.monotonic() - since)
                if unchanged < self._folder.settle:
                    continue
            files.append(file)
        self._seen = seen
        return sorted(files, key=lambda file: file.modified) if self._folder.by_time else files

    def _is_accepted(self, file: FileStamp) -> bool:
        """Check a file. One that fails goes to the quarantine; without one, its error ends the run."""
        if self._gate.run is None:
            return True
        try:
            self._gate.run(Files().source(file.path, file.path))
            return file.is_unchanged()  # else it is not complete
        except FileNotFoundError:
            return False
        except SourceError as error:
            if not file.is_unchanged():
                return False
            if not self._folder.quarantine or isinstance(error, TransientError):
                raise
            self._isolate(file, error)
            return False

    def _isolate(self, file: FileStamp, error: SourceError) -> None:
        """Move a file to the quarantine, beside a file with its error."""
        target = _unused(self._folder.quarantine, file.path, self._name)
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {error}\n"
        try:
            Path(f"{target}.error").write_text(text, encoding="utf-8")
            self._move(file.path, target)
        except OSError as fault:
            raise self._fault(file.path, self._folder.quarantine, fault) from None
        _log.warning("%s; it was moved to %s", printable(str(error)), printable(target))

    def acknowledge(self, position: Any) -> None:
        self._put_away()

    def _put_away(self) -> None:
        """Remove or move the files whose bytes are durable. A later file of the same name stays."""
        for path, file in [*self._taken.items()]:
            try:
                if FileStamp.of(path) == file:
                    if self._folder.after == "move":
                        self._move(path, _unused(self._folder.moved_to, path, self._name))
                    else:
                        os.unlink(path)
                        self._remove_done(path)
            except FileNotFoundError:
                pass  # an earlier run has put it away
            except OSError as fault:
                raise self._fault(path, self._folder.moved_to, fault) from None
            del self._taken[path]

    def _move(self, path: str, target: str) -> None:
        os.rename(path, target)
        self._remove_done(path)

    def _remove_done(self, path: str) -> None:
        if self._folder.done:
            with suppress(FileNotFoundError):
                os.unlink(path + self._folder.done)

    def _fault(self, path: str, target: str, fault: OSError) -> TransientError:
        action = f"cannot be moved to {target}" if target else "cannot be removed"
        return TransientError(path, f"{action}: {fault.strerror or fault}")

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._stopped.set()
        if self._pieces is not None:
            self._pieces.close()  # type: ignore[attr-defined]


def _digest(path: str) -> str:
    """A short hash of a path: each file causes two records of the position, and each record has all files."""
    return blake2b(os.fsencode(path), digest_size=8).hexdigest()


def _unused(folder: str, path: str, name: str) -> str:
    """A path in a directory for a file, with a number behind its name if that is taken."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise TransientError(name, f"cannot make {folder}: {error.strerror}") from None
    target = os.path.join(folder, os.path.basename(path))
    numbered, number = target, 0
    while os.path.lexists(numbered):
        number += 1
        numbered = f"{target}.{number}"
    return numbered
