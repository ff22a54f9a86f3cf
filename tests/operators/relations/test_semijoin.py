"""semijoin of relations with a residual, against the tuples at every instant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table
from tests.operators.relations.changes import RESTARTS, T, change_feeds, closed_up_to, count_at, runs
from tests.operators.relations.test_join import (
    LESS,
    MOMENTS,
    SPACES,
    check_sums,
    closed_key,
    key_of,
    pairs_of,
)
from tests.strategies import cuts
from xmlpunct.operators.relations.change_semijoin import ChangeSemi
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT


@pytest.mark.parametrize("kind", ["semi", "anti"])
@pytest.mark.parametrize("case", ["nullable", "not null", "two attributes", "no attribute"])
@given(data=st.data())
def test_against_every_instant(case: str, kind: str, data: st.DataObject) -> None:
    left, right, keys = SPACES[case]
    spaces, names = (left, right), [[pair[side] for pair in keys] for side in (0, 1)]
    residual = LESS if case == "nullable" else None
    feeds = [data.draw(change_feeds(space, 5)) for space in spaces]

    shards = data.draw(st.booleans())

    def make() -> ChangeSemi:
        semi = ChangeSemi(*(changes(space.schema, INT) for space in spaces), keys, T, residual, kind)
        if shards:
            semi.emit_implied([names[0]])
        return semi

    partners = {e: [f for d, f in pairs_of(spaces, keys) if d == e] for e in left.tuples()}
    if residual is not None:
        partners = {e: [f for f in fs if f[-1] is not None and e[-1] < f[-1]] for e, fs in partners.items()}
    for run in runs(make, data.draw(cuts(feeds)), data.draw(RESTARTS)):
        for e in left.tuples():
            met = [any(count_at(feeds[1], f, at) for f in partners[e]) for at in MOMENTS]
            counts = [
                count_at(feeds[0], e, at) if has_partner == (kind == "semi") else 0
                for at, has_partner in zip(MOMENTS, met, strict=True)
            ]
            k = key_of(left, e, names[0])
            bound = T.lo - 1 if k is None else closed_key(right, names[1], k, run.punctuations_in[1])
            check_sums(run, e, counts, min(bound, closed_up_to(e, run.punctuations_in[0])))
    assert shards or len(run.operator.state) == 0


def test_a_null_is_released_at_once() -> None:
    operator = ChangeSemi(
        changes(Schema.parse("k INT"), INT),
        changes(Schema.parse("j INT"), INT),
        [("k", "j")],
        T,
        None,
        "anti",
    )
    check_table(
        operator,
        """
        1: null 1 1; 7 1 1  -> null 1 1
        2: 7 3 2; 7 5 -1    ->
        1: P(*, (,4], *)    -> P(*, (,0], *)
        2: P(7, (,9], *)    -> 7 1 1; 7 3 -1; P(*, (,4], *)
        """,
    )
