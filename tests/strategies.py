"""Hypothesis strategies: small domains, patterns, schemas, punctuated streams and slicings.

Everything about a pattern is decided on a `Pool`: the few constants that patterns use, and a *domain* that
holds these and a value below, between and above them. A pattern built from the constants matches all values
between two neighbours, or none, so the domain decides equality and inclusion of (infinite) sets. The domain is listed
in the type's order; the type itself is not asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from xmlpunct.punctuations.forms import has_column, key_columns, range_key
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, NAN, STRING, TIMESTAMP, Type, Value, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.ordinals import is_numbered
from xmlpunct.types.pattern import WILDCARD, Pattern, Range
from xmlpunct.types.pattern_text import parse_pattern

# Values


@dataclass(frozen=True)
class Pool:
    """A type, the constants patterns use, and values below, between and above them, in order."""

    name: str
    type: Type
    constants: tuple[Value, ...]
    domain: tuple[Value, ...] = field(hash=False)

    def rank(self, value: Value) -> int:
        """Index of a value in the domain."""
        return next(i for i, v in enumerate(self.domain) if v == value or (v != v and value != value))

    def __repr__(self) -> str:
        return self.name


def _ints(low: int, high: int) -> tuple[int, ...]:
    return tuple(range(low, high + 1))


TOP, BOTTOM = 2**63 - 1, -(2**63)
_DAY, _MICRO = timedelta(days=1), timedelta(microseconds=1)
_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_TINY, _CENTS = decimal(1, 0), decimal(4, 2)


def _cents(low: int, high: int) -> tuple[Decimal, ...]:
    return tuple(Decimal(i).scaleb(-2) for i in range(low, high + 1))


POOLS = (
    Pool("int", INT, _ints(-2, 3), _ints(-4, 5)),
    Pool("int at its highest", INT, _ints(TOP - 3, TOP), _ints(TOP - 5, TOP)),
    Pool("int at its lowest", INT, _ints(BOTTOM, BOTTOM + 3), _ints(BOTTOM, BOTTOM + 5)),
    Pool("boolean", BOOLEAN, (False, True), (False, True)),
    Pool(
        "date",
        DATE,
        tuple(date(2024, 2, 27) + i * _DAY for i in range(4)),
        tuple(date(2024, 2, 25) + i * _DAY for i in range(8)),
    ),
    Pool(
        "date at its highest",
        DATE,
        tuple(date.max - i * _DAY for i in (2, 1, 0)),
        tuple(date.max - i * _DAY for i in (4, 3, 2, 1, 0)),
    ),
    Pool("decimal(4,2)", _CENTS, _cents(-2, 2), _cents(-4, 4)),
    Pool("decimal(1,0)", _TINY, tuple(map(Decimal, range(-9, 10))), tuple(map(Decimal, range(-9, 10)))),
    Pool(
        "timestamp",
        TIMESTAMP,
        tuple(_NOON + i * _MICRO for i in range(4)),
        tuple(_NOON + i * _MICRO for i in range(-2, 6)),
    ),
    Pool(
        "timestamp at its highest",
        TIMESTAMP,
        tuple(_END - i * _MICRO for i in (2, 1, 0)),
        tuple(_END - i * _MICRO for i in (4, 3, 2, 1, 0)),
    ),
    Pool(
        "double",
        DOUBLE,
        (-math.inf, -1.0, 0.0, 2.5, math.inf, NAN),
        (-math.inf, -7.0, -1.0, -0.5, 0.0, 1.0, 2.5, 1e300, math.inf, NAN),
    ),
    Pool(
        "string",
        STRING,
        ("", "a", "b,", 'b"[', "d e"),
        ("", " ", "a", "aa", 'b"[', "b#", "b,", "b-", "d e", "\U0001f600"),
    ),
)
DISCRETE = tuple(p for p in POOLS if p.type.discrete)

# Patterns


@dataclass(frozen=True)
class Spec:
    """A pattern, canonical or not, with a slow definition of its meaning.

    ``kind`` is ``*``, ``constant``, ``list`` or a range's two brackets; ``values`` are the constant, the
    list's members or the range's two bounds (None: unbounded).
    """

    pool: Pool
    kind: str
    values: tuple[Value, ...] = ()

    def pattern(self) -> Pattern:
        """The pattern, by the constructors."""
        if self.kind == "*":
            return WILDCARD
        if self.kind == "constant":
            return pt.constant(self.pool.type, *self.values)
        if self.kind == "list":
            return pt.values(self.pool.type, self.values)
        low, high = self.values
        return pt.interval(self.pool.type, low, high, self.kind[0] == "[", self.kind[1] == "]")

    def text(self) -> str:
        """The pattern as text, every STRING quoted."""
        show = [self._show(v) for v in self.values]
        if self.kind == "*":
            return "*"
        if self.kind == "constant":
            return show[0]
        if self.kind == "list":
            return "{" + ", ".join(show) + "}"
        return f"{self.kind[0]}{show[0]}, {show[1]}{self.kind[1]}"

    def matches(self, value: Value) -> bool:
        """True if the pattern matches, computed from indexes in the pool's domain only."""
        if self.kind == "*" or value is None:
            return self.kind == "*"
        rank = self.pool.rank
        at, ranks = rank(value), [None if v is None else rank(v) for v in self.values]
        if self.kind in ("constant", "list"):
            return at in ranks
        low, high = ranks
        above = low is None or at > low or (at == low and self.kind[0] == "[")
        below = high is None or at < high or (at == high and self.kind[1] == "]")
        return above and below

    def _show(self, value: Value) -> str:
        if value is None:
            return ""
        text = self.pool.type.format(value)
        return '"' + text.replace('"', '""') + '"' if self.pool.type is STRING else text


