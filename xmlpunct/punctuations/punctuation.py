"""Punctuations, and the functions of the paper's Section 3 over them.

A punctuation has one pattern for each attribute of a stream. It promises that no later tuple matches all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import polars as pl

from xmlpunct.base.errors import PatternError
from xmlpunct.schema import Schema
from xmlpunct.types import SPACE, Value
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.pattern import (
    EMPTY,
    ENUMERABLE,
    WILDCARD,
    Constant,
    Empty,
    Pattern,
    Range,
    Values,
    Wildcard,
)
from xmlpunct.types.pattern_text import parse_pattern, split_patterns

Signature = tuple[int, ...]
"""The positions of some attributes in the schema."""
PatternForm = tuple[int, Signature, int]
"""(kind, positions of constants, position of a range or -1).

Kinds: 0 has constants only; 1 has one range and constants; 2 has short lists; 3 is any other form.
"""
_UNKNOWN: PatternForm = (-1, (), -1)


class Punctuation:
    """A pattern for each attribute of a stream; no later tuple of the stream matches all of them.

    Two punctuations are equal if their patterns are; patterns have one canonical form.

    Parameters
    ----------
    schema : Schema
        The schema of the stream.
    patterns : sequence of Pattern
        One pattern for each attribute, in order.

    Examples
    --------
    >>> schema = Schema.parse("sid STRING, hour INT")
    >>> print(Punctuation.of(schema, hour="[17,20)"))
    <*, [17,19]>

    Notes
    -----
    Semantics 2; the paper's Section 3.
    """

    __slots__ = ("_constants", "_constrained", "_form", "_hash", "patterns", "schema")

    def __init__(self, schema: Schema, patterns: Sequence[Pattern]) -> None:
        self.schema, self.patterns = schema, tuple(patterns)
        self._hash: int | None = None
        self._constrained: tuple[int, ...] | None = None
        self._constants: Tuple | None = None
        self._form: PatternForm | None = _UNKNOWN

    @classmethod
    def parse(cls, schema: Schema, text: str) -> Punctuation:
        """Read ``<p1, p2, ...>``, one pattern for each attribute in order.

        Parameters
        ----------
        schema : Schema
            The schema of the stream.
        text : str
            The patterns, separated by commas, between ``<`` and ``>``.

        Returns
        -------
        Punctuation

        Raises
        ------
        PatternError
            If a pattern cannot be read, or their number is not that of the attributes.

        Examples
        --------
        >>> s = Schema.parse("sid STRING, hour INT")
        >>> print(Punctuation.parse(s, "<*, [17,20)>"))
        <*, [17,19]>
        """
        body = text.strip(SPACE)
        if body[:1] != "<" or body[-1:] != ">" or len(body) < 2:
            raise PatternError("a punctuation is written between < and >", text, 0)
        lead = text.index("<") + 1
        pieces = split_patterns(body[1:-1])
        if len(pieces) != len(schema):
            raise PatternError(f"{len(pieces)} patterns for {len(schema)} attributes", text, lead)
        patterns = []
        for attribute, (position, piece) in zip(schema, pieces, strict=True):
            try:
                if not piece:
                    raise PatternError('nothing: write "" for the empty string', piece, 0, attribute.name)
                patterns.append(parse_pattern(attribute.type, piece, attribute.name))
            except PatternError as error:
                error_position = lead + position + error.position
                raise PatternError(error.reason, text, error_position, attribute.name) from None
        return cls(schema, patterns)

    @classmethod
    def of(cls, schema: Schema, **patterns: object) -> Punctuation:
        """A punctuation that constrains the named attributes; the pattern of any other attribute is ``*``.

        Parameters
        ----------
        schema : Schema
            The schema of the stream.
        **patterns : str, Pattern or value
            For each attribute the text of a pattern, a pattern, or a value of its type.

        Returns
        -------
        Punctuation

        Raises
        ------
        SchemaError
            If the schema has no attribute of that name.
        PatternError
            If a pattern cannot be read.

        Examples
        --------
        >>> s = Schema.parse("sid STRING, hour INT")
        >>> print(Punctuation.of(s, hour="[17,20)"), Punctuation.of(s, hour=5))
        <*, [17,19]> <*, 5>
        """
        complete_patterns: list[Pattern] = [WILDCARD] * len(schema)
        for name, pattern in patterns.items():
            position = schema.index(name)
            type_ = schema.attributes[position].type
            if isinstance(pattern, str):
                complete_patterns[position] = parse_pattern(type_, pattern, name)
            elif isinstance(pattern, Pattern):
                complete_patterns[position] = pattern
            else:
                try:
                    complete_patterns[position] = pt.constant(type_, pattern)
                except ValueError as error:
                    raise PatternError(str(error), str(pattern), 0, name) from None
        return cls(schema, complete_patterns)

    @classmethod
    def everything(cls, schema: Schema) -> Punctuation:
        """``<*, ..., *>``: no later tuple at all, the end of the stream."""
        return cls(schema, (WILDCARD,) * len(schema))

    @property
    def is_everything(self) -> bool:
        """Whether every pattern is ``*``: the end of the stream."""
        return not self.constrained

    @property
    def is_empty(self) -> bool:
        """Whether no tuple can match, since one pattern is empty."""
        return Empty in map(type, self.patterns)

    @property
    def constrained(self) -> tuple[int, ...]:
        """The positions of the attributes whose pattern is not ``*``."""
        if self._constrained is None:
            self._analyze_patterns()
        return self._constrained  # type: ignore[return-value]

    @property
    def constants(self) -> Tuple | None:
        """The keys of the constants, if constants are the only constraints; None without constants."""
        if self._constrained is None:
            self._analyze_patterns()
        return self._constants

    @property
    def form(self) -> PatternForm | None:
        """The constrained attributes and the kinds of their patterns; None if no tuple can match.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> Punctuation.of(s, hour=5).form, Punctuation.of(s, sid="S1", hour="[1,5]").form
        ((0, (1,), -1), (1, (0,), 1))
        """
        if self._form is _UNKNOWN:
            self._form = (0, self.constrained, -1) if self.constants is not None else self._general_form()
        return self._form

    def _general_form(self) -> PatternForm | None:
        kinds = [type(self.patterns[i]) for i in self.constrained]
        if Empty in kinds:
            return None
        ranges = kinds.count(Range)
        if ranges == 1 and kinds.count(Constant) == len(kinds) - 1:
            range_position = self.constrained[kinds.index(Range)]
            return 1, tuple([i for i in self.constrained if i != range_position]), range_position
        lists = [len(q.members) for q in self.patterns if isinstance(q, Values)]
        return 2 if lists and ranges < 2 and prod(lists) <= ENUMERABLE else 3, (), -1

    def _analyze_patterns(self) -> None:
        """Compute and store `constrained` and `constants`."""
        patterns = self.patterns
        constrained = tuple([i for i, p in enumerate(patterns) if p is not WILDCARD])
        self._constrained, self._constants = constrained, None
        if {Constant} == {*map(type, patterns)} - {pt.Wildcard}:
            self._constants = self.keys(constrained)

    def keys(self, positions: Iterable[int]) -> Tuple:
        """The keys of the constants at these positions."""
        return tuple([p.type.key(p.value) for i in positions if isinstance(p := self.patterns[i], Constant)])

    def rebase(self, schema: Schema, positions: Iterable[int | None]) -> Punctuation:
        """A punctuation over another schema. ``positions``: for each of its attributes one here; None is ``*``."""
        return Punctuation(schema, [WILDCARD if i is None else self.patterns[i] for i in positions])

    def with_pattern(self, place: int, pattern: Pattern) -> Punctuation:
        """The punctuation with another pattern at one place.

        >>> print(Punctuation.of(Schema.parse("sid STRING, hour INT"), sid="S1", hour=5).with_pattern(1, WILDCARD))
        <S1, *>
        """
        return Punctuation(self.schema, (*self.patterns[:place], pattern, *self.patterns[place + 1 :]))

    def as_dict(self) -> dict[str, str]:
        """The texts of the patterns that are not ``*``, by attribute."""
        return {self.schema.names[i]: str(self.patterns[i]) for i in self.constrained}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Punctuation) and self.patterns == other.patterns

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.patterns)
        return self._hash

    def __str__(self) -> str:
        return f"<{', '.join(map(str, self.patterns))}>"

    def __repr__(self) -> str:
        return f"Punctuation({self})"

    def __reduce__(self) -> Any:
        return (Punctuation, (self.schema, self.patterns))


Tuple = tuple[Value, ...]
"""A tuple of a stream: one value per attribute, in schema order."""


def match(t: Tuple, p: Punctuation) -> bool:
    """Whether a tuple matches a punctuation.

    Parameters
    ----------
    t : tuple
        One value for each attribute, in schema order; None is null.
    p : Punctuation

    Returns
    -------
    bool

    Examples
    --------
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> match(("S1", 18), Punctuation.parse(s, "<*, [17,20)>"))
    True

    Notes
    -----
    Semantics 2; the paper's ``match``.
    """
    return all(p.patterns[i].matches(t[i]) for i in p.constrained)


def combine(p: Punctuation, q: Punctuation) -> Punctuation | None:
    """The punctuation that matches exactly the tuples that both punctuations match.

    Parameters
    ----------
    p, q : Punctuation
        Punctuations of one schema.

    Returns
    -------
    Punctuation or None
        None (the paper's psi) if no tuple matches both.

    Examples
    --------
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> print(combine(Punctuation.of(s, sid="S1"), Punctuation.of(s, hour="[1,5]")))
    <S1, [1,5]>

    Notes
    -----
    Semantics 2; the paper's ``combine``.
    """
    if p.is_empty:
        return None
    patterns = list(p.patterns)
    for i in q.constrained:
        patterns[i] = pt.intersect(patterns[i], q.patterns[i])
        if patterns[i] is EMPTY:
            return None
    return Punctuation(p.schema, patterns)


def covers(p: Punctuation, q: Punctuation) -> bool:
    """Whether a punctuation matches every tuple that another one matches and that the schema allows.

    Parameters
    ----------
    p : Punctuation
        The wider punctuation.
    q : Punctuation
        The narrower punctuation.

    Returns
    -------
    bool
        Exact if the constrained attributes have discrete types; otherwise True is certain.

    Examples
    --------
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> covers(Punctuation.of(s, hour="[1,9]"), Punctuation.of(s, sid="S1", hour=5))
    True
    """
    attributes = p.schema.attributes
    outside = (
        attributes[i].domain is not WILDCARD and attributes[i].reach(q.patterns[i]) is EMPTY
        for i in q.constrained
    )
    if q.is_empty or any(outside):
        return True
    for i in p.constrained:
        a, b = p.patterns[i], q.patterns[i]
        if not pt.covers(a, b):
            reach = attributes[i].reach(b)
            if reach is b or not pt.covers(a, reach):
                return False
    return True


# Punctuations as data frames, for transport and storage


def grouped_by_kinds(punctuations: Iterable[Punctuation]) -> list[list[Punctuation]]:
    """Punctuations in lists, by the kinds of their patterns: each list constrains the same attributes.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> grouped_by_kinds([Punctuation.of(s, hour=5), Punctuation.of(s, sid="A"), Punctuation.of(s, hour=6)])
    [[Punctuation(<*, 5>), Punctuation(<*, 6>)], [Punctuation(<A, *>)]]
    """
    groups: dict[tuple[type, ...], list[Punctuation]] = {}
    for p in punctuations:
        groups.setdefault((*map(type, p.patterns),), []).append(p)
    return list(groups.values())


def sort_key(p: Punctuation) -> tuple[Any, ...]:
    """A key that sorts punctuations by the first values of their patterns; ``*`` sorts last."""
    return tuple(
        (1,) if isinstance(q, Wildcard) else (0, cuts(q)[:1], cuts(q)[-1:], str(q)) for q in p.patterns
    )


def to_frame(schema: Schema, punctuations: Iterable[Punctuation]) -> pl.DataFrame:
    """Punctuations as a data frame of pattern texts, a column per attribute."""
    rows = [[str(p) for p in punctuation.patterns] for punctuation in punctuations]
    return pl.DataFrame(rows, schema=dict.fromkeys(schema.names, pl.String()), orient="row")


def from_frame(schema: Schema, frame: pl.DataFrame) -> list[Punctuation]:
    """The inverse of `to_frame`."""
    types = [a.type for a in schema]
    return [
        Punctuation(schema, [parse_pattern(t, text) for t, text in zip(types, row, strict=True)])
        for row in frame.iter_rows()
    ]
