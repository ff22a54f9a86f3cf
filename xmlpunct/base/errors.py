"""The tree of exceptions.

::

    XmlPunctError                 base of all exceptions that this package raises on purpose
    |-- UsageError                a wrong call: an option, a file that is missing, an extra not installed
    |   `-- SqlError              a query that cannot run; carries the SQL and the position in it
    |-- SchemaError               an invalid column list or domain
    |-- PatternError              a malformed pattern or punctuation; never guessed
    |-- SourceError               a source that failed: malformed XML, a cut connection, a wrong punctuation
    |   `-- TransientError        a fault outside the data, such as of a disk: the same run can resume
    `-- StrictError               ``--strict``: the first reject ends the run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide


class XmlPunctError(Exception):
    """Base of every exception that xmlpunct raises on purpose.

    Parameters
    ----------
    *args : object
        The lines of its text.

    Notes
    -----
    The text contains no secret (see `xmlpunct.base.secrets`) and no control character (see `xmlpunct.base.printable`).
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
    """A query that cannot run, with the position of the fault.

    Parameters
    ----------
    reason : str
        What is wrong.
    sql : str
        The text of the query.
    start, end : int, optional
        Character offsets into ``sql``, ``end`` exclusive; None if the position is unknown.

    Examples
    --------
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
        position = f"(line {number}, column {column + 1})"
        return f"{reason} {position}\n  {before}{marked}{after}\n  {lead}{'^' * max(1, len(marked))}"


class SchemaError(XmlPunctError):
    """An invalid schema: two attributes of one name, or a domain that no value satisfies."""

    exit_code = 2


class PatternError(XmlPunctError):
    """A pattern that cannot be read.

    Parameters
    ----------
    reason : str
        What is wrong.
    text : str
        The whole pattern.
    position : int
        The 0-based character of ``text`` at which reading failed.
    attribute : str, optional
        The attribute of the pattern; None if it is unknown.
    """

    def __init__(self, reason: str, text: str = "", position: int = 0, attribute: str | None = None):
        self.reason, self.text, self.position, self.attribute = reason, text, position, attribute
        super().__init__(reason)

    def __str__(self) -> str:
        prefix = f"attribute {printable(self.attribute)}: " if self.attribute else ""
        return f"{prefix}{printable(self.reason)} in pattern {self.text!r} at character {self.position + 1}"


class SourceError(XmlPunctError):
    """A source that failed. Everything before the fault has been delivered; the stream has not ended.

    Parameters
    ----------
    source : str
        The name of the source.
    reason : str
        What is wrong.
    line : int, optional
        The 1-based line of the fault; None if it has no position, as for a file that cannot be opened.
    byte : int, optional
        The 0-based byte of the fault, or None.
    """

    def __init__(self, source: str, reason: str, line: int | None = None, byte: int | None = None):
        self.source, self.reason, self.line, self.byte = hide(source), hide(reason), line, byte
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str, int | None, int | None]]:
        return (type(self), (self.source, self.reason, self.line, self.byte))

    def __str__(self) -> str:
        position = f", line {self.line}, byte {self.byte}" if self.line is not None else ""
        return printable(f"{self.source}{position}: {self.reason}")


class TransientError(SourceError):
    """A fault outside the data: a disk, a network file system, a file that is missing, too many open files.

    Checkpoints do not record it. After a repair, the same run resumes.
    """

    REMEDY = "nothing is lost: after a repair, the same command continues"
    """The note of an error that ends a run with a checkpoint."""


def read_error(source: str, action: str, error: Exception) -> SourceError:
    """The error of a source for an exception that reading it raised.

    `kind_of` decides whether it is transient. An error of the operating system, about a file or this machine, is
    transient. A lost connection is final, since the bytes after it are lost too. So is an exception without an error
    number, which is about the contents.

    >>> type(read_error("a.xml", "cannot be read", OSError(116, "Stale file handle"))).__name__
    'TransientError'
    >>> read_error("tcp://host:1", "cannot be read", ConnectionResetError(104, "Connection reset by peer"))
    SourceError('cannot be read: Connection reset by peer')
    """
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return kind_of(error)(source, f"{action}: {reason}")


def kind_of(error: Exception) -> type[SourceError]:
    """The class of error for an exception of a library: `TransientError` or `SourceError`."""
    is_transient = isinstance(error, OSError) and bool(error.errno) and not isinstance(error, ConnectionError)
    return TransientError if is_transient else SourceError


@contextmanager
def reading(source: str, action: str = "cannot be read") -> Iterator[None]:
    """Turn an OSError into the `read_error` of a source."""
    try:
        yield
    except OSError as error:
        raise read_error(source, action, error) from None


@contextmanager
def undoing(cleanup: Callable[[], object]) -> Iterator[None]:
    """Run ``cleanup`` if the block raises. A failure of ``cleanup`` is added to that error as a note.

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
    """Run ``close`` after the block; if the block raises, as in `undoing`."""
    with undoing(close):
        yield
    close()


class StrictError(XmlPunctError):
    """A tuple was rejected in a run with ``--strict``."""


MOST_TEXT = 64 * 1024
"""The greatest number of bytes that a reject retains of the text of its tuple."""


def cut_short(text: str) -> str:
    """The text of a reject, truncated to `MOST_TEXT` bytes; dots mark the truncation.

    >>> len(cut_short("x" * 100_000)), cut_short("short")
    (65539, 'short')
    """
    if len(text) * 4 <= MOST_TEXT:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= MOST_TEXT else data[:MOST_TEXT].decode("utf-8", "ignore") + "..."


@dataclass(frozen=True, slots=True)
class Reject:
    """A tuple that a query left out, with the reason.

    Parameters
    ----------
    source : str
        The name of the source.
    line, byte : int or None
        Where the tuple begins in the source: the 1-based line and the 0-based byte. None for a tuple that an operator
        computed.
    reason : str
        Why the tuple was left out.
    text : str
        The tuple as it is in the source, or its values as JSON if an operator rejected it. At most 64 KiB.
    """

    source: str
    line: int | None
    byte: int | None
    reason: str
    text: str

    def place(self) -> tuple[bool, str, int]:
        """The sort key: by source and position; rejects of computed tuples are last."""
        return (self.byte is None, self.source, self.byte or 0)

    def __str__(self) -> str:
        position = f", line {self.line}, byte {self.byte}" if self.line is not None else ""
        return printable(f"{self.source}{position}: {self.reason}")
