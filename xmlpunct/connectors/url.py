"""Parses the URLs of connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.source import without_password


def has_topic(address: Address) -> bool:
    """True if an address has a host and a path, and no port 0."""
    return bool(address.host and address.path) and address.port != 0


@dataclass(frozen=True)
class Address:
    """A parsed URL. ``port`` is None if the URL has none; ``path`` has no leading slash.

    ``name`` is the URL for messages: without user, password and options. If a URL can have several hosts, ``host`` has
    all of them, with their ports.
    """

    name: str
    host: str
    port: int | None
    path: str
    options: dict[str, str] = field(repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(
        cls,
        spec: str,
        expected_form: str,
        options: Sequence[str] | None,
        is_valid: Callable[[Address], bool] = has_topic,
        *,
        has_several_hosts: bool = False,
    ) -> Address:
        """Parse a URL that may have some ``options``; None: any option.

        Raises `UsageError` with the ``expected_form`` if the URL is malformed, or not ``is_valid``. A ``#`` is a part
        of the path.

        >>> Address.parse("mqtt://me:pw@host:1883/a/%23?senders=a/1", "", ["senders"])
        Address(name='mqtt://host:1883/a/%23', host='host', port=1883, path='a/#')
        >>> Address.parse("mqtt://host/a?b=c", "mqtt://HOST/TOPIC", ["senders"])
        Traceback (most recent call last):
        xmlpunct.base.errors.UsageError: mqtt://host/a: there is no option b: there is senders
        """
        name = short(spec)
        try:
            url = urlsplit(spec, allow_fragments=False)
            host, port = (url.netloc, None) if has_several_hosts else (url.hostname or "", url.port)
            pairs = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
        except ValueError:
            raise UsageError(f"{name} is no address: write {expected_form}") from None
        values = dict(pairs)
        if options is not None and (wrong := sorted(values.keys() - set(options))):
            allowed = "there is " + ", ".join(options) if options else "there are none"
            raise UsageError(f"{name}: there is no option {wrong[0]}: {allowed}")
        if len(values) < len(pairs):
            raise UsageError(f"{name}: an option occurs twice: leave one out")
        user, password = (None if part is None else unquote(part) for part in (url.username, url.password))
        address = cls(name, host, port, unquote(url.path[1:]), values, user, password)
        if not is_valid(address):
            raise UsageError(f"{name} is no address: write {expected_form}")
        return address

    @property
    def senders(self) -> list[str]:
        """The names in ``?senders=a,b``; empty without that option. Raises `UsageError`."""
        return self.names("senders", "names, each once, as in ?senders=a,b")

    def names(self, option: str, expected: str, is_name: Callable[[str], object] = bool) -> list[str]:
        """The names in an option, separated by commas; empty without that option. Raises `UsageError`."""
        if option not in self.options:
            return []
        names = self.options[option].split(",")
        if not all(map(is_name, names)) or len({*names}) < len(names):
            raise UsageError(f"{option}={self.options[option]}: write {expected}")
        return names

    def check_choices(self, choices: Mapping[str, Sequence[str]]) -> None:
        """Raise `UsageError` if the value of an option is not one of its ``choices``."""
        for name, values in choices.items():
            if self.options.get(name, values[0]) not in values:
                raise UsageError(f"{name}={self.options[name]}: write {name}={' or '.join(values)}")

    def number(self, name: str, usual: int) -> int:
        """The value of an option that is a number. Raises `UsageError`."""
        text = self.options.get(name, str(usual))
        if not (text.isascii() and text.isdecimal() and int(text) < 2**32):
            raise UsageError(f"{name}={text}: write a number, as in ?{name}={usual}")
        return int(text)


def short(spec: str) -> str:
    """A URL for messages: without user, password and options."""
    return without_password(spec).partition("?")[0]
