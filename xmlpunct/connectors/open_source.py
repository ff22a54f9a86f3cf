"""Where bytes come from: what a text names, and what is known of it before it is opened."""

from __future__ import annotations

import os

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import FOLLOW, connector_of, expand, scheme_of
from xmlpunct.connectors.listing import is_passed_over, is_pattern, refuse_columns, would_match
from xmlpunct.connectors.part_reader import PartReader
from xmlpunct.connectors.source import Source

__all__ = [
    "FOLLOW",
    "PartReader",
    "Source",
    "columns_named",
    "is_endless",
    "is_passed_over",
    "open_source",
    "paths_of",
    "senders_of",
    "would_be_read",
]


def open_source(spec: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source that a text names.

    It is a path: of a file, of a directory (its files, listed now), or with ``*``, ``?``, ``[`` or ``{column}`` (the
    files that match, listed now; their names carry values of the columns); ``-``, standard input;
    ``tcp://host:port``, ``tls://host:port``, ``tcp-listen://host:port`` or ``unix:PATH`` (see `tcp`); ``follow:`` and
    the path of a file that grows (see `follow`); ``http://`` and ``https://`` (see `web`); ``http-listen://`` (see
    `posted`); ``kafka://``, ``mqtt://`` and ``nats://`` (see `kafka`, `mqtt`, `nats`); a URL that a connector is
    installed for (see `connectors`); or any other URL that fsspec knows (see `remote`). Members of an archive are
    listed now, too. In a directory or an archive, at any
    depth, names beginning with ``_`` or ``.`` and ending in ``.crc`` are passed over; the others come in the order of
    their names. In a URL, ``${NAME}`` is taken from the environment, and told to nobody. Raises `SourceError` for what
    is missing, empty (a directory, an archive, what matches) or unreadable and `UsageError` for what is no file, or no
    address.
    """
    path = os.fspath(spec)
    if not path or "\0" in path:
        raise UsageError(f"{path!r} names no source")
    connector = connector_of(spec)
    if not isinstance(spec, str):
        return connector.source(path, name or path)
    if not connector.columns(spec):
        refuse_columns(spec)
    return connector.source(expand(spec), name or spec).hidden()


def paths_of(spec: str) -> list[str]:
    """The files and directories that a source is read from; none if it is no path."""
    return [] if "\0" in spec else connector_of(spec).paths(spec)


def columns_named(spec: str | None) -> tuple[str, ...]:
    """The columns whose values the names of a source's files carry. Raises `UsageError` where they cannot carry any.

    >>> columns_named("feed/{sid}/hour={hour}.xml"), columns_named("feed/"), columns_named("tcp://host:1")
    (('sid', 'hour'), (), ())
    """
    if spec is None or "\0" in spec:
        return ()
    found = connector_of(spec).columns(spec)
    if not found:
        refuse_columns(spec)
    return found


def would_be_read(spec: str, path: str) -> bool:
    """Whether a file at a path, if there were one, would be read for a source that is a pattern."""
    return scheme_of(spec) == "" and is_pattern(spec) and would_match(spec, path)


def is_endless(spec: str) -> bool:
    """Whether a source may never end: a pipe, a connection, a file that grows."""
    return connector_of(spec).is_endless(spec)


def senders_of(spec: str | None) -> int:
    """How many senders the source that a text names has: more than one where several peers can connect."""
    return 1 if spec is None else len(connector_of(spec).senders(spec))
