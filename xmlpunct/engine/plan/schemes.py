"""What punctuations will come, as far as it can be known before a run, and what follows for an operator.

A *scheme* is a set of attributes. A stream *offers* it if every conceivable tuple without a null in it is, at some
finite time, matched by a punctuation that constrains attributes of the scheme only. What offers a scheme offers all
larger ones, so the smallest ones say everything: an antichain. The empty scheme says that the stream ends.
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
"""What a stream offers that ends."""


def smallest(schemes: Iterable[Iterable[str]]) -> Schemes:
    """The antichain of some schemes.

    >>> sorted(map(sorted, smallest([{"a", "b"}, {"b"}, {"a", "c"}])))
    [['a', 'c'], ['b']]
    """
    sets = {frozenset(scheme) for scheme in schemes}
    return frozenset(s for s in sets if not any(other < s for other in sets))


def joint(*sides: Schemes) -> Schemes:
    """What is offered by punctuations that combine one of each side.

    >>> sorted(map(sorted, joint(smallest([{"a"}, {"b"}]), smallest([{"a"}]))))
    [['a']]
    """
    return smallest(NONE.union(*schemes) for schemes in product(*sides))


def within(schemes: Schemes, names: Collection[str]) -> Schemes:
    """Those of some schemes whose attributes are all among ``names``."""
    return frozenset(s for s in schemes if s <= set(names))


def carried(schemes: Schemes, ways: Mapping[str, Collection[str]]) -> Schemes:
    """The schemes under the new names of their attributes, of which there may be several, or none."""
    return smallest(chosen for s in schemes for chosen in product(*(ways.get(name, ()) for name in s)))


def is_finite(type_: Type, pattern: Pattern) -> bool:
    """Whether a pattern has finitely many values, so that punctuations can name all of them.

    All values of INT are finitely many too, but no stream will name them.
    """
    if isinstance(pattern, Range):
        return type_.discrete and pattern.low is not None and pattern.high is not None
    return type_ is BOOLEAN or isinstance(pattern, Constant | Values)


def has_few_values(attribute: Attribute) -> bool:
    """Whether punctuations can name all values of an attribute, and so close it jointly."""
    return not attribute.nullable and is_finite(attribute.type, attribute.domain)


def reduced(schemes: Schemes, schema: Schema, finite: Collection[str] = ()) -> Schemes:
    """The schemes without the attributes of which all values will be closed jointly: those with a finite domain.

    >>> s = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), hour INT")
    >>> sorted(map(sorted, reduced(smallest([{"sid", "hour"}]), s)))
    [['hour']]
    """

    def is_open(attribute: Attribute) -> bool:
        return not has_few_values(attribute) and (attribute.nullable or attribute.name not in finite)

    return smallest([name for name in s if is_open(schema[name])] for s in schemes)


class Fate(StrEnum):
    """What becomes of an operator where the promises that it needs do not come."""

    BLOCKS = "blocks for ever"
    GROWS = "grows for ever"


@dataclass(frozen=True)
class Need:
    """What an operator needs: that some scheme ``within`` columns of its input ``port`` is offered, or else its fate.

    ``prefix``: the column that could be closed value after value, from the lowest on, instead. ``by`` are the schemes
    that serve. Those with an attribute of ``nulls`` do not close nulls there. ``finite``: the input that ends, if it is
    its tuples that are retained otherwise; they do not grow for ever.
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
        """Whether nothing serves, and its fate comes."""
        return not self.by and (self.finite is None or self.fate is not Fate.GROWS)

    @property
    def nulls_left(self) -> Scheme:
        """The attributes whose nulls are never closed."""
        left = [scheme & self.nulls for scheme in self.by]
        return min(left, key=lambda s: (len(s), sorted(s))) if left else NONE


@dataclass(frozen=True)
class Outlook:
    """What can be said of a node before it runs.

    It ``offers`` schemes. ``closes``: for each of these every tuple that *comes* is, at some finite time, matched by a
    punctuation that constrains nothing else: what is offered, and keys. ``prefixes``: the attributes that are closed
    value after value, from the lowest on. ``needs`` are the node's own. ``told`` says what is neither good nor bad.
    """

    offers: Schemes = NOTHING
    closes: Schemes = NOTHING
    prefixes: Scheme = NONE
    needs: tuple[Need, ...] = ()
    told: str = ""

    @property
    def ends(self) -> bool:
        """Whether it ends."""
        return NONE in self.offers

    def has_prefix(self, name: str) -> bool:
        """Whether an attribute is closed value after value; as it is where all ends."""
        return self.ends or name in self.prefixes

    @property
    def fate(self) -> Fate | None:
        """What becomes of the node; None: it is fine. Blocking comes before growing."""
        return min((need.fate for need in self.needs if need.fails), default=None)

    @property
    def nulls(self) -> Scheme:
        """The attributes whose nulls wait or stay for ever."""
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
        """A need of the operator above, whose input on ``port`` this is.

        Schemes serve that are within ``names``, or among ``more``; nulls count where a ``schema`` says that there are
        some. ``closed``: it is enough that what comes is closed.
        """
        names = tuple(names)
        by = smallest([*within(self.closes if closed else self.offers, names), *more])
        if prefix is not None and self.has_prefix(prefix):
            by = smallest([*by, [prefix]])
        nulls = NONE if schema is None else Scheme(a.name for a in schema if a.nullable)
        return Need(fate, port, names, by, nulls, prefix)

    def in_order(self, name: str) -> Outlook:
        """What closes an attribute from its lowest value on, if it closes that.

        It may do so alone, as a prefix, or for each value of others.
        """
        if self.has_prefix(name):
            return self
        alone = smallest([[name]])
        return replace(self, offers=self.offers - alone, closes=self.closes - alone)

    def partition(self, keys: Sequence[str], order: str | None, schema: Schema) -> Need:
        """The need that the partitions of ``keys`` are closed: for ever, or in ``order`` from its first value on."""
        given, names = (self, keys) if order is None else (self.in_order(order), (*keys, order))
        return given.need(Fate.BLOCKS, 0, names, schema, more=within(self.closes, keys))

    def retained(self, keys: Collection[str], schema: Schema) -> str:
        """That something stays of each partition, which is its meaning; empty if it does not, or if there are few."""
        closed = within(self.closes, keys) or not reduced(smallest([keys]), schema) - THE_END
        return "" if closed else "retains something of each partition, which is its meaning"

    def renamed(self, ways: Mapping[str, Collection[str]]) -> Outlook:
        """What carries on under new names, of which an attribute may have several or none."""
        prefixes = (new for name in self.prefixes for new in ways.get(name, ()))
        return Outlook(carried(self.offers, ways), carried(self.closes, ways), Scheme(prefixes))


def combined(sides: Collection[Outlook]) -> Outlook:
    """What all of several outlooks say together, names alike."""
    offers = joint(*(side.offers for side in sides))
    names = NONE.union(*(side.prefixes for side in sides))
    return Outlook(offers, offers, Scheme(n for n in names if all(side.has_prefix(n) for side in sides)))


def either(sides: Iterable[Outlook]) -> Outlook:
    """What at least one of several outlooks says."""
    sides = list(sides)
    return Outlook(
        smallest(s for side in sides for s in side.offers),
        smallest(s for side in sides for s in side.closes),
        NONE.union(*(side.prefixes for side in sides)),
    )
