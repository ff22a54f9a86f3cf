"""What never comes: punctuations that a declared domain or a predicate makes true from the start."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from fractions import Fraction
from functools import reduce

import polars as pl

from xmlpunct.base.trampoline import unrolled
from xmlpunct.expressions.expression import Call, Column, Expression, Function, Literal
from xmlpunct.expressions.functions.conditions import AND, IN, IS_NULL, NOT, OR
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import compiled
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DOUBLE, DecimalType, Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import Cut, between, cuts, ends, hull
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

GAPS = 64
"""Of a pattern with more gaps only the outermost two are said: who reads the stream has to hold them all."""
PIECES = 8
"""Of more values of an expression only the range around them counts: finding what gives each takes some 5 ms."""
COMBINATIONS = 256
"""Alternatives with more combinations say nothing. Neither limit is a matter of speed."""


def outside(schema: Schema, name: str, pattern: Pattern) -> list[Punctuation]:
    """Punctuations that leave an attribute nothing but null and the values of a pattern."""
    if pattern is WILDCARD:
        return []
    gaps = (~IntervalSet(schema[name].type, [pattern])).patterns()
    if len(gaps) > GAPS:
        gaps = [gaps[0], gaps[-1]]
    return [Punctuation.of(schema, **{name: gap}) for gap in gaps]


def news(schema: Schema, punctuations: Iterable[Punctuation]) -> list[Punctuation]:
    """Those that say more than the domains of a schema do, each once."""
    return [
        p
        for p in dict.fromkeys(punctuations)
        if all(schema.attributes[i].reach(p.patterns[i]) is not EMPTY for i in p.constrained)
    ]


def remaining(schema: Schema, punctuations: Iterable[Punctuation]) -> dict[str, IntervalSet]:
    """The values that punctuations about one attribute alone leave open, for each attribute that they are about."""
    values = dict[str, IntervalSet]()
    for p in punctuations:
        if len(p.constrained) == 1:
            (place,) = p.constrained
            a = schema.attributes[place]
            left = values.get(a.name, IntervalSet.everything(a.type))
            values[a.name] = left & ~IntervalSet(a.type, [p.patterns[place]])
    return values


def never(schema: Schema, predicate: Expression, truth: bool = True) -> list[Punctuation]:
    """Punctuations that match no tuple for which a predicate is true (or, without ``truth``, false).

    Comparisons with constants say something, of a column or of a `Monotone` expression, however AND, OR and NOT join
    them. Nothing else does.
    """
    return unrolled(lambda way: _never(schema, *way), (predicate, truth))


Way = tuple[Expression, bool]
"""A predicate, and which of its values is looked at."""


def _never(
    schema: Schema, predicate: Expression, truth: bool
) -> Generator[Way, list[Punctuation], list[Punctuation]]:
    if isinstance(predicate, Column) and predicate.type is BOOLEAN:
        return outside(schema, predicate.name, pt.constant(BOOLEAN, truth))
    if not isinstance(predicate, Call):
        return []
    record, args = predicate.record, [*map(_folded, predicate.args)]
    if record is NOT:
        return (yield args[0], not truth)
    if record in (AND, OR):
        ways = []
        for argument in predicate.operands:
            ways.append((yield argument, truth))
        # a conjunction is true only if every part is, and false only if some part is
        return [p for way in ways for p in way] if (record is AND) == truth else reduce(_both, ways)
    subject = args[-1] if isinstance(args[0], Literal) else args[0]
    monotone = Monotone.of(subject)
    if not isinstance(subject, Column) and monotone is None:
        return []
    type_ = subject.type
    if record is IS_NULL and isinstance(subject, Column):
        known = pt.interval(type_, None, None, False, False)
        return [Punctuation.of(schema, **{subject.name: known})] if truth else []
    comparison = _described(record, args, subject is args[0])
    if comparison is None:
        return []
    pattern, yes = comparison
    if isinstance(subject, Column):
        if truth == yes:
            return outside(schema, subject.name, pattern)
        return [Punctuation.of(schema, **{subject.name: pattern})] if pattern is not EMPTY else []
    assert monotone is not None
    results = IntervalSet(type_, [pattern])
    wanted = (results if truth == yes else ~results).patterns()
    source = schema[monotone.source]
    parts = [
        monotone.preimage(source, p) for p in (wanted if len(wanted) <= PIECES else [hull(type_, wanted)])
    ]
    if WILDCARD in parts:
        return []
    left = IntervalSet(source.type, parts)
    return [Punctuation.of(schema, **{source.name: gap}) for gap in (~left).patterns()]


def _both(some: list[Punctuation], others: list[Punctuation]) -> list[Punctuation]:
    """What each pair of some and others says in common."""
    if len(some) * len(others) > COMBINATIONS:
        return []
    combinations = (combine(p, q) for p in some for q in others)
    return list(dict.fromkeys(c for c in combinations if c is not None))


def _folded(e: Expression) -> Expression:
    """A call of constants as its value. Other expressions, and calls that fail, stay as they are."""
    if not (isinstance(e, Call) and e.constant and e.type.comparable):
        return e
    (results,), reasons = compiled(e).run(pl.DataFrame({"row": [0]}))
    return e if reasons is not None else Literal(e.type, results[0] is None, results[0])


def _described(record: Function, args: Sequence[Expression], forward: bool) -> tuple[Pattern, bool] | None:
    """A comparison with constants as a pattern, and whether it is true of its values or of all others.

    None if it is no comparison, or if the place of a constant is not known.
    """
    holds, type_ = record.holds, args[0 if forward else -1].type
    if record is not IN and holds is None:
        return None
    constants = args[1:] if forward else args[:-1]
    places = [_places(type_, c) for c in constants]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return None
    if holds is None:
        return pt.values(type_, (c.value for c in constants if isinstance(c, Literal))), True
    below, at, above = holds if forward else holds[::-1]
    first, _ = ends(type_)
    ((before, after),) = known
    if below == above:
        return between(type_, before, after), at
    return between(type_, first, after if at == below else before), below


def _places(type_: Type, constant: Expression) -> tuple[Cut, Cut] | None:
    """The places just before and just after a constant, among the values of a type. None: not known."""
    if not isinstance(constant, Literal) or constant.value is None:
        return None
    value = constant.value
    if constant.type == type_:
        (around,) = cuts(pt.constant(type_, value))
        return around
    numbers = type_.numeric and constant.type.numeric
    if not numbers or type_ is DOUBLE or (constant.type is DOUBLE and not math.isfinite(value)):
        return None
    exact = Fraction(value) * 10 ** (type_.scale if isinstance(type_, DecimalType) else 0)
    return (0, math.ceil(exact), 0), (0, math.floor(exact) + 1, 0)
