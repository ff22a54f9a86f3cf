"""What a user may say of a table: the options of ``spark.read.format("xmlpunct")`` and its kin."""

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
"""What Spark calls the column of what could not be read, unless told otherwise."""
PARTITION_BYTES = 128 * 2**20
"""The largest file that one task reads, as in Spark."""
INFER_BYTES = 8 * 2**20
"""How much is read to infer a schema: a second's work, and eight times what the command line takes."""
ROOT, ROW = "ROWS", "ROW"
"""The elements of what is written, unless told otherwise: those of Spark's own source."""

_ELEMENTS = ("element", "rowTag", "namespaces", "attributePrefix", "valueTag", "punctNamespace")
_FAULTS = ("mode", "columnNameOfCorruptRecord", "rowValidationXSDPath")
_TABLE = (*_ELEMENTS, "path", "columnNameOfPunctuation")
READING = frozenset((*_TABLE, *_FAULTS, "paths", "inferSchema", "inferBytes", "maxPartitionBytes"))
WATCHING = READING | {"maxFilesPerTrigger", "maxBytesPerTrigger"}
WRITING = frozenset((*_TABLE, "rootTag", "compression", "checkpointLocation"))
DOCUMENTS = frozenset((*_ELEMENTS, *_FAULTS))
"""The options that each kind of use takes."""
_NAMES = {name.lower(): name for name in WATCHING | WRITING | DOCUMENTS}


class Mode(Enum):
    """What becomes of what cannot be read."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True)
class TableOptions:
    """The options, read. What is None was not said.

    ``paths`` are what is read or, one alone, written. ``element`` is the tuples' element, its prefixes expanded;
    ``row`` is it as it was said.
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
        cls, given: Mapping[str, str], known: frozenset[str] = READING | WATCHING | WRITING
    ) -> TableOptions:
        """Read options, whose names have no case. Raises `UsageError` for one that is not ``known``, or wrong.

        >>> TableOptions.read({"rowtag": "g:order", "namespaces": "g=urn:g", "path": "a.xml"}).element
        '{urn:g}order'
        """
        said: dict[str, str] = {}
        for lower, value in given.items():
            name = _NAMES.get(lower.lower())
            if name is None or name not in known:
                there = ", ".join(sorted(known, key=str.lower))
                raise UsageError(f"{name or lower} is no option of xmlpunct here: there are {there}")
            said[name] = value
        naming = Naming(
            said.get("attributePrefix", "_"),
            said.get("valueTag", "_VALUE"),
            read_namespaces(said.get("namespaces", "")),
        )
        row = _either(said, "element", "rowTag")
        return cls(
            paths=_paths(said),
            row=row,
            element=None if row is None else _element(row, naming),
            naming=naming,
            punct_namespace=said.get("punctNamespace", PUNCT_NAMESPACE),
            punctuation=said.get("columnNameOfPunctuation"),
            mode=_mode(said.get("mode", "PERMISSIVE")),
            corrupt=said.get("columnNameOfCorruptRecord", CORRUPT_RECORD),
            names_corrupt="columnNameOfCorruptRecord" in said,
            infers=_flag(said, "inferSchema", True),
            infer_bytes=_size(said, "inferBytes") or INFER_BYTES,
            xsd=said.get("rowValidationXSDPath"),
            partition_bytes=_size(said, "maxPartitionBytes") or PARTITION_BYTES,
            most_files=_count(said, "maxFilesPerTrigger"),
            most_bytes=_size(said, "maxBytesPerTrigger"),
            root=said.get("rootTag", ROOT),
            compression=_compression(said.get("compression", "none")),
            checkpoint=said.get("checkpointLocation"),
        )


def _paths(said: Mapping[str, str]) -> tuple[str, ...]:
    """What ``load`` was given: one path, or several, which Spark passes as a list in JSON."""
    paths = [*json.loads(said.get("paths", "[]")), *([said["path"]] if "path" in said else [])]
    return tuple(map(plain_path, paths))


def plain_path(path: str) -> str:
    """A path as others than Hadoop write it.

    >>> plain_path("file:/data/a.xml"), plain_path("file:///data/a.xml")
    ('/data/a.xml', 'file:///data/a.xml')
    """
    return path.removeprefix("file:") if path[:6] == "file:/" and path[:7] != "file://" else path


def _either(said: Mapping[str, str], name: str, alias: str) -> str | None:
    if name in said and alias in said and said[name] != said[alias]:
        raise UsageError(f"{name} and {alias} are one option: give one of them")
    return said.get(name, said.get(alias))


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


def _flag(said: Mapping[str, str], name: str, otherwise: bool) -> bool:
    text = said.get(name, str(otherwise)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name} is true or false, not {text!r}")
    return text == "true"


def _size(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    try:
        return parse_size(said[name])
    except UsageError as error:
        raise UsageError(f"option {name}: {error}") from None


def _count(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    if not said[name].isdecimal() or not int(said[name]):
        raise UsageError(f"{name} is a number of files, not {said[name]!r}")
    return int(said[name])


def _compression(text: str) -> str:
    known = {"none": "none", "uncompressed": "none", "gzip": "gzip", "bzip2": "bzip2", "xz": "xz"}
    if text.lower() not in known:
        raise UsageError(f"compression {text!r}: there are {', '.join(known)}")
    return known[text.lower()]
