"""`Output`: the last step before results become bytes."""

from __future__ import annotations

from xmlpunct import Punctuation, Schema, Slice
from xmlpunct.engine.run.output import Output
from xmlpunct.firehose import writer_for

SCHEMA = Schema.parse("hour INT, n INT")


def output() -> Output:
    return Output(SCHEMA, writer_for("jsonl", SCHEMA))


def P(text: str) -> Punctuation:  # noqa: N802 - the paper's P
    return Punctuation.parse(SCHEMA, text)


def test_tuples_are_sorted_and_implied_punctuations_dropped() -> None:
    unsorted = Slice(
        SCHEMA.frame([(2, 1), (None, 0), (1, 5)]), [P("<10,*>"), P("<9,*>"), P("<9,*>"), P("<*,*>")]
    )
    ready = output().prepare(unsorted)
    assert ready.tuples.rows() == [(1, 5), (2, 1), (None, 0)]
    assert ready.punctuations == [P("<9,*>"), P("<10,*>")]


def test_tuples_that_match_an_earlier_punctuation_are_dropped_and_counted() -> None:
    out = output()
    out.body(Slice(SCHEMA.frame([(1, 1)]), [P("<1,*>")]))
    restored = output()
    restored.restore(out.snapshot())
    assert restored.body(Slice(SCHEMA.frame([(1, 2), (2, 2)]))) == b'{"hour": 2, "n": 2}\n'
    assert (restored.tuples, restored.punctuations, restored.late) == (2, 1, 1)
