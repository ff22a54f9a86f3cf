"""Options of the data source: of ``spark.read.format("xmlpunct")``, ``readStream``, ``write`` and `from_xml`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.run.run_options import parse_size
from xmlpunct.engine.spark.table.nested_columns import Naming
from xmlpunct.firehose.result_elements import read_namespaces

CORRUPT_RECORD = "_corrupt_record"
"""Default name of Spark's column of corrupt records."""
PARTITION_BYTES = 128 * 2**20
"""The largest file that one task reads, as in Spark."""
INFER_BYTES = 8 * 2**20
"""Bytes to read for schema inference: about one second, and eight times as many as on the command line."""
ROOT, ROW = "ROWS", "ROW"
"""Default elements of written XML, the same as those of Spark's own source."""

_ELEMENTS = ("element", "rowTag", "namespaces", "attributePrefix", "valueTag", "punctNamespace")
_FAULTS = ("mode", "columnNameOfCorruptRecord", "rowValidationXSDPath")
_TABLE = (*_ELEMENTS, "path", "columnNameOfPunctuation")
READING = frozenset((*_TABLE, *_FAULTS, "paths", "inferSchema", "inferBytes", "maxPartitionBytes"))
WATCHING = READING | {"maxFilesPerTrigger", "maxBytesPerTrigger"}
WRITING = frozenset((*_TABLE, "rootTag", "compression", "checkpointLocation"))
DOCUMENTS = frozenset((*_ELEMENTS, *_FAULTS))
"""Option names by kind of use."""
_NAMES = {name.lower(): name for name in WATCHING | WRITING | DOCUMENTS}


class Mode(Enum):
    """Treatment of corrupt records."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True)
class TableOptions:
    """Parsed options; None stands for an unset option.

    ``paths`` are the inputs, or the single output. ``element`` is the tuples' element with expanded prefixes, and
    ``row`` the same as the user wrote it.
    """

    paths: tuple[str, ...] = ()
    row: str | None = None
    element: str | None = None
    naming: Naming = field(default_factory=Naming)
    punct_namespace: str = PUNCT_NAMESPACE
    punctuation: str | None = None
    mode: Mode = Mode.PERMISSIVE
    corrupt: str = CORRUPT_RECORD
    names_corrupt: bool = False
    infers: bool = True
    infer_bytes: int = INFER_BYTES
    xsd: str | None = None
    partition_bytes: int = PARTITION_BYTES
    most_files: int | None = None
    most_bytes: int | None = None
    root: str = ROOT
    compression: str = "none"
    checkpoint: str | None = None

    @classmethod
    def read(
        cls, raw_options: Mapping[str, str], allowed: frozenset[str] = READING | WATCHING | WRITING
    ) -> TableOptions:
        """Parse options; names are case-insensitive. Raises `UsageError` for an unknown name or a wrong value.

        >>> TableOptions.read({"rowtag": "g:order", "namespaces": "g=urn:g", "path": "a.xml"}).element
        '{urn:g}order'
        """
        values: dict[str, str] = {}
        for lower, value in raw_options.items():
            name = _NAMES.get(lower.lower())
            if name is None or name not in allowed:
                allowed_names = ", ".join(sorted(allowed, key=str.lower))
                raise UsageError(f"{name or lower} is no option of xmlpunct here: there are {allowed_names}")
            values[name] = value
        naming = Naming(
            values.get("attributePrefix", "_"),
            values.get("valueTag", "_VALUE"),
            read_namespaces(values.get("namespaces", "")),
        )
        row = _row(values)
        return cls(
            paths=_paths(values),
            row=row,
            element=None if row is None else _element(row, naming),
            naming=naming,
            punct_namespace=values.get("punctNamespace", PUNCT_NAMESPACE),
            punctuation=values.get("columnNameOfPunctuation"),
            mode=_mode(values.get("mode", "PERMISSIVE")),
            corrupt=values.get("columnNameOfCorruptRecord", CORRUPT_RECORD),
            names_corrupt="columnNameOfCorruptRecord" in values,
            infers=_infers(values.get("inferSchema", "true")),
            infer_bytes=_size(values, "inferBytes") or INFER_BYTES,
            xsd=values.get("rowValidationXSDPath"),
            partition_bytes=_size(values, "maxPartitionBytes") or PARTITION_BYTES,
            most_files=_files(values.get("maxFilesPerTrigger")),
            most_bytes=_size(values, "maxBytesPerTrigger"),
            root=values.get("rootTag", ROOT),
            compression=_compression(values.get("compression", "none")),
            checkpoint=values.get("checkpointLocation"),
        )


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of ``load``: one path, or several, which Spark passes as a JSON list."""
    paths = [*json.loads(values.get("paths", "[]")), *([values["path"]] if "path" in values else [])]
    return tuple(map(plain_path, paths))


def plain_path(path: str) -> str:
    """A path without Hadoop's ``file:`` prefix.

    >>> plain_path("file:/data/a.xml"), plain_path("file:///data/a.xml")
    ('/data/a.xml', 'file:///data/a.xml')
    """
    return path.removeprefix("file:") if path[:6] == "file:/" and path[:7] != "file://" else path


def _row(values: Mapping[str, str]) -> str | None:
    element, row = values.get("element"), values.get("rowTag")
    if None not in (element, row) and element != row:
        raise UsageError("element and rowTag are the same option: set one of them")
    return row if element is None else element


def _element(row: str, naming: Naming) -> str:
    try:
        return "/".join(read_element(row, naming.namespaces))
    except ValueError as error:
        raise UsageError(
            f"option element: {error}".replace("XMLNAMESPACES(", "option namespaces (")
        ) from None


def _mode(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise UsageError(f"mode {text!r}: there are {', '.join(m.value for m in Mode)}") from None


def _infers(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"inferSchema is true or false, not {text.lower()!r}")
    return text.lower() == "true"


def _size(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    try:
        return parse_size(values[name])
    except UsageError as error:
        raise UsageError(f"option {name}: {error}") from None


def _files(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise UsageError(f"maxFilesPerTrigger is a number of files, not {text!r}")
    return int(text)


def _compression(text: str) -> str:
    codecs = {"none": "none", "uncompressed": "none", "gzip": "gzip", "bzip2": "bzip2", "xz": "xz"}
    if text.lower() not in codecs:
        raise UsageError(f"compression {text!r}: there are {', '.join(codecs)}")
    return codecs[text.lower()]
