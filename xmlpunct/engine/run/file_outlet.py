"""Files as the place that results go to, as connectors are."""

from __future__ import annotations

from typing import Any

from xmlpunct.connectors.contract import Form, Outlet, Results
from xmlpunct.engine.run.durable_files import Appender


class FileOutlet(Outlet):
    """A file, standard output, a pipe or a device; ``length`` are the bytes that were committed to it.

    The position is 0: it says that a run has begun there.
    """

    can_replace = True

    def __init__(
        self, path: str | None, length: int, *, begun: bool = False, must_be_empty: bool = False
    ) -> None:
        self.file = Appender(path, length, begun=begun, must_be_empty=must_be_empty)

    def open(self, form: Form, position: Any) -> None:
        """It goes on behind the bytes that were committed."""

    def write(self, results: Results, *, again: bool = False) -> None:
        """Files keep what follows, if that was written ``again``; streams, which cannot be rewritten, get nothing."""
        if not again or self.file.is_file:
            self.file.append(results.data, results.offset, more=again)

    def commit(self) -> int:
        self.file.sync()
        return 0

    def finish(self) -> None:
        self.file.finish()

    def close(self) -> None:
        self.file.close()
