"""What the property tests draw from: small domains, patterns, schemas, punctuated streams and slicings.

Everything about a pattern is decided on a `Pool`: the few constants that patterns use, and a *domain* that
holds these and a value below, between and above them. Whatever a pattern built from the constants says, it
says the same about all values between two neighbours, so the domain decides equality and inclusion of whole
(infinite) sets. Order in the domain is the order of the type; nothing here asks the type for it.
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
        """The place of a value in the order."""
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
    """A pattern as someone may write it, canonical or not, with its meaning spelled out.

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
        """What the pattern means, by places in the pool's domain alone."""
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
"""Strings that a careless reader of patterns mistakes for something else."""

# Schemas and the tuples they allow


@dataclass(frozen=True)
class Space:
    """A schema and, for each attribute, the pool its values and patterns come from (None: always null)."""

    schema: Schema
    pools: tuple[Pool, ...]

    @classmethod
    def of(cls, **attributes: tuple[Pool, str] | Pool) -> Space:
        """Attributes by name: a pool (nullable), or a pool and ``NOT NULL`` or a domain's pattern."""
        found, pools = [], []
        for name, given in attributes.items():
            pool, rule = given if isinstance(given, tuple) else (given, "")
            domain = WILDCARD if rule in ("", "NOT NULL") else parse_pattern(pool.type, rule)
            found.append(Attribute(name, pool.type, rule == "", domain=domain))
            pools.append(pool)
        return cls(Schema.of(found), tuple(pools))

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self.pools))}>"

    def values(self, place: int) -> list[Value]:
        """All values of the pool's domain that the attribute allows, null among them."""
        attribute = self.schema.attributes[place]
        allowed = [v for v in self.pools[place].domain if attribute.domain.matches(v)]
        return [*allowed, None] if attribute.nullable else allowed

    def tuples(self) -> list[Tuple]:
        """All tuples."""
        return list(product(*(self.values(i) for i in range(len(self.pools)))))

    def punctuations(self, closing: Sequence[str] = ()) -> st.SearchStrategy[Punctuation]:
        """Punctuations; wildcards are frequent, or nothing would ever be closed.

        With ``closing`` two of three constrain at most these attributes.
        """
        return _punctuations(self, tuple(closing))


@cache
def _punctuations(space: Space, closing: tuple[str, ...]) -> st.SearchStrategy[Punctuation]:
    """`Space.punctuations`, made once: Hypothesis checks every new strategy, which costs more than drawing."""
    each = [
        st.just(WILDCARD) | some_patterns(pool) if pool.type.comparable else st.just(WILDCARD)
        for pool in space.pools
    ]
    anything = st.tuples(*each)
    if closing:
        asked = {space.schema.index(name) for name in closing}
        keys = st.tuples(*(e if i in asked else st.just(WILDCARD) for i, e in enumerate(each)))
        anything = st.one_of(keys, anything, keys)
    return anything.map(lambda ps: Punctuation(space.schema, ps))


@cache
def some_patterns(pool: Pool) -> st.SearchStrategy[Pattern]:
    """Patterns of a pool but ``*`` (if it has others), all kinds, listed beforehand: cheap to draw."""
    constants = pool.constants
    if not constants:
        return st.just(WILDCARD)
    bounds = product("[(", [None, *constants], [None, *constants], ")]")
    kinds = (
        [pt.constant(pool.type, v) for v in constants],
        [pt.interval(pool.type, low, high, a == "[", b == "]") for a, low, high, b in bounds],
        [pt.values(pool.type, found) for n in (0, 2, 3) for found in combinations(constants, n)],
    )
    return st.one_of(*(st.sampled_from(list(dict.fromkeys(kind))) for kind in kinds))


SMALL = Pool("small int", INT, _ints(0, 3), _ints(-1, 4))
LETTER = Pool("letter", STRING, ("a", "c"), ("", "a", "b", "c", "d"))
REAL = Pool("real", DOUBLE, (0.0, 1.5, NAN), (-math.inf, -1.25, 0.0, 1.0, 1.5, math.inf, NAN))
SPECIAL = Pool("special", DOUBLE, (0.0, math.inf, NAN), (-math.inf, 0.0, 1.5, math.inf, NAN))
"""DOUBLEs that are not like others, few enough to meet."""
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
"""Few values, so that tuples of different streams meet."""

