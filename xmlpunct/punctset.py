"""The set of punctuations that an operator holds.

Punctuations are kept by *signature*, the attributes they constrain: those of constants alone (an auction's
"item 17 is closed") are found by hashing, those with one range by sorting. What it costs to match a slice, or
to find what overlaps, then hardly depends on how many punctuations are held. Only lists, and ranges in several
attributes, are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import or_

import polars as pl

from xmlpunct import patterns as pt
from xmlpunct.bundle import Bundle, loaded, stored
from xmlpunct.constants import Constants
from xmlpunct.patterns import Constant, Empty, Pattern, Range, Values, Wildcard
from xmlpunct.punctuation import Punctuation, Tuple, combine, covers, match
from xmlpunct.schema import Schema
from xmlpunct.spans import Spans

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


class PunctuationSet:
    """Punctuations of one schema, each once: those of constants alone by signature, then the others, as they came.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
    >>> held.mask(s.frame([("S1", 5), ("S1", 6), ("S2", 8)])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, punctuations: Iterable[Punctuation] = ()) -> None:
        self.schema = schema
        self._constants: dict[Signature, Constants] = {}
        self._spans: dict[tuple[Signature, int], Spans] = {}
        self._lists: dict[Punctuation, None] = {}
        self._rest: dict[Punctuation, None] = {}
        """All that are not in ``_constants``."""
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

    def update(self, punctuations: Iterable[Punctuation]) -> Sequence[Punctuation]:
        """Add some; those that were new."""
        if isinstance(punctuations, Bundle):
            return self._group((punctuations.place,)).extend(punctuations)
        return [p for p in punctuations if self.add(p)]

    def _group(self, signature: Signature) -> Constants:
        group = self._constants.get(signature)
        if group is None:
            group = Constants(self.schema, signature)
            known = self._constants | {signature: group}
            self._constants = {signature: known[signature] for signature in sorted(known)}
        return group

    def discard(self, punctuations: Iterable[Punctuation]) -> None:
        """Take some out; those that are not in are passed over."""
        if isinstance(punctuations, Bundle):
            self._group((punctuations.place,)).remove(punctuations)
            return
        for p in punctuations:
            if p not in self:
                continue
            key = p.constants
            if key is not None:
                self._constants[p.constrained].discard(key, p)
                continue
            del self._rest[p]
            if form := Spans.form(p):
                self._spans[form].discard(p)
            else:
                del self._lists[p]

    def common(self, bundle: Bundle) -> Bundle:
        """Those of a bundle that are in."""
        return self._group((bundle.place,)).common(bundle)

    def __len__(self) -> int:
        return len(self._rest) + sum(map(len, self._constants.values()))

    def __iter__(self) -> Iterator[Punctuation]:
        return chain(*self._constants.values(), list(self._rest))

    def __contains__(self, p: object) -> bool:
        if not isinstance(p, Punctuation):
            return False
        return p in (self._rest if p.constants is None else self._constants.get(p.constrained, ()))

    def all(self) -> Sequence[Punctuation]:
        """What is held, as a bundle if it makes one."""
        group = self._only()
        bundle = group.bundle() if group is not None else None
        return list(self) if bundle is None else bundle

    def only(self, place: int) -> bool:
        """Whether nothing is held but constants of the attribute at ``place``."""
        held = [group.places for group in self._constants.values() if len(group)]
        return not self._rest and held in ([], [(place,)])

    def _only(self) -> Constants | None:
        """The only group, if all are of constants."""
        held = [group for group in self._constants.values() if len(group)]
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

    def unmatched(self, tuples: pl.DataFrame) -> Sequence[Punctuation]:
        """Table 1's setNomatchPs: those that no tuple matches."""
        if not tuples.height:
            return self.all()
        group = self._only()
        bundle = group.unmatched(tuples) if group is not None else None
        if bundle is not None:
            return bundle
        stuck: set[Punctuation] = set()
        if self._lists:
            tests = [match_expression(p).any().alias(str(i)) for i, p in enumerate(self._lists)]
            found = tuples.select(tests).row(0)
            stuck.update(p for p, hit in zip(self._lists, found, strict=True) if hit)
        for index in self._indexes():
            stuck.update(index.matched(tuples))
        return [p for p in self if p not in stuck]

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

    def snapshot(self) -> pl.DataFrame:
        """What is held, for a checkpoint."""
        return stored(self.schema, self.all())

    @classmethod
    def restored(cls, schema: Schema, frame: pl.DataFrame) -> PunctuationSet:
        """The inverse of `snapshot`: the same set."""
        return cls(schema, loaded(schema, frame))

    def _indexes(self) -> list[Constants | Spans]:
        found: list[Constants | Spans] = [*self._constants.values(), *self._spans.values()]
        return [group for group in found if len(group)]


def closing(punctuations: Sequence[Punctuation], places: Iterable[int]) -> Sequence[Punctuation]:
    """Those that say something about the attributes at ``places`` alone: every other pattern is closed.

    The paper's groupPs and joinPs. A pattern is closed if it is ``*``, or on a NOT NULL attribute covers
    every value that can come.
    """
    kept = frozenset(places)
    if isinstance(punctuations, Bundle) and punctuations.place in kept:
        return punctuations
    return [
        p
        for p in punctuations
        if kept.issuperset(p.constrained)
        or all(i in kept or p.schema.attributes[i].closed_by(p.patterns[i]) for i in p.constrained)
    ]


def jointly_cover(pieces: Iterable[Punctuation], whole: Punctuation) -> bool:
    """Whether some punctuations together match whatever ``whole`` matches.

    Found are covers by one of them, and by several that differ in one attribute: those that cover ``whole``
    in all attributes but one, if in that one their patterns together do.
    """
    pieces = list(pieces)
    if whole in pieces:
        return True
    schema = whole.schema
    by_attribute: dict[int, list[Pattern]] = {}
    for piece in pieces:
        open_places = [
            i
            for i in piece.constrained
            if not pt.covers(piece.patterns[i], schema.attributes[i].reach(whole.patterns[i]))
        ]
        if not open_places:
            return True
        if len(open_places) == 1:
            by_attribute.setdefault(open_places[0], []).append(piece.patterns[open_places[0]])
    return any(
        pt.jointly_cover(found, schema.attributes[i].reach(whole.patterns[i]))
        for i, found in by_attribute.items()
        if len(found) > 1
    )
