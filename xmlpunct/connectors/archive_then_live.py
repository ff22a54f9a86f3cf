"""An archive and then a live source, as the parts of one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import FOLLOW, THEN, Connector, connector_of, expand, halves
from xmlpunct.connectors.source import Source, without_password


class ArchiveThenLive(Connector):
    """``then:ARCHIVE THEN LIVE``: the parts of the archive, and behind them the parts of the live source."""

    quotes = False

    def source(self, spec: str, name: str) -> Source:
        archive_spec, live_spec = _checked(spec)
        archive, live = (connector_of(half).source(expand(half), half) for half in (archive_spec, live_spec))
        first_live = len(archive.parts)

        def open_part(number: int) -> tuple[BinaryIO, bool]:
            return archive.opener(number) if number < first_live else live.opener(number - first_live)

        prefix = live_prefix(spec)
        if clash := next((part for part, _ in archive.parts if part.startswith(prefix)), None):
            raise UsageError(
                f"{clash} is in the archive, and its name begins as that of the live source {prefix}"
            )
        live_parts = [(n if n.startswith(prefix) else f"{prefix}#{n}", size) for n, size in live.parts]
        files = [source.files or (None,) * len(source.parts) for source in (archive, live)]
        return replace(
            live,
            name=name.removeprefix(THEN),
            parts=(*archive.parts, *live_parts),
            opener=open_part,
            files=(*files[0], *files[1]),
            once=archive.once or live.once,
            first_live=first_live,
        )

    def senders(self, spec: str) -> Sequence[str]:
        _checked(spec)
        return ("",)

    def is_endless(self, spec: str) -> bool:
        return connector_of(halves(spec)[-1]).is_endless(halves(spec)[-1])

    def paths(self, spec: str) -> list[str]:
        return [path for half in halves(spec) for path in connector_of(half).paths(half)]


def live_prefix(spec: str) -> str:
    """The text with which the names of the live source's parts begin.

    >>> live_prefix("then:old/*.xml THEN follow:live.xml")
    'live.xml'
    """
    return without_password(halves(spec)[-1].removeprefix(FOLLOW))


def _checked(spec: str) -> tuple[str, str]:
    """The archive and the live source. Raises `UsageError` for two that cannot be read as one stream.

    >>> _checked("then:old/*.xml THEN tcp://host:7000")
    ('old/*.xml', 'tcp://host:7000')
    """
    parts = halves(spec)
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{spec}: write an archive and a live source: then:old/*.xml THEN tcp://host:7000")
    archive, live = parts
    if connector_of(archive).is_endless(archive):
        raise UsageError(f"{archive} may never end, so nothing can follow it: THEN begins behind its end")
    for half in parts:
        count = len(connector_of(half).senders(half))
        if count > 1:
            raise UsageError(f"{half} has {count} senders: an archive and its live source are one sender")
        if connector_of(half).columns(half):
            raise UsageError(f"{half}: columns in the names of files cannot be combined with THEN")
    return archive, live
