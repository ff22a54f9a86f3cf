"""The boundary to libraries that read foreign bytes: their exceptions become `SourceError` here.

On bad input, tarfile, zipfile, zlib, http.client, codecs and lxml raise their own exceptions, and sometimes ValueError,
OverflowError, RecursionError or MemoryError. Every call of these libraries is inside `guarded`. It catches every
Exception, because a list of types would be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xmlpunct.base.errors import SourceError, XmlPunctError, kind_of


@contextmanager
def guarded(
    source: str,
    action: str = "cannot be read",
    byte: int | None = None,
    passing: tuple[type[Exception], ...] = (),
    raising: type[SourceError] | None = None,
) -> Iterator[None]:
    """Turn an exception of a library into a `SourceError` of a source. Its text is ``action`` and the reason.

    An `XmlPunctError`, and exceptions of the ``passing`` types, pass unchanged. The exception is the cause of the
    error. It also decides the class of the error (`kind_of`), unless ``raising`` names a class.

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
        position = f", at byte {byte}" if byte else ""
        raise (raising or kind_of(error))(
            source, f"{action}: {library_reason(error)}{position}", byte=byte
        ) from error


def library_reason(error: BaseException) -> str:
    """The reason of a library's exception, in one line.

    >>> errors = [OSError(2, "No such file or directory"), RecursionError("maximum ..."), MemoryError()]
    >>> tuple(map(library_reason, errors))
    ('No such file or directory', 'it is nested too deeply', 'out of memory')
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "out of memory"
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
    return " ".join(str(reason).split()) or type(error).__name__
