"""Keeping libxml2's dictionaries small.

Each thread has one, where every name and namespace that its parsers meet stays for as long as the thread lives.
A stream may bring new ones for ever, so once a thread has met many, parsers run in threads that end with them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ROOM = 2**24
"""How many bytes of names may stay with a thread."""
LARGE = 2**23
"""So many bytes of XML may hold more names than there is room for."""

_UNSEEN = re.compile(rb"xmlns[^>]*|<\?[^?]*")


class _Dictionary(threading.local):
    """What is known of this thread's dictionary, and goes with the thread as that does."""

    held = 0


_dictionary = _Dictionary()


def contained(parse: Callable[[], T], data: bytes, met: Callable[[], int]) -> T:
    """What ``parse`` gives for ``data``; afterwards ``met`` tells how many bytes of names it came across."""
    if _dictionary.held >= ROOM or len(data) > LARGE:
        return _apart(parse)
    try:
        return parse()
    finally:
        _dictionary.held += met()
        if b"xmlns" in data or b"<?" in data:  # which the parser does not tell us about
            _dictionary.held += sum(len(found[0]) for found in _UNSEEN.finditer(data))


def _apart(parse: Callable[[], T]) -> T:
    """What ``parse`` gives in a thread of its own."""
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
