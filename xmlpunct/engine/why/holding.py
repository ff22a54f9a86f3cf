"""The punctuations that a run received and an outline of the tuples that it retains, from which `why` explains waits.

It is part of the statistics and of the checkpoint, so its size is bounded: see `MOST_SAID` and
`xmlpunct.operators.retained_outline`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from xmlpunct.base.frames import Snapshot, nested_snapshot
from xmlpunct.operators.retained_outline import COUNT, EVERYTHING, HIGH, NULL, Outline
from xmlpunct.punctuations.promised import Promised
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import hull
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

MOST_SAID = 1_000
"""Maximum number of fused intervals and punctuations per stream. Forgotten punctuations count as not received."""
MOST_UNFUSED = 1_000
"""Maximum number of pending punctuations before they are fused together; fusing one by one takes 20 times as long."""
LISTED = 100
"""Maximum number of values in a list of missing values. With more values, a range is used instead."""
SINCE = "$since"
"""The outline column with the time, in seconds since 1970, at which a box first appeared."""
_SAID, _KEPT, _TOLD, _STARTED = "said", "kept", "told", "started"


class Holding:
    """The punctuations that streams of these schemas have emitted, and outlines of the tuples that operators retain.

    Outlines are stored per shard and operator. The run updates them; other threads read a `still` copy.

    >>> from xmlpunct.operators.retained_outline import boxes
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> holding = Holding({"sensor": s})
    >>> holding.say("sensor", [Punctuation.of(s, hour=5)])
    >>> holding.keep("", {4: {"groups": boxes(s.frame([("S1", 6), ("S2", 7)]), ["hour"])}}, timestamp=100)
    >>> again = Holding({"sensor": s})
    >>> again.restore(holding.snapshot())
    >>> str(again.said["sensor"].missing(Punctuation.of(s, hour="[5,6]"))), again.kept(4, "groups").since
    ('<*, 6>', 100.0)
    """

    def __init__(self, schemas: Mapping[str, Schema] | None = None) -> None:
        self._promised = {name: Promised(schema, MOST_SAID) for name, schema in (schemas or {}).items()}
        self._unfused: dict[str, list[PunctuationBatch]] = {}
        """Batches of each stream that are not yet in ``_promised``."""
        self._unfused_count = 0
        self.told: dict[str, float] = {}
        """The time of the last punctuation of each stream; streams without punctuations are omitted."""
        self._lock = threading.RLock()
        self._changes = 0
        self.looked = 0
        """The number of changes up to the last `keep`."""
        self.started = time.time()
        """The start of the run."""
        self._outlines: dict[str, pl.DataFrame] = {}

    def say(self, stream: str, punctuations: Sequence[Punctuation], timestamp: float | None = None) -> None:
        """Record punctuations of a stream."""
        with self._lock:
            self._unfused.setdefault(stream, []).append(PunctuationBatch.of(punctuations))
            self._unfused_count += len(punctuations)
            if self._unfused_count > MOST_UNFUSED:
                self._fuse()
            self.told[stream] = time.time() if timestamp is None else timestamp
            self._changes += 1

    def _fuse(self) -> None:
        """Fuse the pending batches."""
        for stream, batches in self._unfused.items():
            promised = self._promised[stream]
            promised.add(PunctuationBatch.union(batch for batch in batches if batch.in_columns))
            promised.add(PunctuationBatch.concat(batch for batch in batches if not batch.in_columns))
        self._unfused, self._unfused_count = {}, 0

    @property
    def said(self) -> Mapping[str, Promised]:
        """The punctuations of each stream."""
        with self._lock:
            self._fuse()
            return self._promised

    def keep(self, where: str, outlines: Mapping[int, Outline], timestamp: float | None = None) -> None:
        """Replace the outlines of the operators that run at ``where`` (a shard of a fragment), by operator number.

        A box that existed before keeps its time.
        """
        timestamp = time.time() if timestamp is None else timestamp
        previous = {key: f for key, f in self._outlines.items() if key.split("/")[0] == where}
        frames = {
            f"{where}/{number}/{part}": frame
            for number, outline in outlines.items()
            for part, frame in outline.items()
        }
        dated = {key: _dated(frame, previous.get(key), timestamp) for key, frame in frames.items()}
        with self._lock:
            self._replace(previous, dated)

    def _replace(self, previous: Mapping[str, pl.DataFrame], dated: Mapping[str, pl.DataFrame]) -> None:
        if dated.keys() != previous.keys() or any(not f.equals(previous[key]) for key, f in dated.items()):
            self._outlines = {k: f for k, f in self._outlines.items() if k not in previous} | dict(dated)
            self._changes += 1
        self.looked = self._changes

    def missing(self, stream: str, p: Punctuation) -> Punctuation | None:
        """The part of ``p`` that a stream has not closed yet, or a superset of it; None if ``p`` is closed."""
        return self.said[stream].missing(p)

    def kept(self, number: int, part: str) -> RetainedBoxes:
        """The boxes of a part of an operator's state (`EVERYTHING`: of all parts), from all shards."""
        keys = (key.split("/") for key in self._outlines)
        part_keys = [key for key in keys if key[1] == str(number) and part in (key[2], EVERYTHING)]
        return RetainedBoxes([self._outlines["/".join(key)] for key in part_keys])

    def still(self) -> Holding:
        """A copy that does not change while the run continues."""
        with self._lock:
            copy = Holding({name: promised.schema for name, promised in self.said.items()})
            copy.restore(self.snapshot())
            return copy

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """All data frames, for a checkpoint."""
        frames = {f"{_KEPT}/{key}": frame for key, frame in self._outlines.items()}
        for name, promised in self.said.items():
            if name in self.told:
                frames |= {f"{_SAID}/{name}/{key}": frame for key, frame in promised.snapshot().items()}
        last_times = {"stream": list(self.told), SINCE: list(self.told.values())}
        frames[_TOLD] = pl.DataFrame(last_times, schema={"stream": pl.String(), SINCE: pl.Float64()})
        return frames | {_STARTED: pl.DataFrame({SINCE: [self.started]})}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot."""
        parts = nested_snapshot(snapshot)
        self._outlines = parts.get(_KEPT, {})
        if _TOLD in snapshot:
            self.told, self.started = dict(snapshot[_TOLD].rows()), snapshot[_STARTED].item()
        for name, frames in nested_snapshot(parts.get(_SAID, {})).items():
            self.said[name].restore(frames)


class RetainedBoxes:
    """Bounding boxes of retained tuples."""

    def __init__(self, frames: Iterable[pl.DataFrame]) -> None:
        self._frames = [frame for frame in frames if frame.height]

    @classmethod
    def together(cls, box_sets: Iterable[RetainedBoxes]) -> RetainedBoxes:
        """The union of several sets of boxes."""
        return cls(frame for boxes in box_sets for frame in boxes._frames)

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def count(self) -> int:
        """The number of tuples in the boxes."""
        return sum(int(frame[COUNT].sum()) for frame in self._frames)

    @property
    def since(self) -> float:
        """The time of the oldest box."""
        return float(min(frame[SINCE].min() for frame in self._frames))  # type: ignore[type-var, arg-type]

    def meeting(self, p: Punctuation, names: Mapping[str, str] | None = None) -> RetainedBoxes:
        """The boxes in which a tuple may match ``p``. ``names`` maps its attributes to columns of the boxes."""
        frames = self._frames
        for position in p.constrained:
            attribute, pattern = p.schema.attributes[position], p.patterns[position]
            name = (names or {}).get(attribute.name, attribute.name)
            frames = [
                frame.filter(pl.Series([_meets(pattern, q) for q in _patterns(attribute.type, frame, name)]))
                if name in frame.columns
                else frame
                for frame in frames
                if frame.height
            ]
        return RetainedBoxes(frames)

    def pattern(self, type_: Type, name: str) -> Pattern:
        """A pattern that covers all values of a column: a list, a range, or ``*`` if there are nulls."""
        patterns: list[Pattern] = []
        for frame in self._frames:
            if name not in frame.columns or frame[name + NULL].any():
                return WILDCARD
            patterns += dict.fromkeys(_patterns(type_, frame, name))
        constants = [q for q in patterns if isinstance(q, pt.Constant)]
        if len(constants) == len(patterns) and len(set(patterns)) <= LISTED:
            return pt.values(type_, [q.value for q in constants])
        return hull(type_, patterns)


def _patterns(type_: Type, frame: pl.DataFrame, name: str) -> list[Pattern]:
    """The range of a column's values in each box, without nulls."""
    return [
        EMPTY if low is None else pt.interval(type_, low, high, True, True)
        for low, high in zip(frame[name], frame[name + HIGH], strict=True)
    ]


def _meets(p: Pattern, q: Pattern) -> bool:
    return pt.intersect(p, q) is not EMPTY


def _dated(boxes: pl.DataFrame, previous: pl.DataFrame | None, timestamp: float) -> pl.DataFrame:
    """The boxes with the time at which each first appeared."""
    new_boxes = boxes.with_columns(pl.lit(timestamp).alias(SINCE))
    if previous is None or not previous.height:
        return new_boxes
    names = [name for name in boxes.columns if not name.startswith("$")]
    is_whole = boxes.height == 1 and any(
        boxes[n][0] != boxes[n + HIGH][0] for n in names if n + HIGH in names
    )
    if is_whole or not names:
        return boxes.with_columns(pl.lit(previous[SINCE].min()).alias(SINCE))
    previous_times = previous.select(*names, pl.col(SINCE).alias(f"{SINCE}$"))
    joined = boxes.join(previous_times, on=names, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col(f"{SINCE}$").fill_null(timestamp).alias(SINCE)).drop(f"{SINCE}$")
