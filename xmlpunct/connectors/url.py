"""Parses the URLs of connectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.source import without_password


@dataclass(frozen=True)
class Address:
    """A parsed URL. ``port`` is None if the URL has none; ``path`` has no leading slash.

    ``name`` is the URL for messages: without user, password and options.
    """

    name: str
    host: str
    port: int | None
    path: str
    options: dict[str, str] = field(repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, spec: str, expected_form: str, options: Sequence[str]) -> Address:
        """Parse a URL that may have some ``options``. Raises `UsageError`; its message has the form ``wanted``.

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
            pairs = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
        except ValueError:
            raise UsageError(f"{name} is no address: write {expected_form}") from None
        values = dict(pairs)
        if wrong := sorted(values.keys() - set(options)):
            allowed = "there is " + ", ".join(options) if options else "there are none"
            raise UsageError(f"{name}: there is no option {wrong[0]}: {allowed}")
        if len(values) < len(pairs):
            raise UsageError(f"{name}: an option occurs twice: leave one out")
        user, password = (None if part is None else unquote(part) for part in (url.username, url.password))
        return cls(name, host, port, unquote(url.path[1:]), values, user, password)

    @property
    def senders(self) -> list[str]:
        """The names in ``?senders=a,b``; empty without that option. Raises `UsageError`."""
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
    """A URL for messages: without user, password and options."""
    return without_password(spec).partition("?")[0]
