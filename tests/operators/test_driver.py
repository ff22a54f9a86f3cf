"""The driver: the order of an operator's functions, and pipelines of operators."""

from __future__ import annotations

import polars as pl
import pytest

from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call, number
from xmlpunct.operators import (
    Aggregate,
    GroupBy,
    Join,
    Merge,
    Operator,
    Pipeline,
    Pointwise,
    Scan,
    Select,
    run,
)
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice
from xmlpunct.types import INT
from xmlpunct.types.pattern import Constant

X = Schema.parse("x INT")
FIVE = Punctuation.of(X, x=5)


class Recorder(Operator):
    """Forwards its input and records the calls."""

    name = "recorder"

    def __init__(self) -> None:
        super().__init__((X,), X)
        self.calls: list[str] = []

    def opening(self) -> list[Punctuation]:
        return [FIVE]

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self.calls.append("step")
        self.reject({"x": 1}, "for the test")
        return tuples

    def punctuate(self, port: int, batch: PunctuationBatch) -> tuple[pl.DataFrame, PunctuationBatch]:
        self.calls.append("punctuate")
        return X.frame([(9,)]), batch


def test_tuples_come_before_punctuations() -> None:
    operator = Recorder()
    output = run(operator, 0, Slice(X.frame([(1,), (2,)]), [FIVE]))
    assert operator.calls == ["step", "punctuate"]
    assert output.tuples.rows() == [(1,), (2,), (9,)]
    assert output.punctuations == [FIVE]


def test_a_slice_without_tuples_causes_no_step() -> None:
    operator = Recorder()
    assert not run(operator, 0, Slice(X.empty()))
    assert run(operator, 0, Slice(X.empty(), [FIVE])).tuples.rows() == [(9,)]
    assert operator.calls == ["punctuate"]


def pipeline() -> Pipeline:
    """SELECT COUNT(*), x FROM (a UNION b) GROUP BY x."""
    count = GroupBy(X, ("x",), [Aggregate("COUNT", None, False, "n")])
    stages: list[Operator] = [Merge([X, X]), Pointwise([X], "distinct"), count]
    return Pipeline(stages, [[(0, 0)], [(0, 1)]], [[(1, 0)], [(2, 0)], []])


def test_a_pipeline_runs_from_input_to_output_and_counts() -> None:
    query = pipeline()
    assert not query.push(0, Slice(X.frame([(5,), (5,), (6,)]), [FIVE]))
    output = query.push(1, Slice(X.frame([(5,), (7,)]), [FIVE]))
    assert output.tuples.rows() == [(5, 1)]
    assert [str(p) for p in output.punctuations] == ["<5, *>"]
    merge, dupelim, count = query.counters
    assert (merge.tuples_in, merge.tuples_out, merge.punctuations_in, merge.punctuations_out) == (5, 5, 2, 1)
    assert (dupelim.tuples_in, dupelim.tuples_out, dupelim.state_rows, dupelim.state_rows_peak) == (
        5,
        3,
        2,
        2,
    )
    assert (count.tuples_in, count.tuples_out, count.state_rows) == (3, 1, 2)
    assert (merge.held_punctuations, merge.held_punctuations_peak) == (0, 1)


def test_a_pipeline_goes_on_where_its_snapshot_was_taken() -> None:
    first = pipeline()
    first.push(0, Slice(X.frame([(5,), (6,)]), [FIVE]))
    second = pipeline()
    second.restore(first.snapshot())
    slice_ = Slice(X.frame([(6,), (7,)]), [FIVE, Punctuation.everything(X)])
    outputs = [p.push(1, slice_) for p in (first, second)]
    assert outputs[0].tuples.equals(outputs[1].tuples)
    assert (
        outputs[0].punctuations
        == outputs[1].punctuations
        == [Punctuation.of(outputs[0].punctuations[0].schema, x=5)]
    )


def test_a_pipeline_collects_rejects_once() -> None:
    query = Pipeline([Recorder()], [[(0, 0)]], [[]])
    for _ in range(2):
        query.push(0, Slice(X.frame([(1,)])))
    assert [r.reason for r in query.rejects] == ["for the test"] * 2


