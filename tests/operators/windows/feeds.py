"""Random feeds with a timestamp, in slices, and their open values by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from xmlpunct.operators import Operator, run
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import DATE, INT, TIMESTAMP, Type
from xmlpunct.types.pattern import WILDCARD, Pattern, constant, interval, ordinals, values

OTHER = 99
"""A value of k and v that only ``*`` matches."""
WIDTH = 16
"""The number of consecutive instants of a feed."""
BASES: dict[Type, tuple[int, int, int]] = {
    type_: (
        type_.ordinal(type_.lowest),
        719163 if type_ is DATE else -8,
        type_.ordinal(type_.highest) - WIDTH + 1,
    )
    for type_ in (INT, DATE, TIMESTAMP)
}
"""First instants of a feed: the type's least value, one in between, and one that reaches its greatest value."""


@dataclass
class Feed:
    """Slices of (k, v, ts), of instants from ``base`` on; the last slice ends the stream."""

    schema: Schema
    type: Type
    base: int
    slices: list[list[Tuple | Punctuation]]

    @property
    def instants(self) -> range:
        return range(self.base, self.base + WIDTH)

    def ordinal(self, t: Tuple) -> int:
        return self.type.ordinal(t[2])


def feed(random: Random) -> Feed:
    """A feed whose tuples come in any order; each punctuation is true."""
    type_ = random.choice([INT, INT, DATE, TIMESTAMP])
    base = random.choice(BASES[type_])
    check = ""
    if random.random() < 0.3:
        low, high = base + 2, base + WIDTH - 3
        check = f" CHECK (ts BETWEEN {_sql(type_, low)} AND {_sql(type_, high)})"
        within = range(low, high + 1)
    else:
        within = range(base, base + WIDTH)
    schema = Schema.parse(f"k INT, v INT, ts {type_} NOT NULL{check}")
    elements: list[Tuple | Punctuation] = []
    punctuations: list[Punctuation] = []
    for _ in range(random.randint(1, 30)):
        if random.random() < 0.5:
            p = Punctuation(schema, (_pattern(random), _pattern(random, 0.8), _span(random, type_, base)))
            punctuations.append(p)
            elements.append(p)
            continue
        t = (random.choice([1, 2, 3, None]), random.choice([1, 2, OTHER]), type_.at(random.choice(within)))
        if not any(match(t, p) for p in punctuations):
            elements.append(t)
    elements.append(Punctuation.everything(schema))
    cuts = sorted(random.sample(range(len(elements) + 1), min(len(elements), random.randint(0, 6))))
    slices = [elements[a:b] for a, b in zip([0, *cuts], [*cuts, len(elements)], strict=True)]
    return Feed(schema, type_, base, slices)


def _sql(type_: Type, at: int) -> str:
    return type_.sql(type_.at(at))


def _pattern(random: Random, wild: float = 0.5) -> Pattern:
    if random.random() < wild:
        return WILDCARD
    return random.choice(
        [constant(INT, random.randint(1, 3)), values(INT, [1, 3]), interval(INT, None, 2, False, True)]
    )


def _span(random: Random, type_: Type, base: int) -> Pattern:
    a, b = sorted(base + random.randrange(WIDTH) for _ in range(2))
    return random.choice(
        [
            ordinals(type_, None, a),
            ordinals(type_, a, b),
            ordinals(type_, b, None),
            constant(type_, type_.at(a)),
            WILDCARD,
        ]
    )


def slice_of(schema: Schema, elements: list[Tuple | Punctuation]) -> Slice:
    tuples = [e for e in elements if not isinstance(e, Punctuation)]
    return Slice(schema.frame(tuples), [e for e in elements if isinstance(e, Punctuation)])


def step(operator: Operator, elements: list[Tuple | Punctuation]) -> tuple[list[Tuple], list[Punctuation]]:
    """The output of an operator for one slice."""
    out = run(operator, 0, slice_of(operator.inputs[0], elements))
    return out.tuples.rows(), list(out.punctuations)


def values_of_k_and_v() -> list[tuple[Any, Any]]:
    """Values of k and v: constants of punctuations, OTHER, and null."""
    return list(product([1, 2, 3, OTHER, None], [1, 2, OTHER]))


def is_open(source: Feed, punctuations: list[Punctuation], k: Any, v: Any, at: int) -> bool:
    """True if a tuple of these values may still arrive."""
    t = (k, v, source.type.at(at))
    domain = source.schema["ts"].domain
    return domain.matches(t[2]) and not any(match(t, p) for p in punctuations)


def has_ordinal(type_: Type, at: int) -> bool:
    """True if a type has a value of this ordinal."""
    return type_.ordinal(type_.lowest) <= at <= type_.ordinal(type_.highest)
