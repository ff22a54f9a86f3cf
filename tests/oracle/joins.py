"""The cumulative invariants of the joins (SEMANTICS 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle import relational
from tests.oracle.operators import Oracle, Port, Ports, Promise, closed, match
from tests.oracle.relational import PRESERVED, Residual
from tests.oracle.values import Row
from xmlpunct.punctuations.pattern import Pattern
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

Pairs = Sequence[tuple[str, str]]
KPatterns = list[Pattern]
"""A punctuation on the equality attributes k alone."""


def everything(patterns: Sequence[Pattern]) -> bool:
    """Whether every pattern is ``*``."""
    return all(str(x) == "*" for x in patterns)


class Keys:
    """The equality attributes k: their places, and what closes values of them."""

    def __init__(self, left: Schema, right: Schema, pairs: Pairs) -> None:
        self.schemas = (left, right)
        self.pairs = [(left.index(a), right.index(b)) for a, b in pairs]
        self.places = tuple([pair[side] for pair in self.pairs] for side in (0, 1))

    def of(self, side: int, t: Row) -> list[Any]:
        """t.k"""
        return [t[i] for i in self.places[side]]

    def join_ps(self, side: int, port: Port) -> list[KPatterns]:
        """joinPs: the k-parts of the punctuations that are closed on every attribute outside k."""
        return [
            [p.patterns[i] for i in self.places[side]]
            for p in port.ps
            if all(
                closed(a, x)
                for i, (a, x) in enumerate(zip(self.schemas[side], p.patterns, strict=True))
                if i not in self.places[side]
            )
        ]

    def settled(self, side: int, t: Row, ports: Ports) -> bool:
        """Whether no partner of ``t`` can come any more: k has a null, or the other input has closed it."""
        k = self.of(side, t)
        if None in k:
            return True
        return any(said(k, c) for c in self.join_ps(1 - side, ports[1 - side]))

    def ckeep(self, ports: Ports) -> list[list[Row]]:
        """[t | t in ts, setNomatch(t.k, joinPs(the other's))]; a null k is never stored."""
        return [
            [t for t in port.ts if not self.settled(side, t, ports)] for side, port in enumerate(ports[:2])
        ]


def said(values: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Whether patterns match values."""
    return all(x.matches(v) for v, x in zip(values, patterns, strict=True))


def join(left: Schema, right: Schema, pairs: Pairs, kind: str, residual: Residual | None = None) -> Oracle:
    """inner, left, right, full."""
    keys, widths, preserved = Keys(left, right, pairs), (len(left), len(right)), PRESERVED[kind]
    matched = relational.join("inner" if kind == "inner" else "left", widths, keys.pairs, residual)

    def parts(u: Row) -> tuple[Row, Row]:
        """An output tuple's left and right part, k in both."""
        if kind != "inner":
            return u[: widths[0]], u[widths[0] :]
        rest = iter(u[widths[0] :])
        from_left = {j: u[i] for i, j in keys.pairs}
        return u[: widths[0]], tuple(from_left[j] if j in from_left else next(rest) for j in range(widths[1]))

    def cpass(ports: Ports) -> list[Row]:
        """All pairs so far; beside nulls what is settled and has found no partner."""
        ts1, ts2 = ports[0].ts, ports[1].ts
        found = []
        if kind == "inner":
            return matched(ts1, ts2)
        for t in ts1:
            rows = matched([t], ts2)
            alone = not any(relational.partners(t, u, keys.pairs, residual) for u in ts2)
            if not alone or (preserved[0] and keys.settled(0, t, ports)):
                found += rows
        if preserved[1]:
            for u in ts2:
                if keys.settled(1, u, ports) and not any(
                    relational.partners(t, u, keys.pairs, residual) for t in ts1
                ):
                    found.append((*[None] * widths[0], *u))
        return found

    def cprop(ports: Ports) -> Promise:
        """What may be said of the output, by each side and (full) by both."""
        kept = keys.ckeep(ports)
        closings = [keys.join_ps(side, ports[side]) for side in (0, 1)]
        free = [[p for p in ports[side].ps if not any(match(t, p) for t in kept[side])] for side in (0, 1)]
        ended = all(any(everything(p.patterns) for p in port.ps) for port in ports[:2])
        over = ended and not any(kept)

        def by(side: int, t: Row) -> bool:
            """Whether this side's punctuations say that no output tuple with its part ``t`` comes.

            If the other side is preserved, tuples that come from there have nulls for ``t``: nobody spoke of them.
            """
            mute = preserved[1 - side] and all(v is None for v in t)
            if any(match(t, p) and not (mute and everything(p.patterns)) for p in free[side]):
                return True
            if not preserved[side]:
                return False
            k = keys.of(side, t)
            return any(
                match(t, p) and said(k, c) and not (mute and everything([*p.patterns, *c]))
                for p in ports[side].ps
                for c in closings[1 - side]
            )

        def promised(u: Row) -> bool:
            return over or any(by(side, t) for side, t in enumerate(parts(u)))

        return promised

    return Oracle(cpass, cprop, keys.ckeep)


def semijoin(
    left: Schema, right: Schema, pairs: Pairs, anti: bool, residual: Residual | None = None
) -> Oracle:
    """semi and anti (NOT EXISTS). A left tuple is dropped at its first match."""
    keys = Keys(left, right, pairs)

    def matched(t: Row, ports: Ports) -> bool:
        return any(relational.partners(t, u, keys.pairs, residual) for u in ports[1].ts)

    def cpass(ports: Ports) -> list[Row]:
        if not anti:
            return [t for t in ports[0].ts if matched(t, ports)]
        return [t for t in ports[0].ts if not matched(t, ports) and keys.settled(0, t, ports)]

    def ckeep(ports: Ports) -> list[list[Row]]:
        waiting, others = keys.ckeep(ports)
        return [[t for t in waiting if not matched(t, ports)], others]

    def cprop(ports: Ports) -> Promise:
        """left p; semi: right p on k alone, moved to the left's names. Both when nothing retained matches."""
        waiting, others = ckeep(ports)
        free = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        moved = [
            c
            for c in ([] if anti else keys.join_ps(1, ports[1]))
            if not any(said(keys.of(1, u), c) for u in others)
        ]
        return lambda u: any(match(u, p) for p in free) or any(said(keys.of(0, u), c) for c in moved)

    return Oracle(cpass, cprop, ckeep)


def not_in(left: Schema, right: Schema, left_column: str, right_column: str) -> Oracle:
    """NOT IN where nulls can occur: nothing before the right side has ended; one null there cancels all."""
    keys = Keys(left, right, [(left_column, right_column)])
    i, j = keys.pairs[0]
    result = relational.not_in(i, j)

    def ended(ports: Ports) -> bool:
        return any(everything(p.patterns) for p in ports[1].ps)

    def cpass(ports: Ports) -> list[Row]:
        return result(ports[0].ts, ports[1].ts) if ended(ports) else []

    def ckeep(ports: Ports) -> list[list[Row]]:
        values = relational.distinct([(u[j],) for u in ports[1].ts])
        asked = [v for v in values if not any(said(v, c) for c in keys.join_ps(0, ports[0]))]
        nulls = [v for v in asked if v == (None,)]
        return [[] if ended(ports) else result(ports[0].ts, ports[1].ts), nulls or asked]

    def cprop(ports: Ports) -> Promise:
        waiting, _ = ckeep(ports)
        free: list[Punctuation] = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        return lambda u: any(match(u, p) for p in free)

    return Oracle(cpass, cprop, ckeep)
