"""The text of patterns: reading what ``str`` of a pattern writes, and what people write."""

from __future__ import annotations

from typing import NoReturn

from xmlpunct.base.errors import PatternError
from xmlpunct.types import SPACE, STRING, Type, Value
from xmlpunct.types.pattern import EMPTY, WILDCARD, Constant, Pattern, interval, values


def parse_pattern(type_: Type, text: str, attribute: str | None = None) -> Pattern:
    """Read one pattern over values of ``type_``.

    White space around a pattern and around members is dropped, except around an unquoted STRING constant,
    where it belongs to the value. Raises `PatternError` naming ``attribute``, text and place.

    >>> from xmlpunct.types import INT, STRING
    >>> print(parse_pattern(INT, "[17,20)"), parse_pattern(INT, "(,100]"), parse_pattern(STRING, '"*"'))
    [17,19] (,100] "*"
    """
    return _Reader(type_, text, attribute).whole()


def split_patterns(text: str) -> list[tuple[int, str]]:
    """Cut ``a, [b,c), {d,e}`` at its outer commas: the pieces, trimmed, each with its position."""
    pieces, start, at, end = [], 0, 0, len(text)
    while True:
        while at < end and text[at] in SPACE:
            at += 1
        if at < end and text[at] in '*[({"':
            at = _skip(text, at)
        comma = text.find(",", at)
        stop = end if comma < 0 else comma
        piece = text[start:stop]
        pieces.append((start + len(piece) - len(piece.lstrip(SPACE)), piece.strip(SPACE)))
        if comma < 0:
            return pieces
        start = at = comma + 1


def _skip(text: str, at: int) -> int:
    """The end of the bracketed or quoted text that starts at ``at`` (the end of all, if it never closes)."""
    if text[at] not in '[({"':
        return at + 1
    closers, fresh = {"[": "])", "(": "])", "{": "}"}.get(text[at], ""), True
    if text[at] == '"':
        return _quote_end(text, at)
    at += 1
    while at < len(text) and text[at] not in closers:
        if text[at] == '"' and fresh:
            at = _quote_end(text, at)
            continue
        fresh = text[at] == "," or (fresh and text[at] in SPACE)
        at += 1
    return at + 1


def _quote_end(text: str, at: int) -> int:
    """The position after the closing quote of the quoted text that starts at ``at``."""
    at += 1
    while at < len(text):
        if text[at] != '"':
            at += 1
        elif text[at + 1 : at + 2] == '"':
            at += 2
        else:
            return at + 1
    return len(text) + 1


class _Reader:
    """Reads one pattern from a text, and knows where it is when something is wrong."""

    def __init__(self, type_: Type, text: str, attribute: str | None) -> None:
        self.type, self.text, self.attribute = type_, text, attribute

    def whole(self) -> Pattern:
        text = self.text
        lead = len(text) - len(text.lstrip(SPACE))
        body = text.strip(SPACE)
        if body == "*":
            return WILDCARD
        if body[:1] == "*" and self.type is not STRING:
            self.wrong(lead + 1, "nothing may follow *")
        if body[:1] == '"':
            return Constant(self.type, self.member(lead, lead + len(body)))
        if body[:1] == "{":
            return self.listed(lead, lead + len(body))
        if body[:1] in ("[", "("):
            return self.ranged(lead, lead + len(body))
        try:
            return Constant(self.type, self.type.parse(text))
        except ValueError as error:
            self.wrong(lead, str(error))

    def listed(self, start: int, end: int) -> Pattern:
        if _skip(self.text, start) != end:
            self.wrong(min(_skip(self.text, start), end), "a list ends with } and nothing follows it")
        members = self.members(start + 1, end - 1)
        if len(members) == 1 and not self.text[slice(*members[0])].strip(SPACE):
            return EMPTY
        return values(self.type, [self.member(*place) for place in members])

    def ranged(self, start: int, end: int) -> Pattern:
        if _skip(self.text, start) != end:
            self.wrong(min(_skip(self.text, start), end), "a range ends with ] or ) and nothing follows it")
        members = self.members(start + 1, end - 1)
        if len(members) != 2:
            self.wrong(start, f"a range has two bounds, this one {len(members)}")
        low, high = (
            self.member(*place) if self.text[slice(*place)].strip(SPACE) else None for place in members
        )
        return interval(self.type, low, high, self.text[start] == "[", self.text[end - 1] == "]")

    def members(self, start: int, end: int) -> list[tuple[int, int]]:
        """The places of the members between two positions, cut at commas outside quotes."""
        places, at, first = [], start, start
        while at < end:
            if self.text[at] == '"' and not self.text[first:at].strip(SPACE):
                at = _quote_end(self.text, at)
            elif self.text[at] == ",":
                places.append((first, at))
                at = first = at + 1
            else:
                at += 1
        return [*places, (first, end)]

    def member(self, start: int, end: int) -> Value:
        raw = self.text[start:end]
        place = start + len(raw) - len(raw.lstrip(SPACE))
        raw = raw.strip(SPACE)
        if raw[:1] == '"':
            if _quote_end(raw, 0) != len(raw):
                self.wrong(place, "a quoted value ends with one quote and nothing follows it")
            raw = raw[1:-1].replace('""', '"')
        elif not raw:
            self.wrong(place, 'an empty member: write "" for the empty string')
        else:
            for i, c in enumerate(raw):
                if c in '[](){}"':
                    self.wrong(place + i, f"{c} in a member: quote the member")
        try:
            return self.type.accept(self.type.parse(raw))
        except ValueError as error:
            self.wrong(place, str(error))

    def wrong(self, position: int, reason: str) -> NoReturn:
        raise PatternError(reason, self.text, position, self.attribute)
