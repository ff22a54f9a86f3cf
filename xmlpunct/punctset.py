"""The set of punctuations that an operator holds.

Punctuations are kept as received, in order. Beside them stands an index by *signature*, the attributes they
constrain: where all of a signature's patterns are constants (an auction's "item 17 is closed"), matching a
slice is one hash join of the slice with the constants, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import and_, or_

import polars as pl

from xmlpunct import patterns as pt
from xmlpunct.patterns import Constant, Empty, Pattern, Range, Values, Wildcard
from xmlpunct.punctuation import Punctuation, Tuple, combine, covers, match
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
    return reduce(and_, tests).fill_null(False)


def match_expression(p: Punctuation) -> pl.Expr:
    """A polars expression: whether a tuple matches the punctuation."""
    tests = [pattern_expression(p.schema.names[i], p.patterns[i]) for i in p.constrained]
    return reduce(and_, tests, pl.lit(True))


class PunctuationSet:
    """Punctuations of one schema, each once, in the order they were added.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
    >>> held.mask(s.frame([("S1", 5), ("S1", 6), ("S2", 8)])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, punctuations: Iterable[Punctuation] = ()) -> None:
        self.schema = schema
        self._held: dict[Punctuation, None] = {}
        self._constants: dict[Signature, dict[Tuple, Punctuation]] = {}
        self._others: dict[Punctuation, None] = {}
        self._frames: dict[Signature, pl.DataFrame] = {}
        self.update(punctuations)

    def add(self, p: Punctuation) -> bool:
        """Add one; False if it was there already or can match nothing."""
        if p in self._held or p.is_empty:
            return False
        self._held[p] = None
        signature = p.constrained
        key = _constants(p, signature)
        if key is None:
            self._others[p] = None
        else:
            self._constants.setdefault(signature, {})[key] = p
            self._frames.pop(signature, None)
        return True

    def update(self, punctuations: Iterable[Punctuation]) -> list[Punctuation]:
        """Add some; those that were new."""
        return [p for p in punctuations if self.add(p)]

    def discard(self, punctuations: Iterable[Punctuation]) -> None:
        """Take some out; those that are not in are passed over."""
        for p in punctuations:
            if p not in self._held:
                continue
            del self._held[p]
            self._others.pop(p, None)
            signature = p.constrained
            key = _constants(p, signature)
            if key is not None:
                group = self._constants[signature]
                del group[key]
                self._frames.pop(signature, None)
                if not group:
                    del self._constants[signature]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Punctuation]:
        return iter(self._held)

    def __contains__(self, p: object) -> bool:
        return p in self._held

    def match(self, t: Tuple) -> bool:
        """Table 1's setMatch: whether ``t`` matches any of them."""
        return any(match(t, p) for p in self._held)

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        hit = pl.Series("hit", [False]).new_from_index(0, tuples.height)
        if not self._held or not tuples.height:
            return hit
        if self._others:
            hit = hit | tuples.select(reduce(or_, map(match_expression, self._others)).alias("hit"))["hit"]
        for signature in self._constants:
            keys = self._frame(signature)
            names = keys.columns
            if len(names) == 1:
                found = tuples[names[0]].is_in(keys[names[0]].implode()).fill_null(False)
            else:
                rows = tuples.select(names).with_row_index("$row")
                found = _where(rows.join(keys, on=names, how="semi")["$row"], tuples.height)
            hit = hit | found
        return hit

    def unmatched(self, tuples: pl.DataFrame) -> list[Punctuation]:
        """Table 1's setNomatchPs: those that no tuple matches, in order."""
        if not tuples.height or not self._held:
            return list(self._held)
        stuck: set[Punctuation] = set()
        if self._others:
            tests = [match_expression(p).any().alias(str(i)) for i, p in enumerate(self._others)]
            found = tuples.select(tests).row(0)
            stuck.update(p for p, hit in zip(self._others, found, strict=True) if hit)
        for signature, group in self._constants.items():
            keys = self._frame(signature)
            hits = tuples.select(keys.columns).unique().join(keys, on=keys.columns, how="semi")
            stuck.update(group[_key(self.schema, signature, row)] for row in hits.iter_rows())
        return [p for p in self._held if p not in stuck]

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        found = [q for q in self._others if combine(p, q) is not None]
        for signature, group in self._constants.items():
            key = _constants(p, signature)
            if key is not None:
                q = group.get(key)
                found += [] if q is None or combine(p, q) is None else [q]
            else:
                found += [q for q in group.values() if combine(p, q) is not None]
        return found

    def combinations(self, p: Punctuation) -> list[Punctuation]:
        """Table 1's setCombine with one other: all combinations with ``p`` that are not psi."""
        return [c for q in self.overlapping(p) if (c := combine(p, q)) is not None]

    def covers(self, p: Punctuation) -> bool:
        """Whether some one of them covers ``p``."""
        return p in self._held or any(covers(q, p) for q in self.overlapping(p))

    def snapshot(self) -> list[Punctuation]:
        """What is held, for a checkpoint; a set made from it is the same set."""
        return list(self._held)

    def _frame(self, signature: Signature) -> pl.DataFrame:
        frame = self._frames.get(signature)
        if frame is None:
            dtypes = {(a := self.schema.attributes[i]).name: a.type.dtype for i in signature}
            rows = [
                [p.patterns[i].value for i in signature]  # type: ignore[attr-defined]
                for p in self._constants[signature].values()
            ]
            frame = self._frames[signature] = pl.DataFrame(rows, schema=dtypes, orient="row")
        return frame


def closing(punctuations: Iterable[Punctuation], places: Iterable[int]) -> list[Punctuation]:
    """Those that say something about the attributes at ``places`` alone: every other pattern is closed.

    The paper's groupPs and joinPs. A pattern is closed if it is ``*``, or on a NOT NULL attribute covers
    every value that can come.
    """
    kept = frozenset(places)
    return [
        p
        for p in punctuations
        if all(i in kept or p.schema.attributes[i].closed_by(p.patterns[i]) for i in p.constrained)
    ]


def _constants(p: Punctuation, signature: Signature) -> Tuple | None:
    """The keys of the constants at ``signature``, or None if not all patterns there are constants."""
    found = []
    for i in signature:
        pattern = p.patterns[i]
        if not isinstance(pattern, Constant):
            return None
        found.append(pattern.type.key(pattern.value))
    return tuple(found) if found else None


def _key(schema: Schema, signature: Signature, row: Tuple) -> Tuple:
    return tuple(schema.attributes[i].type.key(v) for i, v in zip(signature, row, strict=True))


def _where(rows: pl.Series, height: int) -> pl.Series:
    mask = pl.Series("hit", [False]).new_from_index(0, height)
    return mask.scatter(rows, True) if rows.len() else mask


def jointly_cover(pieces: Iterable[Punctuation], whole: Punctuation) -> bool:
    """Whether some punctuations together match whatever ``whole`` matches.

    Found are covers by one of them, and by several that differ in one attribute: those that cover ``whole``
    in all attributes but one, if in that one their patterns together do.
    """
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
