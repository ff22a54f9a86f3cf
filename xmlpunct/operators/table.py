"""The tuples that an operator retains, so held that what changes of them is little."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from xmlpunct.arrow import booleans
from xmlpunct.frames import join

FEW = 4096
"""A segment of no more rows than this is written anew rather than told which of them are dead."""


_ROW = "$row"


@dataclass(frozen=True, slots=True)
class Segment:
    """Some consecutive tuples: as they were ``stored``, which of those are dead, and the others."""

    stored: pl.DataFrame
    live: pl.DataFrame
    dead: pl.DataFrame | None = None

    @classmethod
    def of(cls, tuples: pl.DataFrame) -> Segment:
        """A segment of these tuples, all alive."""
        return cls(tuples, tuples)

    @classmethod
    def without(cls, stored: pl.DataFrame, dead: pl.DataFrame) -> Segment:
        """A segment of which some tuples are dead."""
        return cls(stored, stored.filter(~dead.to_series()), dead)

    def purged(self, marked: pl.Series) -> Segment:
        """This one without the live tuples that are marked."""
        live = self.live.filter(~marked)
        if self.stored.height <= FEW or 2 * live.height < self.stored.height:
            return Segment.of(live)
        dead = np.zeros(self.stored.height, dtype=bool)
        if self.dead is not None:
            dead |= self.dead.to_series().to_numpy()
        dead[np.flatnonzero(~dead)[marked.to_numpy()]] = True
        return Segment(self.stored, live, booleans(dead).to_frame("dead"))


class Table:
    """Tuples in the order in which they came, in segments that do not change.

    What is appended is a segment; neighbours are joined so that each has at least twice the rows of the next,
    which makes few segments, and few times that a tuple is copied. Tuples that go are only marked as dead until
    they are more than half of their segment. So between two snapshots most frames stay the same objects.
    """

    def __init__(self, empty: pl.DataFrame) -> None:
        self._empty = empty
        self._segments: dict[int, Segment] = {}
        self._frame: pl.DataFrame | None = empty

    @property
    def frame(self) -> pl.DataFrame:
        """All tuples."""
        if self._frame is None:
            parts = [segment.live for segment in self._segments.values()]
            self._frame = parts[0] if len(parts) == 1 else pl.concat(parts) if parts else self._empty
        return self._frame

    @property
    def height(self) -> int:
        """How many there are."""
        return sum(segment.live.height for segment in self._segments.values())

    def append(self, tuples: pl.DataFrame) -> None:
        """Add some at the end."""
        if tuples.height:
            number = max(self._segments, default=-1) + 1
            self._set([*self._segments.items(), (number, Segment.of(tuples))])

    def add(self, tuples: pl.DataFrame) -> pl.DataFrame:
        """Add those that are not there yet, each once; return them. Nulls are equal."""
        fresh = tuples.unique(maintain_order=True)
        if self._segments:
            names = fresh.columns
            fresh = join(fresh, self.frame, names, "anti", nulls_equal=True, order="left")
        self.append(fresh)
        return fresh

    def purge(self, marked: pl.Series) -> None:
        """Let those of `frame` go that are marked."""
        if marked.any():
            parts = zip(self._segments.items(), self._parts(marked), strict=True)
            self._set((n, s.purged(part) if part.any() else s) for (n, s), part in parts)

    def discard(self, tuples: pl.DataFrame) -> None:
        """Let those go that are among others. Nulls are equal."""
        rows = self.frame.with_row_index(_ROW)
        found = join(rows, tuples, tuples.columns, "semi", nulls_equal=True)[_ROW]
        self.purge(rows[_ROW].is_in(found.implode()))

    def change(self, marked: pl.Series, to: pl.DataFrame) -> None:
        """Let ``to`` take the place of `frame`: it has the same tuples but for those marked."""
        if not marked.any():
            return
        found, at = [], 0
        for (number, segment), part in zip(self._segments.items(), self._parts(marked), strict=True):
            height = segment.live.height
            found.append((number, Segment.of(to.slice(at, height)) if part.any() else segment))
            at += height
        self._set(found)

    def _parts(self, marks: pl.Series) -> Iterable[pl.Series]:
        """Marks of all tuples, for each segment its own."""
        at = 0
        for segment in self._segments.values():
            yield marks.slice(at, segment.live.height)
            at += segment.live.height

    def _set(self, segments: Iterable[tuple[int, Segment]]) -> None:
        """Take these segments, joined where they have to be. One that is joined has the first one's number."""
        found: list[tuple[int, Segment]] = []
        for number, segment in segments:
            if not segment.live.height:
                continue
            while found and found[-1][1].live.height < 2 * segment.live.height:
                number, before = found.pop()
                segment = Segment.of(pl.concat([before.live, segment.live], rechunk=True))
            found.append((number, segment))
        self._segments, self._frame = dict(found), None

    def snapshot(self, name: str) -> dict[str, pl.DataFrame]:
        """What it holds, for a checkpoint, each frame's name beginning with ``name``."""
        stored = {f"{name}.{n}": s.stored for n, s in self._segments.items()}
        return stored | {f"{name}.{n}.dead": s.dead for n, s in self._segments.items() if s.dead is not None}

    def restore(self, name: str, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take what a snapshot holds under a name."""
        lead = f"{name}."
        numbers = [key.removeprefix(lead) for key in snapshot if key.startswith(lead)]
        self._frame, self._segments = None, {}
        for number in sorted(int(n) for n in numbers if n.isdecimal()):
            stored, dead = snapshot[f"{lead}{number}"], snapshot.get(f"{lead}{number}.dead")
            self._segments[number] = Segment.of(stored) if dead is None else Segment.without(stored, dead)
