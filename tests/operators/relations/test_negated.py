"""negated: changes with the opposite sign, as antijoins need them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.relations.changes import ELEMENTS, RESTARTS, change_feeds, runs
from tests.strategies import cuts
from xmlpunct.operators.relations.negated import Negated
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT


@given(data=st.data())
def test_changes_are_negated_and_emitted_at_once(data: st.DataObject) -> None:
    feed = data.draw(change_feeds(ELEMENTS[0]))
    make = lambda: Negated(changes(ELEMENTS[0].schema, INT))  # noqa: E731
    for run in runs(make, data.draw(cuts([feed])), data.draw(RESTARTS)):
        assert run.tuples == [(*t[:-1], -t[-1]) for t in run.tuples_in[0]]
        assert run.punctuations == run.punctuations_in[0]
    assert len(run.operator.state) == 0
