"""Punctuation schemes: static prediction of punctuations before a run, and the consequences for operators.

A *scheme* is a set of attributes. A stream *offers* it if every possible tuple without nulls in the scheme is, at some
finite time, matched by a punctuation that constrains attributes of the scheme only. A stream that offers a scheme also
offers its supersets, so an antichain of minimal schemes represents all of them. The empty scheme means that the stream
ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN, Type
from xmlpunct.types.pattern import Constant, Pattern, Range, Values

Scheme = frozenset[str]
Schemes = frozenset[Scheme]
"""An antichain: no scheme is part of another."""

NONE: Scheme = frozenset()
NOTHING: Schemes = frozenset()
THE_END: Schemes = frozenset([NONE])
"""The schemes of a stream that ends."""


def smallest(schemes: Iterable[Iterable[str]]) -> Schemes:
    """The antichain of the minimal schemes.

    >>> sorted(map(sorted, smallest([{"a", "b"}, {"b"}, {"a", "c"}])))
    [['a', 'c'], ['b']]
    """
    sets = {frozenset(scheme) for scheme in schemes}
    return frozenset(s for s in sets if not any(other < s for other in sets))


def joint(*sides: Schemes) -> Schemes:
    """The schemes of punctuations that combine one punctuation of each side.

    >>> sorted(map(sorted, joint(smallest([{"a"}, {"b"}]), smallest([{"a"}]))))
    [['a']]
    """
    return smallest(NONE.union(*schemes) for schemes in product(*sides))


def within(schemes: Schemes, names: Collection[str]) -> Schemes:
    """The schemes whose attributes are all in ``names``."""
    return frozenset(s for s in schemes if s <= set(names))


def carried(schemes: Schemes, ways: Mapping[str, Collection[str]]) -> Schemes:
    """Rename the attributes of schemes; ``ways`` has any number of new names for an attribute."""
    return smallest(chosen for s in schemes for chosen in product(*(ways.get(name, ()) for name in s)))


def is_finite(type_: Type, pattern: Pattern) -> bool:
    """True if a pattern has finitely many values, so that punctuations can enumerate them.

    INT is regarded as infinite: no stream enumerates all its values.
    """
    if isinstance(pattern, Range):
        return type_.discrete and pattern.low is not None and pattern.high is not None
    return type_ is BOOLEAN or isinstance(pattern, Constant | Values)


def has_few_values(attribute: Attribute) -> bool:
    """True if punctuations can enumerate all values of an attribute, and so close it jointly."""
    return not attribute.nullable and is_finite(attribute.type, attribute.domain)


def reduced(schemes: Schemes, schema: Schema, finite: Collection[str] = ()) -> Schemes:
    """The schemes without attributes with a finite domain, whose values are all closed jointly.

    >>> s = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), hour INT")
    >>> sorted(map(sorted, reduced(smallest([{"sid", "hour"}]), s)))
    [['hour']]
    """

    def is_open(attribute: Attribute) -> bool:
        return not has_few_values(attribute) and (attribute.nullable or attribute.name not in finite)

    return smallest([name for name in s if is_open(schema[name])] for s in schemes)


class Fate(StrEnum):
    """The fate of an operator that does not receive the punctuations it needs."""

    BLOCKS = "blocks for ever"
    GROWS = "grows for ever"


@dataclass(frozen=True)
class Need:
    """A need of an operator: its input ``port`` must offer a scheme ``within`` these columns, or ``fate`` follows.

    ``prefix``: a column that may be closed in ascending order instead. ``by`` are the offered schemes that satisfy the
    need. They do not close nulls in attributes of ``nulls``. ``finite``: the input with the retained tuples, if it
    ends, so that they do not grow without bound.
    """

    fate: Fate
    port: int
    within: tuple[str, ...]
    by: Schemes
    nulls: Scheme = NONE
    prefix: str | None = None
    finite: int | None = None

    @property
    def fails(self) -> bool:
        """True if no scheme satisfies the need, so that its fate follows."""
        return not self.by and (self.finite is None or self.fate is not Fate.GROWS)

    @property
    def nulls_left(self) -> Scheme:
        """The attributes whose nulls are never closed."""
        left = [scheme & self.nulls for scheme in self.by]
        return min(left, key=lambda s: (len(s), sorted(s))) if left else NONE


@dataclass(frozen=True)
class Outlook:
    """The static prediction for a node.

    It ``offers`` schemes. ``closes``: schemes for which every *actual* tuple is, at some finite time, matched by a
    punctuation on the scheme only: offered schemes, and keys. ``prefixes``: attributes that are closed in ascending
    order. ``needs`` are those of the node itself. ``told`` is a neutral remark for the user.
    """

    offers: Schemes = NOTHING
    closes: Schemes = NOTHING
    prefixes: Scheme = NONE
    needs: tuple[Need, ...] = ()
    told: str = ""

    @property
    def ends(self) -> bool:
        """True if the output ends."""
        return NONE in self.offers

    def has_prefix(self, name: str) -> bool:
        """True if an attribute is closed in ascending order; always true for a stream that ends."""
        return self.ends or name in self.prefixes

    @property
    def fate(self) -> Fate | None:
        """The fate of the node, or None if all needs are satisfied. Blocking has priority over growing."""
        return min((need.fate for need in self.needs if need.fails), default=None)

    @property
    def nulls(self) -> Scheme:
        """The attributes whose nulls are retained for ever."""
        return NONE.union(*(need.nulls_left for need in self.needs))

    def need(
        self,
        fate: Fate,
        port: int,
        names: Iterable[str],
        schema: Schema | None,
        more: Schemes = NOTHING,
        prefix: str | None = None,
        closed: bool = False,
    ) -> Need:
        """A need of the parent operator, for which this is the outlook of input ``port``.

        Schemes within ``names``, or among ``more``, satisfy it. ``schema`` has the nullable attributes. ``closed``:
        schemes of `closes` suffice.
        """
        names = tuple(names)
        by = smallest([*within(self.closes if closed else self.offers, names), *more])
        if prefix is not None and self.has_prefix(prefix):
            by = smallest([*by, [prefix]])
        nulls = NONE if schema is None else Scheme(a.name for a in schema if a.nullable)
        return Need(fate, port, names, by, nulls, prefix)

    def in_order(self, name: str) -> Outlook:
        """The outlook without the scheme of attribute ``name`` alone, unless it is closed in ascending order."""
        if self.has_prefix(name):
            return self
        single = smallest([[name]])
        return replace(self, offers=self.offers - single, closes=self.closes - single)

    def partition(self, keys: Sequence[str], order: str | None, schema: Schema) -> Need:
        """The need that partitions of ``keys`` are closed: completely, or in ascending ``order``."""
        outlook, names = (self, keys) if order is None else (self.in_order(order), (*keys, order))
        return outlook.need(Fate.BLOCKS, 0, names, schema, more=within(self.closes, keys))

    def retained(self, keys: Collection[str], schema: Schema) -> str:
        """A remark that each partition retains state; empty if partitions are closed, or if there are few."""
        closed = within(self.closes, keys) or not reduced(smallest([keys]), schema) - THE_END
        return "" if closed else "retains state for each partition, by definition"

    def renamed(self, ways: Mapping[str, Collection[str]]) -> Outlook:
        """The outlook under new names; ``ways`` has any number of new names for an attribute."""
        prefixes = (new for name in self.prefixes for new in ways.get(name, ()))
        return Outlook(carried(self.offers, ways), carried(self.closes, ways), Scheme(prefixes))


def combined(sides: Collection[Outlook]) -> Outlook:
    """The outlook of punctuations that all sides support, with equal names."""
    offers = joint(*(side.offers for side in sides))
    names = NONE.union(*(side.prefixes for side in sides))
    return Outlook(offers, offers, Scheme(n for n in names if all(side.has_prefix(n) for side in sides)))


def either(sides: Iterable[Outlook]) -> Outlook:
    """The union of several outlooks."""
    sides = list(sides)
    return Outlook(
        smallest(s for side in sides for s in side.offers),
        smallest(s for side in sides for s in side.closes),
        NONE.union(*(side.prefixes for side in sides)),
    )
