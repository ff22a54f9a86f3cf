"""The cumulative invariants of the joins (semantics 4.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from tests.oracle import relational
from tests.oracle.operators import Oracle, Port, Ports, Promise, closed, lasting, match, set_match
from tests.oracle.relational import PRESERVED, Residual
from tests.oracle.values import Row, same
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import Pattern

Pairs = Sequence[tuple[str, str]]
KPatterns = list[Pattern]
"""A punctuation on the equality attributes k alone."""


def everything(patterns: Sequence[Pattern]) -> bool:
    """Whether every pattern is ``*``."""
    return all(str(x) == "*" for x in patterns)


class Keys:
    """The equality attributes k: their places, and what closes values of them.

    ``conceivable`` are all tuples that may come on each side, as far as punctuations tell them apart.
    """

    def __init__(
        self,
        left: Schema,
        right: Schema,
        pairs: Pairs,
        residual: Residual | None,
        conceivable: Sequence[Sequence[Row]],
    ) -> None:
        self.schemas = (left, right)
        self.pairs = [(left.index(a), right.index(b)) for a, b in pairs]
        self.places = tuple([pair[side] for pair in self.pairs] for side in (0, 1))
        self.residual, self.conceivable = residual, conceivable
        ks = {
            tuple(map(same, k)): k for side in (0, 1) for k in (self.of(side, t) for t in conceivable[side])
        }
        self._with_any_k = [self._with(side, list(ks.values())) for side in (0, 1)]

    def _with(self, side: int, ks: Sequence[Sequence[Any]]) -> list[Row]:
        """The conceivable tuples of a side, with any of some values of k."""
        places = self.places[side]
        rest = relational.distinct(
            [tuple(v for i, v in enumerate(t) if i not in places) for t in self.conceivable[side]]
        )
        found = []
        for t, k in product(rest, ks):
            at, others = dict(zip(places, k, strict=True)), iter(t)
            found.append(tuple(at[i] if i in at else next(others) for i in range(len(self.schemas[side]))))
        return found

    def of(self, side: int, t: Row) -> list[Any]:
        """t.k"""
        return [t[i] for i in self.places[side]]

    def join_ps(self, side: int, port: Port) -> list[KPatterns]:
        """joinPs of single punctuations: the k-parts of those that are closed on every attribute outside k."""
        return [
            [p.patterns[i] for i in self.places[side]]
            for p in port.ps
            if all(
                closed(a, x)
                for i, (a, x) in enumerate(zip(self.schemas[side], p.patterns, strict=True))
                if i not in self.places[side]
            )
        ]

    def closes(self, side: int, ports: Ports) -> Callable[[Row], bool]:
        """joinPs: whether punctuations close values of k, alone or together; so null by ``*`` alone."""
        return lasting(ports[side].ps, self.places[side], self._with_any_k[side])

    def partners(self, side: int, t: Row, others: Sequence[Row]) -> bool:
        """Whether a side's tuple makes a pair with any of the other side's."""
        return any(
            relational.partners(*((t, u) if side == 0 else (u, t)), self.pairs, self.residual) for u in others
        )

    def settling(self, side: int, ports: Ports) -> Callable[[Row], bool]:
        """Whether no partner of a side's tuple can come any more."""
        other = 1 - side
        may_come = [u for u in self.conceivable[other] if not set_match(u, ports[other].ps)]
        return lambda t: not self.partners(side, t, may_come)

    def ckeep(self, ports: Ports) -> list[list[Row]]:
        """[t | t in ts, setNomatch(t.k, joinPs(the other's))]; a null k is never stored."""
        kept = []
        for side, port in enumerate(ports[:2]):
            is_settled = self.settling(side, ports)
            kept.append([t for t in port.ts if not is_settled(t)])
        return kept


