"""XMLAGG: a group's values in order, whatever their order of arrival."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive_twice, probes
from tests.strategies import LETTER, REAL, SMALL, SPECIAL, Pool, Space, streams
from xmlpunct.operators import Aggregate, GroupBy, SortKey
from xmlpunct.schema import Schema
from xmlpunct.types import XML

ELEMENTS = Pool("xml", XML, (), ("<a/>", "<a/>x", "<b>é</b>"))

CASES = (
    (Space.of(k=SMALL, v=SMALL, x=ELEMENTS), ("k",)),
    (Space.of(k=REAL, v=SPECIAL, x=ELEMENTS), ("k",)),
    (Space.of(k=LETTER, v=REAL, x=(ELEMENTS, "NOT NULL")), ("k",)),
    (Space.of(v=SPECIAL, x=ELEMENTS), ()),
    (Space.of(k=SMALL, v=LETTER, x=ELEMENTS), ("v", "k")),
)


@pytest.mark.parametrize(("space", "keys"), CASES, ids=str)
@given(data=st.data())
def test_against_the_oracle(space: Space, keys: tuple[str, ...], data: st.DataObject) -> None:
    schema = space.schema
    key = st.builds(SortKey, st.sampled_from(schema.names[:-1]), st.booleans(), st.booleans())
    orders = data.draw(st.lists(st.lists(key, max_size=3), min_size=1, max_size=3))
    asked = [("XMLAGG", "x", False)] * len(orders) + [("COUNT", "v", True), ("MAX", "v", False)]
    orders += [[], []]
    aggregates = [
        Aggregate(f, a, d, f"r{i}", tuple(order))
        for i, ((f, a, d), order) in enumerate(zip(asked, orders, strict=True))
    ]
    positions = [schema.index(k) for k in keys]
    key_space = Space(Schema.of(schema[k] for k in keys), tuple(space.pools[i] for i in positions))
    drive_twice(
        data,
        lambda: GroupBy(schema, keys, aggregates),
        oracle.group_by(
            schema,
            keys,
            asked,
            space.tuples(),
            [[(schema.index(k.column), k.descending, k.nulls_first) for k in order] for order in orders],
        ),
        [data.draw(streams(space, most=20))],
        probes(key_space, len(asked)),
        spare_rows=0 if keys else 1,
    )


SALES = Schema.parse("hour INT, sid STRING, x XML")


def test_values_are_purged_with_their_group() -> None:
    by_sid = Aggregate("XMLAGG", "x", False, "xs", (SortKey("sid", True),))
    operator = GroupBy(SALES, ("hour",), [by_sid, Aggregate("XMLAGG", "x", False, "ys")])
    check_table(
        operator,
        """
        4 S1 <a/>; 5 S1 <b/>; 4 S2 <c/> ->
        4 S2 <b/>; 5 S2 null            ->
        P(4, *, *)                      -> 4 <b/><c/><a/> <a/><b/><c/>; P(4, *, *)
        6 S1 null; P(6, *, *)           -> 6 null null; P(6, *, *)
        P([4,5], *, *)                  -> 5 <b/> <b/>; P([4,5], *, *)
        """,
    )
    assert operator.state.rows == 0


@pytest.mark.parametrize(
    ("argument", "distinct", "message"),
    [("sid", False, "needs XML"), ("x", True, "DISTINCT"), (None, False, "no sense")],
)
def test_unsupported_arguments_are_refused(argument: str | None, distinct: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupBy(SALES, ("hour",), [Aggregate("XMLAGG", argument, distinct, "r")])
