"""The minimal engine: the least required output of a query, computed from M. The checker must accept it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from tests.oracle.cql.checker import Checker, Output
from tests.oracle.cql.feeds import timestamp
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import WILDCARD, Pattern

_TYPES = {"int": INT, "str": STRING, "float": DOUBLE, "bool": BOOLEAN, "date": DATE, "datetime": TIMESTAMP}


def reference(checker: Checker, slices: Sequence[int]) -> Iterator[Output]:
    """The complete tuples after each slice, a promise per tuple by its values, and the end marker."""
    out: dict[Any, int] = {}
    for position in slices:
        closed, answers = checker.at(position)
        tuples: list[Row] = []
        for key, n in checker.final.counts.items():
            e, at = checker.final.tuples[key], key[1]
            if key not in out and at <= closed.bound(checker.query, e):
                out[key] = n
                ts = None if checker.time.is_formal(at) else timestamp(checker.type, at)
                tuples += [(*e, ts)] * n if checker.is_stream else [(*e, ts, n)]
        rows = {e for answer in answers for e in answer.tuples.values()}
        bounds = {e: closed.bound(checker.query, e) for e in rows}
        ps = [promise(checker, e, b) for e, b in bounds.items() if b > checker.time.low]
        wide = len(next(iter(bounds), ()))
        if closed.is_over(checker.query):
            ps.append(promise(checker, (None,) * wide, closed.time.high))
        yield Output(position, tuples, ps)


def promise(checker: Checker, e: Row, bound: float) -> Punctuation:
    """<e, at=(,bound]>; the pattern of a null is ``*``, which the bound of a null allows."""
    types = [None if v is None else _type(v) for v in e]
    pattern = [WILDCARD if t is None else pt.constant(t, v) for t, v in zip(types, e, strict=True)]
    at: Pattern = WILDCARD
    if bound < checker.time.high:
        at = pt.interval(checker.type, None, timestamp(checker.type, int(bound)), False, True)
    names: list[tuple[str, Type]] = [(f"c{i}", t or INT) for i, t in enumerate(types)]
    names += [("at", checker.type)] if checker.is_stream else [("at", checker.type), ("diff", INT)]
    schema = Schema.of([Attribute(name, t) for name, t in names])
    return Punctuation(schema, [*pattern, at, *([] if checker.is_stream else [WILDCARD])])


def _type(v: Any) -> Type:
    if isinstance(v, Decimal):
        return decimal(38, -int(v.as_tuple().exponent))
    return _TYPES[type(v).__name__]
