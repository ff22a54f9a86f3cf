"""The set of punctuations that an operator holds.

Punctuations are kept by *signature*, the attributes they constrain: those of constants alone (an auction's
"item 17 is closed") are found by hashing, those with one range by sorting. What it costs to match a slice, or
to find what overlaps, then hardly depends on how many punctuations are held. Only lists, and ranges in several
attributes, are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, Protocol

import polars as pl

from xmlpunct.frames import Snapshot
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.constants import Constants, Members
from xmlpunct.punctuations.pattern import Constant, Empty, Pattern, Range, Values, Wildcard
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, combine, covers, match
from xmlpunct.punctuations.ranges import Ranges
from xmlpunct.punctuations.spans import Spans
from xmlpunct.schema import Schema

Signature = tuple[int, ...]


def pattern_expression(column: str, pattern: Pattern) -> pl.Expr:
    """A polars expression: whether the column's value matches the pattern (never null)."""
    at = pl.col(column)
    if isinstance(pattern, Wildcard):
        return pl.lit(True)
    if isinstance(pattern, Empty):
        return pl.lit(False)
    if isinstance(pattern, Constant):
        return at.eq_missing(pl.lit(pattern.value, dtype=pattern.type.dtype))
    if isinstance(pattern, Values):
        return at.is_in(pl.Series(pattern.members, dtype=pattern.type.dtype).implode()).fill_null(False)
    assert isinstance(pattern, Range)
    tests = [at.is_not_null()]
    if pattern.low is not None:
        low = pl.lit(pattern.low, dtype=pattern.type.dtype)
        tests.append(at >= low if pattern.low_closed else at > low)
    if pattern.high is not None:
        high = pl.lit(pattern.high, dtype=pattern.type.dtype)
        tests.append(at <= high if pattern.high_closed else at < high)
    return pl.all_horizontal(tests).fill_null(False)


def match_expression(p: Punctuation) -> pl.Expr:
    """A polars expression: whether a tuple matches the punctuation."""
    tests = [pattern_expression(p.schema.names[i], p.patterns[i]) for i in p.constrained]
    return pl.all_horizontal(tests) if tests else pl.lit(True)


class Group(Protocol):
    """Punctuations that constrain the same attributes."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""

    @property
    def constant(self) -> bool:
        """Whether each is of constants alone."""

    def constants(self) -> pl.DataFrame:
        """The constants, a row each."""

    def at(self, places: Iterable[int]) -> list[Punctuation]:
        """Those at some places of `constants`."""

    def may_match(self, bounds: Callable[[str], tuple[Any, Any]]) -> bool:
        """Whether a tuple within bounds, given by attribute, may match any."""

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any."""

    def matched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        """Those that some tuple matches."""


class Lists:
    """Punctuations of other forms, gone through one by one."""

    names: tuple[str, ...] = ()
    constant = False

    def __init__(self, schema: Schema, members: Iterable[Punctuation]) -> None:
        self.schema, self.members = schema, list(members)

    def constants(self) -> pl.DataFrame:
        raise NotImplementedError

    def at(self, places: Iterable[int]) -> list[Punctuation]:
        raise NotImplementedError

    def may_match(self, bounds: Callable[[str], tuple[Any, Any]]) -> bool:
        return True

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        tests = pl.any_horizontal([match_expression(p) for p in self.members])
        return tuples.with_columns(tests.alias("$hit"))["$hit"]

    def matched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        tests = [match_expression(p).any().alias(str(i)) for i, p in enumerate(self.members)]
        found = tuples.select(tests).row(0)
        return [p for p, hit in zip(self.members, found, strict=True) if hit]


