"""Sources by name: opens them, and answers questions about them before they are opened."""

from __future__ import annotations

import os

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import FOLLOW, WATCH, connector_of, expand, url_scheme
from xmlpunct.connectors.listing import is_passed_over, is_pattern, refuse_columns, would_match
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.utf8_stream import Utf8Stream

__all__ = [
    "FOLLOW",
    "WATCH",
    "Source",
    "Utf8Stream",
    "columns_named",
    "is_endless",
    "is_passed_over",
    "open_source",
    "paths_of",
    "present_files",
    "senders_of",
    "would_be_read",
]


def open_source(spec: str | os.PathLike[str]) -> Source:
    """The source with a name, which is one of:

    - the path of a file or of a directory, or a pattern with ``*``, ``?``, ``[`` or ``{column}`` (file names then
      carry values of the columns)
    - ``-``: standard input
    - ``tcp://host:port``, ``tls://host:port``, ``tcp-listen://host:port`` or ``unix:PATH`` (see `tcp`)
    - ``follow:`` and the path of a growing file (see `follow`)
    - ``watch:`` and a directory or pattern whose files are read as they arrive (see `watched_folders`)
    - ``http://`` and ``https://`` (see `http`), ``http-listen://`` (see `http_listen`)
    - ``kafka://``, ``mqtt://`` and ``nats://`` (see `kafka`, `mqtt`, `nats`)
    - a URL with the scheme of an installed connector (see `contract`), or one that fsspec supports
      (see `object_stores`)

    Directories, patterns and archives are listed by this call. In a directory or an archive, at any depth, names that
    begin with ``_`` or ``.`` or end in ``.crc`` are skipped; files are in the order of their names. In a URL,
    ``${NAME}`` is taken from the environment, and its value is never displayed. Raises `SourceError` if the source is
    missing, unreadable or an empty directory, archive or pattern, and `UsageError` if it is no file and no address.
    """
    path = os.fspath(spec)
    if not path or "\0" in path:
        raise UsageError(f"{path!r} names no source")
    connector = connector_of(spec)
    if not isinstance(spec, str):
        return connector.source(path, path)
    if "{" in spec and not connector.columns(spec):
        refuse_columns(spec)
    return connector.source(expand(spec), spec).hidden()


def paths_of(spec: str) -> list[str]:
    """The files and directories that a source reads; empty if it is no path."""
    return [] if "\0" in spec else connector_of(spec).paths(spec)


def columns_named(spec: str | None) -> tuple[str, ...]:
    """The columns whose values are in the names of a source's files. Raises `UsageError` for a source without files.

    >>> columns_named("feed/{sid}/hour={hour}.xml"), columns_named("feed/"), columns_named("tcp://host:1")
    (('sid', 'hour'), (), ())
    """
    if spec is None or "\0" in spec:
        return ()
    columns = connector_of(spec).columns(spec)
    if not columns:
        refuse_columns(spec)
    return columns


def would_be_read(spec: str, path: str) -> bool:
    """True if a source is a pattern that would read a file at this path."""
    return url_scheme(spec) == "" and is_pattern(spec) and would_match(spec, path)


def present_files(spec: str) -> str:
    """The source that has the present contents of a growing file or watched folder; another source itself."""
    if not spec.startswith(WATCH):
        return spec.removeprefix(FOLLOW)
    from xmlpunct.connectors.watched_folders import WatchedFolder

    return WatchedFolder.parse(spec).path


def is_endless(spec: str) -> bool:
    """True if a source may never end: a pipe, a connection, a growing file."""
    return connector_of(spec).is_endless(spec)


def senders_of(spec: str | None) -> int:
    """The number of senders of a source: more than one if several peers can connect."""
    return 1 if spec is None else len(connector_of(spec).senders(spec))