def specs(pool: Pool) -> st.SearchStrategy[Spec]:
    """Patterns of a pool, all kinds, most of them not in canonical form."""
    constant = st.sampled_from(pool.constants)
    bound = st.none() | constant
    return st.one_of(
        st.just(Spec(pool, "*")),
        st.builds(lambda v: Spec(pool, "constant", (v,)), constant),
        st.builds(
            lambda k, low, high: Spec(pool, k, (low, high)),
            st.sampled_from(["[]", "[)", "(]", "()"]),
            bound,
            bound,
        ),
        st.builds(lambda vs: Spec(pool, "list", tuple(vs)), st.lists(constant, max_size=4)),
    )


def patterns(pool: Pool) -> st.SearchStrategy[Pattern]:
    """Patterns of a pool in canonical form."""
    return specs(pool).map(Spec.pattern)


TRICKY = st.text(alphabet="*[](){}<>,\"' \t\nab\\é\U0001f600", max_size=6)
"""Strings with the delimiters of patterns, to test quoting."""

# Schemas and the tuples they allow


@dataclass(frozen=True)
class Space:
    """A schema and, for each attribute, the pool its values and patterns come from (None: always null)."""

    schema: Schema
    pools: tuple[Pool, ...]

    @classmethod
    def of(cls, **attributes: tuple[Pool, str] | Pool) -> Space:
        """Attributes by name: a pool (nullable), or a pool and ``NOT NULL`` or a domain's pattern."""
        columns, pools = [], []
        for name, definition in attributes.items():
            pool, rule = definition if isinstance(definition, tuple) else (definition, "")
            domain = WILDCARD if rule in ("", "NOT NULL") else parse_pattern(pool.type, rule)
            columns.append(Attribute(name, pool.type, rule == "", domain=domain))
            pools.append(pool)
        return cls(Schema.of(columns), tuple(pools))

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self.pools))}>"

    def values(self, index: int) -> list[Value]:
        """All values of the pool's domain that the attribute allows, null among them."""
        attribute = self.schema.attributes[index]
        allowed = [v for v in self.pools[index].domain if attribute.domain.matches(v)]
        return [*allowed, None] if attribute.nullable else allowed

    def tuples(self) -> list[Tuple]:
        """All tuples."""
        return list(product(*(self.values(i) for i in range(len(self.pools)))))

    def punctuations(self, closing: Sequence[str] = ()) -> st.SearchStrategy[Punctuation]:
        """Punctuations; wildcards are frequent, so that punctuations close many tuples.

        With ``closing``, two of three punctuations constrain at most these attributes.
        """
        return _punctuations(self, tuple(closing))