class PunctuationSet:
    """Punctuations of one schema, each once: those of constants by signature, those of one range, then the others.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
    >>> held.mask(s.frame([("S1", 5), ("S1", 6), ("S2", 8)])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, punctuations: Iterable[Punctuation] = ()) -> None:
        self.schema = schema
        self._constants: dict[Signature, Constants] = {}
        self._ranges: dict[int, Ranges] = {}
        self._spans: dict[tuple[Signature, int], Spans] = {}
        self._lists: dict[Punctuation, None] = {}
        self._rest: dict[Punctuation, None] = {}
        """All that are neither in ``_constants`` nor in ``_ranges``."""
        self.update(punctuations)

    def add(self, p: Punctuation) -> bool:
        """Add one; False if it was there already or can match nothing."""
        key = p.constants
        if key is not None:
            group = self._group(p.constrained)
            if p in group:
                return False
            group.add(key, p)
            return True
        place = Ranges.form(p)
        if place is not None:
            ranges = self._ranges_at(place)
            if p in ranges:
                return False
            ranges.add(p)
            return True
        if p in self._rest or p.is_empty:
            return False
        if form := Spans.form(p):
            spans = self._spans.get(form)
            if spans is None:
                spans = Spans(self.schema, *form)
                forms = self._spans | {form: spans}
                self._spans = {form: forms[form] for form in sorted(forms)}
            spans.add(p)
        else:
            self._lists[p] = None
        self._rest[p] = None
        return True

    def update(self, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """Add some; those that were new."""
        batch = PunctuationBatch.of(punctuations)
        if batch.place is not None:
            return self._form(batch, batch.place).extend(batch)
        return PunctuationBatch(p for p in batch if self.add(p))

    def _group(self, signature: Signature) -> Constants:
        group = self._constants.get(signature)
        if group is None:
            group = Constants(self.schema, signature)
            known = self._constants | {signature: group}
            self._constants = {signature: known[signature] for signature in sorted(known)}
        return group

    def _ranges_at(self, place: int) -> Ranges:
        if place not in self._ranges:
            known = self._ranges | {place: Ranges(self.schema, place)}
            self._ranges = {place: known[place] for place in sorted(known)}
        return self._ranges[place]

    def _form(self, batch: PunctuationBatch, place: int) -> Members:
        """The index of those of a batch's form."""
        return self._ranges_at(place) if batch.ranged else self._group((place,))

    def discard(self, punctuations: Iterable[Punctuation]) -> None:
        """Take some out; those that are not in are passed over."""
        batch = PunctuationBatch.of(punctuations)
        if batch.place is not None:
            self._form(batch, batch.place).remove(batch)
            return
        for p in batch:
            self.remove(p)

    def remove(self, p: Punctuation) -> None:
        """Take out one, if it is in."""
        if p not in self:
            return
        key = p.constants
        if key is not None:
            self._constants[p.constrained].discard(key, p)
            return
        place = Ranges.form(p)
        if place is not None:
            self._ranges[place].discard(p)
            return
        del self._rest[p]
        if form := Spans.form(p):
            self._spans[form].discard(p)
        else:
            del self._lists[p]

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Those of a batch that are in."""
        if batch.place is not None:
            return self._form(batch, batch.place).common(batch)
        return PunctuationBatch(p for p in batch if p in self)

    def __len__(self) -> int:
        return len(self._rest) + sum(map(len, self._members()))

    def __iter__(self) -> Iterator[Punctuation]:
        return chain(*self._members(), list(self._rest))

    def __contains__(self, p: object) -> bool:
        if not isinstance(p, Punctuation):
            return False
        if p.constants is not None:
            return p in self._constants.get(p.constrained, ())
        place = Ranges.form(p)
        return p in (self._rest if place is None else self._ranges.get(place, ()))

    def _members(self) -> list[Constants | Ranges]:
        return [*self._constants.values(), *self._ranges.values()]

    def all(self) -> PunctuationBatch:
        """What is held."""
        group = self._only()
        return PunctuationBatch(self) if group is None else group.all()

    def only(self, batch: PunctuationBatch) -> bool:
        """Whether nothing is held but punctuations of the form of a batch in columns."""
        held = [(group.places, group.ranged) for group in self._members() if len(group)]
        return not self._rest and held in ([], [((batch.place,), batch.ranged)])

    def _only(self) -> Members | None:
        """The only group that can be in columns, if there are no others."""
        held = [group for group in self._members() if len(group)]
        return held[0] if len(held) == 1 and not self._rest else None

    def match(self, t: Tuple) -> bool:
        """Table 1's setMatch: whether ``t`` matches any of them."""
        return any(match(t, p) for p in self)

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        hits = [group.mask(tuples) for group in self._indexes()] if tuples.height else []
        if self._lists or not hits:
            hits.append(pl.Series([False]).new_from_index(0, tuples.height))
        if self._lists and tuples.height:  # of * alone that is one value for all tuples
            hits.append(
                tuples.select(pl.any_horizontal([match_expression(p) for p in self._lists])).to_series()
            )
        return reduce(or_, hits)

    def unmatched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        """Table 1's setNomatchPs: those that no tuple matches."""
        if not tuples.height:
            return self.all()
        group = self._only()
        if group is not None:
            return group.unmatched(tuples)
        stuck: set[Punctuation] = set()
        if self._lists:
            tests = [match_expression(p).any().alias(str(i)) for i, p in enumerate(self._lists)]
            found = tuples.select(tests).row(0)
            stuck.update(p for p, hit in zip(self._lists, found, strict=True) if hit)
        for index in self._indexes():
            stuck.update(index.matched(tuples))
        return PunctuationBatch(p for p in self if p not in stuck)

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        if p.is_empty:
            return []
        found = [q for q in self._lists if combine(p, q) is not None]
        for group in self._indexes():
            found += group.overlapping(p)
        return found

    def combinations(self, p: Punctuation) -> list[Punctuation]:
        """Table 1's setCombine with one other: all combinations with ``p`` that are not psi."""
        return [p if q == p else c for q in self.overlapping(p) if (c := combine(p, q)) is not None]

    def covers(self, p: Punctuation) -> bool:
        """Whether some one of them covers ``p``."""
        return p in self or any(covers(q, p) for q in self.overlapping(p))

    def snapshot(self) -> Snapshot:
        """What is held, for a checkpoint."""
        return {"set": self.all().to_frame(self.schema)} if len(self) else {}

    def restore(self, snapshot: Snapshot) -> None:
        """Hold what a snapshot has."""
        self.discard(self.all())
        for frame in snapshot.values():
            self.update(PunctuationBatch.from_frame(self.schema, frame))

    def groups(self) -> list[Group]:
        """What is held, in groups that can be looked for in an index or a page of tuples."""
        found: list[Group] = [*self._indexes()]
        return [*found, Lists(self.schema, self._lists)] if self._lists else found

    def _indexes(self) -> list[Constants | Ranges | Spans]:
        found: list[Constants | Ranges | Spans] = [*self._members(), *self._spans.values()]
        return [group for group in found if len(group)]
