"""Punctuations that hold from the start of a stream, by a declared domain or a predicate."""

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
"""If a pattern has more gaps, only the outermost two are emitted: consumers must retain every punctuation."""
PIECES = 8
"""More values of an expression are replaced by the range around them: each preimage takes some 5 ms."""
COMBINATIONS = 256
"""Alternatives with more combinations imply no punctuation here. Speed did not determine this limit."""


def only_within(schema: Schema, name: str, pattern: Pattern) -> list[Punctuation]:
    """Punctuations that close all values of an attribute but null and the values of ``pattern``."""
    if pattern is WILDCARD:
        return []
    gaps = list(~IntervalSet(schema[name].type, [pattern]))
    if len(gaps) > GAPS:
        gaps = [gaps[0], gaps[-1]]
    return [Punctuation.of(schema, **{name: gap}) for gap in gaps]


def news(schema: Schema, punctuations: Iterable[Punctuation]) -> list[Punctuation]:
    """The distinct punctuations that the domains of the schema do not imply."""
    return [
        p
        for p in dict.fromkeys(punctuations)
        if all(schema.attributes[i].reach(p.patterns[i]) is not EMPTY for i in p.constrained)
    ]


def open_values(schema: Schema, punctuations: Iterable[Punctuation]) -> dict[str, IntervalSet]:
    """For each attribute, the values left open by the punctuations that constrain only that attribute."""
    values = dict[str, IntervalSet]()
    for p in punctuations:
        if len(p.constrained) == 1:
            (index,) = p.constrained
            a = schema.attributes[index]
            remaining = values.get(a.name, IntervalSet.everything(a.type))
            values[a.name] = remaining & ~IntervalSet(a.type, [p.patterns[index]])
    return values


def never(schema: Schema, predicate: Expression) -> list[Punctuation]:
    """Punctuations that match no tuple for which a predicate is true.

    They follow from comparisons of a column or a `Monotone` expression with constants, joined by AND, OR and NOT in any
    way. Other predicates imply none.
    """
    return unrolled(lambda way: _never(schema, *way), (predicate, True))


Way = tuple[Expression, bool]
"""A predicate, and the truth value for which punctuations are derived."""


def _never(
    schema: Schema, predicate: Expression, truth: bool
) -> Generator[Way, list[Punctuation], list[Punctuation]]:
    if isinstance(predicate, Column) and predicate.type is BOOLEAN:
        return only_within(schema, predicate.name, pt.constant(BOOLEAN, truth))
    if not isinstance(predicate, Call):
        return []
    record, args = predicate.record, [*map(_fold, predicate.args)]
    if record is NOT:
        return (yield args[0], not truth)
    if record in (AND, OR):
        by_operand = []
        for argument in predicate.operands:
            by_operand.append((yield argument, truth))
        # a conjunction is true only if every part is, and false only if some part is
        if (record is AND) == truth:
            return [p for derived in by_operand for p in derived]
        return reduce(_common_punctuations, by_operand)
    subject = args[-1] if isinstance(args[0], Literal) else args[0]
    monotone = Monotone.of(subject)
    if not isinstance(subject, Column) and monotone is None:
        return []
    type_ = subject.type
    if record is IS_NULL and isinstance(subject, Column):
        all_values = pt.interval(type_, None, None, False, False)
        return [Punctuation.of(schema, **{subject.name: all_values})] if truth else []
    comparison = _comparison(record, args, subject is args[0])
    if comparison is None:
        return []
    pattern, holds_inside = comparison
    if isinstance(subject, Column):
        if truth == holds_inside:
            return only_within(schema, subject.name, pattern)
        return [Punctuation.of(schema, **{subject.name: pattern})] if pattern is not EMPTY else []
    assert monotone is not None
    results = IntervalSet(type_, [pattern])
    possible = list(results if truth == holds_inside else ~results)
    source = schema[monotone.source]
    parts = [
        monotone.preimage(source, p)
        for p in (possible if len(possible) <= PIECES else [hull(type_, possible)])
    ]
    if WILDCARD in parts:
        return []
    open_values = IntervalSet(source.type, parts)
    return [Punctuation.of(schema, **{source.name: gap}) for gap in ~open_values]


def _common_punctuations(left: list[Punctuation], right: list[Punctuation]) -> list[Punctuation]:
    """The punctuations that ``left`` and ``right`` both imply: the combination of each pair."""
    if len(left) * len(right) > COMBINATIONS:
        return []
    combinations = (combine(p, q) for p in left for q in right)
    return list(dict.fromkeys(c for c in combinations if c is not None))


def _fold(e: Expression) -> Expression:
    """A call of constants as a literal. Other expressions, and calls that fail, are unchanged."""
    if not (isinstance(e, Call) and e.constant and e.type.comparable):
        return e
    (results,), reasons = compiled(e).run(pl.DataFrame({"row": [0]}))
    return e if reasons is not None else Literal(e.type, results[0] is None, results[0])


def _comparison(record: Function, args: Sequence[Expression], forward: bool) -> tuple[Pattern, bool] | None:
    """A comparison with constants: a pattern, and True if it holds for the values of the pattern, else its complement.

    None if it is no comparison, or if a constant has no known position among the values.
    """
    holds, type_ = record.holds, args[0 if forward else -1].type
    if record is not IN and holds is None:
        return None
    constants = args[1:] if forward else args[:-1]
    positions = [_cuts_around(type_, c) for c in constants]
    known_cuts = [pair for pair in positions if pair is not None]
    if len(known_cuts) < len(positions):
        return None
    if holds is None:
        return pt.values(type_, (c.value for c in constants if isinstance(c, Literal))), True
    less, equal, greater = holds if forward else holds[::-1]
    first, _ = ends(type_)
    ((before, after),) = known_cuts
    if less == greater:
        return between(type_, before, after), equal
    return between(type_, first, after if equal == less else before), less


def _cuts_around(type_: Type, constant: Expression) -> tuple[Cut, Cut] | None:
    """The cuts just before and just after a constant, among the values of a type. None if unknown."""
    if not isinstance(constant, Literal) or constant.value is None:
        return None
    value = constant.value
    if constant.type == type_:
        (interval,) = cuts(pt.constant(type_, value))
        return interval
    numbers = type_.numeric and constant.type.numeric
    if not numbers or type_ is DOUBLE or (constant.type is DOUBLE and not math.isfinite(value)):
        return None
    exact = Fraction(value) * 10 ** (type_.scale if isinstance(type_, DecimalType) else 0)
    return (0, math.ceil(exact), 0), (0, math.floor(exact) + 1, 0)
