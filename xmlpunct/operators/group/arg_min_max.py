"""ARG_MIN and ARG_MAX, and aggregates that are computed by MIN, MAX and COUNT."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xmlpunct.expressions.expression import Doc, Expression
from xmlpunct.expressions.functions.casts import NULL, literal, of_type
from xmlpunct.expressions.functions.conditions import CASE
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate, AggregateFunction
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DOUBLE, Type


@dataclass(frozen=True)
class Best(Accumulator):
    """The first value of the order's column (``order_type``), and the least argument of the tuples that have it.

    A tuple in which one of the two is null does not count.
    """

    order_type: Type = BOOLEAN

    def partials(self) -> list[pl.Expr]:
        argument, order = pl.col(str(self.aggregate.argument)), pl.col(self.aggregate.order[0].column)
        return self._best(argument, pl.when(argument.is_not_null()).then(order))

    def merges(self) -> list[pl.Expr]:
        return self._best(pl.col(self._name("value")), pl.col(self._name("best")))

    def empty(self) -> dict[str, object]:
        return {self._name("best"): None, self._name("value"): None}

    def finish(self, groups: pl.DataFrame) -> pl.Series:
        return groups[self._name("value")]

    def _best(self, argument: pl.Expr, order: pl.Expr) -> list[pl.Expr]:
        if self.aggregate.order[0].descending:
            best = order.nan_max() if self.order_type is DOUBLE else order.max()
        else:
            best = order.min()
        value = argument.filter(order == best).min().alias(self._name("value"))
        return [best.alias(self._name("best")), value]

    def _columns(self) -> dict[str, Type]:
        return {self._name("best"): self.order_type, self._name("value"): self.type}


def _best(a: Aggregate, type_: Type, prefix: str, schema: Schema) -> Accumulator:
    return Best(a, type_, prefix, schema[a.order[0].column].type)


def _if(name: str, condition: Expression) -> Expression:
    return CASE(of_type(name, condition, BOOLEAN), literal(BOOLEAN, True), NULL)


def _boolean(name: str, argument: Expression) -> Expression:
    return of_type(name, argument, BOOLEAN)


# fmt: off
ARG_MIN = AggregateFunction(
    "ARG_MIN", Doc("ARG_MIN(x, y), MIN_BY(x, y)",
    "The x of the tuple with the least y; if several have it, the least x."),
    called=("ARG_MIN", "MIN_BY"), once=True, best=True, accumulator=_best)
ARG_MAX = AggregateFunction(
    "ARG_MAX", Doc("ARG_MAX(x, y), MAX_BY(x, y)",
    "The x of the tuple with the greatest y; if several have it, the least x."),
    called=("ARG_MAX", "MAX_BY"), once=True, best=True, accumulator=_best)
COUNT_IF = AggregateFunction(
    "COUNT_IF", Doc("COUNT_IF(condition)", "The number of tuples for which the condition is true."),
    called=("COUNT_IF", "COUNTIF"),
    stands_for="COUNT", before=_if)
ANY_VALUE = AggregateFunction(
    "ANY_VALUE", Doc("ANY_VALUE(x)", "One of the values: always the least, so that results repeat."),
    called=("ANY_VALUE",),
    stands_for="MIN")
BOOL_AND = AggregateFunction(
    "BOOL_AND", Doc("BOOL_AND(condition)", "True if the condition is true for all tuples; null is ignored."),
    called=("BOOL_AND", "EVERY"), stands_for="MIN", before=_boolean)
BOOL_OR = AggregateFunction(
    "BOOL_OR", Doc("BOOL_OR(condition)", "True if the condition is true for some tuple."), called=("BOOL_OR",),
    stands_for="MAX", before=_boolean)