def said(values: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Whether patterns match values."""
    return all(x.matches(v) for v, x in zip(values, patterns, strict=True))


def join(
    left: Schema,
    right: Schema,
    pairs: Pairs,
    kind: str,
    conceivable: Sequence[Sequence[Row]],
    residual: Residual | None = None,
    combines: bool = False,
) -> Oracle:
    """inner, left, right, full; ``combines``: what both sides have promised together is promised at once."""
    widths, preserved = (len(left), len(right)), PRESERVED[kind]
    keys = Keys(left, right, pairs, residual, conceivable)
    pairing = relational.join("inner", widths, () if kind != "inner" else keys.pairs, residual)

    def parts(u: Row) -> tuple[Row, Row]:
        """An output tuple's left and right part, k in both."""
        if kind != "inner":
            return u[: widths[0]], u[widths[0] :]
        rest = iter(u[widths[0] :])
        from_left = {j: u[i] for i, j in keys.pairs}
        return u[: widths[0]], tuple(from_left[j] if j in from_left else next(rest) for j in range(widths[1]))

    def cpass(ports: Ports) -> list[Row]:
        """All pairs so far; beside nulls what is settled and has found no partner."""
        ts = ports[0].ts, ports[1].ts
        found = [row for t in ts[0] for u in ts[1] if keys.partners(0, t, [u]) for row in pairing([t], [u])]
        for side in (0, 1):
            if not preserved[side]:
                continue
            is_settled = keys.settling(side, ports)
            alone = [t for t in ts[side] if is_settled(t) and not keys.partners(side, t, ts[1 - side])]
            nulls = (None,) * widths[1 - side]
            found += [(*t, *nulls) if side == 0 else (*nulls, *t) for t in alone]
        return found

    def cprop(ports: Ports) -> Promise:
        """What may be said of the output, by each side and by both."""
        kept = keys.ckeep(ports)
        closes = [keys.closes(side, ports) for side in (0, 1)]
        free = [[p for p in ports[side].ps if not any(match(t, p) for t in kept[side])] for side in (0, 1)]
        ended = all(any(everything(p.patterns) for p in port.ps) for port in ports[:2])
        over = ended and not any(kept)

        def speaks(side: int, t: Row, p: Punctuation) -> bool:
            """Whether a side's punctuation is about output tuples with its part ``t``.

            If the other side is preserved, tuples that come from there have nulls for ``t``: nobody spoke of them.
            """
            mute = preserved[1 - side] and all(v is None for v in t)
            return match(t, p) and not (mute and everything(p.patterns))

        def by(side: int, t: Row) -> bool:
            """Whether this side's punctuations say that no output tuple with its part ``t`` comes."""
            if any(speaks(side, t, p) for p in free[side]):
                return True
            if not preserved[side] or (preserved[1 - side] and all(v is None for v in t)):
                return False
            return closes[1 - side](tuple(keys.of(side, t))) and any(match(t, p) for p in ports[side].ps)

        def promised(u: Row) -> bool:
            both = list(enumerate(parts(u)))
            if over or any(by(side, t) for side, t in both):
                return True
            return combines and all(any(speaks(side, t, p) for p in ports[side].ps) for side, t in both)

        return promised

    def owes(ports: Ports) -> Promise:
        """The same of output tuples that can be: k has one value, or a null, on both sides."""
        promised = cprop(ports)

        def is_owed(u: Row) -> bool:
            values = zip(*(keys.of(side, t) for side, t in enumerate(parts(u))), strict=True)
            return all(None in k or same(k[0]) == same(k[1]) for k in values) and promised(u)

        return is_owed

    return Oracle(cpass, cprop, keys.ckeep, owes)


def semijoin(
    left: Schema,
    right: Schema,
    pairs: Pairs,
    anti: bool,
    conceivable: Sequence[Sequence[Row]],
    residual: Residual | None = None,
) -> Oracle:
    """semi and anti (NOT EXISTS). A left tuple is dropped at its first match."""
    keys = Keys(left, right, pairs, residual, conceivable)

    def cpass(ports: Ports) -> list[Row]:
        ts1, ts2 = ports[0].ts, ports[1].ts
        if not anti:
            return [t for t in ts1 if keys.partners(0, t, ts2)]
        is_settled = keys.settling(0, ports)
        return [t for t in ts1 if is_settled(t) and not keys.partners(0, t, ts2)]

    def ckeep(ports: Ports) -> list[list[Row]]:
        waiting, others = keys.ckeep(ports)
        return [[t for t in waiting if not keys.partners(0, t, ports[1].ts)], others]

    def promises(ports: Ports, jointly: bool) -> Promise:
        """left p; semi: right p on k alone, moved to the left's names. Both when nothing retained matches.

        And what a left p and a closed k say together. ``jointly``: several right ones may close k for a semijoin.
        """
        waiting, others = ckeep(ports)
        free = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        moved = [
            c
            for c in ([] if anti else keys.join_ps(1, ports[1]))
            if not any(said(keys.of(1, u), c) for u in others)
        ]
        closes, asked = keys.closes(1, ports), {tuple(map(same, keys.of(1, u))) for u in others}

        def promised(u: Row) -> bool:
            k = tuple(keys.of(0, u))
            if any(match(u, p) for p in free) or any(said(k, c) for c in moved):
                return True
            if not closes(k):
                return False
            alone = jointly and not anti and tuple(map(same, k)) not in asked
            return alone or any(match(u, p) for p in ports[0].ps)

        return promised

    return Oracle(
        cpass,
        lambda ports: promises(ports, jointly=True),
        ckeep,
        lambda ports: promises(ports, jointly=False),
    )


def not_in(
    left: Schema,
    right: Schema,
    left_column: str,
    right_column: str,
    conceivable: Sequence[Sequence[Row]],
) -> Oracle:
    """NOT IN where nulls can occur: nothing before the right side has ended; one null there cancels all.

    If none can come there, a left row without a null is settled once the right side has closed its value.
    """
    keys = Keys(left, right, [(left_column, right_column)], None, conceivable)
    i, j = keys.pairs[0]
    result = relational.not_in(i, j)

    without_nulls = not right[right_column].nullable

    def ended(ports: Ports) -> bool:
        return all(set_match(u, ports[1].ps) for u in conceivable[1])

    def settled(ports: Ports) -> Callable[[Row], bool]:
        is_settled, all_are = keys.settling(0, ports), ended(ports)
        return lambda t: all_are or (without_nulls and t[i] is not None and is_settled(t))

    def cpass(ports: Ports) -> list[Row]:
        is_settled = settled(ports)
        return [t for t in result(ports[0].ts, ports[1].ts) if is_settled(t)]

    def ckeep(ports: Ports) -> list[list[Row]]:
        values = relational.distinct([(u[j],) for u in ports[1].ts])
        closes = keys.closes(0, ports)
        asked = [v for v in values if not closes(v)]
        nulls = [v for v in asked if v == (None,)]
        is_settled = settled(ports)
        return [[t for t in result(ports[0].ts, ports[1].ts) if not is_settled(t)], nulls or asked]

    def cprop(ports: Ports) -> Promise:
        waiting, _ = ckeep(ports)
        free: list[Punctuation] = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        is_settled = settled(ports)
        return lambda u: any(match(u, p) for p in (ports[0].ps if is_settled(u) else free))

    return Oracle(cpass, cprop, ckeep)
