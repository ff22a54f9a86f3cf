"""Parsing of patterns: the texts that ``str`` of a pattern returns, and other spellings."""

from __future__ import annotations

from typing import NoReturn

from xmlpunct.base.errors import PatternError
from xmlpunct.types import SPACE, STRING, Type, Value
from xmlpunct.types.pattern import EMPTY, WILDCARD, Constant, Pattern, interval, values


def parse_pattern(type_: Type, text: str, attribute: str | None = None) -> Pattern:
    """Read one pattern over values of ``type_``.

    White space around a pattern and around members is dropped, except around an unquoted STRING constant, where it is
    part of the value. Raises `PatternError` with ``attribute``, the text and the position.

    >>> from xmlpunct.types import INT, STRING
    >>> print(parse_pattern(INT, "[17,20)"), parse_pattern(INT, "(,100]"), parse_pattern(STRING, '"*"'))
    [17,19] (,100] "*"
    """
    return _Reader(type_, text, attribute).pattern()


def split_patterns(text: str) -> list[tuple[int, str]]:
    """Split ``a, [b,c), {d,e}`` at its outer commas. Returns the trimmed pieces, each with its position."""
    pieces, start, index, end = [], 0, 0, len(text)
    while True:
        while index < end and text[index] in SPACE:
            index += 1
        if index < end and text[index] in '*[({"':
            index = _skip(text, index)
        comma = text.find(",", index)
        stop = end if comma < 0 else comma
        piece = text[start:stop]
        pieces.append((start + len(piece) - len(piece.lstrip(SPACE)), piece.strip(SPACE)))
        if comma < 0:
            return pieces
        start = index = comma + 1


def _skip(text: str, index: int) -> int:
    """The end of the bracketed or quoted text that starts at ``index``; after the text, if it is not closed."""
    if text[index] not in '[({"':
        return index + 1
    closers, at_start = {"[": "])", "(": "])", "{": "}"}.get(text[index], ""), True
    if text[index] == '"':
        return _quote_end(text, index)
    index += 1
    while index < len(text) and text[index] not in closers:
        if text[index] == '"' and at_start:
            index = _quote_end(text, index)
            continue
        at_start = text[index] == "," or (at_start and text[index] in SPACE)
        index += 1
    return index + 1


def _quote_end(text: str, index: int) -> int:
    """The position after the closing quote of the quoted text that starts at ``index``."""
    index += 1
    while index < len(text):
        if text[index] != '"':
            index += 1
        elif text[index + 1 : index + 2] == '"':
            index += 2
        else:
            return index + 1
    return len(text) + 1


class _Reader:
    """Parses one pattern. Its errors have the position in the text."""

    def __init__(self, type_: Type, text: str, attribute: str | None) -> None:
        self.type, self.text, self.attribute = type_, text, attribute

    def pattern(self) -> Pattern:
        text = self.text
        lead = len(text) - len(text.lstrip(SPACE))
        body = text.strip(SPACE)
        if body == "*":
            return WILDCARD
        if body[:1] == "*" and self.type is not STRING:
            self.fail(lead + 1, "nothing may follow *")
        if body[:1] == '"':
            return Constant(self.type, self.member(lead, lead + len(body)))
        if body[:1] == "{":
            return self.values_pattern(lead, lead + len(body))
        if body[:1] in ("[", "("):
            return self.range_pattern(lead, lead + len(body))
        try:
            return Constant(self.type, self.type.parse(text))
        except ValueError as error:
            self.fail(lead, str(error))

    def values_pattern(self, start: int, end: int) -> Pattern:
        if _skip(self.text, start) != end:
            self.fail(min(_skip(self.text, start), end), "a list must end with }")
        members = self.members(start + 1, end - 1)
        if len(members) == 1 and not self.text[slice(*members[0])].strip(SPACE):
            return EMPTY
        return values(self.type, [self.member(*span) for span in members])

    def range_pattern(self, start: int, end: int) -> Pattern:
        if _skip(self.text, start) != end:
            self.fail(min(_skip(self.text, start), end), "a range must end with ] or )")
        members = self.members(start + 1, end - 1)
        if len(members) != 2:
            self.fail(start, f"a range has two bounds, and this one {len(members)}")
        low, high = (self.member(*span) if self.text[slice(*span)].strip(SPACE) else None for span in members)
        return interval(self.type, low, high, self.text[start] == "[", self.text[end - 1] == "]")

    def members(self, start: int, end: int) -> list[tuple[int, int]]:
        """The spans of the members between two positions, split at commas outside quotes."""
        spans, index, first = [], start, start
        while index < end:
            if self.text[index] == '"' and not self.text[first:index].strip(SPACE):
                index = _quote_end(self.text, index)
            elif self.text[index] == ",":
                spans.append((first, index))
                index = first = index + 1
            else:
                index += 1
        return [*spans, (first, end)]

    def member(self, start: int, end: int) -> Value:
        raw = self.text[start:end]
        position = start + len(raw) - len(raw.lstrip(SPACE))
        raw = raw.strip(SPACE)
        if raw[:1] == '"':
            if _quote_end(raw, 0) != len(raw):
                self.fail(position, "a quoted value must end with one quote")
            raw = raw[1:-1].replace('""', '"')
        elif not raw:
            self.fail(position, 'an empty member: write "" for the empty string')
        else:
            for i, c in enumerate(raw):
                if c in '[](){}"':
                    self.fail(position + i, f"{c} in a member: quote the member")
        try:
            return self.type.accept(self.type.parse(raw))
        except ValueError as error:
            self.fail(position, str(error))

    def fail(self, position: int, reason: str) -> NoReturn:
        raise PatternError(reason, self.text, position, self.attribute)
