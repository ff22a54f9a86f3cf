"""The boundary to libraries that read foreign bytes: their exceptions become our errors here.

On bad input, tarfile, zipfile, zlib, http.client, codecs and lxml raise errors of their own, and sometimes ValueError,
OverflowError, RecursionError or MemoryError. Every call of such a library stands in `guarded`. It catches every
Exception, because a list of types would be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xmlpunct.base.errors import SourceError, XmlPunctError, kind_of


@contextmanager
def guarded(
    source: str,
    what: str = "cannot be read",
    line: int | None = None,
    byte: int | None = None,
    passing: tuple[type[Exception], ...] = (),
    raising: type[SourceError] | None = None,
) -> Iterator[None]:
    """Turn an exception of a library into a `SourceError` of a source: ``what`` cannot be done, and the reason.

    Our own errors, and those of the ``passing`` types, pass. The exception is the cause of the error, and decides its
    class (`kind_of`) unless ``raising`` names it.

    >>> with guarded("s.xml", byte=7):
    ...     raise OverflowError("Python int too large to convert to C long")
    Traceback (most recent call last):
    ...
    xmlpunct.base.errors.SourceError: s.xml: cannot be read: Python int too large to convert to C long, at byte 7
    """
    try:
        yield
    except XmlPunctError:
        raise
    except passing:
        raise
    except Exception as error:
        at = f", at byte {byte}" if byte and line is None else ""
        raise (raising or kind_of(error))(source, f"{what}: {why(error)}{at}", line, byte) from error


def why(error: BaseException) -> str:
    """The reason of a library's exception, in one line.

    >>> why(OSError(2, "No such file or directory")), why(RecursionError("maximum ...")), why(MemoryError())
    ('No such file or directory', 'it is nested too deeply', 'out of memory')
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "out of memory"
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
    return " ".join(str(reason).split()) or type(error).__name__
