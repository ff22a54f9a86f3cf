"""The `Outlet` of files, standard output, pipes and devices."""

from __future__ import annotations

from typing import Any

from xmlpunct.base.errors import XmlPunctError, reading, undoing
from xmlpunct.base.printable import printable_output
from xmlpunct.connectors.outlet import Form, Outlet, Results, chained
from xmlpunct.engine.run.durable_files import Appender


class FileOutlet(Outlet):
    """A file, standard output, a pipe or a device; ``length`` is the number of bytes committed to it.

    The ``last`` group of them is an offset and a digest, which a file is compared with. The position is always 0: it
    marks that a run has begun to write it.
    """

    can_replace = True

    def __init__(
        self,
        path: str | None,
        length: int,
        *,
        begun: bool = False,
        must_be_empty: bool = False,
        last: tuple[int, str] = (0, ""),
    ) -> None:
        self.file = Appender(path, length, begun=begun, must_be_empty=must_be_empty)
        if self.file.is_file and length and last[1]:
            with undoing(self.close):
                self._check_group(str(path), length, *last)

    def _check_group(self, path: str, length: int, offset: int, digest: str) -> None:
        """Raise `XmlPunctError` if the last committed group is not in the file."""
        with reading(path), open(path, "rb") as file:
            file.seek(offset)
            data = file.read(length - offset)
        if chained("", data) != digest:
            raise XmlPunctError(
                f"{path} does not contain the committed results of this run: bytes {offset:,} to {length:,} have "
                "changed. Restore the file and the checkpoint as they were at one time, or start again with another "
                "--checkpoint and --replace"
            )

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
