"""The interfaces of connectors, which read from and write to the URLs of a scheme, and sources by their URLs.

A connector is one small class, selected by the scheme of a URL: this package's own are in `OWN`, others are entry
points of the group ``xmlpunct.connectors`` whose name is the scheme. docs/connectors.md shows how to write one.

- Input: `Connector.inlet` makes an `Inlet` for each of its `senders`. An inlet returns pieces of bytes, each with the
  position after it. With a checkpoint the bytes are spooled. After a restart, an inlet that ``can_seek`` continues
  from the last stored position; any other inlet has to return the same bytes again.
- Output: `Connector.outlet` makes an `Outlet`, which receives numbered groups of results. An outlet that can determine
  the last number it has written writes each group exactly once.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from xmlpunct.base.errors import UsageError
from xmlpunct.base.secrets import expanded, note_passwords
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.connectors.inlet import Inlet, InletFile
from xmlpunct.connectors.listing import is_pattern, refuse_columns, would_match
from xmlpunct.connectors.outlet import Outlet
from xmlpunct.connectors.source import Source, merged_source, without_password

FOLLOW = "follow:"
"""Prefix of the path of a file that is followed while it grows."""
WATCH = "watch:"
"""Prefix of a directory or pattern whose files are read as they arrive."""
FOLDER_OPTIONS = ("done", "settle", "order", "after", "quarantine")
"""The options of a watched folder, behind ``?`` in its name or in WITH (...)."""
THEN = "then:"
"""Prefix of an archive and a live source, with `AND_THEN` between the two."""
AND_THEN = " THEN "
DATA = "data:"
"""Prefix of a document in the URL itself."""
GROUP = "xmlpunct.connectors"
"""The group of entry points. Their names are schemes."""
OWN = {
    "": "local_files:Files",
    "file": "local_files:Files",
    "-": "local_files:StandardInput",
    "follow": "local_files:GrowingFiles",
    "watch": "watched_folders:WatchedFolders",
    "then": "archive_then_live:ArchiveThenLive",
    "data": "local_files:DataUrls",
    "tcp": "tcp:Sockets",
    "tcp-listen": "tcp:Sockets",
    "tls": "tcp:Sockets",
    "unix": "tcp:UnixSockets",
    "http": "http_post:Servers",
    "https": "http_post:Servers",
    "http-listen": "http_listen:Listeners",
    "kafka": "kafka:Kafka",
    "mqtt": "mqtt:Mqtt",
    "mqtts": "mqtt:Mqtt",
    "nats": "nats:Nats",
    "sqlite": "databases:Databases",
    "duckdb": "databases:Databases",
    "postgresql": "databases:Databases",
}
"""The connectors of this package, by scheme; a path has none. fsspec opens all other schemes (`object_stores`)."""
_REMOTE = "object_stores:Stores"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Connector:
    """The meaning of a URL scheme: override `inlet` to read from it, `outlet` to write to it.

    In each method ``spec`` is the whole URL, with its ``${NAME}`` expanded where something is opened, and ``name`` is
    the URL as messages show it, without secrets. Each method raises `UsageError` for a URL that makes no sense.
    """

    quotes = True
    """True if its URLs are percent-encoded."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        """The input of a sender. It connects when it is opened.

        Parameters
        ----------
        spec : str
            The URL.
        sender : str
            One of `senders`.

        Returns
        -------
        Inlet
        """
        raise UsageError(f"{url_scheme(spec)}:// is not a source")

    def outlet(self, spec: str, name: str) -> Outlet:
        """The output for results. It connects when it is opened.

        Parameters
        ----------
        spec : str
            The URL.
        name : str
            The URL as messages show it.

        Returns
        -------
        Outlet
        """
        scheme = url_scheme(spec)
        hint = "" if scheme in OWN else did_you_mean(scheme, filter(None, OWN))
        raise UsageError(f"{scheme}:// is not an output: name a file, and copy it there{hint}")

    def senders(self, spec: str) -> Sequence[str]:
        """The names of the senders, each with an order of its own; the same in each run.

        It is called when a query is planned. A connector that connects to find them must `expand` the URL.
        """
        return ("",)

    def is_endless(self, spec: str) -> bool:
        """True if it may never end."""
        return True

    def place(self, spec: str) -> str:
        """A canonical form of the URL, to detect an output that is also an input."""
        return without_password(spec)

    def source(self, spec: str, name: str) -> Source:
        """The source: the merge of its senders."""
        senders = self.senders(spec)
        inlets = [self.inlet(spec, sender) for sender in senders]
        once = not all(inlet.can_seek for inlet in inlets)
        return merged_source(name, senders, lambda sender: InletFile(self.inlet(spec, sender)), once=once)

    def paths(self, spec: str) -> list[str]:
        """The files and directories that it reads."""
        return []

    def written(self, spec: str) -> list[str]:
        """The local files to which it writes results."""
        return []

    def columns(self, spec: str) -> tuple[str, ...]:
        """The columns whose values are in the names of its files."""
        return ()


def halves(spec: str) -> list[str]:
    """The archive and the live source of ``then:ARCHIVE THEN LIVE``; any other source itself.

    >>> halves("then:old.xml THEN tcp://host:1"), halves("old.xml")
    (['old.xml', 'tcp://host:1'], ['old.xml'])
    """
    return spec.removeprefix(THEN).split(AND_THEN) if spec.startswith(THEN) else [spec]


def url_scheme(spec: str) -> str:
    """The scheme of a source or output: ``-`` for standard input, empty for a path.

    >>> [url_scheme(spec) for spec in ("tcp://host:1", "follow:a.xml", "unix:a", "-", "C:/a.xml")]
    ['tcp', 'follow', 'unix', '-', '']
    """
    if spec == "-":
        return "-"
    if spec.startswith((FOLLOW, WATCH, THEN, DATA, "unix:")):
        return spec.partition(":")[0]
    match = _URL.match(spec)
    return match[1].lower() if match else ""


@cache
def _connector(scheme: str) -> Connector | None:
    """The connector of a scheme; None if only fsspec may support it."""
    if scheme in OWN:
        return _own_connector(OWN[scheme])
    entries = [*entry_points(group=GROUP, name=scheme)]
    if not entries:
        return None
    try:
        connector = entries[0].load()()
    except ImportError as error:
        raise UsageError(f"the connector of {scheme}:// is not completely installed: {error}") from None
    if not isinstance(connector, Connector):
        raise UsageError(f"{entries[0].value}, the connector of {scheme}://, is no {Connector.__qualname__}")
    return connector


@cache
def _own_connector(target: str) -> Connector:
    module, _, name = target.partition(":")
    connector = getattr(importlib.import_module(f"xmlpunct.connectors.{module}"), name)()
    assert isinstance(connector, Connector)
    return connector


def expand(spec: str) -> str:
    """A URL with each ``${NAME}`` expanded from the environment; paths are unchanged. Raises `UsageError` if unset.

    >>> expand("feeds/${DAY}.xml")
    'feeds/${DAY}.xml'
    """
    if _URL.match(spec) is None or url_scheme(spec) == "file":
        return spec
    try:
        return expanded(spec, connector_of(spec).quotes)
    except KeyError as error:
        raise UsageError(f"{spec}: {error.args[0]} is not set in the environment") from None
    except ValueError as error:
        raise UsageError(
            f"{spec}: the value of {error} has a character that divides URLs, and fsspec does not accept it quoted: "
            "fsspec reads what it needs from its own files and variables, too"
        ) from None


def connector_of(spec: str | os.PathLike[str]) -> Connector:
    """The connector for a source or output. Raises `UsageError` if it cannot be loaded.

    >>> type(connector_of("feeds/")).__name__, type(connector_of("tls://host:1")).__name__
    ('Files', 'Sockets')
    """
    scheme = ""
    if isinstance(spec, str):
        scheme = url_scheme(spec)
        note_passwords(spec)
    return _connector(scheme) or _own_connector(_REMOTE)


def open_source(spec: str | os.PathLike[str]) -> Source:
    """The source with a name, which is one of:

    - the path of a file or of a directory, or a pattern with ``*``, ``?``, ``[`` or ``{column}`` (file names then
      carry values of the columns)
    - ``-``: standard input
    - ``tcp://host:port``, ``tls://host:port``, ``tcp-listen://host:port`` or ``unix:PATH`` (see `tcp`)
    - ``follow:`` and the path of a growing file (see `follow`)
    - ``watch:`` and a directory or pattern whose files are read as they arrive (see `watched_folders`)
    - ``then:``, an archive, ``THEN`` and a live source (see `archive_then_live`)
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


def is_endless(spec: str) -> bool:
    """True if a source may never end: a pipe, a connection, a growing file."""
    return connector_of(spec).is_endless(spec)


def senders_of(spec: str | None) -> int:
    """The number of senders of a source: more than one if several peers can connect."""
    return 1 if spec is None else len(connector_of(spec).senders(spec))
