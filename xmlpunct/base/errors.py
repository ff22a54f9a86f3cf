"""What can go wrong, as one tree.

::

    XmlPunctError                 base of everything this package raises on purpose
    |-- UsageError                a wrong call: an option, a file that is missing, an extra not installed
    |   `-- SqlError              a query that cannot run; carries the SQL and the place in it
    |-- SchemaError               a column list or a domain that makes no sense
    |-- PatternError              a pattern or punctuation that cannot be read; never guessed
    |-- SourceError               a source that failed: malformed XML, a cut connection, a wrong punctuation
    |   `-- TransientError        a fault outside the data, such as of a disk: the same run can go on later
    `-- StrictError               ``--strict``: the first reject ends the run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide


class XmlPunctError(Exception):
    """Base of every exception that xmlpunct raises on purpose. Its arguments are the lines of its text.

    The text has no secret (see `xmlpunct.base.secrets`) and no control character (see `xmlpunct.base.printable`).
    """

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(hide(arg) if isinstance(arg, str) else arg for arg in args))

    def __str__(self) -> str:
        return "\n".join(printable(str(line)) for line in self.args)


class UsageError(XmlPunctError):
    """A wrong call: an option, a missing file, a missing extra."""

    exit_code = 2


class SqlError(UsageError):
    """A query that cannot run, and the place at fault.

    ``sql`` is the text; ``start`` and ``end`` (exclusive) are character offsets into it, or None if the place is not
    known. ``str()`` gives the reason and the line with the place underlined.

    >>> print(SqlError("unknown column hours", "SELECT hours FROM s", 7, 12))
    unknown column hours (line 1, column 8)
      SELECT hours FROM s
             ^^^^^
    """

    def __init__(self, reason: str, sql: str = "", start: int | None = None, end: int | None = None):
        self.reason, self.sql, self.start, self.end = hide(reason), sql, start, end
        super().__init__(reason)

    def __str__(self) -> str:
        reason = printable(self.reason)
        if self.start is None or not self.sql:
            return reason
        line_start = self.sql.rfind("\n", 0, self.start) + 1
        line_end = self.sql.find("\n", self.start)
        line = self.sql[line_start : len(self.sql) if line_end < 0 else line_end]
        column, end = self.start - line_start, (self.end or self.start + 1) - line_start
        number = self.sql.count("\n", 0, self.start) + 1
        before, marked, after = (
            hide(printable(part, keep="\t")) for part in (line[:column], line[column:end], line[end:])
        )
        lead = "".join("\t" if c == "\t" else " " for c in before)
        place = f"(line {number}, column {column + 1})"
        return f"{reason} {place}\n  {before}{marked}{after}\n  {lead}{'^' * max(1, len(marked))}"


class SchemaError(XmlPunctError):
    """A schema that makes no sense: two attributes of one name, a domain that no value satisfies."""

    exit_code = 2


class PatternError(XmlPunctError):
    """A pattern that cannot be read as one.

    ``attribute`` is the attribute it was given for (None if unknown), ``text`` the whole pattern and
    ``position`` the 0-based character in ``text`` at which reading failed.
    """

    def __init__(self, reason: str, text: str = "", position: int = 0, attribute: str | None = None):
        self.reason, self.text, self.position, self.attribute = reason, text, position, attribute
        super().__init__(reason)

    def __str__(self) -> str:
        where = f"attribute {printable(self.attribute)}: " if self.attribute else ""
        return f"{where}{printable(self.reason)} in pattern {self.text!r} at character {self.position + 1}"


class SourceError(XmlPunctError):
    """A source failed. What came before the failure was delivered; the stream has not ended.

    ``source`` is its name, ``line`` is 1-based, and ``byte`` is a 0-based offset into it. Both are None where the
    failure has no place, such as a file that cannot be opened.
    """

    def __init__(self, source: str, reason: str, line: int | None = None, byte: int | None = None):
        self.source, self.reason, self.line, self.byte = hide(source), hide(reason), line, byte
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str, int | None, int | None]]:
        return (type(self), (self.source, self.reason, self.line, self.byte))

    def __str__(self) -> str:
        place = f", line {self.line}, byte {self.byte}" if self.line is not None else ""
        return printable(f"{self.source}{place}: {self.reason}")


class TransientError(SourceError):
    """A fault outside the data: a disk, a network file system, a file that is missing, too many open files.

    No checkpoint records it. Once it is mended, the same run goes on.
    """

    REMEDY = "nothing is lost: once that is mended, the same command goes on"
    """The note of one that ends a run with a checkpoint."""


def read_error(source: str, what: str, error: Exception) -> SourceError:
    """The error of a source for an exception that reading it raised.

    `kind_of` decides whether it is final. What the operating system says of a file or of this machine is transient.
    Final are a connection that was lost, since the bytes behind that are lost too, and an exception without an error
    number, which is about the bytes.

    >>> type(read_error("a.xml", "cannot be read", OSError(116, "Stale file handle"))).__name__
    'TransientError'
    >>> read_error("tcp://host:1", "cannot be read", ConnectionResetError(104, "Connection reset by peer"))
    SourceError('cannot be read: Connection reset by peer')
    """
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return kind_of(error)(source, f"{what}: {reason}")


def kind_of(error: Exception) -> type[SourceError]:
    """The class of the error that an exception of a library becomes: `TransientError` or `SourceError`."""
    is_transient = isinstance(error, OSError) and bool(error.errno) and not isinstance(error, ConnectionError)
    return TransientError if is_transient else SourceError


@contextmanager
def reading(source: str, what: str = "cannot be read") -> Iterator[None]:
    """Turn an OSError into the `read_error` of a source."""
    try:
        yield
    except OSError as error:
        raise read_error(source, what, error) from None


@contextmanager
def undoing(cleanup: Callable[[], object]) -> Iterator[None]:
    """Run ``cleanup`` if the block raises. If that fails, too, it is a note of the first error, not in its place.

    >>> with undoing(lambda: 1 / 0):
    ...     raise UsageError("the cause")
    Traceback (most recent call last):
    xmlpunct.base.errors.UsageError: the cause
    and then: division by zero
    """
    try:
        yield
    except BaseException as error:
        try:
            cleanup()
        except Exception as failure:
            error.add_note(hide(f"and then: {failure}"))
        raise


@contextmanager
def ended_by(close: Callable[[], object]) -> Iterator[None]:
    """Run ``close`` behind the block; if the block raises, as `undoing` does."""
    with undoing(close):
        yield
    close()


class StrictError(XmlPunctError):
    """``--strict`` was asked for and a tuple was rejected."""


MOST_TEXT = 64 * 1024
"""So many bytes of a rejected tuple's text are kept."""


def cut(text: str) -> str:
    """The text of a reject, without what is beyond `MOST_TEXT` bytes; dots say so.

    >>> len(cut("x" * 100_000)), cut("short")
    (65539, 'short')
    """
    if len(text) * 4 <= MOST_TEXT:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= MOST_TEXT else data[:MOST_TEXT].decode("utf-8", "ignore") + "..."


@dataclass(frozen=True, slots=True)
class Reject:
    """A tuple that was left out, and why.

    ``line`` (1-based) and ``byte`` (0-based) say where it began in ``source``; both are None for a tuple
    that was computed rather than read. ``text`` is the tuple as it stood there, or its values
    as JSON if an operator rejected it; of a long one the first 64 KiB.
    """

    source: str
    line: int | None
    byte: int | None
    reason: str
    text: str

    def place(self) -> tuple[bool, str, int]:
        """The sort key: by source and place; rejects that were computed come last."""
        return (self.byte is None, self.source, self.byte or 0)

    def __str__(self) -> str:
        place = f", line {self.line}, byte {self.byte}" if self.line is not None else ""
        return printable(f"{self.source}{place}: {self.reason}")