SPACES = (
    Space.of(a=SMALL, b=LETTER),
    Space.of(a=SMALL, b=SMALL, c=SMALL),
    Space.of(a=(SMALL, "[0,3]"), b=(SMALL, "NOT NULL")),
    Space.of(x=REAL, d=MONEY),
    Space.of(x=SPECIAL),
    Space.of(f=FLAG, day=DAY, at=(MOMENT, "NOT NULL")),
)
"""The schemas that operators are tested over: nullable and not, with a domain, of every type."""

# Streams

Element = Tuple | Punctuation
Stream = list[Element]


@st.composite
def streams(
    draw: st.DrawFn, space: Space, most: int = 14, ends: bool | None = None, closing: Sequence[str] = ()
) -> Stream:
    """A grammatical punctuated stream: no tuple matches an earlier punctuation.

    Duplicates are frequent. With ``closing`` so are punctuations on these attributes alone, and no stream is
    very short, or nothing would happen. ``ends`` says whether the
    all-wildcard punctuation comes last (None: maybe).
    """
    allowed, seen = space.tuples(), list[Tuple]()
    found: Stream = []
    punctuations = space.punctuations(closing)

    def one_of(ts: Sequence[Tuple]) -> Tuple:
        return ts[draw(st.integers(0, len(ts) - 1))]

    for _ in range(draw(st.integers(most // 3 if closing else 0, most))):
        if allowed and draw(st.integers(0, 9)) < 7:
            again = [t for t in seen if any(t is a for a in allowed)]
            t = one_of(again if again and draw(st.integers(0, 3)) == 0 else allowed)
            seen.append(t)
            found.append(t)
        else:
            p = draw(punctuations)
            allowed = [t for t in allowed if not match(t, p)]
            found.append(p)
    if ends or (ends is None and draw(st.booleans())):
        found.append(Punctuation.everything(space.schema))
    return found


Cut = tuple[int, Stream]
"""Some consecutive elements of the stream on a port."""


@st.composite
def cuts(draw: st.DrawFn, inputs: Sequence[Stream]) -> list[Cut]:
    """The same streams, cut somehow and interleaved somehow.

    Now and then one stream comes after the other, or each slice has one element: polars treats a column of one
    row, and what is concatenated from such, in ways of their own.
    """
    rest, found = [list(stream) for stream in inputs], []
    turn = draw(st.sampled_from([None, None, 0, -1]))
    single = draw(st.integers(0, 3)) == 0
    while any(rest):
        waiting = [i for i, stream in enumerate(rest) if stream]
        port = waiting[draw(st.integers(0, len(waiting) - 1)) if turn is None else turn]
        size = 1 if single or draw(st.booleans()) else draw(st.integers(1, len(rest[port])))
        found.append((port, rest[port][:size]))
        rest[port] = rest[port][size:]
    return found


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
    """Where a punctuation has its one range of a numbered type; None if it is of another form."""
    if len(p.constrained) != 1:
        return None
    (place,) = p.constrained
    pattern = p.patterns[place]
    return place if isinstance(pattern, Range) and is_numbered(pattern.type) else None


def column_in(ps: Sequence[Punctuation]) -> PunctuationBatch | None:
    """Those of one constant or range in the same attribute as the first such one, in columns, if there are any."""
    for first in ps:
        place = first.constrained[0] if first.constants is not None and len(first.constants) == 1 else -1
        if place >= 0 and has_column(first.schema.attributes[place].type):
            alike = [p for p in dict.fromkeys(ps) if p.constrained == (place,) and p.constants is not None]
            keys = [p.constants[0] for p in alike if p.constants is not None]
            batch = PunctuationBatch.of_column(
                first.schema, place, key_columns(first.schema, place, keys, False)[0]
            )
            assert batch == alike
            return batch
        ranged = _range_of(first)
        if ranged is not None:
            place = ranged
            alike = [p for p in dict.fromkeys(ps) if _range_of(p) == place]
            bounds = [range_key(p) for p in alike]
            batch = PunctuationBatch.of_ranges(
                first.schema, place, *key_columns(first.schema, place, bounds, True)
            )
            assert batch == alike
            return batch
    return None


def parts_in(ps: Sequence[Punctuation]) -> PunctuationBatch:
    """Those of one constant or range each, in columns, a part for each form of them."""
    left, parts, at = list(dict.fromkeys(ps)), list[PunctuationBatch](), list[list[int]]()
    ranks = {p: i for i, p in enumerate(left)}
    while (part := column_in(left)) is not None:
        parts.append(part)
        at.append([ranks[p] for p in part])
        left = [p for p in left if p not in set(part)]
    batch = PunctuationBatch.of_parts(parts, [np.array(places) for places in at])
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
