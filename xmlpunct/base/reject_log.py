"""Rejects and notices as warnings of the logger ``xmlpunct``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from xmlpunct.base.errors import Reject
from xmlpunct.base.unread import Notice

_log = logging.getLogger("xmlpunct")
_SHOWN, _MOST_KINDS = 5, 100
_VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|<[^>]*>|[0-9]+""")
"""The parts of a reason that differ between tuples: values, tags and numbers."""


class RejectLog:
    """Logs rejects as warnings: the first few of each kind, then their number at each tenfold and at the end.

    Rejects are of one kind if their reasons differ in values only.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, list[Any]] = {}  # number of rejects, number at the last log line, last reject

    def add(self, reject: Reject) -> None:
        """Log a reject, or count it."""
        name = _VALUES.sub("", reject.reason)
        if name not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            name = ""
        kind = self._kinds.setdefault(name, [0, 0, reject])
        kind[0] += 1
        kind[2] = reject
        if kind[0] <= _SHOWN:
            kind[1] = kind[0]
            _log.warning("%s", reject)
        elif kind[0] >= 10 * max(kind[1], 1):
            self._log_count(kind)

    def end(self) -> None:
        """Log the final number of each kind, unless it is logged already."""
        for kind in self._kinds.values():
            if kind[0] > kind[1]:
                self._log_count(kind)

    def _log_count(self, kind: list[Any]) -> None:
        kind[1] = kind[0]
        _log.warning("%s rejects of this kind so far, the last one: %s", f"{kind[0]:,}", kind[2])


def log_notices(notices: Iterable[Notice]) -> None:
    """Log notices as warnings."""
    for notice in notices:
        _log.warning("%s", notice)