@cache
def _punctuations(space: Space, closing: tuple[str, ...]) -> st.SearchStrategy[Punctuation]:
    """`Space.punctuations`, cached: Hypothesis validates each new strategy, which is slow."""
    per_attribute = [
        st.just(WILDCARD) | some_patterns(pool) if pool.type.comparable else st.just(WILDCARD)
        for pool in space.pools
    ]
    anything = st.tuples(*per_attribute)
    if closing:
        closing_indexes = {space.schema.index(name) for name in closing}
        keys = st.tuples(
            *(e if i in closing_indexes else st.just(WILDCARD) for i, e in enumerate(per_attribute))
        )
        anything = st.one_of(keys, anything, keys)
    return anything.map(lambda ps: Punctuation(space.schema, ps))


@cache
def some_patterns(pool: Pool) -> st.SearchStrategy[Pattern]:
    """Patterns of a pool, of all kinds but ``*``; ``*`` if the pool has no constants. They are listed once."""
    constants = pool.constants
    if not constants:
        return st.just(WILDCARD)
    bounds = product("[(", [None, *constants], [None, *constants], ")]")
    kinds = (
        [pt.constant(pool.type, v) for v in constants],
        [pt.interval(pool.type, low, high, a == "[", b == "]") for a, low, high, b in bounds],
        [pt.values(pool.type, members) for n in (0, 2, 3) for members in combinations(constants, n)],
    )
    return st.one_of(*(st.sampled_from(list(dict.fromkeys(kind))) for kind in kinds))


SMALL = Pool("small int", INT, _ints(0, 3), _ints(-1, 4))
LETTER = Pool("letter", STRING, ("a", "c"), ("", "a", "b", "c", "d"))
REAL = Pool("real", DOUBLE, (0.0, 1.5, NAN), (-math.inf, -1.25, 0.0, 1.0, 1.5, math.inf, NAN))
SPECIAL = Pool("special", DOUBLE, (0.0, math.inf, NAN), (-math.inf, 0.0, 1.5, math.inf, NAN))
"""Special DOUBLEs, few enough for equal values to be frequent."""
MONEY = Pool(
    "money",
    decimal(3, 1),
    (Decimal("0.1"), Decimal("0.3")),
    tuple(Decimal(i).scaleb(-1) for i in range(-1, 5)),
)
FLAG = Pool("flag", BOOLEAN, (False, True), (False, True))
DAY = Pool("day", DATE, (date(2026, 1, 2), date(2026, 1, 3)), tuple(date(2026, 1, i) for i in range(1, 5)))
MOMENT = Pool(
    "moment", TIMESTAMP, (_NOON, _NOON + 2 * _MICRO), tuple(_NOON + i * _MICRO for i in range(-1, 4))
)

SIGNED = Pool("signed", INT, (-1, 0, 1), _ints(-1, 2))
"""Few values, so that tuples of different streams are often equal."""

SPACES = (
    Space.of(a=SMALL, b=LETTER),
    Space.of(a=SMALL, b=SMALL, c=SMALL),
    Space.of(a=(SMALL, "[0,3]"), b=(SMALL, "NOT NULL")),
    Space.of(x=REAL, d=MONEY),
    Space.of(x=SPECIAL),
    Space.of(f=FLAG, day=DAY, at=(MOMENT, "NOT NULL")),
)
"""Schemas for operator tests: nullable and NOT NULL, with a domain, of each type."""

# Streams

Element = Tuple | Punctuation
Stream = list[Element]


