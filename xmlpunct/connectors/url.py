"""The URLs of connectors, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.source import bare


@dataclass(frozen=True)
class Address:
    """Where a URL leads: ``port`` is None if it names none, ``path`` has no slash before it.

    ``name`` is the URL as it can be told: without a name, a password and options.
    """

    name: str
    host: str
    port: int | None
    path: str
    options: dict[str, str] = field(repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, spec: str, wanted: str, options: Sequence[str]) -> Address:
        """Take a URL apart that may have some ``options``. Raises `UsageError`, which says what is ``wanted``.

        A ``#`` is a part of the path.

        >>> Address.parse("mqtt://me:pw@host:1883/a/%23?senders=a/1", "", ["senders"])
        Address(name='mqtt://host:1883/a/%23', host='host', port=1883, path='a/#')
        >>> Address.parse("mqtt://host/a?b=c", "mqtt://HOST/TOPIC", ["senders"])
        Traceback (most recent call last):
        xmlpunct.base.errors.UsageError: mqtt://host/a: there is no option b: there is senders
        """
        name = short(spec)
        try:
            url = urlsplit(spec, allow_fragments=False)
            host, port = url.hostname or "", url.port
            given = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
        except ValueError:
            raise UsageError(f"{name} is no address: write {wanted}") from None
        found = dict(given)
        if wrong := sorted(found.keys() - set(options)):
            there = "there is " + ", ".join(options) if options else "there are none"
            raise UsageError(f"{name}: there is no option {wrong[0]}: {there}")
        if len(found) < len(given):
            raise UsageError(f"{name}: an option is there twice: leave one out")
        user, password = (None if part is None else unquote(part) for part in (url.username, url.password))
        return cls(name, host, port, unquote(url.path[1:]), found, user, password)

    @property
    def senders(self) -> list[str]:
        """What ``?senders=a,b`` names; nothing without it. Raises `UsageError`."""
        text = self.options.get("senders")
        if text is None:
            return []
        names = text.split(",")
        if not all(names) or len({*names}) < len(names):
            raise UsageError(f"senders={text}: write names, each once, as in ?senders=a,b")
        return names

    def number(self, name: str, usual: int) -> int:
        """The value of an option that is a number. Raises `UsageError`."""
        text = self.options.get(name, str(usual))
        if not (text.isascii() and text.isdecimal() and int(text) < 2**32):
            raise UsageError(f"{name}={text}: write a number, as in ?{name}={usual}")
        return int(text)


def short(spec: str) -> str:
    """A URL as it is told: without a name, a password and options."""
    return bare(spec).partition("?")[0]
