"""Files that grow while they are read, as ``tail -f`` reads them.

A followed file has no end of its own: after a root has closed, another document may be appended at any time. It ends
when its path is removed, or refers to another file. That is a regular end if the last document is complete, and else
a failure, as with any source. A file that becomes shorter than its data read so far is a failure, and so is one that
is overwritten from the start.
"""

from __future__ import annotations

import io
import os
import threading
from typing import Any

_COMPARED = 4096
"""How many of the last bytes are compared before the next read."""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.0005, 0.004  # seconds; to check a file takes some microseconds


class GrowingFile(io.RawIOBase):
    """The file at ``path``; a read at its end waits for more. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with this object
        self._stopped = threading.Event()
        self._last = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._last = b""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes; 0 when the path no longer refers to the file and all of it is read, or after `stop`."""
        wait = _SHORTEST_WAIT
        while not self._stopped.is_set():
            # In this order: data written before the path was removed is still read.
            is_removed = self._is_removed()
            count = self._file.readinto(buffer) or 0
            if count:
                self._compare(self._file.tell() - count)
                self._last = (self._last + bytes(memoryview(buffer)[max(count - _COMPARED, 0) : count]))[
                    -_COMPARED:
                ]
            if count or is_removed:
                return count
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise OSError(0, "the file has become shorter than the part that was read")
            self._stopped.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        return 0

    def stop(self) -> None:
        """Let a read that waits in another thread return no bytes."""
        self._stopped.set()

    def close(self) -> None:
        if not self.closed:
            self._stopped.set()
            self._file.close()
        super().close()

    def _compare(self, byte: int) -> None:
        """Raise OSError if the bytes before an offset differ from the last bytes read."""
        begin = byte - len(self._last)
        if os.pread(self._file.fileno(), len(self._last), begin) != self._last:
            raise OSError(0, "the file was overwritten while it was followed")

    def _is_removed(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True
