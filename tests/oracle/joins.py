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
"""The patterns of a punctuation on the equality attributes k alone."""


def all_wildcards(patterns: Sequence[Pattern]) -> bool:
    """Whether every pattern is ``*``."""
    return all(str(x) == "*" for x in patterns)


class Keys:
    """The equality attributes k: their positions, and the punctuations that close their values.

    ``conceivable``: all tuples that each side can have, one for each set that punctuations can distinguish.
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
        self.positions = tuple([pair[side] for pair in self.pairs] for side in (0, 1))
        self.residual, self.conceivable = residual, conceivable
        ks = {
            tuple(map(same, k)): k
            for side in (0, 1)
            for k in (self.key_of(side, t) for t in conceivable[side])
        }
        self._with_any_k = [self._with(side, list(ks.values())) for side in (0, 1)]

    def _with(self, side: int, ks: Sequence[Sequence[Any]]) -> list[Row]:
        """The conceivable tuples of a side, combined with each of the values ``ks`` of k."""
        positions = self.positions[side]
        parts = relational.distinct(
            [tuple(v for i, v in enumerate(t) if i not in positions) for t in self.conceivable[side]]
        )
        rows = []
        for t, k in product(parts, ks):
            at, values = dict(zip(positions, k, strict=True)), iter(t)
            rows.append(tuple(at[i] if i in at else next(values) for i in range(len(self.schemas[side]))))
        return rows

    def key_of(self, side: int, t: Row) -> list[Any]:
        """The values t.k."""
        return [t[i] for i in self.positions[side]]

    def join_ps(self, side: int, port: Port) -> list[KPatterns]:
        """joinPs of single punctuations: the k-parts of punctuations that close every attribute outside k."""
        return [
            [p.patterns[i] for i in self.positions[side]]
            for p in port.ps
            if all(
                closed(a, x)
                for i, (a, x) in enumerate(zip(self.schemas[side], p.patterns, strict=True))
                if i not in self.positions[side]
            )
        ]

    def closes(self, side: int, ports: Ports) -> Callable[[Row], bool]:
        """joinPs: whether one or several punctuations close values of k; only ``*`` closes null."""
        return lasting(ports[side].ps, self.positions[side], self._with_any_k[side])

    def partners(self, side: int, t: Row, candidates: Sequence[Row]) -> bool:
        """Whether a side's tuple joins with any of ``candidates``, tuples of the other side."""
        return any(
            relational.partners(*((t, u) if side == 0 else (u, t)), self.pairs, self.residual)
            for u in candidates
        )

    def settling(self, side: int, ports: Ports) -> Callable[[Row], bool]:
        """Whether no partner of a side's tuple can arrive any more."""
        other = 1 - side
        may_come = [u for u in self.conceivable[other] if not set_match(u, ports[other].ps)]
        return lambda t: not self.partners(side, t, may_come)

    def ckeep(self, ports: Ports) -> list[list[Row]]:
        """[t | t in ts, setNomatch(t.k, joinPs(other side))]; a tuple with a null k is never stored."""
        retained = []
        for side, port in enumerate(ports[:2]):
            is_settled = self.settling(side, ports)
            retained.append([t for t in port.ts if not is_settled(t)])
        return retained


