"""over: after every prefix, final rows are released and emitted punctuations are true."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import FEWER, assert_proper, check_table, give, restart
from tests.oracle import bag
from tests.oracle.cql.feeds import Feed, Input, Time
from tests.oracle.cql.generate import MONEY, UNIT, Feeder
from tests.oracle.cql.meaning import exact
from tests.oracle.over import Over as Expected
from tests.oracle.over import partitions
from tests.oracle.values import Row
from tests.oracle.windows import ends, key, leaf
from xmlpunct.operators import Operator, Over, OverCall, OverFrame, SortKey
from xmlpunct.operators.group.aggregate import EXTREMES, SUMS
from xmlpunct.operators.time.over.calls import FUNCTIONS
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DATE, DOUBLE, INT, STRING, TIMESTAMP

BIDS = Schema.parse("k STRING, v INT, ts INT NOT NULL")
NUMBERS = (INT, DOUBLE, MONEY)


class Cased:
    """A random stream, OVER calls with the same release rule, and their oracles."""

    def __init__(self, seed: int, numeric_only: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        type_ = rng.choice([INT, INT, DATE, TIMESTAMP])
        self.unit = UNIT[type_]
        high = rng.random() < 0.15
        ts = Schema.parse(f"ts {type_} NOT NULL" + (" CHECK (ts <= 6)" if high and type_ is INT else ""))[
            "ts"
        ]
        k = (
            Schema.parse("k INT CHECK (k BETWEEN 0 AND 2)")["k"]
            if rng.random() < 0.2
            else Attribute("k", INT)
        )
        nullable_attributes = [
            k,
            Attribute("v", rng.choice(NUMBERS)),
            Attribute("w", rng.choice([STRING, DOUBLE, INT])),
        ]
        attributes = [*nullable_attributes, ts]
        rng.shuffle(attributes)
        self.schema = Schema.of(attributes)
        self.input = Input("s", self.schema, "ts")
        self.partition_by = rng.choice([(), ("k",), ("k",), ("k",), ("k", "w"), ("w",)])
        tie_breakers = rng.sample(["v", "w", "k"], rng.choice([0, 0, 0, 1, 2]))
        self.order = [
            SortKey("ts"),
            *(SortKey(n, rng.random() < 0.5, rng.random() < 0.5) for n in tie_breakers),
        ]
        self.has_timestamp = rng.random() < 0.7
        if not self.has_timestamp:
            columns = rng.sample(self.schema.names, rng.choice([0, 1, 1, 2]))
            self.order = [SortKey(n, rng.random() < 0.5, rng.random() < 0.5) for n in columns]
        first = self.call(0)
        self.calls = [first]
        for i in range(1, 40):
            call = self.call(i)
            if (call.release == first.release or not self.has_timestamp) and len(self.calls) < 3:
                self.calls.append(call)
        if self.has_timestamp and len(self.order) == 1 and rng.random() < 0.3:
            self.calls = self.sliding()

    def sliding(self) -> list[OverCall]:
        """Sums, or extremes, over a range of preceding instants."""
        rng, start = self.rng, -self.rng.randint(1, 6) * self.unit
        functions = rng.choice([SUMS, EXTREMES])
        numbers = [a.name for a in self.schema if a.type in NUMBERS and a.name != "ts"]
        functions = [f for f in functions if self.arguments(f)]
        calls = []
        for i in range(rng.randint(1, 2)):
            function = rng.choice(functions)
            argument = rng.choice([n for n in numbers if n in self.arguments(function)])
            calls.append(OverCall(function, f"r{i}", argument, frame=OverFrame("RANGE", start, 0)))
        return calls

    def arguments(self, function: str) -> list[str]:
        """The columns that a function can have as its argument."""
        if function in ("VAR_SAMP", "VAR_POP"):
            return [a.name for a in self.schema if a.type is DOUBLE]
        if function in ("SUM", "AVG"):
            return [a.name for a in self.schema if a.type in NUMBERS and a.name != "ts"]
        return self.schema.names

    def call(self, number: int) -> OverCall:
        rng, unit = self.rng, self.rng.choice(["ROWS", "RANGE"])
        function = rng.choice([f for f in FUNCTIONS if self.arguments(f)])
        start, end = rng.choice([None, None, -3, -2, -1, 0]), rng.choice([None, 0, 0, 0, -1, 1, 2])
        if rng.random() < 0.1:
            start, end = rng.choice([(1, 2), (1, 1), (2, None), (-1, -2)])
        if unit == "RANGE":
            if len(self.order) > 1 or not self.has_timestamp:
                start, end = (None if x is None else 0 for x in (start, end))
            start, end = (None if x is None else x * self.unit for x in (start, end))
        argument: str | None = rng.choice(self.arguments(function))
        if function in ("ROW_NUMBER", "RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK", "NTILE"):
            argument = None
        if function == "COUNT" and rng.random() < 0.3:
            argument = None
        count = rng.choice([1, 1, 2, 3])
        return OverCall(function, f"r{number}", argument, count, None, OverFrame(unit, start, end))

    def make(self) -> Operator:
        return Over(self.schema, self.partition_by, self.order, self.calls, self.has_timestamp)

    def expected(self, call: OverCall) -> Expected:
        index, frame = self.schema.index, call.frame
        order = tuple((index(k.column), k.descending, k.nulls_first) for k in self.order)
        argument = None if call.argument is None else index(call.argument)
        partition = tuple(map(index, self.partition_by))
        return Expected(
            call.function,
            order,
            partition,
            argument,
            call.count,
            frame.unit,
            frame.start,
            frame.end,
            has_timestamp=self.has_timestamp,
        )


def released(op: Expected, source: Input, feed: Feed) -> Counter[Row]:
    """The rows to release: as `tests.oracle.over.released`, but all punctuations close instants jointly."""
    closes, tuples = leaf(source, feed)
    first, last = ends(source.type)
    rows: Counter[Row] = Counter()
    for k, part in partitions(op, tuples).items():
        spans = closes.spans(key(source, tuple(source.places.index(i) for i in op.by), k))
        bound = spans[0][1] if spans and spans[0][0] == first else first - 1
        closed = math.inf if bound == last else bound
        values = op.values(source, part)
        count = sum(ts <= closed for _, _, _, ts in values)
        rows.update((*row, value) for row, value, i, ts in values if op.is_out(i, ts, closed, count))
    return rows


def without(minuend: Iterable[Row], subtrahend: Iterable[Row]) -> list[Row]:
    """The difference of two bags."""
    left, difference = bag(subtrahend), []
    for t in minuend:
        (same,) = bag([t])
        if left[same]:
            left[same] -= 1
        else:
            difference.append(t)
    return difference


def check(seed: int) -> Counter[str]:
    """Check one case with two divisions into slices."""
    case = Cased(seed)
    rng, width = case.rng, len(case.schema)
    feeder = Feeder(rng, {"s": case.input}, Time.of([case.input]), 0, case.unit)
    elements = [e for _, e in feeder.feed(5, 26)]
    happened: Counter[str] = Counter()
    for _ in range(2):
        operator = case.make()
        out: list[Tuple] = []
        emitted: list[Punctuation] = []
        at = 0
        while at < len(elements):
            size = rng.choice([1, 1, 2, 5])
            output = give(operator, 0, elements[at : at + size])
            at += size
            assert_proper(output.tuples.rows(), emitted)
            out += output.tuples.rows()
            emitted += output.punctuations
            feed = [("s", e) for e in elements[:at]]
            for i, call in enumerate(case.calls):
                actual = bag((*t[:width], t[width + i]) for t in out)
                expected = bag(released(case.expected(call), case.input, feed).elements())
                assert actual == expected, (
                    f"{seed}: {call} {call.frame} {case.order} BY {case.partition_by} after {at}"
                )
            waiting = without(
                (t for _, t in feed if not isinstance(t, Punctuation)), [t[:width] for t in out]
            )
            for p in [e for _, e in feed if isinstance(e, Punctuation)]:
                free = not any(match(t, p) for t in waiting)
                assert free is any(q.patterns[:width] == p.patterns for q in emitted), (
                    f"{seed}: {p} after {at}"
                )
            if at < len(elements):
                happened["early"] += bool(output.tuples.height)
            if rng.random() < 0.3:
                operator = restart(case.make, operator)
            assert not operator.rejects
        if elements and isinstance(elements[-1], Punctuation) and elements[-1].is_everything:
            assert (operator.state.rows, operator.state.held) == (0, 0), seed
            happened["ended"] += 1
    return happened


@FEWER
@given(st.integers(0, 10**9))
def test_final_rows_are_released(seed: int) -> None:
    check(seed)


def test_the_cases_are_not_vacuous() -> None:
    happened: Counter[str] = Counter()
    for seed in range(25):
        happened += check(seed)
    assert happened["early"] > 15
    assert happened["ended"] > 25


def bids(*calls: OverCall, partition_by: Sequence[str] = ("k",)) -> Operator:
    return Over(BIDS, partition_by, [SortKey("ts")], calls)


def retained_rows(call: OverCall) -> tuple[int, int]:
    """The retained rows and summaries of k = A after 20 rows, 18 of them closed."""
    operator = bids(call)
    give(operator, 0, [("A", i, i) for i in range(20)])
    give(operator, 0, [Punctuation.parse(BIDS, "<A, *, (,17]>")])
    sizes = {name: len(part) for name, part in operator.state.parts.items()}
    return sizes["waiting"] + sizes["tail"], sizes["summary"]


@pytest.mark.parametrize(
    ("call", "rows", "summaries"),
    [
        (OverCall("LAG", "r", "v", 3), 2 + 3, 0),
        (OverCall("SUM", "r", "v", frame=OverFrame("ROWS", -2, 0)), 2 + 2, 0),
        (OverCall("SUM", "r", "v", frame=OverFrame("RANGE", -4, 0)), 2 + 4, 1),
        (OverCall("MIN", "r", "v", frame=OverFrame("RANGE", -4, 0)), 2 + 4, 0),
        (OverCall("MAX", "r", "v", frame=OverFrame("RANGE", -4, 0)), 2 + 1, 0),
        (OverCall("SUM", "r", "v"), 2, 1),
        (OverCall("FIRST_VALUE", "r", "v"), 2, 1),
        (OverCall("DENSE_RANK", "r"), 2, 1),
        (OverCall("LEAD", "r", "v", 2), 2 + 2, 0),
        (OverCall("SUM", "r", "v", frame=OverFrame("ROWS", -3, 1)), 2 + 1 + 3, 0),
        (OverCall("SUM", "r", "v", frame=OverFrame("RANGE", -3, 2)), 2 + 2 + 3, 0),
        (OverCall("SUM", "r", "v", frame=OverFrame("ROWS", -3, None)), 20, 0),
        (OverCall("NTILE", "r", count=4), 20, 0),
    ],
    ids=str,
)
def test_retained_rows(call: OverCall, rows: int, summaries: int) -> None:
    assert retained_rows(call) == (rows, summaries)


def test_a_sum_that_does_not_fit_rejects_its_row_alone() -> None:
    big = 2**63 - 1
    operator = bids(OverCall("SUM", "r", "v", frame=OverFrame("ROWS", -1, 0)))
    output = give(operator, 0, [("A", big, 1), ("A", 1, 2), ("A", 2, 3), Punctuation.everything(BIDS)])
    assert output.tuples.rows() == [("A", big, 1, big), ("A", 2, 3, 3)]
    (reject,) = operator.rejects
    assert reject.reason == "r does not fit INT"


def test_sums_of_doubles_do_not_drift() -> None:
    schema = Schema.parse("x DOUBLE, ts INT NOT NULL")
    values = [1e300, 0.1, 0.2, math.inf, 0.3, -1e300, 5e-324, 1.7e308, 1.7e308, -0.0]
    for function in ("SUM", "AVG"):
        call = OverCall(function, "r", "x", frame=OverFrame("ROWS", -1, 0))
        operator = Over(schema, [], [SortKey("ts")], [call])
        results = []
        for i, value in enumerate(values):
            output = give(operator, 0, [(value, i), Punctuation.parse(schema, f"<*, (,{i}]>")])
            results += output.tuples["r"].to_list()
        pairs = [values[max(i - 1, 0) : i + 1] for i in range(len(values))]
        assert results == [exact(function, pair) for pair in pairs]


def test_frames_reach_past_the_ends_of_the_type() -> None:
    """Frames reach past the ends of the timestamp's type and of 64 bits."""
    low, high = -(2**63), 2**63 - 1
    frames = [OverFrame("RANGE", -high, 0), OverFrame("RANGE", -1, high), OverFrame("RANGE", high, None)]
    expected = [{low: 1, 0: 1, high: 2}, {low: 1, 0: 2, high: 1}, {low: 2, 0: 1, high: 0}]
    for frame, counts in zip(frames, expected, strict=True):
        operator = bids(OverCall("COUNT", "n", frame=frame))
        give(operator, 0, [("A", 0, low), ("A", 0, 0), ("A", 0, high)])
        output = give(operator, 0, [Punctuation.everything(BIDS)])
        assert {row[2]: row[3] for row in output.tuples.rows()} == counts, frame


