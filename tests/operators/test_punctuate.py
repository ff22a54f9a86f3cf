"""punctuate against its definition, one tuple at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct import Punctuation, Schema, Slice, match
from xmlpunct.operators import run
from xmlpunct.operators.time.access_order import AccessOrder, slack_of
from xmlpunct.operators.time.punctuate import Punctuate
from xmlpunct.types import DATE, DOUBLE, INT, decimal

SCHEMA = Schema.parse("sid STRING, a INT")
ROWS = st.lists(
    st.tuples(st.sampled_from(["S1", "S2", "S3", None]), st.none() | st.integers(-3, 9)), max_size=25
)


def expected(rows: list[tuple[Any, Any]], order: AccessOrder) -> tuple[list[int], list[int], dict[Any, int]]:
    """The tuples that pass, the late tuples, and the maximum of each sender (None: of all)."""
    highest: dict[Any, int] = {}
    accepted, late = [], []
    for i, (sid, a) in enumerate(rows):
        if order.sender_column is not None and sid not in order.senders:
            continue
        sender = sid if order.sender_column is not None else None
        top = highest.get(sender)
        if a is not None and top is not None and a < top - order.slack + order.watermark:
            late.append(i)
            continue
        accepted.append(i)
        if a is not None:
            highest[sender] = a if top is None else max(top, a)
    return accepted, late, highest


@given(
    ROWS,
    st.sets(st.integers(0, 25)),
    st.integers(0, 3),
    st.sampled_from(["all", "senders", "watermark"]),
    st.sets(st.integers(0, 25)),
)
def test_against_the_definition(
    rows: list[tuple[Any, Any]], cuts: set[int], slack: int, kind: str, restarts: set[int]
) -> None:
    """A watermark includes its bound: over integers its slack is shorter by one."""
    order, by_sender = AccessOrder("a", slack, watermark=kind == "watermark"), kind == "senders"
    if by_sender:
        order = AccessOrder("a", slack, "sid", ("S1", "S2"))
    operator = Punctuate(SCHEMA, order)
    out: list[tuple[Any, ...]] = []
    emitted = operator.opening()
    rejected = 0
    start = 0
    for end in [*sorted(c for c in cuts if c < len(rows)), len(rows)]:
        result = run(operator, 0, Slice(SCHEMA.frame(rows[start:end])))
        assert not any(match(t, p) for t in result.tuples.rows() for p in emitted)
        out += result.tuples.rows()
        assert not set(result.punctuations) & set(emitted)
        emitted += result.punctuations
        rejected += len(operator.rejects)
        if end in restarts:
            restored = Punctuate(SCHEMA, order)
            restored.state.restore(operator.state.snapshot())
            operator = restored
        operator.rejects = []
        start = end
    accepted, _, highest = expected(rows, order)
    assert out == [rows[i] for i in accepted]
    assert rejected == len(rows) - len(accepted)
    for sid in ("S1", "S2", "S9"):
        for a in range(-8, 12):
            sender = sid if by_sender else None
            closed = sender in highest and a < highest[sender] - slack + order.watermark
            absent = by_sender and sid == "S9"
            assert any(match((sid, a), p) for p in emitted) == (closed or absent)
    if by_sender and len(highest) == 2:
        together = Punctuation.of(SCHEMA, a=f"(,{min(highest.values()) - slack})")
        assert any(p == together for p in emitted)


@pytest.mark.parametrize(
    ("columns", "slack", "values", "promised"),
    [
        ("a INT", 2, [5, 9, 7, 6], "(,6]"),
        ("a DOUBLE", 0.5, [1.0, 2.5, 2.25], "(,2.0)"),
        ("a DECIMAL(5,1)", 15, [Decimal("3.0"), Decimal("1.4")], "(,1.4]"),
        ("a STRING", 0, ["b", "c", "bb"], "(,c)"),
        ("a DATE", 1, [DATE.parse("2026-01-03"), DATE.parse("2026-01-01")], "(,2026-01-01]"),
        ("a TIMESTAMP", 10**6, [datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)], "(,2026-01-01T00:00:00.999999Z]"),
    ],
)
def test_every_type(columns: str, slack: float, values: list[object], promised: str) -> None:
    schema = Schema.parse(columns)
    operator = Punctuate(schema, AccessOrder("a", slack))
    result = run(operator, 0, Slice(schema.frame((v,) for v in values)))
    assert [str(p.patterns[0]) for p in result.punctuations] == [promised]
    assert result.tuples.height + len(operator.rejects) == len(values)


def test_a_bound_below_all_values_promises_nothing() -> None:
    schema = Schema.parse("a INT")
    result = run(Punctuate(schema, AccessOrder("a", 5)), 0, Slice(schema.frame([(-(2**63) + 3,)])))
    assert result.punctuations == []


def test_slack_is_in_the_attributes_own_unit() -> None:
    assert (slack_of(INT, "2"), slack_of(DOUBLE, "0.5"), slack_of(decimal(5, 1), "1.5")) == (2, 0.5, 15)
    with pytest.raises(ValueError, match="0 or more"):
        slack_of(INT, "-1")


@pytest.mark.parametrize(
    ("slack", "value", "promised"),
    [(5, -(2**63) + 4, []), (5, -(2**63) + 5, [f"{-(2**63)}"]), (0, 2**63 - 1, ["(,)"]), (2, 9, ["(,7]"])],
)
def test_a_watermark_at_the_ends_of_a_type(slack: int, value: int, promised: list[str]) -> None:
    schema = Schema.parse("a INT")
    result = run(
        Punctuate(schema, AccessOrder("a", slack, watermark=True)), 0, Slice(schema.frame([(value,)]))
    )
    assert [str(p.patterns[0]) for p in result.punctuations] == promised
