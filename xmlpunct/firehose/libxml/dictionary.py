"""Bounds the memory of libxml2's dictionaries.

Each thread has a dictionary that retains every name and namespace its parsers read, for the thread's lifetime.
A stream may contain new names for ever. Once a thread's dictionary is full, each parser runs in a thread of its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ROOM = 2**24
"""Maximum size, in bytes of names, of a thread's dictionary."""
LARGE = 2**23
"""XML of more bytes than this is parsed in a thread of its own: its names could exceed `ROOM`."""

_UNSEEN = re.compile(rb"xmlns[^>]*|<\?[^?]*")


class _Dictionary(threading.local):
    """Bytes of names in this thread's dictionary."""

    name_bytes = 0


_dictionary = _Dictionary()


def contained(parse: Callable[[], T], data: bytes, met: Callable[[], int]) -> T:
    """The result of ``parse`` for ``data``; afterwards ``met`` returns how many bytes of names it read."""
    if _dictionary.name_bytes >= ROOM or len(data) > LARGE:
        return _in_own_thread(parse)
    try:
        return parse()
    finally:
        _dictionary.name_bytes += met()
        if b"xmlns" in data or b"<?" in data:  # names that the parser does not report
            _dictionary.name_bytes += sum(len(declaration[0]) for declaration in _UNSEEN.finditer(data))


def _in_own_thread(parse: Callable[[], T]) -> T:
    """The result of ``parse`` in a thread of its own."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(parse())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="parse", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
