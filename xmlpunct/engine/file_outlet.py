"""Files as the place that results go to, as connectors are."""

from __future__ import annotations

from typing import Any

from xmlpunct.engine.files import Appender
from xmlpunct.firehose.connectors import Form, Outlet, Results


class FileOutlet(Outlet):
    """A file, standard output, a pipe or a device; ``length`` are the bytes that were committed to it."""

    def __init__(self, path: str | None, length: int) -> None:
        self.file = Appender(path, length)

    def open(self, form: Form, position: Any) -> None:
        """It goes on behind the bytes that were committed."""

    def write(self, results: Results, *, again: bool = False) -> None:
        """Files keep what follows, if that was written ``again``; streams, which cannot be rewritten, get nothing."""
        if not again or self.file.is_file:
            self.file.append(results.data, results.offset, more=again)

    def commit(self) -> None:
        self.file.sync()

    def finish(self) -> None:
        self.file.finish()

    def close(self) -> None:
        self.file.close()
