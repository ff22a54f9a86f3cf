"""`why`: the punctuations that a query waits for, from which stream, since when, and in which operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.test_wide_streams import lines_run
from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query, Scan
from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.answer import why
from xmlpunct.engine.why.holding import MOST_UNFUSED, Holding
from xmlpunct.operators.retained_outline import outline
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice

STREAMS = """
CREATE STREAM a (sid STRING, hour INT NOT NULL, ts INT NOT NULL) WITH (source = 'a.xml', element = 't');
CREATE STREAM b (sid STRING, hour INT NOT NULL, ts INT NOT NULL) WITH (source = 'b.xml', element = 't');
"""


class Waiting:
    """A running query; each call of `give` takes one second."""

    def __init__(self, select: str) -> None:
        self.query: Query = plan(STREAMS + select)
        self.schemas = {scan.stream.name: scan.stream.sent for scan in self.query.root.find(Scan)}
        self.pipeline = build(self.query.root, list(self.schemas))
        self.holding, self.seconds = Holding(self.schemas), 0
        self.pipeline.open()

    def give(self, name: str, *elements: tuple[object, ...] | str) -> Waiting:
        schema = self.schemas[name]
        punctuations = [Punctuation.parse(schema, e) for e in elements if isinstance(e, str)]
        tuples = schema.frame([e for e in elements if not isinstance(e, str)])
        self.pipeline.push(list(self.schemas).index(name), Slice(tuples, punctuations))
        self.seconds += 1
        if punctuations:
            self.holding.say(name, punctuations, self.seconds)
        self.holding.keep("", {o.number: outline(o.state) for o in self.pipeline.operators}, self.seconds)
        return self

    def why(self, patterns: Mapping[str, str] | None = None, seconds: float = 10) -> list[str]:
        return [str(w) for w in why(self.query, self.holding.still(), patterns or {}, timestamp=seconds)]


def test_waiting_time_is_that_of_the_oldest_tuple() -> None:
    waiting = Waiting("SELECT hour, COUNT(*) AS n FROM a GROUP BY hour")
    waiting.give("a", ("S", 17, 0)).give("a", ("S", 18, 0)).give("a", ("S", 17, 1), ("S", 19, 1))
    assert waiting.why({"hour": "17"}) == ["waits for a: <*, 17, *>, since 9 s (group-by #2)"]
    assert waiting.why({"hour": "18"}) == ["waits for a: <*, 18, *>, since 8 s (group-by #2)"]
    assert waiting.why({"hour": "[18,)"}) == ["waits for a: <*, [18,19], *>, since 8 s (group-by #2)"]
    waiting.give("a", "<*, [17,18], *>")
    assert waiting.why({"hour": "18"}) == []
    assert waiting.why() == ["waits for a: <*, 19, *>, since 7 s (group-by #2)"]


def test_a_join_waits_for_the_keys_that_it_retains() -> None:
    waiting = Waiting("SELECT a.hour, COUNT(*) AS n FROM a JOIN b ON a.sid = b.sid GROUP BY a.hour")
    waiting.give("a", ("S1", 17, 0), ("S2", 17, 0), ("S3", 18, 0)).give("b", ("S1", 0, 0), ("S3", 0, 0))
    waits = [line.partition(", since")[0] for line in waiting.why({"hour": "17"})]
    assert waits == ["waits for a: <*, 17, *>", "waits for b: <{S1,S2}, *, *>"]
    waiting.give("b", "<S2, *, *>").give("a", "<*, 17, *>")
    assert waiting.why({"hour": "17"}) == ["waits for b: <S1, *, *>, since 9 s (join #3)"]


def test_a_chain_of_many_joins_asks_each_question_once() -> None:
    """Two paths below each join would make a thousand million questions if they were repeated."""
    names = [f"s{i}" for i in range(30)]
    streams = [
        f"CREATE STREAM {s} (k INT NOT NULL, v INT) WITH (source = 'x.xml', element = 't');" for s in names
    ]
    joins = [f"JOIN {name} ON {name}.k = s0.k" for name in names[1:]]
    query = plan("".join(streams) + f"SELECT s0.k, COUNT(*) AS n FROM s0 {' '.join(joins)} GROUP BY s0.k")
    schemas = {stream.name: stream.sent for stream in query.streams}
    pipeline, holding = build(query.root, names), Holding(schemas)
    pipeline.open()
    for port, name in enumerate(names):
        pipeline.push(port, Slice(schemas[name].frame([(1, 0), (2, 0)])))
    holding.keep("", {o.number: outline(o.state) for o in pipeline.operators})
    assert [str(wait).partition(", since")[0] for wait in why(query, holding, {"k": "1"})] == [
        f"waits for {name}: <1, *>" for name in names
    ]


def test_a_left_tuple_waits_for_the_right_side_alone() -> None:
    waiting = Waiting("SELECT a.hour, b.ts FROM a LEFT JOIN b ON a.sid = b.sid")
    waiting.give("a", ("S1", 17, 0), ("S2", 18, 0))
    assert waiting.why({"hour": "17"}) == ["waits for b: <S1, *, *>, since 9 s (join #3)"]
    assert waiting.why({"hour": "17", "ts": "5"}) == [], "without a partner, ts is null"


def test_a_computed_value_waits_for_its_range_of_arguments() -> None:
    waiting = Waiting("SELECT ts / 3600 AS h, COUNT(*) AS n FROM a GROUP BY ts / 3600")
    waiting.give("a", ("S", 0, 3700)).give("a", "<*, *, (,5000]>")
    assert [line.partition(", since")[0] for line in waiting.why({"h": "1"})] == [
        "waits for a: <*, *, [5001,7199]>"
    ]


def test_coalesce_waits_for_each_argument() -> None:
    """Each argument needs its own punctuation: where x is null, only `*` matches it."""
    waiting = Waiting(
        "CREATE STREAM c (x INT, y INT) WITH (source = 'c.xml', element = 't');"
        "SELECT COALESCE(x, y) AS k, COUNT(*) AS n FROM c GROUP BY COALESCE(x, y)"
    )
    waiting.give("c", (5, 1), (None, 5), (6, None))
    waits = [line.partition(", since")[0] for line in waiting.why({"k": "5"})]
    assert waits == ["waits for c: <*, *>"], "one punctuation that implies both missing ones"
    waiting.give("c", "<5, *>")
    assert [line.partition(", since")[0] for line in waiting.why({"k": "5"})] == ["waits for c: <*, 5>"]
    waiting.give("c", "<*, 5>")
    assert waiting.why({"k": "5"}) == []


def test_the_merged_column_of_a_full_join_waits_for_both_sides() -> None:
    waiting = Waiting("SELECT sid, COUNT(*) AS n FROM a FULL JOIN b USING (sid) GROUP BY sid")
    waiting.give("a", ("S1", 17, 0), ("S2", 18, 0)).give("b", ("S3", 1, 1))
    waits = [line.partition(", since")[0] for line in waiting.why({"sid": "S1"})]
    assert sorted(waits) == ["waits for a: <S1, *, *>", "waits for b: <S1, *, *>"]
    waiting.give("a", "<S1, *, *>")
    assert [line.partition(", since")[0] for line in waiting.why({"sid": "S1"})] == [
        "waits for b: <S1, *, *>"
    ]
    waiting.give("b", "<S1, *, *>")
    assert waiting.why({"sid": "S1"}) == []


def test_a_window_waits_for_its_instants() -> None:
    select = (
        "SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE a, DESCRIPTOR(ts), 10) GROUP BY window_start"
    )
    waiting = Waiting(select).give("a", ("S", 0, 12), ("S", 0, 25))
    assert [line.partition(", since")[0] for line in waiting.why({"window_start": "10"})] == [
        "waits for a: <*, *, [10,19]>"
    ]


def test_order_by_waits_for_all_lower_values() -> None:
    waiting = Waiting("SELECT hour, ts FROM a ORDER BY hour").give("a", ("S", 17, 0), ("S", 18, 0))
    waits = [line.partition(", since")[0] for line in waiting.why({"hour": "18"})]
    assert waits == ["waits for a: <*, (,18], *>"]


def test_a_punctuation_may_wait_where_no_result_does() -> None:
    waiting = Waiting("SELECT hour FROM a UNION ALL SELECT hour FROM b")
    waiting.give("a", ("S", 17, 0))
    assert waiting.why({"hour": "17"}) == []
    waiting.give("a", "<*, 17, *>")
    assert waiting.why({"hour": "17"}) == ["waits for b: <*, 17, *>, since 8 s (merge #3)"]
    waiting.give("b", "<*, (,20], *>")
    assert waiting.why({"hour": "17"}) == []


def test_many_groups_wait_for_a_range() -> None:
    waiting = Waiting("SELECT hour, COUNT(*) AS n FROM a GROUP BY hour")
    waiting.give("a", *(("S", 2 * hour, 0) for hour in range(5000)))
    assert waiting.why({"hour": "77"}) == ["waits for a: <*, 77, *>, since 9 s (group-by #2)"]
    assert waiting.why() == ["waits for a: <*, [0,9998], *>, since 9 s (group-by #2)"]
    waiting.give("a", ("S", 1, 0))
    assert waiting.why({"hour": "1"}) == ["waits for a: <*, 1, *>, since 9 s (group-by #2)"]


@pytest.mark.parametrize("size", [1, 100])
def test_fusing_costs_little_for_each_punctuation(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty punctuations per hour are fused in few steps, without new objects for each."""
    waiting = Waiting("SELECT hour, COUNT(*) AS n FROM a GROUP BY hour")
    schema, built = waiting.schemas["a"], 0
    punctuations = [
        Punctuation.of(schema, hour=hour, ts=f"[{2 * i},{2 * i + 1}]")
        for hour in range(200)
        for i in range(30)
    ]
    batches = [PunctuationBatch(punctuations[i : i + size]) for i in range(0, len(punctuations), size)]
    init = Punctuation.__init__

    def counted(self: Punctuation, *arguments: Any) -> None:
        nonlocal built
        built += 1
        init(self, *arguments)

    monkeypatch.setattr(Punctuation, "__init__", counted)

    def say() -> None:
        for batch in batches:
            waiting.holding.say("a", batch)

    lines = lines_run(say)
    fused = Punctuation.of(schema, hour=150, ts="[0,59]")
    assert waiting.holding.missing("a", fused) is None
    assert len(waiting.holding.said["a"]) == 200
    assert built < len(punctuations) / 10
    assert lines < 20 * len(punctuations) + 30 * len(batches)


def test_unfused_punctuations_are_bounded() -> None:
    waiting = Waiting("SELECT hour, COUNT(*) AS n FROM a GROUP BY hour")
    schema, holding = waiting.schemas["a"], waiting.holding
    for hour in range(MOST_UNFUSED + 1):
        holding.say("a", [Punctuation.of(schema, hour=hour)])
    assert not holding._unfused
    holding.say("a", [Punctuation.of(schema, hour=MOST_UNFUSED + 1)])
    assert holding._unfused
    assert holding.missing("a", Punctuation.of(schema, hour=f"[0,{MOST_UNFUSED + 1}]")) is None
    holding.say("a", [Punctuation.of(schema, hour=3), Punctuation.everything(schema)])
    assert holding.missing("a", Punctuation.everything(schema)) is None


def test_unknown_columns_and_wrong_patterns_are_refused() -> None:
    waiting = Waiting("SELECT hour, COUNT(*) AS n FROM a GROUP BY hour")
    for patterns in ({"hur": "17"}, {"hour": "x"}):
        with pytest.raises(UsageError):
            waiting.why(patterns)