def match_all(values: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Whether all patterns match their values."""
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
    """inner, left, right, full; ``combines``: a tuple that both sides together exclude is promised at once."""
    widths, preserved = (len(left), len(right)), PRESERVED[kind]
    keys = Keys(left, right, pairs, residual, conceivable)
    pairing = relational.join("inner", widths, () if kind != "inner" else keys.pairs, residual)

    def parts(u: Row) -> tuple[Row, Row]:
        """The left and right parts of an output tuple, with k in both."""
        if kind != "inner":
            return u[: widths[0]], u[widths[0] :]
        right_values = iter(u[widths[0] :])
        from_left = {j: u[i] for i, j in keys.pairs}
        return u[: widths[0]], tuple(
            from_left[j] if j in from_left else next(right_values) for j in range(widths[1])
        )

    def cpass(ports: Ports) -> list[Row]:
        """All pairs so far, and settled tuples without a partner, padded with nulls."""
        ts = ports[0].ts, ports[1].ts
        rows = [row for t in ts[0] for u in ts[1] if keys.partners(0, t, [u]) for row in pairing([t], [u])]
        for side in (0, 1):
            if not preserved[side]:
                continue
            is_settled = keys.settling(side, ports)
            unmatched = [t for t in ts[side] if is_settled(t) and not keys.partners(side, t, ts[1 - side])]
            nulls = (None,) * widths[1 - side]
            rows += [(*t, *nulls) if side == 0 else (*nulls, *t) for t in unmatched]
        return rows

    def cprop(ports: Ports) -> Promise:
        """The promises for the output, from each side and from both."""
        retained = keys.ckeep(ports)
        closes = [keys.closes(side, ports) for side in (0, 1)]
        free = [
            [p for p in ports[side].ps if not any(match(t, p) for t in retained[side])] for side in (0, 1)
        ]
        ended = all(any(all_wildcards(p.patterns) for p in port.ps) for port in ports[:2])
        over = ended and not any(retained)

        def applies(side: int, t: Row, p: Punctuation) -> bool:
            """Whether a side's punctuation applies to output tuples with its part ``t``.

            If the other side is preserved, its unmatched tuples have nulls for ``t``; the punctuation excludes none
            of them.
            """
            is_padding = preserved[1 - side] and all(v is None for v in t)
            return match(t, p) and not (is_padding and all_wildcards(p.patterns))

        def excludes(side: int, t: Row) -> bool:
            """Whether this side's punctuations exclude output tuples with its part ``t``."""
            if any(applies(side, t, p) for p in free[side]):
                return True
            if not preserved[side] or (preserved[1 - side] and all(v is None for v in t)):
                return False
            return closes[1 - side](tuple(keys.key_of(side, t))) and any(match(t, p) for p in ports[side].ps)

        def promised(u: Row) -> bool:
            sides = list(enumerate(parts(u)))
            if over or any(excludes(side, t) for side, t in sides):
                return True
            return combines and all(any(applies(side, t, p) for p in ports[side].ps) for side, t in sides)

        return promised

    def owes(ports: Ports) -> Promise:
        """`cprop` for possible output tuples: k has the same value on both sides, or a null."""
        promised = cprop(ports)

        def is_owed(u: Row) -> bool:
            values = zip(*(keys.key_of(side, t) for side, t in enumerate(parts(u))), strict=True)
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
    """semi and anti (NOT EXISTS). The state drops a left tuple at its first match."""
    keys = Keys(left, right, pairs, residual, conceivable)

    def cpass(ports: Ports) -> list[Row]:
        ts1, ts2 = ports[0].ts, ports[1].ts
        if not anti:
            return [t for t in ts1 if keys.partners(0, t, ts2)]
        is_settled = keys.settling(0, ports)
        return [t for t in ts1 if is_settled(t) and not keys.partners(0, t, ts2)]

    def ckeep(ports: Ports) -> list[list[Row]]:
        waiting, right_tuples = keys.ckeep(ports)
        return [[t for t in waiting if not keys.partners(0, t, ports[1].ts)], right_tuples]

    def promises(ports: Ports, jointly: bool) -> Promise:
        """left p; semi: right p on k alone, renamed to the left's attributes; both if no retained tuple matches.

        Also the combination of a left p and a closed k. ``jointly``: several right punctuations may close k for a
        semijoin.
        """
        waiting, right_tuples = ckeep(ports)
        free = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        moved = [
            c
            for c in ([] if anti else keys.join_ps(1, ports[1]))
            if not any(match_all(keys.key_of(1, u), c) for u in right_tuples)
        ]
        closes, asked = keys.closes(1, ports), {tuple(map(same, keys.key_of(1, u))) for u in right_tuples}

        def promised(u: Row) -> bool:
            k = tuple(keys.key_of(0, u))
            if any(match(u, p) for p in free) or any(match_all(k, c) for c in moved):
                return True
            if not closes(k):
                return False
            closed_jointly = jointly and not anti and tuple(map(same, k)) not in asked
            return closed_jointly or any(match(u, p) for p in ports[0].ps)

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
    """NOT IN with possible nulls: releases no tuple before the right side ends; one null there empties the result.

    If the right side has no nulls, a left row without a null is settled once the right side has closed its value.
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
