"""Random grammatical continuations of a prefix, with values near its patterns that let tuples join."""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.cql.feeds import Element, Feed, Input, Inputs, Time, instant, spans
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.types import INT
from xmlpunct.types.pattern import Constant, Range, Values


def continuation(
    rng: random.Random, inputs: Inputs, before: Feed, time: Time, examples: Feed = ()
) -> list[tuple[str, Element]]:
    """Some tuples that can still arrive, and the end of all inputs.

    Values and instants are near those of ``examples`` (the complete feed), by default of the prefix.
    """
    return [
        *_Continuation(rng, inputs, before, examples or before, time).tuples(rng.randint(1, 6)),
        *((name, Punctuation.everything(i.schema)) for name, i in inputs.items()),
    ]


class _Continuation:
    """Draws tuples. Half of them have one favourite instant and favourite values, so that tuples join."""

    def __init__(self, rng: random.Random, inputs: Inputs, before: Feed, examples: Feed, time: Time) -> None:
        self.rng, self.inputs, self.time = rng, inputs, time
        self.elements = {name: [e for n, e in examples if n == name] for name in inputs}
        self.punctuations = {
            name: [p for n, p in before if n == name and isinstance(p, Punctuation)] for name in inputs
        }
        self.instants = [at for i in inputs.values() for at in self._instants(i)] or [0]
        self.favourite = rng.choice(self.instants) + rng.randint(-1, 2)
        self.favourites: dict[Any, Any] = {}

    def tuples(self, count: int) -> list[tuple[str, Row]]:
        result = []
        for _ in range(count):
            input_ = self.inputs[self.rng.choice(list(self.inputs))]
            punctuations = self.punctuations[input_.name]
            for _ in range(15):
                t = self._tuple(input_)
                if t is not None and not any(match(t, p) for p in punctuations):
                    result.append((input_.name, t))
                    break
        return result

    def _tuple(self, input_: Input) -> Row | None:
        """A tuple; None if the schema forbids it."""
        rows = [input_.element(t)[0] for t in self.elements[input_.name] if not isinstance(t, Punctuation)]
        row = tuple(self._value(input_, i) for i in input_.places)
        if rows and self.rng.random() < 0.3:
            row = self.rng.choice(rows)
        candidate = input_.row(row, self._instant(input_), self.rng.choice([1, 1, -1, -2]))
        allowed = all(
            a.nullable if v is None else a.domain.matches(v)
            for a, v in zip(input_.schema, candidate, strict=True)
        )
        return candidate if allowed else None

    def _value(self, input_: Input, column: int) -> Any:
        attribute = input_.schema.attributes[column]
        pool: list[Any] = [None] if attribute.nullable else []
        for e in self.elements[input_.name]:
            p = e.patterns[column] if isinstance(e, Punctuation) else e[column]
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

    def _instants(self, input_: Input) -> list[int]:
        """The instants in the tuples and punctuations of an input."""
        if input_.stamp is None:
            return []
        column, instants = input_.schema.index(input_.stamp), []
        for e in self.elements[input_.name]:
            if isinstance(e, Punctuation):
                instants += [at for span in spans(input_.type, e.patterns[column]) for at in span]
            else:
                instants.append(instant(input_.type, e[column]))
        # RSTREAM would repeat a state from one end of the type to the other 2^64 times
        return [at for at in instants if self.time.low < at < self.time.high]

    def _instant(self, input_: Input) -> int:
        target = self.favourite
        if self.rng.random() < 0.5:
            target = self.rng.choice(self.instants) + self.rng.randint(-1, 2)
        return max(
            self.time.low + (input_.is_stream and not self.time.declared_low), min(self.time.high, target)
        )
