"""What the sink writes to: files that can be taken back to where they were, and streams that cannot."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from xmlpunct.errors import UsageError, XmlPunctError


class Appender:
    """A file that grows by one micro-batch at a time, or standard output (``path`` None), or a pipe.

    ``append`` first takes a file back to ``length``, what is committed of it, since a run that was killed may
    have written more. With streams that is not to be had: they may get a micro-batch twice.
    """

    def __init__(self, path: str | None, length: int) -> None:
        self.path = path
        self._stream: BinaryIO | None = sys.stdout.buffer if path in (None, "-") else None
        if path is None or self._stream is not None:
            return
        try:
            if Path(path).exists() and not stat.S_ISREG(os.stat(path).st_mode):
                self._stream = open(path, "wb", buffering=0)  # noqa: SIM115 - open as long as we are
                return
            if length and (not Path(path).exists() or Path(path).stat().st_size < length):
                raise XmlPunctError(f"{path} is shorter than the {length:,} bytes committed to it")
            with open(path, "ab") as file:
                file.truncate(length)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None

    def close(self) -> None:
        """Close what was opened here."""
        if self._stream is not None and self.path not in (None, "-"):
            self._stream.close()

    def append(self, data: bytes, length: int) -> int:
        """Add ``data`` behind the first ``length`` bytes, durably; the new length."""
        if self._stream is not None:
            self._stream.write(data)
            self._stream.flush()
        elif self.path is not None and data:
            with open(self.path, "r+b") as file:
                file.truncate(length)
                file.seek(length)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        return length + len(data)
