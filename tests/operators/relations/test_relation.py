"""relation: constant, or built from changes that are validated when they are closed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import ELEMENTS, KEY, RESTARTS, TAU, T, runs
from tests.oracle import bag
from tests.oracle.values import same
from tests.strategies import SMALL, Pool, Space, Stream, cuts, streams
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.relation import Relation
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING

NUMBER = Pool("number", INT, (-1, 0, 1), (-2, -1, 0, 1, 2))
WORD = Pool("word", STRING, ("insert", "delete"), ("insert", "delete", "x"))
LOW = Pool("low", INT, (T.lo, -1, 0, 1, 2), (T.lo, T.lo + 1, *range(-2, 4)))
"""Instants, LO among them."""
SPACES = {
    "numbers": Space.of(k=KEY, at=(LOW, "NOT NULL"), change=NUMBER),
    "numbers of a domain": Space.of(k=(KEY, "[0,1]"), at=(TAU, "NOT NULL"), change=(NUMBER, "{-1,1}")),
    "words": Space.of(k=(KEY, "NOT NULL"), n=(SMALL, "[0,1]"), at=(LOW, "NOT NULL"), change=WORD),
    "words of a domain": Space.of(k=KEY, at=(TAU, "[0,3]"), change=(WORD, "{insert,delete}")),
}


def copies_of(change: object) -> int:
    """The number of copies that a change inserts, negative if it deletes them."""
    words = {"insert": 1, "delete": -1, "x": 0, None: 0}
    return words[change] if not isinstance(change, int) else change


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("bounds", [(None, None), (0, None), (0, 2)], ids=str)
@given(data=st.data())
def test_by_changes(name: str, bounds: tuple[int | None, int | None], data: st.DataObject) -> None:
    space, instants = SPACES[name], Instants(INT, *bounds)
    feed = data.draw(streams(space, ends=True, closing=space.schema.names[:-1]))

    def make() -> Relation:
        return Relation(space.schema, instants, "at", "change")

    at_position = space.schema.index("at")
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        expected: list[Tuple] = []
        rejected = retained = 0
        arrived, punctuations = run.tuples_in[0], run.punctuations_in[0]
        for t in arrived:
            wrong = not instants.lo <= t[at_position] <= instants.last or copies_of(t[-1]) == 0
            rejected += wrong
        for e in {same(t[:at_position]): t[:at_position] for t in space.tuples()}.values():
            changes: Counter[int] = Counter()
            for t in arrived:
                if same(t[:at_position]) == same(e) and instants.lo <= t[at_position] <= instants.last:
                    changes[t[at_position]] += copies_of(t[-1])
            closed = closed_of(space, punctuations, e, instants)
            count = 0
            for at in sorted(changes):
                if at <= closed:
                    before, count = count, max(0, count + changes[at])
                    rejected += count - before - changes[at]
                    expected += [(*e, at, count - before)] if count != before else []
            for at in (instants.lo, *TAU.domain, instants.last):
                assert at > instants.last or run.promises((*e, at, 1)) == (at <= closed), (e, at)
            retained += closed < instants.last and count > 0
            retained += sum(n != 0 for at, n in changes.items() if at > closed)
        assert bag(run.tuples) == bag(expected)
        assert run.rejected == rejected
        assert run.operator.state.rows == retained
    assert len(run.operator.state) == 0


def closed_of(space: Space, punctuations: list[Punctuation], e: Tuple, instants: Instants) -> int:
    """C(e): the last instant up to which punctuations close all possible changes of a tuple."""
    position, closed = space.schema.index("at"), instants.lo - 1
    for at in sorted({*space.pools[position].domain, instants.lo, *TAU.domain}):
        if instants.lo <= at <= instants.last:
            candidates = [(*e, at, change) for change in space.values(position + 1)]
            can_come = space.schema["at"].domain.matches(at)
            if can_come and not all(any(match(t, p) for p in punctuations) for t in candidates):
                return closed
            closed = at
    return instants.last


@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
@given(data=st.data())
def test_constant(elements: Space, data: st.DataObject) -> None:
    feed: Stream = data.draw(streams(elements, ends=True))

    def make() -> Relation:
        return Relation(elements.schema, T)

    for run in runs(make, data.draw(cuts([feed]))):
        assert bag(run.tuples) == bag((*t, T.lo, 1) for t in run.tuples_in[0])
        for e in elements.tuples():
            closed = any(match(e, p) for p in run.punctuations_in[0])
            assert run.promises((*e, T.lo, 1)) == run.promises((*e, T.last, 1)) == closed
        assert len(run.operator.state) == 0


NAMES = Schema.parse("ip INT, at INT NOT NULL, what STRING")


def test_inserts_come_before_deletes_and_deletes_too_many_are_rejected() -> None:
    operator = Relation(NAMES, T, "at", "what")
    check_table(
        operator,
        """
        7 2 delete; 7 2 insert; 7 3 delete; 7 4 insert; 7 4 insert; 7 5 move ->
        P(*, (,4], *) -> 7 4 2; P(*, (,4], *)
        7 5 delete; 7 5 delete; 7 5 delete ->
        P(*, *, *) -> 7 5 -2; P(*, *, *)
        """,
    )
    assert [(r.reason, r.text) for r in operator.rejects] == [
        ("what is not 'insert' or 'delete'", '{"ip": 7, "at": 5, "what": "move"}'),
        ("deleted at 3 but not in the relation", '{"ip": 7}'),
        ("deleted at 5 but not in the relation", '{"ip": 7}'),
    ]


def test_many_copies() -> None:
    operator = Relation(Schema.parse("ip INT, at INT NOT NULL, n INT"), T, "at", "n")
    check_table(
        operator,
        f"7 1 {2**40}; 7 2 {-(2**40)}; 7 2 -5000; 7 3 {2**62}; P(*, *, *) -> "
        f"7 1 {2**40}; 7 2 {-(2**40)}; P(*, *, *)",
    )
    assert [r.reason for r in operator.rejects[-2:]] == [
        "deleted at 2 but not in the relation",
        "deleted at 2 but not in the relation, 4000 more times",
    ]
    assert (
        operator.rejects[0].reason == f"n is not a number of copies from 1 to {2**40}, negative for deletions"
    )


def test_a_relation_closes_instants_before_its_first_one_at_the_start() -> None:
    assert Relation(NAMES, T, "at", "what").opening() == []
    (p,) = Relation(NAMES, Instants(INT, 0), "at", "what").opening()
    assert str(p) == "<*, (,-1], *>"
