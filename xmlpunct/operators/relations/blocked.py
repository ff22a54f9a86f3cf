"""Prefix punctuations that go out as far as nothing retained stands in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.prefixes import with_at, without_at
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import constant

Least = Callable[[Sequence[Punctuation]], Sequence[int]]
"""For each punctuation the least instant retained that it matches, beyond T's end if there is none."""


class Blocked:
    """The prefix punctuations ``<q, $at=(,b]>`` of an input, and how far each has been said.

    With s the least instant retained that q matches, it may be said up to min(b, s - 1). Whatever comes later and q
    matches lies behind b, so what is said wholly is never blocked again.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.types import INT
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> blocked = Blocked(s, Instants(INT))
    >>> [str(p) for p in blocked.add([Punctuation.parse(s, "<*, (,5], *>")], lambda qs: [3] * len(qs))]
    ['<*, (,2], *>']
    >>> [str(p) for p in blocked.freed(lambda qs: [9] * len(qs))]
    ['<*, (,5], *>']
    """

    def __init__(self, schema: Schema, instants: Instants) -> None:
        self.schema, self.instants = schema, instants
        self._bounds: dict[Punctuation, tuple[int, int]] = {}
        """For each q that is blocked its bound, and how far it has been said."""
        self._whose = PunctuationSet(schema)
        """The keys of ``_bounds``."""
        self._asked = PunctuationSet(schema)
        """Those of them that may go further since a tuple has gone."""
        self._said: dict[Punctuation, int] = {}
        """For other q, how far they have been said."""
        self._purged = 0
        """How many of these were left when last looked through."""
        self._everything = Punctuation.everything(schema)
        self.ownership = ANYTHING

    def add(self, closed: Iterable[Punctuation], least: Least) -> list[Punctuation]:
        """Take new ones; return what may be said of them."""
        fresh = dict[Punctuation, None]()
        for p in closed:
            q, bound = without_at(p), self.instants.bound(p.patterns[-2])
            before, said = self._bounds.get(q) or (self.instants.lo - 1, self._said_of(q))
            if bound > max(before, said) and not q.is_empty:
                self._said.pop(q, None)
                self._bounds[q] = bound, said
                self._whose.add(q)
                fresh[q] = None
        return self._free(list(fresh), least)

    def lose(self, tuples: pl.DataFrame) -> None:
        """Take note that tuples are retained no longer, or from another instant on."""
        if tuples.height and self._bounds:
            for group in self._whose.groups():
                self._asked.update(group.matched(tuples))

    def touch(self, q: Punctuation) -> None:
        """Take note that tuples which a pattern matches may be retained from another instant on."""
        self._asked.update(self._whose.overlapping(q))

    def touch_listed(self, constants: pl.DataFrame) -> None:
        """`touch` for each row of constants."""
        for row in constants.rows() if self._bounds else ():
            patterns = dict(zip(constants.columns, row, strict=True))
            self.touch(
                Punctuation.of(
                    self.schema, **{n: constant(self.schema[n].type, v) for n, v in patterns.items()}
                )
            )

    def freed(self, least: Least, all_asked: bool = True) -> list[Punctuation]:
        """What may be said now of those that were blocked, or of those among them that matched what has gone."""
        asked = list(self._bounds if all_asked else self._asked)
        self._asked = PunctuationSet(self.schema)
        return self._free(asked, least)

    def is_blocked(self, p: Punctuation) -> bool:
        """Whether one is not said wholly."""
        return without_at(p) in self._bounds

    def say(self, closed: Iterable[Punctuation]) -> None:
        """Some that close tuples for ever are said wholly."""
        for q in closed if self._bounds or self._said else ():
            self._forget(q)
            self._said.pop(q, None)

    def _forget(self, q: Punctuation) -> None:
        if self._bounds.pop(q, None) is not None:
            self._whose.remove(q)
            self._asked.remove(q)

    def _said_of(self, q: Punctuation) -> int:
        own = self._said.get(q, self.instants.lo - 1)
        return own if self.ownership.needs(q) else max(own, self._all_said)

    @property
    def _all_said(self) -> int:
        """How far all has been said."""
        _, said = self._bounds.get(self._everything) or (0, self.instants.lo - 1)
        return max(said, self._said.get(self._everything, said))

    def _free(self, asked: Sequence[Punctuation], least: Least) -> list[Punctuation]:
        free = []
        for q, first in zip(asked, least(asked) if asked else (), strict=True):
            bound, said = self._bounds[q]
            reached = min(bound, first - 1)
            if reached > said:
                free.append(with_at(q, self.instants.prefix(reached)))
                self._bounds[q] = bound, reached
            if reached == bound:
                self._forget(q)
                if bound < self.instants.last or q.is_everything:
                    self._said[q] = bound
        self._purge()
        return free

    def _purge(self) -> None:
        """Forget how far those have been said that all has overtaken."""
        all_said = self._all_said
        if all_said == self.instants.last:
            self._bounds, self._whose = {}, PunctuationSet(self.schema)
            self._asked = PunctuationSet(self.schema)
        elif len(self._said) <= 2 * self._purged + 64:
            return
        known = self._said.items()
        self._said = {q: bound for q, bound in known if bound > all_said or q.is_everything}
        self._purged = len(self._said)

    @property
    def has_ended(self) -> bool:
        """Whether the end has been said."""
        return self._said.get(self._everything) == self.instants.last

    # As a part of the state

    def __len__(self) -> int:
        return 0 if self.has_ended else len(self._bounds) + len(self._said)

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        rows = [*self._bounds.items(), *((q, (said, said)) for q, said in self._said.items())]
        frame = to_frame(self.schema, [q for q, _ in rows])
        ends = [[bounds[i] for _, bounds in rows] for i in (0, 1)]
        # an ordinal before T's first instant may lie beyond 64 bits
        columns = [pl.Series(n, map(str, e), dtype=pl.String()) for n, e in zip(_ENDS, ends, strict=True)]
        return {"prefixes": frame.with_columns(columns)}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        frame = snapshot["prefixes"]
        bounds, said = ([int(text) for text in frame[name]] for name in _ENDS)
        self._bounds, self._said, self._whose = {}, {}, PunctuationSet(self.schema)
        for q, b, s in zip(from_frame(self.schema, frame.drop(_ENDS)), bounds, said, strict=True):
            if b == s:
                self._said[q] = s
            else:
                self._bounds[q] = b, s
                self._whose.add(q)


_ENDS = ["$bound", "$said"]
"""The columns of a bound, and of how far it has been said."""
