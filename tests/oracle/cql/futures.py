"""Continuations of a prefix: grammatical, random, near to what was said, and such that inputs meet."""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.cql.feeds import Element, Feed, Input, Inputs, Time, instant, spans
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.types import INT
from xmlpunct.types.pattern import Constant, Range, Values


def continuation(
    rng: random.Random, inputs: Inputs, before: Feed, time: Time, known: Feed = ()
) -> list[tuple[str, Element]]:
    """Some tuples that may still come, and the end of all inputs.

    Their values and instants are near to those of ``known``, the whole feed, or else of the prefix.
    """
    return [
        *_Continuation(rng, inputs, before, known or before, time).tuples(rng.randint(1, 6)),
        *((name, Punctuation.everything(i.schema)) for name, i in inputs.items()),
    ]


class _Continuation:
    """Draws tuples. Half of them have a favourite instant, and favourite values, so that joins find partners."""

    def __init__(self, rng: random.Random, inputs: Inputs, before: Feed, known: Feed, time: Time) -> None:
        self.rng, self.inputs, self.time = rng, inputs, time
        self.elements = {name: [e for n, e in known if n == name] for name in inputs}
        self.said = {
            name: [p for n, p in before if n == name and isinstance(p, Punctuation)] for name in inputs
        }
        self.instants = [at for i in inputs.values() for at in self._instants(i)] or [0]
        self.favourite = rng.choice(self.instants) + rng.randint(-1, 2)
        self.favourites: dict[Any, Any] = {}

    def tuples(self, count: int) -> list[tuple[str, Row]]:
        found = []
        for _ in range(count):
            given = self.inputs[self.rng.choice(list(self.inputs))]
            said = self.said[given.name]
            for _ in range(15):
                t = self._tuple(given)
                if t is not None and not any(match(t, p) for p in said):
                    found.append((given.name, t))
                    break
        return found

    def _tuple(self, given: Input) -> Row | None:
        """A tuple; None if the schema forbids it."""
        known = [given.element(t)[0] for t in self.elements[given.name] if not isinstance(t, Punctuation)]
        row = tuple(self._value(given, i) for i in given.places)
        if known and self.rng.random() < 0.3:
            row = self.rng.choice(known)
        found = given.row(row, self._instant(given), self.rng.choice([1, 1, -1, -2]))
        allowed = all(
            a.nullable if v is None else a.domain.matches(v) for a, v in zip(given.schema, found, strict=True)
        )
        return found if allowed else None

    def _value(self, given: Input, place: int) -> Any:
        attribute = given.schema.attributes[place]
        pool: list[Any] = [None] if attribute.nullable else []
        for e in self.elements[given.name]:
            p = e.patterns[place] if isinstance(e, Punctuation) else e[place]
            if isinstance(p, Constant):
                pool.append(p.value)
            elif isinstance(p, Values):
                pool += p.members
            elif isinstance(p, Range):
                pool += [v for v in (p.low, p.high) if v is not None]
            elif not isinstance(e, Punctuation):
                pool.append(p)
        pool += [-1, 3] if attribute.type is INT else []
        value = self.rng.choice(pool or [None])
        if self.rng.random() < 0.5 and value is not None:
            return self.favourites.setdefault(attribute.type, value)
        return value

    def _instants(self, given: Input) -> list[int]:
        """Those that were named or seen."""
        if given.stamp is None:
            return []
        place, found = given.schema.index(given.stamp), []
        for e in self.elements[given.name]:
            if isinstance(e, Punctuation):
                found += [at for span in spans(given.type, e.patterns[place]) for at in span]
            else:
                found.append(instant(given.type, e[place]))
        # a state that lasts from one end of a type to the other would be repeated 2^64 times
        return [at for at in found if self.time.low < at < self.time.high]

    def _instant(self, given: Input) -> int:
        near = self.favourite
        if self.rng.random() < 0.5:
            near = self.rng.choice(self.instants) + self.rng.randint(-1, 2)
        return max(
            self.time.low + (given.is_stream and not self.time.declared_low), min(self.time.high, near)
        )