def test_in_descending_order_a_partition_is_released_once_it_is_closed_for_ever() -> None:
    call = OverCall("ROW_NUMBER", "n")
    check_table(
        Over(BIDS, ["k"], [SortKey("v", descending=True)], [call], has_timestamp=False),
        """
        A 1 1; B 1 1; A 2 1    ->
        P(*, *, (,0])          -> P(*, *, (,0], *)
        P(A, *, (,1])          ->
        P(A, *, *)             -> A 2 1 1; A 1 1 2; P(A, *, (,1], *); P(A, *, *, *)
        P(*, *, *)             -> B 1 1 1; P(*, *, *, *)
        """,
    )


def test_a_closed_partition_is_released_before_open_ones() -> None:
    check_table(
        bids(OverCall("ROW_NUMBER", "n")),
        """
        A 1 1; B 1 1; A 2 1    ->
        P(A, *, (,1])          -> A 1 1 1; A 2 1 2; P(A, *, (,1], *)
        A 9 5; null 3 2        ->
        P(A, *, *)             -> A 9 5 3; P(A, *, *, *)
        P(*, *, [1,3])         ->
        P(*, *, (,0])          -> B 1 1 1; null 3 2 1; P(*, *, (,0], *); P(*, *, [1,3], *)
        """,
    )