@st.composite
def streams(
    draw: st.DrawFn, space: Space, most: int = 14, ends: bool | None = None, closing: Sequence[str] = ()
) -> Stream:
    """A grammatical punctuated stream: no tuple matches an earlier punctuation.

    Duplicates are frequent. With ``closing``, punctuations on these attributes alone are frequent, and no stream
    is very short. ``ends``: whether the all-wildcard punctuation comes last (None: drawn).
    """
    allowed, emitted = space.tuples(), list[Tuple]()
    stream: Stream = []
    punctuations = space.punctuations(closing)

    def one_of(ts: Sequence[Tuple]) -> Tuple:
        return ts[draw(st.integers(0, len(ts) - 1))]

    for _ in range(draw(st.integers(most // 3 if closing else 0, most))):
        if allowed and draw(st.integers(0, 9)) < 7:
            repeated = [t for t in emitted if any(t is a for a in allowed)]
            t = one_of(repeated if repeated and draw(st.integers(0, 3)) == 0 else allowed)
            emitted.append(t)
            stream.append(t)
        else:
            p = draw(punctuations)
            allowed = [t for t in allowed if not match(t, p)]
            stream.append(p)
    if ends or (ends is None and draw(st.booleans())):
        stream.append(Punctuation.everything(space.schema))
    return stream


Cut = tuple[int, Stream]
"""A port, and consecutive elements of its stream."""


@st.composite
def cuts(draw: st.DrawFn, inputs: Sequence[Stream]) -> list[Cut]:
    """The streams, cut into slices and interleaved at random.

    Some draws have one stream after the other, or slices of one element: polars has special cases for columns of one
    row and their concatenations.
    """
    remaining, slices = [list(stream) for stream in inputs], []
    turn = draw(st.sampled_from([None, None, 0, -1]))
    single = draw(st.integers(0, 3)) == 0
    while any(remaining):
        waiting = [i for i, stream in enumerate(remaining) if stream]
        port = waiting[draw(st.integers(0, len(waiting) - 1)) if turn is None else turn]
        size = 1 if single or draw(st.booleans()) else draw(st.integers(1, len(remaining[port])))
        slices.append((port, remaining[port][:size]))
        remaining[port] = remaining[port][size:]
    return slices


def tuples_of(elements: Iterable[Element]) -> list[Tuple]:
    """The paper's tups."""
    return [e for e in elements if not isinstance(e, Punctuation)]


def punctuations_of(elements: Iterable[Element]) -> list[Punctuation]:
    """The paper's puncts."""
    return [e for e in elements if isinstance(e, Punctuation)]


def slice_of(schema: Schema, elements: Sequence[Element]) -> Slice:
    """Elements as a slice."""
    return Slice(schema.frame(tuples_of(elements)), punctuations_of(elements), list(_before(elements)))


def _range_of(p: Punctuation) -> int | None:
    """Index of the only constrained attribute, if its pattern is a range of a numbered type."""
    if len(p.constrained) != 1:
        return None
    (index,) = p.constrained
    pattern = p.patterns[index]
    return index if isinstance(pattern, Range) and is_numbered(pattern.type) else None


def column_in(ps: Sequence[Punctuation]) -> PunctuationBatch | None:
    """Columnar batch of the punctuations of the form of the first one with one constant or range; None without one."""
    for first in ps:
        index = first.constrained[0] if first.constants is not None and len(first.constants) == 1 else -1
        if index >= 0 and has_column(first.schema.attributes[index].type):
            alike = [p for p in dict.fromkeys(ps) if p.constrained == (index,) and p.constants is not None]
            keys = [p.constants[0] for p in alike if p.constants is not None]
            batch = PunctuationBatch.of_column(
                first.schema, index, key_columns(first.schema, index, keys, False)[0]
            )
            assert batch == alike
            return batch
        ranged = _range_of(first)
        if ranged is not None:
            index = ranged
            alike = [p for p in dict.fromkeys(ps) if _range_of(p) == index]
            bounds = [range_key(p) for p in alike]
            batch = PunctuationBatch.of_ranges(
                first.schema, index, *key_columns(first.schema, index, bounds, True)
            )
            assert batch == alike
            return batch
    return None


def parts_in(ps: Sequence[Punctuation]) -> PunctuationBatch:
    """Columnar batch of the punctuations with one constant or range, one part per form."""
    left, parts, at = list(dict.fromkeys(ps)), list[PunctuationBatch](), list[list[int]]()
    ranks = {p: i for i, p in enumerate(left)}
    while (part := column_in(left)) is not None:
        parts.append(part)
        at.append([ranks[p] for p in part])
        left = [p for p in left if p not in set(part)]
    batch = PunctuationBatch.of_parts(parts, [np.array(indexes) for indexes in at])
    assert len(batch.parts) == max(1, len(parts))
    assert batch == sorted((p for part in parts for p in part), key=ranks.__getitem__)
    return batch


def _before(elements: Iterable[Element]) -> Iterator[int]:
    tuples = 0
    for e in elements:
        if isinstance(e, Punctuation):
            yield tuples
        else:
            tuples += 1
