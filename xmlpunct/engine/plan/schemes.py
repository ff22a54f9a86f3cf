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
    combined_schemes = THE_END
    for schemes in sides:  # not all combinations of all sides, whose number grows exponentially
        combined_schemes = smallest(one | other for one in combined_schemes for other in schemes)
    return combined_schemes


def has_many_values(schema: Schema, names: Iterable[str]) -> bool:
    """True if punctuations cannot enumerate the values of some columns."""
    return not all(has_few_values(schema[name]) for name in names)


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


def nullable(schema: Schema) -> Scheme:
    """The attributes that may be null."""
    return Scheme(a.name for a in schema if a.nullable)


class Fate(StrEnum):
    """The fate of an operator that does not receive the punctuations it needs."""

    BLOCKS = "blocks for ever"
    GROWS = "grows for ever"


@dataclass(frozen=True)
class Need:
    """A need of an operator: its input ``port`` must offer a scheme ``within`` these columns, or ``fate`` follows.

    Also sufficient are schemes of `Outlook.closes` within ``keys``, and columns of ``prefixes`` that are closed in
    ascending order. The column ``order`` alone suffices only if it is closed in ascending order. ``jointly``: all
    inputs must offer the same scheme. ``closed_keys``: partitions by ``keys`` must be closed, too.

    Schemes do not close nulls in attributes of ``nulls``; the end of input ``nulls_until`` does. ``retained``: the
    input with the retained tuples, which do not grow without bound if it ends. ``passes``: the input whose punctuations
    pass once the need is satisfied; ``null_filled``: but for its end, because the other input may fill nulls;
    ``whole``: no part of one passes earlier. ``pairs``: retained columns, each with the column that closes it.
    ``effect``: text for what then becomes of a retained tuple.

    ``by``: the offered schemes that satisfy the need, after `matched`.
    """

    fate: Fate
    port: int
    within: tuple[str, ...]
    nulls: Scheme = NONE
    keys: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    order: str | None = None
    jointly: bool = False
    closed_keys: bool = False
    nulls_until: int | None = None
    retained: int | None = None
    passes: int | None = None
    null_filled: bool = False
    whole: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    effect: str = ""
    by: Schemes = NOTHING

    def matched(self, below: Sequence[Outlook], common: Outlook) -> Need:
        """The need with the schemes that satisfy it, of the inputs' outlooks or of ``common``, their combination."""
        child = common if self.jointly else below[self.port]
        closed = within(child.closes, self.keys)
        if self.closed_keys and not closed:
            return replace(self, within=self.keys)
        ordered = child if self.order is None else child.in_order(self.order)
        offers = ordered.offers if self.jointly else within(ordered.offers, self.within)
        prefixes = ([name] for name in self.prefixes if child.has_prefix(name))
        ends = {port for port, outlook in enumerate(below) if outlook.ends}
        return replace(
            self,
            by=smallest([*self.by, *offers, *closed, *prefixes]),
            nulls=NONE if self.nulls_until in ends else self.nulls,
            retained=self.retained if self.retained in ends else None,
        )

    @property
    def fails(self) -> bool:
        """True if no scheme satisfies the need, so that its fate follows."""
        return not self.by and (self.retained is None or self.fate is not Fate.GROWS)

    @property
    def nulls_left(self) -> Scheme:
        """The attributes whose nulls are never closed."""
        left = [scheme & self.nulls for scheme in self.by]
        return min(left, key=lambda s: (len(s), sorted(s))) if left else NONE

    def passed(self, sides: Sequence[Outlook]) -> Outlook:
        """The punctuations that pass by this need alone. ``sides``: the inputs' outlooks in the output's columns."""
        if self.passes is None or not self.by or (self.passes != self.port and self.nulls_left):
            return Outlook()
        side, ends = sides[self.passes], THE_END if self.null_filled else NOTHING
        return replace(side, offers=side.offers - ends, closes=side.closes - ends)


@dataclass(frozen=True)
class Outlook:
    """The static prediction for a node.

    It ``offers`` schemes. ``closes``: schemes for which every *actual* tuple is, at some finite time, matched by a
    punctuation on the scheme only: offered schemes, and keys. ``prefixes``: attributes that are closed in ascending
    order. ``needs`` are the node's own, `Need.matched`. ``remark`` is a text for the user.
    """

    offers: Schemes = NOTHING
    closes: Schemes = NOTHING
    prefixes: Scheme = NONE
    needs: tuple[Need, ...] = ()
    remark: str = ""

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

    def in_order(self, name: str) -> Outlook:
        """The outlook without the scheme of attribute ``name`` alone, unless it is closed in ascending order."""
        if self.has_prefix(name):
            return self
        single = smallest([[name]])
        return replace(self, offers=self.offers - single, closes=self.closes - single)

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