def test_opening_punctuations_pass_through_the_operators_above() -> None:
    """The merge needs opening punctuations on both inputs; operators above are called in the pipeline's order."""
    stages: list[Operator] = [Recorder(), Recorder(), Merge([X, X]), Recorder()]
    query = Pipeline(stages, [[(0, 0)], [(1, 0)]], [[(2, 0)], [(2, 1)], [(3, 0)], []])
    output = query.open()
    assert output.punctuations == [FIVE, FIVE], "the merge's, and that of the recorder above it"
    assert [c.punctuations_out for c in query.counters] == [1, 1, 1, 2]
    assert [operator.calls for operator in stages if isinstance(operator, Recorder)] == [
        [],
        [],
        ["punctuate"],
    ]
    assert not pipeline().open()


def test_an_output_ends_once_and_nothing_is_retained_after_it() -> None:
    """An inner join ends when an input without waiting tuples ends; its other input may go on."""
    y = Schema.parse("y INT")
    inputs: list[list[tuple[int, int]]] = [[(0, 0)], [(0, 1)]]
    query = Pipeline([Join(X, y, [("x", "y")])], inputs, [[]])
    query.push(1, Slice(y.frame([(1,), (2,)])))
    over = Punctuation.everything(query.operators[0].schema)
    assert query.push(0, Slice(X.empty(), [Punctuation.everything(X)])).punctuations == [over]
    restored = Pipeline([Join(X, y, [("x", "y")])], inputs, [[]])
    restored.restore(query.snapshot())
    for pipeline_ in (query, restored):
        (operator,) = pipeline_.operators
        assert (operator.name, operator.state.rows, operator.state.held, pipeline_.waits()) == (
            "join",
            0,
            0,
            [0, 0],
        )
        assert not pipeline_.push(1, Slice(y.frame([(3,)]), [Punctuation.everything(y)]))


Y = Schema.parse("y INT")


def fresh_join(kind: str) -> Operator:
    """A join on one of several shards."""
    join = Join(X, Y, [("x", "y")], kind)
    join.emit_implied([("x",)])
    return join


def ended_join(kind: str) -> Pipeline:
    """A pipeline of a join that has ended with its left input."""
    query = Pipeline([fresh_join(kind)], [[(0, 0)], [(0, 1)]], [[]])
    over = query.push(0, Slice(X.frame([]), [Punctuation.everything(X)])).punctuations
    assert PunctuationBatch.of(over).has_end
    return query


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_on_several_shards_an_ended_output_still_emits_punctuations(kind: str) -> None:
    """Other shards may not have ended, and cannot close this shard's values. Tuples no longer matter."""
    query = ended_join(kind)
    restored = Pipeline([fresh_join(kind)], query.inputs, query.targets)
    restored.restore(query.snapshot())
    for pipeline_ in (query, restored):
        output = pipeline_.push(1, Slice(Y.frame([(5,), (6,)]), [Punctuation.of(Y, y=5)]))
        assert not output.tuples.height
        assert [str(p.patterns[0]) for p in output.punctuations].count("5") == 1
        (operator,) = pipeline_.operators
        assert (operator.name, operator.state.rows, operator.state.held) == ("join", 0, 0)
        assert pipeline_.counters[0].state_rows == 0
        end = pipeline_.push(1, Slice(Y.empty(), [Punctuation.everything(Y)]))
        assert not end.punctuations.has_end, "the end is emitted once"


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_after_the_end_columns_of_punctuations_stay_columns(kind: str) -> None:
    (operator,) = ended_join(kind).operators
    for first in (0, 100, 200):
        closed = PunctuationBatch.of_column(Y, 0, pl.Series(range(first, first + 100)))
        _, emitted = operator.punctuate(1, closed)
        assert emitted.position is not None or kind == "left"  # whose punctuations constrain two attributes
        assert {5 + first} <= {p.patterns[0].value for p in emitted if isinstance(p.patterns[0], Constant)}


