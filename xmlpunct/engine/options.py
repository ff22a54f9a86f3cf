"""What a run is asked to do."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xmlpunct.engine.reject_limit import RejectLimit
from xmlpunct.errors import UsageError
from xmlpunct.firehose import PUNCT_NAMESPACE
from xmlpunct.firehose.outline import Namespaces

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

MOST_SLICE_BYTES = 2**30
"""The largest `--slice`. Memory is several times that."""


@dataclass(frozen=True)
class XmlForm:
    """How XML is written: the names of the root and of a tuple's element, prefixes, and whether for people to read."""

    root: str = "stream"
    element: str = "result"
    namespaces: Namespaces = field(default_factory=dict)
    pretty: bool = False


@dataclass(frozen=True)
class RunOptions:
    """The options of ``xmlpunct run``, whichever engine takes them.

    ``output`` is a path, a path ending in ``/`` (a dataset), or None for standard output; ``slice_bytes`` the
    input bytes per slice (None: it adapts); ``strict`` ends the run at the first reject, and
    ``max_rejects`` where they are too many. ``form`` is how
    XML is written, if anything was said of that. ``query_file`` is where the query was read from, if that was a file.
    """

    output: str | None = None
    format: str = "xml"
    slice_bytes: int | None = None
    checkpoint: str | None = None
    rejects: str | None = None
    stats: str | None = None
    strict: bool = False
    max_rejects: RejectLimit | None = None
    form: XmlForm | None = None
    master: str = "local[*]"
    punct_namespace: str = PUNCT_NAMESPACE
    query_file: str | None = None

    @property
    def guarded(self) -> bool:
        """Whether it matters which tuples are late."""
        return self.strict or self.rejects is not None or self.max_rejects is not None

    @property
    def dataset(self) -> bool:
        """Whether the output is a directory with one directory per slice."""
        return self.output is not None and self.output.endswith("/")


def parse_size(text: str) -> int:
    """Bytes from a size such as ``64KiB``, ``8MiB`` or ``4096``. Raises `UsageError`.

    >>> parse_size("64KiB")
    65536
    """
    parts = re.fullmatch(r"\s*([0-9]{1,12})\s*([KMG]iB|B|)\s*", text)
    if not parts or int(parts[1]) == 0:
        raise UsageError(f"{text!r} is no size: write 65536, 64KiB, 8MiB or 1GiB")
    size = int(parts[1]) * _UNITS[parts[2]]
    if size > MOST_SLICE_BYTES:
        raise UsageError(f"{text} is too much for a slice, which is held in memory: 1GiB is the most")
    return size
