"""The options of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.contract import url_scheme
from xmlpunct.connectors.outlet import Existing
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.firehose.result_elements import Namespaces, read_namespaces

COLUMNAR = ("parquet", "arrow")
"""Formats of files that cannot grow: a file is written when its rows are complete."""
OUTPUT_FORMATS = ("xml", "jsonl", "csv", "table", *COLUMNAR)
"""Output formats."""

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

MOST_SLICE_BYTES = 2**30
"""The largest `--slice`. Memory is several times that."""


NO_COPY = (
    "provisional answers (--partial) need --engine local: on Spark, the state is in a store of the workers, "
    "which cannot be copied between two micro-batches"
)


ONE_ANSWER = (
    "provisional answers (--partial) need a single SELECT, and this query has several answers: "
    "run the SELECT without CREATE SINK"
)


@dataclass(frozen=True)
class XmlForm:
    """The layout of XML results: root element, tuple element, prefixes, and indentation (``pretty``)."""

    root: str = "stream"
    element: str = "result"
    namespaces: Namespaces = field(default_factory=dict)
    pretty: bool = False

    @classmethod
    def of(cls, root: str | None, row: str | None, namespaces: str | None, pretty: bool) -> XmlForm | None:
        """The layout from the options, or None if all are unset. Raises `UsageError`."""
        if not (root or row or namespaces or pretty):
            return None
        usual = cls()
        return cls(root or usual.root, row or usual.element, read_namespaces(namespaces or ""), pretty)


@dataclass(frozen=True)
class Destination:
    """Path and format of results; the fields mean the same as in `RunOptions`."""

    output: str
    format: str = "xml"
    form: XmlForm | None = None
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOptions:
    """The options of ``xmlpunct run``, for both engines.

    ``output`` is a path, a path ending in ``/`` (a dataset), a URL, or None for standard output. ``slice_bytes`` is
    the number of input bytes per slice (None: adaptive). ``strict`` ends the run at the first reject, ``max_rejects``
    at too many. ``form`` is the layout of XML results. ``query_file`` is the file of the query. ``partition_by`` are
    the columns whose values name the directories of a dataset. ``partial`` is the interval between provisional answers,
    in seconds. ``threads`` is the number of threads of the local engine (None: one per core). ``is_sink``: the
    destination is that of a CREATE SINK. ``replaces``: a new run removes the results of other runs from its outputs.
    ``verifies``: all bytes of a checkpoint are compared with their checksums before the run continues.
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
    partial: float | None = None
    partition_by: tuple[str, ...] = ()
    threads: int | None = None
    is_sink: bool = False
    replaces: bool = False
    verifies: bool = False

    @property
    def existing(self) -> Existing:
        """The treatment of existing results in the outputs of a new run."""
        if self.replaces:
            return Existing.REPLACE
        return Existing.ACCEPT if self.checkpoint is None else Existing.REFUSE

    def to(self, destination: Destination | None) -> RunOptions:
        """The same options with another destination, unless it is None."""
        if destination is None:
            return self
        output = None if destination.output == "-" else destination.output
        return replace(self, **{**vars(destination), "output": output}, is_sink=True)

    def spelled(self, option: str) -> str:
        """An option as the user wrote it: ``--format``, or ``format`` of a CREATE SINK."""
        if not self.is_sink:
            return "-o" if option == "output" else f"--{option}"
        return option.replace("-", "_")

    @property
    def guarded(self) -> bool:
        """True if late tuples must be rejected at the inputs."""
        return self.strict or self.rejects is not None or self.max_rejects is not None

    @property
    def dataset(self) -> bool:
        """True if the output is a dataset directory."""
        return self.output is not None and self.output.endswith("/") and not self.is_url

    @property
    def is_url(self) -> bool:
        """True if a connector writes the output."""
        return is_url(self.output)


def is_url(output: str | None) -> bool:
    """True for the URL of a connector.

    >>> is_url("sqlite:///x.db?table=t"), is_url("out.xml"), is_url("-")
    (True, False, False)
    """
    return output is not None and url_scheme(output) not in ("", "-")


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
        raise UsageError(f"{text} is too large for a slice, which is held in memory: at most 1GiB")
    return size


_TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_time(text: str) -> float:
    """Seconds from a time such as ``10s``, ``500ms``, ``2m`` or ``1h``. Raises `UsageError`.

    >>> parse_time("500ms"), parse_time("2m")
    (0.5, 120.0)
    """
    parts = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h)\s*", text)
    seconds = float(parts[1]) * _TIMES[parts[2]] if parts else 0.0
    if not seconds:
        raise UsageError(f"{text!r} is no time: write 500ms, 10s, 2m or 1h")
    return seconds
