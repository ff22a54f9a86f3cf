"""Closing: up to which instant punctuations on a stream close the tuples of some attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.timeline import Grown, Timeline
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.pattern import EMPTY, WILDCARD


class Closing:
    """Prefix punctuations on the attributes ``names``, from any punctuations on these, the timestamp and others.

    What is said of the other attributes counts once it covers them all, alone or jointly. `Timeline` fuses what is
    said of the timestamp.

    >>> from xmlpunct.types import INT
    >>> from xmlpunct.schema.change_columns import changes
    >>> s = Schema.parse("k INT, v INT NOT NULL, ts INT NOT NULL")
    >>> closing = Closing(s, ["k"], "ts", Instants(INT))
    >>> texts = "<7, (,3], (,5]>", "<7, [4,), (,9]>", "<*, *, [6,8]>"
    >>> closed = closing.add(PunctuationBatch([Punctuation.parse(s, text) for text in texts]),
    ...     changes(Schema.parse("k INT, v INT NOT NULL"), INT))
    >>> print(*closed)
    <7, *, (,8], *>
    """

    def __init__(self, schema: Schema, names: Sequence[str], timestamp: str, instants: Instants) -> None:
        self.schema, self.instants = schema, instants
        self._narrow = Schema.of([*(schema[name] for name in names), schema[timestamp]])
        self._places = [schema.index(a.name) for a in self._narrow]
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._places])
        self._timeline = Timeline(self._narrow, timestamp, instants)

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """What is retained, for the state."""
        return {"joint": self._joint, "timeline": self._timeline}

    def spread(self, ways: Ways, sifted: bool) -> None:
        """Run on one of several shards."""
        self._joint.spread(Ownership(self.schema, ways, sifted))
        known = [
            way for way in ways if all(name in self._narrow for name in way)
        ]  # others may be copies of its names
        self._timeline.spread(Ownership(self._narrow, known, sifted))

    def opening(self, schema: Schema) -> list[Punctuation]:
        """What is closed from the start, as punctuations on changes of a schema."""
        return list(self._prefixes(self._timeline.opening, schema))

    def add(self, batch: PunctuationBatch, schema: Schema) -> PunctuationBatch:
        """Take punctuations; return the prefixes that are closed now, as punctuations on changes of a schema."""
        known = self._joint.add(batch).rebase(self._narrow, self._places)
        return PunctuationBatch(self._prefixes(self._timeline.add(known), schema))

    def _prefixes(self, grown: Iterable[Grown], schema: Schema) -> Iterator[Punctuation]:
        names = self._narrow.names[:-1]
        for q, _, last in grown:
            at = self.instants.prefix(last)
            if at is not EMPTY:
                said = dict(zip(names, q.patterns, strict=False))
                patterns = [at if a.name == AT else said.get(a.name, WILDCARD) for a in schema]
                yield Punctuation(schema, patterns)


def is_outside(timestamp: str, instants: Instants, first: int) -> str:
    """The reason for which a tuple is rejected whose instant is before ``first`` or after T's end."""
    least, last = (instants.type.format(instants.type.at(i)) for i in (first, instants.last))
    return f"{timestamp} is no instant from {least} to {last}"
