"""Files that grow while they are read, as ``tail -f`` reads them.

A followed file never ends by itself: after a root has closed, another document may be appended, and no silence
is long enough to know that none will be. It ends where its name goes away: removed, or given to another file.
That is an end in order if the last document is complete, and else a failure, as with any source. A file that
becomes shorter than what has been read of it has failed, and so has one that is written over from the start.
"""

from __future__ import annotations

import io
import os
import threading
from typing import Any

_COMPARED = 4096
"""How many of the bytes read last are compared before more are read."""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.0005, 0.004  # seconds; looking at a file takes some microseconds


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
        """Wait for some bytes; 0 when the file's name is gone and all of it is read, or after `stop`."""
        wait = _SHORTEST_WAIT
        while not self._stopped.is_set():
            # In this order: what was written before the name went away is still read.
            gone = self._is_gone()
            count = self._file.readinto(buffer) or 0
            if count:
                self._compare(self._file.tell() - count)
                self._last = (self._last + bytes(memoryview(buffer)[max(count - _COMPARED, 0) : count]))[
                    -_COMPARED:
                ]
            if count or gone:
                return count
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise OSError(0, "the file has become shorter than what was read of it")
            self._stopped.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        return 0

    def stop(self) -> None:
        """Let a read that waits in another thread come back, with nothing."""
        self._stopped.set()

    def close(self) -> None:
        if not self.closed:
            self._stopped.set()
            self._file.close()
        super().close()

    def _compare(self, byte: int) -> None:
        """Raise OSError if what was read last before a byte is not there any more."""
        begin = byte - len(self._last)
        if os.pread(self._file.fileno(), len(self._last), begin) != self._last:
            raise OSError(0, "the file has been written over while it was followed")

    def _is_gone(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True
