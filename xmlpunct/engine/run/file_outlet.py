"""The `Outlet` of files, standard output, pipes and devices."""

from __future__ import annotations

from typing import Any

from xmlpunct.base.printable import printable_output
from xmlpunct.connectors.outlet import Form, Outlet, Results
from xmlpunct.engine.run.durable_files import Appender


class FileOutlet(Outlet):
    """A file, standard output, a pipe or a device; ``length`` is the number of bytes committed to it.

    The position is always 0: it marks that a run has begun to write it.
    """

    can_replace = True

    def __init__(
        self, path: str | None, length: int, *, begun: bool = False, must_be_empty: bool = False
    ) -> None:
        self.file = Appender(path, length, begun=begun, must_be_empty=must_be_empty)

    def open(self, form: Form, position: Any) -> None:
        """Writing continues after the committed bytes."""
        self._format = form.format

    def write(self, results: Results, *, again: bool = False) -> None:
        """``again``: a file is overwritten and keeps its remaining bytes; a pipe has received the group already."""
        if not again or self.file.is_file:
            data = printable_output(results.data, self._format) if self.file.is_terminal else results.data
            self.file.append(data, results.offset, replaying=again)

    def commit(self) -> int:
        self.file.sync()
        return 0

    def finish(self) -> None:
        self.file.finish()

    def close(self) -> None:
        self.file.close()
