"""punctuate with AHEAD against a plain model: each tuple judged by itself, in sequence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.oracle.order import without_jumps
from xmlpunct import Punctuation, Schema, Slice, match
from xmlpunct.operators import run
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.punctuate import Punctuate
from xmlpunct.types import DATE, DOUBLE, INT, TIMESTAMP, decimal

SCHEMA = Schema.parse("sid STRING, a INT, n INT")
NEAR_OR_FAR = st.none() | st.integers(0, 9) | st.integers(0, 9) | st.integers(30, 39) | st.integers(90, 99)
ROWS = st.lists(st.tuples(st.sampled_from(["S1", "S2"]), NEAR_OR_FAR), max_size=30)


@given(
    ROWS,
    st.sets(st.integers(0, 30)),
    st.sets(st.integers(0, 30)),
    st.integers(0, 4),
    st.integers(0, 25),
    st.integers(1, 4),
    st.sampled_from(["all", "senders", "watermark"]),
)
def test_against_the_model(
    pairs: list[tuple[str, int | None]],
    cuts: set[int],
    restarts: set[int],
    slack: int,
    ahead: int,
    after: int,
    kind: str,
) -> None:
    """Any slices and restarts; after each slice the same tuples, rejects, promises and held tuples as the model."""
    rows = [(*pair, n) for n, pair in enumerate(pairs)]
    senders = ("S1", "S2") if kind == "senders" else ()
    column = "sid" if senders else None
    order = AccessOrder("a", slack, column, senders, kind == "watermark", ahead, after)
    operator, start = Punctuate(SCHEMA, order), 0
    passed: list[Any] = []
    rejected: list[int] = []
    emitted: list[Punctuation] = operator.opening()
    for end in [*sorted(c for c in cuts if c < len(rows)), len(rows)]:
        result = run(operator, 0, Slice(SCHEMA.frame(rows[start:end])))
        assert not any(match(t, p) for t in result.tuples.rows() for p in emitted)
        passed += [row[2] for row in result.tuples.rows()]
        emitted += result.punctuations
        rejected += [int(r.text.rpartition(":")[2].strip(" }")) for r in operator.rejects]
        held: list[int] = []
        accepted, late = [], []
        for sender in senders or (None,):
            numbers = [n for s, _, n in rows[:end] if sender in (None, s)]
            part = without_jumps([rows[n] for n in numbers], 1, slack, ahead, after, kind == "watermark")
            accepted += [numbers[i] for i in part[0]]
            late += [numbers[i] for i in part[1]]
            held += [numbers[i] for i in part[2]]
            for value in range(-5, 110):
                closed = part[3] is not None and value < part[3] - slack + (kind == "watermark")
                assert any(match((sender or "S1", value, 0), p) for p in emitted) == closed
        assert sorted(passed) == sorted(accepted)
        assert sorted(rejected) == sorted(late)
        assert operator.state.rows == len(held) <= (after - 1) * len(senders or [0])
        if end in restarts:
            restored = Punctuate(SCHEMA, order)
            restored.state.restore(operator.state.snapshot())
            operator = restored
        operator.rejects = []
        start = end
    result = run(operator, 0, Slice(SCHEMA.empty(), [Punctuation.parse(SCHEMA, "<*, *, *>")]))
    assert sorted(row[2] for row in result.tuples.rows()) == sorted(held), "held tuples pass at the end"
    assert result.punctuations == [Punctuation.parse(SCHEMA, "<*, *, *>")]


@given(ROWS, st.sets(st.integers(0, 30)))
def test_the_order_of_results_is_the_same_for_any_slices(
    pairs: list[tuple[str, int | None]], cuts: set[int]
) -> None:
    rows = [(*pair, n) for n, pair in enumerate(pairs)]
    order = AccessOrder("a", 1, "sid", ("S1", "S2"), ahead=20)

    def results(ends: list[int]) -> tuple[list[Any], list[str | None]]:
        operator, start, out = Punctuate(SCHEMA, order), 0, []
        for end in ends:
            out += run(operator, 0, Slice(SCHEMA.frame(rows[start:end]))).tuples.rows()
            start = end
        return out, [r.text for r in operator.rejects]

    assert results([*sorted(c for c in cuts if c < len(rows)), len(rows)]) == results([len(rows)])


def test_one_wrong_clock_costs_its_own_tuples_and_a_gap_none() -> None:
    t = Schema.parse("t INT")
    operator = Punctuate(t, AccessOrder("t", ahead=10))
    run(operator, 0, Slice(t.frame([(1,), (2,), (3,), (900,), (4,)])))
    assert [r.reason for r in operator.rejects] == [
        "ahead: t 900 is more than 10 above 3, and a nearer one followed"
    ]
    operator = Punctuate(t, AccessOrder("t", ahead=10))
    result = run(operator, 0, Slice(t.frame([(1,), (2,), (3,), (900,), (901,), (902,)])))
    assert not operator.rejects
    assert result.tuples["t"].to_list() == [1, 2, 3, 900, 901, 902]


def test_a_punctuation_waits_for_the_held_tuples_that_match_it() -> None:
    t = Schema.parse("t INT, id INT")
    operator = Punctuate(t, AccessOrder("t", ahead=10))
    check_table(operator, "1 1; 1 2; 1 3; 90 4; P(*, 4); P(*, 3) -> 1 1; 1 2; 1 3; P(*, 3); P((,0], *)")
    check_table(operator, "2 5 -> 2 5; P(*, 4); P((,1], *)")
    assert [r.text for r in operator.rejects] == ['{"t": 90, "id": 4}']


def test_a_sender_that_has_ended_releases_its_held_tuples() -> None:
    operator = Punctuate(SCHEMA, AccessOrder("a", 0, "sid", ("S1", "S2"), ahead=10))
    closing = Punctuation.of(SCHEMA, sid="S1")
    result = run(operator, 0, Slice(SCHEMA.frame([("S1", 1, 1), ("S2", 1, 2)]), [closing]))
    assert result.tuples.rows() == [("S1", 1, 1)]
    assert result.punctuations == [closing]
    assert operator.state.rows == 1


@pytest.mark.parametrize(
    ("columns", "ahead", "texts", "passing"),
    [
        ("a DATE", 3, ["2026-01-01"] * 3 + ["2026-01-05", "2026-01-04"], [0, 1, 2, 4]),
        ("a TIMESTAMP", 10**6, ["2026-01-01T00:00:00Z"] * 3 + ["2026-01-01T00:00:01.1Z", "2026-01-01T00:00:01Z"],
         [0, 1, 2, 4]),
        ("a DECIMAL(5,1)", 15, ["1.0", "1.0", "1.0", "2.6", "2.5"], [0, 1, 2, 4]),
        ("a DECIMAL(38,1)", 15, ["1.0", "1.0", "1.0", "2.6", "2.5"], [0, 1, 2, 4]),
        ("a DOUBLE", 0.5, ["1", "1", "1", "1.6", "1.5", "NaN", "INF", "1.5"], [0, 1, 2, 4, 7]),
        ("a DOUBLE", 0.5, ["NaN", "NaN", "NaN", "1"], [0, 1, 2]),
        ("a INT", 2**62, [str(2**63 - 1)] * 3 + [str(-(2**63))], [0, 1, 2]),
    ],
)  # fmt: skip
def test_every_type(columns: str, ahead: float, texts: list[str], passing: list[int]) -> None:
    """Also in slices of one tuple."""
    schema = Schema.parse(columns)
    types = {
        "DATE": DATE,
        "TIMESTAMP": TIMESTAMP,
        "DOUBLE": DOUBLE,
        "INT": INT,
        "DECIMAL(5,1)": decimal(5, 1),
    }
    type_ = types.get(columns[2:], decimal(38, 1))
    values = [type_.parse(text) for text in texts]
    for size in (1, len(values)):
        operator = Punctuate(schema, AccessOrder("a", 0, ahead=ahead))
        frames = [schema.frame((v,) for v in values[i : i + size]) for i in range(0, len(values), size)]
        out = [type_.format(t) for frame in frames for (t,) in run(operator, 0, Slice(frame)).tuples.rows()]
        assert out == [type_.format(values[i]) for i in passing]
        assert len(operator.rejects) == len(values) - len(passing)
