"""select: the tuples that satisfy a predicate, and all punctuations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive, drive_twice, probes
from tests.oracle.scalar import EvaluationError, evaluate_row
from tests.strategies import FLAG, SMALL, Space, column_in, cuts, streams, tuples_of
from xmlpunct.engine import plan as plans
from xmlpunct.engine.sql import plan
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.functions import call
from xmlpunct.operators import Select
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, INT
from xmlpunct.types.pattern import EMPTY, WILDCARD, constant
from xmlpunct.types.pattern_text import parse_pattern

SPACE = Space.of(f=FLAG, a=SMALL)


@given(data=st.data())
def test_against_the_oracle(data: st.DataObject) -> None:
    stream = data.draw(streams(SPACE))
    outcomes = drive_twice(
        data,
        lambda: Select(SPACE.schema, Column(BOOLEAN, True, "f")),
        oracle.select(lambda t: t[0], SPACE.tuples()),
        [stream],
        probes(SPACE),
    )
    for outcome in outcomes:
        assert [p for p in outcome.punctuations if not p.is_everything or p in stream] == [
            p for p in stream if not isinstance(p, tuple)
        ]


BOUNDED = (
    ("ts INT", "s.ts < 100", "(,98]", "(,99]"),
    ("ts INT", "100 > s.ts", "(,50]", "(,100]"),
    ("ts INT", "s.ts BETWEEN 5 AND 99 AND x <> 3", "[6,200]", "[5,99]"),
    ("ts INT", "NOT (s.ts >= 100 OR s.x = 1)", "(,98]", "(,99]"),
    ("ts INT", "s.ts < 10 OR s.ts IN (20, 30)", "(,29]", "[(,30]"[1:]),
    ("ts INT", "s.ts / 3600 < 5", "(,17998]", "(,17999]"),
    ("ts INT", "s.ts / 3600 = 5", "[18000,21598]", "[18000,21599]"),
    ("ts INT", "s.ts / 3600 <> 5 AND s.ts < 7200 * 2", "(,14398]", "(,14399]"),
    ("ts INT", "-s.ts > -100", "(,98]", "(,99]"),
    ("ts INT CHECK (ts BETWEEN 0 AND 500)", "s.ts <= 9", "[1,9]", "[0,9]"),
    ("ts DECIMAL(9,2)", "s.ts < 100", "(,99.98]", "(,99.99]"),
    ("ts DECIMAL(30,2)", "s.ts < 100", "(,99.98]", "(,99.99]"),
    ("ts DATE", "s.ts < DATE '2024-03-01'", "(,2024-02-28]", "(,2024-02-29]"),
    ("ts TIMESTAMP", "s.ts < TIMESTAMP '2024-03-01 00:00:00'", "(,2024-02-29T23:59:59Z]",
     "(,2024-03-01T00:00:00Z)"),
    ("ts TIMESTAMP", "DATE_TRUNC('hour', s.ts) < TIMESTAMP '2024-03-01 00:00:00'", "(,2024-02-29T23:59:59Z]",
     "(,2024-02-29T23:59:59.999999Z]"),
    ("ts TIMESTAMP", "CAST(s.ts AS DATE) <= DATE '2024-02-29'", "(,2024-02-29T23:59:59Z]", "(,2024-03-01T00:00:00Z]"),
    ("ts DOUBLE", "s.ts < 100", "(,99.5]", "(,100)"),
    ("ts DOUBLE", "s.ts <= 100", "(,100)", "(,100]"),
    ("ts DOUBLE", "s.ts / 4 < 25", "(,100)", "(,100]"),
    ("ts STRING", "s.ts < 'm'", "(,l)", "(,m)"),
    ("ts BOOLEAN", "s.ts", "false", "true"),
    ("ts STRING", "s.ts = 'm'", "n", "m"),
)  # fmt: skip


@pytest.mark.parametrize(("column", "condition", "less", "enough"), BOUNDED)
def test_it_ends_once_all_values_that_may_pass_are_closed(
    column: str, condition: str, less: str, enough: str
) -> None:
    """For a single punctuation, and for one among enough to form a column."""
    sql = f"CREATE STREAM s ({column}, x INT) WITH (source = '-'); SELECT * FROM s WHERE {condition}"
    node = next(plan(sql).root.find(plans.Select))
    schema = node.input.schema
    for pattern, ends in ((less, False), (enough, True)):
        p = Punctuation(schema, [parse_pattern(schema.attributes[0].type, pattern), WILDCARD])
        for batch in ([p], [p, Punctuation(schema, [EMPTY, WILDCARD])], column_in([p] * 20) or [p]):
            _, promised = node.operator().punctuate(0, PunctuationBatch.of(batch))
            assert promised.has_end is ends, (pattern, promised)
        narrower = Punctuation(schema, [p.patterns[0], constant(INT, 1)])
        assert not node.operator().punctuate(0, PunctuationBatch([narrower]))[1].has_end


def test_a_condition_without_an_upper_bound_does_not_end() -> None:
    for condition in ("s.ts >= 100", "s.ts < 100 OR s.ts IS NULL", "s.ts < 100 OR s.x = 5", "s.ts % 100 < 5"):
        sql = f"CREATE STREAM s (ts INT, x INT) WITH (source = '-'); SELECT * FROM s WHERE {condition}"
        node = next(plan(sql).root.find(plans.Select))
        punctuations = [
            Punctuation.of(node.input.schema, **{node.input.schema.names[0]: f"(,{v}]"}) for v in (99, 10**9)
        ]
        assert not node.operator().punctuate(0, PunctuationBatch(punctuations))[1].has_end, condition


def test_table() -> None:
    check_table(
        Select(Schema.parse("f BOOLEAN, a INT"), Column(BOOLEAN, True, "f")),
        """
        true 1; false 2; null 3   -> true 1
        true 1; P(*, [0,5])       -> true 1; P(*, [0,5])
        P(false, *)               -> P(false, *)
                                  ->
        P(*, *)                   -> P(*, *)
        """,
    )


@pytest.mark.parametrize(("value", "count"), [(True, 2), (False, 0), (None, 0)])
def test_a_constant_predicate(value: bool | None, count: int) -> None:
    operator = Select(SPACE.schema, Literal(BOOLEAN, value is None, value))
    assert operator.step(0, SPACE.schema.frame([(True, 1), (None, None)])).height == count


NUMBERS = Space.of(a=SMALL, b=SMALL)
A, B, ZERO = Column(INT, True, "a"), Column(INT, True, "b"), Literal(INT, False, 0)
PREDICATES = (
    call("=", A, B),
    call("OR", call(">", A, ZERO), call("IS NULL", B)),
    call("NOT", call("<", A, B)),
    call(">", call("/", A, B), ZERO),  # fails where b is 0
    call("AND", call("<>", B, ZERO), call(">", call("%", A, B), ZERO)),
)


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@given(data=st.data())
def test_predicates_against_the_oracle(predicate: Expression, data: st.DataObject) -> None:
    """A tuple on which the predicate fails is rejected; emitted punctuations remain true."""
    stream = data.draw(streams(NUMBERS))
    failed = []

    def holds(t: Tuple) -> object:
        try:
            return evaluate_row(predicate, dict(zip("ab", t, strict=True)))
        except EvaluationError as error:
            failed.append((t, error.reason))
            return None

    outcome = drive(
        lambda: Select(NUMBERS.schema, predicate),
        oracle.select(holds, NUMBERS.tuples()),
        data.draw(cuts([stream])),
        probes(NUMBERS),
    )
    failed.clear()
    for t in tuples_of(stream):
        holds(t)
    assert outcome.rejected == len(failed)
