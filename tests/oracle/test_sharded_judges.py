"""Plans of the judged operators are safe, complete, proper and maximal on any number of shards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.judges import Verdict, in_output
from tests.oracle.operators import Port
from tests.oracle.test_judges import PLANNED, drawn, probes
from tests.plans.engines import engine
from tests.strategies import Space, cuts, punctuations_of, slice_of, tuples_of
from xmlpunct.engine import plan as plans
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types.pattern import Range

QUERIES = {
    "select": "SELECT k, v FROM s WHERE k > 0",
    "select some": "SELECT k, v FROM s WHERE k",
    "not in values": "SELECT k, v FROM s WHERE k NOT IN (SELECT l FROM t)",
    "count where": "SELECT v, COUNT(*) AS n FROM s WHERE k GROUP BY v",
    "coalesce": "SELECT COALESCE(k, v) AS c FROM s",
    "full join using": "SELECT k, v, w FROM s FULL JOIN t USING (k)",
    "full join using, counted": "SELECT k, COUNT(*) AS n FROM s FULL JOIN t USING (k) GROUP BY k",
    "dupelim": "SELECT DISTINCT k, v FROM s",
    "union": "SELECT k, v FROM s UNION SELECT k, v FROM t",
    "intersect": "SELECT k, v FROM s INTERSECT SELECT k, v FROM t",
    "difference": "SELECT k, v FROM s EXCEPT SELECT k, v FROM t",
    "inner join": "SELECT k, v, w FROM s JOIN t ON k = l",
    "left join": "SELECT k, v, l, w FROM s LEFT JOIN t ON k = l",
    "full join": "SELECT k, v, l, w FROM s FULL JOIN t ON k = l",
    "anti": "SELECT k, v FROM s ANTI JOIN t ON k = l",
    "semi": "SELECT k, v FROM s SEMI JOIN t ON k = l",
    "count": "SELECT k, COUNT(*) AS r0 FROM s GROUP BY k",
    "max": "SELECT k, MAX(v) AS r0 FROM s GROUP BY k",
    "min, sum": "SELECT k, MIN(v) AS r0, SUM(v) AS r1 FROM s GROUP BY k",
    "tumble": "SELECT k, v, window_start, window_end FROM TUMBLE(TABLE s, DESCRIPTOR(v), 2)",
    "count of a tumble": """SELECT k, window_end, COUNT(*) AS n
                            FROM TUMBLE(TABLE s, DESCRIPTOR(v), 2) GROUP BY k, window_end""",
}
"""The cases as plans, which run on several shards, and plans of several operators."""


def declared(name: str, space: Space) -> str:
    """CREATE STREAM with the NOT NULL and domains of the space."""
    columns = []
    for a in space.schema:
        rule = "" if a.nullable else " NOT NULL"
        if isinstance(a.domain, Range):
            rule += f" CHECK ({a.name} BETWEEN {a.domain.low} AND {a.domain.high})"
        columns.append(f"{a.name} {a.type}{rule}")
    return f"CREATE STREAM {name} ({', '.join(columns)}) WITH (source = '-');"


@pytest.mark.parametrize("name", QUERIES)
def test_sharded_plans_pass_the_judges(name: str) -> None:
    """Safe, complete, proper and maximal on any number of shards.

    No operator above a join here needs attributes of both sides, so the join need not combine punctuations.
    """
    case = PLANNED[name]
    creates = [declared(stream, space) for stream, space in zip("st", case.spaces, strict=False)]
    query = plan("\n".join([*creates, QUERIES[name]]))
    combines = not any(query.root.find(plans.Join))

    @settings(max_examples=settings.default.max_examples // 2)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        inputs = drawn(data, case)
        ports = [Port(tuples_of(stream), punctuations_of(stream)) for stream in inputs]
        verdict = Verdict.of(case.operation, ports, [space.tuples() for space in case.spaces])
        for shards in (1, data.draw(st.integers(2, 3))):
            running = engine(query.root, [s.name for s in query.streams], shards)
            outputs = list(running.open())
            for port, elements in data.draw(cuts(inputs)):
                outputs += running.push(port, slice_of(query.streams[port].schema, elements))
            output = [t for part in outputs for t in part.tuples.rows()]
            promises = [p for part in outputs for p in part.punctuations]
            received = (
                None
                if case.positions is None
                else in_output(ports, query.root.schema, case.positions, combines)
            )
            wrong = list(verdict.judge(output, promises, probes(name), received, case.keys))
            wrong = [message for message in wrong if message.partition(":")[0] not in case.waived.split(", ")]
            assert not wrong, (shards, wrong[0])

    check()


@pytest.mark.parametrize("key", ["v", "v + 1"])
@pytest.mark.parametrize(
    ("where", "closing"), [("k", "<true, 7, *>"), ("b > 3", "<*, 7, [4,)>"), ("b = 3", "<*, 7, 3>")]
)
@pytest.mark.parametrize("shards", [0, 1, 2])
def test_a_punctuation_on_the_values_that_where_leaves_closes_a_group(
    key: str, where: str, closing: str, shards: int
) -> None:
    """The query drops the column of WHERE before the exchange, and no later operator can combine punctuations on it."""
    create = "CREATE STREAM s (k BOOLEAN, v INT NOT NULL, b INT) WITH (source = '-');"
    query = plan(f"{create} SELECT {key} AS x, COUNT(*) AS n FROM s WHERE {where} GROUP BY {key}")
    running, schema = engine(query.root, ["s"], shards), query.streams[0].schema
    list(running.open())
    tuples = [(True, 7, 3 if where == "b = 3" else 4)]
    slices = [slice_of(schema, tuples), slice_of(schema, [Punctuation.parse(schema, closing)])]
    rows = [row for s in slices for part in running.push(0, s) for row in part.tuples.rows()]
    assert rows == [(7 if key == "v" else 8, 1)]
