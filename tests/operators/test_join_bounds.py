"""Interval joins of all types and spellings: results, rejects and state, against all pairs by brute force."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.oracle.values import Row, bag
from xmlpunct.engine.plan import Join
from xmlpunct.engine.sql import plan
from xmlpunct.expressions.conjunctions import conjuncts
from xmlpunct.expressions.program import Program
from xmlpunct.operators import Operator, run
from xmlpunct.operators.join.join_output import PRESERVED
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.slice import Slice
from xmlpunct.types import DATE, DOUBLE, INT, TIMESTAMP, Type, Value, decimal
from xmlpunct.types import pattern as pt

Table = tuple[NDArray[np.bool_], NDArray[np.bool_]]
CASES = 20
"""Cases per type and seed."""
NOON, DAY, MONEY = datetime(2024, 2, 28, 12, tzinfo=UTC), date(2024, 2, 28), decimal(9, 1)
HOUR, MICROSECOND = timedelta(hours=1), timedelta(microseconds=1)


@dataclass(frozen=True)
class Kind:
    """A type, its value number i (halves of a unit), and spellings that bound ``x.a`` and ``o.a`` by each other.

    In a spelling, ``{l}`` and ``{h}`` are numbers, and x and o may be swapped.
    """

    type: Type
    spellings: tuple[str, ...]

    def value(self, i: int) -> Value:
        if self.type is INT:
            return i
        if self.type is DOUBLE:
            return i / 2
        if self.type is DATE:
            return DAY + timedelta(days=i)
        return NOON + i * HOUR / 2 if self.type is TIMESTAMP else Decimal(i).scaleb(-1)

    def around(self, value: Value) -> list[Value]:
        """A value and its neighbours."""
        if self.type is DOUBLE:
            return [math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf)]
        return [value - MICROSECOND, value, value + MICROSECOND] if self.type is TIMESTAMP else [value]


NUMBERS = (
    "x.a BETWEEN o.a - {l} AND o.a + {h}",
    "x.a >= o.a AND x.a < o.a + {h}",
    "x.a - {l} <= o.a AND o.a - {h} <= x.a",
    "o.a + {l} > x.a AND x.a + {h} > o.a",
    "x.a <= o.a + {h}",
    "2 * x.a BETWEEN o.a AND o.a + {h}",
    "-x.a <= {l} - o.a AND x.a <= {h} + o.a",
    "x.a BETWEEN o.a + {l} AND o.a + {l} + {h}",
)
EXACT = (
    "x.a - o.a <= {l} AND o.a - x.a < {h}",
    "ABS(x.a - o.a) <= {h}",
    "{l} >= ABS(o.a - x.a + 1)",
    "x.a - o.a BETWEEN -{l} AND {h}",
    "x.a - o.a > {l} AND x.a - {h} - o.a <= {l}",
)
KINDS = {
    "INT": Kind(
        INT,
        (
            *NUMBERS,
            *EXACT,
            "x.a / 3 BETWEEN o.a / 3 AND (o.a + {h}) / 3",
            "x.a BETWEEN o.a - {l}.5 AND o.a + {h}.5",
            "x.a * 1e0 <= o.a + 1e0",
        ),
    ),
    "DECIMAL(9,1)": Kind(MONEY, (*NUMBERS, *EXACT, "x.a BETWEEN o.a - 0.25 AND o.a + 0.25")),
    "DOUBLE": Kind(DOUBLE, (*NUMBERS, "x.a / 2 >= o.a AND x.a / 2 <= o.a + {h}")),
    "DATE": Kind(
        DATE,
        (
            "x.a BETWEEN o.a - {l} AND o.a + {h}",
            "x.a - {l} <= o.a AND o.a - {h} <= x.a",
            "x.a - o.a BETWEEN -{l} AND {h}",
            "ABS(x.a - o.a) < {h}",
            "DATE_TRUNC('month', x.a) BETWEEN DATE_TRUNC('month', o.a) AND DATE_TRUNC('month', o.a)",
            "CAST(x.a AS TIMESTAMP) >= o.a - INTERVAL '{l}' DAY AND o.a + 0 >= x.a - {h}",
            "CAST(o.a AS TIMESTAMP) >= x.a - INTERVAL '{h}' MONTH",
            "DATE_DIFF('day', o.a, x.a) BETWEEN 0 AND {h}",
        ),
    ),
    "TIMESTAMP": Kind(
        TIMESTAMP,
        (
            "x.a BETWEEN o.a AND o.a + INTERVAL '{h}' HOUR",
            "x.a BETWEEN o.a - INTERVAL '{l}' HOUR AND o.a + INTERVAL '{h}' MINUTE",
            "x.a - INTERVAL '{l}' HOUR <= o.a AND o.a - INTERVAL '{h}' HOUR < x.a",
            "DATE_DIFF('hour', o.a, x.a) BETWEEN -{l} AND {h}",
            "EPOCH_US(x.a) - EPOCH_US(o.a) BETWEEN 0 AND {h} * 3600000000",
            "DATE_TRUNC('day', x.a) BETWEEN DATE_TRUNC('day', o.a) AND DATE_TRUNC('day', o.a)",
            "TIME_BUCKET(INTERVAL '3' HOUR, x.a) <= TIME_BUCKET(INTERVAL '2' HOUR, o.a)",
            "x.a BETWEEN o.a AND o.a + INTERVAL '{l}' MONTH AND x.a <= o.a + INTERVAL '{h}' HOUR",
            "CAST(x.a AS DATE) BETWEEN CAST(o.a AS DATE) AND CAST(o.a AS DATE) + {l}",
        ),
    ),
}  # fmt: skip
BESIDE = (
    "",
    "",
    "",
    " AND 12 / x.v > o.v",
    " AND o.v <> x.v",
    " AND x.v > 0",
    " AND 6 / o.v >= 1 AND x.v + o.v > 0",
)
"""Conditions that bound no attribute; some can fail."""


class Case:
    """A join, its feeds, and the pairs in them."""

    def __init__(self, rng: random.Random, type_: str, spelling: str, kind: str) -> None:
        self.rng, self.kind, self.value_kind, self.type = rng, kind, KINDS[type_], KINDS[type_].type
        condition = spelling.format(l=rng.randint(1, 3), h=rng.randint(1, 6)) + rng.choice(BESIDE)
        keyed = rng.random() < 0.5
        if rng.random() < 0.5:
            condition = condition.replace("x.", "#.").replace("o.", "x.").replace("#.", "o.")
        self.sql = self._sql(type_, kind, condition, keyed)
        root = plan(self.sql).root
        ((self.node),) = root.find(Join)
        assert self.node.residual is not None
        self.parts = conjuncts(self.node.residual)
        self.schemas = [below.schema for below in self.node.inputs]
        self.names = [schema.names for schema in self.schemas]
        self.bound_positions = [self._position(side, "a") for side in (0, 1)]
        self.keys = [(self.names[0].index(a), self.names[1].index(b)) for a, b in self.node.keys]

    def _sql(self, type_: str, kind: str, condition: str, keyed: bool) -> str:
        declared = "".join(
            f"CREATE STREAM {name} (k INT, a {type_}, v INT) WITH (source = '-'); " for name in "xo"
        )
        on = f"{'x.k = o.k AND ' if keyed else ''}{condition}"
        if kind in ("semi", "anti"):
            negated = "NOT " if kind == "anti" else ""
            return f"{declared}SELECT * FROM x WHERE {negated}EXISTS (SELECT 1 FROM o WHERE {on})"
        columns = "x.k, x.a, x.v, o.k AS l, o.a AS b, o.v AS w"
        if kind == "inner" and self.rng.random() < 0.6:
            using = keyed and self.rng.random() < 0.5
            tables = "x JOIN o USING (k)" if using else "x, o"
            return f"{declared}SELECT x.a, x.v, o.a AS b, o.v AS w FROM {tables} WHERE {condition if using else on}"
        return f"{declared}SELECT {columns} FROM x {kind.upper()} JOIN o ON {on}"

    def _position(self, side: int, name: str) -> int:
        return next(i for i, n in enumerate(self.names[side]) if n.split(".")[-1] == name)

    def table(self, lefts: Sequence[Row], rights: Sequence[Row], bounds_only: bool = False) -> Table:
        """For each pair, whether it is a result, and whether it may be rejected.

        It may be rejected if a condition fails and the conditions that do not fail are true. With ``bounds_only``,
        conditions that bound no attribute count as true.
        """
        pairs = self.schemas[0].frame(lefts).join(self.schemas[1].frame(rights), how="cross")
        pairs = pairs.clone() if pairs.height else pairs
        agree, holds, fails = (np.full(pairs.height, yes) for yes in (True, True, False))
        for left, right in self.node.keys:
            agree &= (pairs[left] == pairs[right]).fill_null(False).to_numpy()
        for part in self.parts:
            if bounds_only and any(name.endswith(".v") for name in part.columns()):
                continue
            (values,), reasons = Program([("value", part)]).run(pairs)
            failed = np.full(pairs.height, False) if reasons is None else reasons.is_not_null().to_numpy()
            holds &= values.fill_null(False).to_numpy() | failed
            fails |= failed
        shape = len(lefts), len(rights)
        return (agree & holds & ~fails).reshape(shape), (agree & holds & fails).reshape(shape)

    def meets(self, lefts: Sequence[Row], rights: Sequence[Row]) -> NDArray[np.bool_]:
        return self.table(lefts, rights)[0]

    # Feeds

    def tuple_of(self, side: int, value: Value, k: Value = None, v: Value = None) -> Row:
        parts = {"k": k, "a": value, "v": v}
        return tuple(parts[name.split(".")[-1]] for name in self.names[side])

    def feed(self, side: int, values: Sequence[Value]) -> list[Row | Punctuation]:
        """Tuples with roughly rising values, and punctuations that close them."""
        rng, elements = self.rng, list[Row | Punctuation]()
        position = self.bound_positions[side]
        for at in range(len(values)):
            for _ in range(rng.randint(0, 2)):
                value = None if rng.random() < 0.1 else rng.choice(values[max(0, at - 2) :])
                elements.append(
                    self.tuple_of(side, value, rng.choice([1, 2, None]), rng.choice([None, 0, 1, 2]))
                )
            if rng.random() < 0.6:
                # a DOUBLE itself stays open: arithmetic on a larger value may round to the same result
                includes = rng.random() < 0.7 and self.type is not DOUBLE
                closed = pt.interval(self.type, None, values[at], False, includes)
                keyed = (
                    {self.names[side][self._position(side, "k")]: 1}
                    if self.keys and rng.random() < 0.3
                    else {}
                )
                elements.append(
                    Punctuation.of(self.schemas[side], **{self.names[side][position]: closed}, **keyed)
                )
        earlier: list[Punctuation] = []
        grammatical = list[Row | Punctuation]()
        for element in elements:
            if isinstance(element, Punctuation):
                earlier.append(element)
            elif any(match(element, p) for p in earlier):
                continue
            grammatical.append(element)
        return grammatical

    def operator(self) -> Operator:
        return self.node.operator()


class Run:
    """A case that is fed in slices and checked after each of them."""

    def __init__(
        self, case: Case, feeds: Sequence[list[Row | Punctuation]], conceivable: Sequence[Value] = ()
    ) -> None:
        self.case, self.feeds, self.operator = case, feeds, case.operator()
        self.all_tuples = [[e for e in feed if not isinstance(e, Punctuation)] for feed in feeds]
        self.arrived: list[list[Row]] = [[], []]
        self.received: list[list[Punctuation]] = [[], []]
        self.out: list[Row] = []
        self.rejects: list[str] = []
        self.conceivable = conceivable

    def feed(self, rng: random.Random) -> None:
        remaining = [list(feed) for feed in self.feeds]
        while any(remaining):
            side = rng.choice([s for s in (0, 1) if remaining[s]])
            size = rng.randint(1, 6)
            self.give(side, remaining[side][:size])
            remaining[side] = remaining[side][size:]
            self.judge()
        for side in (0, 1):
            self.give(side, [Punctuation.everything(self.case.schemas[side])])
        self.judge()
        assert self.operator.state.rows == 0
        assert bag(self.out) == bag(self.expected()), "the results"

    def give(self, side: int, elements: Sequence[Row | Punctuation]) -> None:
        ts = [e for e in elements if not isinstance(e, Punctuation)]
        ps = [e for e in elements if isinstance(e, Punctuation)]
        self.arrived[side] += ts
        self.received[side] += ps
        self.out += run(self.operator, side, Slice(self.case.schemas[side].frame(ts), ps)).tuples.rows()
        self.rejects += [r.reason for r in self.operator.rejects]
        self.operator.rejects.clear()

    def expected(self) -> list[Row]:
        """The results that may be released: pairs, and tuples without a partner in the whole feeds."""
        case, (left, right) = self.case, self.arrived
        if case.kind in ("semi", "anti"):
            partners = case.meets(left, self.all_tuples[1] if case.kind == "anti" else right).any(axis=1)
            return [t for t, paired in zip(left, partners, strict=True) if paired == (case.kind == "semi")]
        dropped = [j for _, j in case.keys] if case.kind == "inner" else []
        rows = [
            (*left[i], *(v for j, v in enumerate(right[n]) if j not in dropped))
            for i, n in np.argwhere(case.meets(left, right)).tolist()
        ]
        for side in PRESERVED[case.kind]:
            sides = [self.arrived[s] if s == side else self.all_tuples[s] for s in (0, 1)]
            unmatched = ~case.meets(*sides).any(axis=1 - side)
            nulls = (None,) * len(case.names[1 - side])
            ts = [self.arrived[side][i] for i in np.flatnonzero(unmatched).tolist()]
            rows += [(*t, *nulls) if side == 0 else (*nulls, *t) for t in ts]
        return rows

    def judge(self) -> None:
        """Released results are right, and no tuple is retained without a conceivable partner."""
        assert not bag(self.out) - bag(self.expected()), "a wrong result"
        if self.conceivable:
            required_rows = [self.required_rows(side) for side in (0, 1)]
            assert self.operator.state.rows <= sum(required_rows), (
                f"{self.operator.state.rows} rows, not {required_rows}"
            )

    def required_rows(self, side: int) -> int:
        """The number of tuples of a side that may still match a later tuple, or fail with it."""
        case, other = self.case, 1 - side
        candidates = [
            case.tuple_of(other, value, k, 1)
            for value in self.conceivable
            for k in ([1, 2] if case.keys else [1])
        ]
        sides = [
            self.arrived[side],
            [u for u in candidates if not any(match(u, p) for p in self.received[other])],
        ]
        pairs, failing = case.table(*(sides if side == 0 else sides[::-1]), bounds_only=True)
        needed = (pairs | failing).any(axis=1 - side)
        if side == 0 and case.kind in ("semi", "anti"):
            needed &= ~case.meets(self.arrived[0], self.arrived[1]).any(axis=1)
        return int(needed.sum())


def cases(type_: str, seed: int) -> Iterator[tuple[Case, str]]:
    rng = random.Random(f"{type_} {seed}")
    for _ in range(CASES):
        case = Case(rng, type_, rng.choice(KINDS[type_].spellings), rng.choice(list(PRESERVED)))
        yield case, f"{type_} {seed}: {case.sql}"


@pytest.mark.parametrize("type_", KINDS)
def test_a_tuple_is_retained_as_long_as_its_interval_is_open(type_: str) -> None:
    for case, text in cases(type_, 1):
        values = [case.value_kind.value(i) for i in range(8)]
        conceivable = [v for i in range(-30, 50) for v in case.value_kind.around(case.value_kind.value(i))]
        feeds = [case.feed(side, values) for side in (0, 1)]
        runs = [Run(case, feeds, conceivable) for _ in range(2)]
        try:
            for attempt in runs:
                attempt.feed(case.rng)
            check_rejects(case, runs)
        except Exception as error:
            error.add_note(text)
            raise


def check_rejects(case: Case, runs: Sequence[Run]) -> None:
    """Only pairs that may fail are rejected, and rejects do not depend on the slices."""
    if case.kind in ("semi", "anti"):  # a pair is not tested if its tuple already has a partner
        return
    assert len(runs[0].rejects) <= case.table(*runs[0].all_tuples)[1].sum()
    assert sorted(runs[0].rejects) == sorted(runs[1].rejects)


ENDS: dict[str, Any] = {
    "INT": (-(2**63), 2**63 - 1, 1),
    "DATE": (date.min, date.max, timedelta(days=1)),
    "TIMESTAMP": (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), HOUR / 2),
    "DECIMAL(9,1)": (Decimal("-99999999.9"), Decimal("99999999.9"), Decimal("0.1")),
    "DOUBLE": (0.0, 0.0, 0.5),
}


@pytest.mark.parametrize("type_", KINDS)
def test_bounds_where_the_type_ends(type_: str) -> None:
    """A bound that overflows bounds nothing; results and rejects do not depend on the slices."""
    lowest, highest, step = ENDS[type_]
    ends = [lowest + i * step for i in range(6)] + [highest - i * step for i in range(5, -1, -1)]
    if type_ == "DOUBLE":
        ends = [-math.inf, -1e308, -1.0, -0.0, 5e-324, 1.0, 2.5, 1e308, math.inf, math.nan]
    for case, text in cases(type_, 2):
        feeds = [case.feed(side, ends) for side in (0, 1)]
        runs = [Run(case, feeds) for _ in range(2)]
        try:
            for attempt in runs:
                attempt.feed(case.rng)
            check_rejects(case, runs)
        except Exception as error:
            error.add_note(text)
            raise