def test_an_operator_that_serves_two_outputs_runs_once() -> None:
    """DISTINCT x, and the count of each x among its results; then the former only."""
    count = GroupBy(X, ("x",), [Aggregate("COUNT", None, False, "n")])
    query = Pipeline([Pointwise([X], "distinct"), count], [[(0, 0)]], [[(1, 0)], []], [0, 1])
    distinct, counted = query.push_all(0, Slice(X.frame([(5,), (5,), (6,)]), [FIVE]))
    assert (distinct.tuples.rows(), counted.tuples.rows()) == ([(5,), (6,)], [(5, 1)])
    assert query.counters[0].tuples_in == 3
    restored = Pipeline([Pointwise([X], "distinct"), count], [[(0, 0)]], [[(1, 0)], []], [0, 1])
    query.stop(1)
    assert query.operators[1].state.rows == 0
    restored.stop(1)
    restored.restore(query.snapshot())
    for running in (query, restored):
        distinct, counted = running.push_all(0, Slice(X.frame([(6,), (7,)]), []))
        assert (distinct.tuples.rows(), counted.tuples.rows()) == ([(7,)], [])
        assert not running.is_stopped(0)
        running.stop(0)
        assert running.is_stopped(0)
        assert not any(running.push_all(0, Slice(X.frame([(8,)]), [])))


def test_precomputing_changes_no_result() -> None:
    def scanned() -> Pipeline:
        stages: list[Operator] = [Scan.rename(X, ["x"], ["x"]), Pointwise([X, X], "union")]
        return Pipeline(stages, [[(0, 0)], [(1, 1)]], [[(1, 0)], []])

    precomputing, plain = scanned(), scanned()
    slice_ = Slice(X.frame([(5,), (5,), (6,), (None,)]), [FIVE])
    precomputed = precomputing.precompute(0, slice_.tuples)
    assert {edge: (result.tuples.rows(), result.stepped) for edge, result in precomputed.items()} == {
        (0, 0): ([(5,), (5,), (6,), (None,)], True),
        (1, 0): ([(5,), (6,), (None,)], False),
    }
    for side in (0, 1):
        (actual,), (expected,) = (
            precomputing.push_all(side, slice_, precomputed if side == 0 else {}),
            plain.push_all(side, slice_),
        )
        assert actual.tuples.equals(expected.tuples)
        assert actual.punctuations == expected.punctuations
    assert precomputing.counters == plain.counters


def test_precomputed_results_of_a_finished_operator_are_dropped() -> None:
    half = Select(X, call("<", Column(INT, True, "x"), call("/", number("4"), Column(INT, True, "x"))))
    query = Pipeline([half, Merge([X, X])], [[(0, 0)], [(1, 1)]], [[(1, 0)], []])
    late = X.frame([(0,), (1,)])
    precomputed = query.precompute(0, late)
    assert [(result.tuples.rows(), len(result.rejects)) for result in precomputed.values()] == [([(1,)], 1)]
    query.push(0, Slice(X.empty(), [Punctuation.everything(X)]))
    (output,) = query.push_all(0, Slice(late), precomputed)
    assert not output.tuples.height
    assert not query.rejects


def test_precomputed_results_of_two_ports_are_not_confused() -> None:
    """SELECT x FROM (SELECT x FROM a UNION ALL SELECT y FROM a) WHERE x > 2, without pushdown of the condition."""
    pair = Schema.parse("x INT, y INT")
    big = Select(X, call(">", Column(INT, True, "x"), number("2")))
    stages: list[Operator] = [Scan.rename(pair, [name], ["x"]) for name in ("x", "y")]
    query = Pipeline([*stages, Merge([X, X]), big], [[(0, 0), (1, 0)]], [[(2, 0)], [(2, 1)], [(3, 0)], []])
    tuples = pair.frame([(1, 5), (4, 2), (3, 3)])
    (output,) = query.push_all(0, Slice(tuples), query.precompute(0, tuples))
    assert sorted(output.tuples["x"]) == [3, 3, 4, 5]
