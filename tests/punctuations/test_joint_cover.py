"""The cost of a joint cover, and the same results in columns as one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct import Attribute, Punctuation, Schema
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.closed_set import ClosedSet
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.punctuation import covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.single_attribute import columnar
from xmlpunct.types import INT
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import interval


def test_pieces_are_fused_before_the_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking after each of n pieces would fuse n times, at a cost of n each."""
    schema = Schema.parse("id INT, ts INT")
    pieces = [Punctuation.of(schema, id=n) for n in range(0, 400, 2)]
    calls = 0
    covers = IntervalSet.covers

    def counted(*arguments: object) -> bool:
        nonlocal calls
        calls += 1
        return covers(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(IntervalSet, "covers", counted)
    closed = ClosedSet(schema)
    closed.update(pieces)
    assert not closed.cover(Punctuation.of(schema, ts="(,5]"))
    closed.update([Punctuation.of(schema, id="(,)")])
    assert closed.cover(Punctuation.of(schema, id="[0,399]"))
    assert calls <= 4


def costs_of(monkeypatch: pytest.MonkeyPatch, steps: Iterable[Callable[[], object]]) -> list[int]:
    """The number of punctuations that each step creates."""
    created, original = 0, Punctuation.__init__

    def counted(*arguments: Any) -> None:
        nonlocal created
        created += 1
        original(*arguments)

    monkeypatch.setattr(Punctuation, "__init__", counted)
    costs = []
    for step in steps:
        before = created
        step()
        costs.append(created - before)
    return costs


def test_a_closing_out_of_order_costs_the_same_after_many_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = Schema.parse("id INT NOT NULL, ts INT NOT NULL")
    joint = JointCover(schema, [1])
    joint.add([Punctuation.of(schema, ts="(,5]")])
    closings = [Punctuation.of(schema, id=2 * n) for n in Random(1).sample(range(200), 200)]
    costs = costs_of(monkeypatch, (partial(joint.add, [p]) for p in closings))
    assert max(costs[100:]) <= max(costs[:10])


def test_inputs_that_promise_in_order_meet_at_the_same_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.parse("id INT NOT NULL, ts INT NOT NULL")
    alignment = Alignment(schema, 2)
    promises = [
        (port, [Punctuation.of(schema, id=f"(,{n}]"), Punctuation.of(schema, ts=f"(,{n + 10 * port}]")])
        for n in range(100)
        for port in (0, 1)
    ]
    costs = costs_of(monkeypatch, (partial(alignment.update, port, batch) for port, batch in promises))
    assert max(costs[100:]) <= max(costs[:50])


def test_the_end_marker_is_retained_beside_others_that_match_all_tuples() -> None:
    """A punctuation that closes a declared domain matches every possible tuple, but is not the end marker."""
    s = Schema.of([Attribute("hour", INT, nullable=False, domain=interval(INT, 0, 9, True, True))])
    closed = ClosedSet(s, drops_implied=True)
    closed.update([Punctuation.everything(s), Punctuation.of(s, hour="(,9]"), Punctuation.of(s, hour="(,)")])
    assert closed.has_end


def test_values_of_a_list_that_overlap_no_open_punctuation_are_not_retained() -> None:
    s = Schema.parse("hour INT, done BOOLEAN NOT NULL")
    joint = JointCover(s, [1])
    for hour in range(0, 1000, 20):
        joint.add([Punctuation.of(s, hour=n, done=True) for n in (hour, hour + 20)])
        closed = Punctuation.of(s, hour=f"{{{hour},{hour + 7}}}")
        assert list(joint.add([closed])) == [closed]
        assert len(joint) == 1, "only the punctuation of the next hour is open"


@given(data=st.data())
def test_columns_close_together_what_they_close_one_by_one(data: st.DataObject) -> None:
    schema = Schema.parse("k INT, done BOOLEAN NOT NULL, level INT CHECK (level BETWEEN 1 AND 4)")
    texts = {"k": ["1", "(,2]"], "done": ["true", "false"], "level": ["1", "2", "[3,4]", "(,9]", "9"]}
    patterns = st.sampled_from([(name, text) for name, some in texts.items() for text in some])
    together, single = JointCover(schema, [1, 2]), JointCover(schema, [1, 2])
    if data.draw(st.booleans()):
        for joint in (together, single):
            joint.ownership = Ownership(schema, (), all_needed=True)
    closed, one_by_one = list[Punctuation](), list[Punctuation]()
    for received in data.draw(st.lists(st.lists(patterns, min_size=1, max_size=4, unique=True), max_size=4)):
        both = data.draw(st.lists(st.sampled_from(["<1, true, *>", "<1, *, [1,3]>"]), max_size=1))
        batch = columnar([Punctuation.of(schema, **dict([pattern])) for pattern in received])
        closed += [*together.add(batch), *together.add([Punctuation.parse(schema, text) for text in both])]
        objects = [PunctuationBatch([p]) for part in batch.parts for p in part]
        objects += [PunctuationBatch([Punctuation.parse(schema, text)]) for text in both]
        one_by_one += [c for some in objects for c in single.add(some)]
        assert all(any(covers(c, d) for c in one_by_one) for d in closed)
        assert all(any(covers(c, d) for c in closed) for d in one_by_one)
