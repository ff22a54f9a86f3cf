"""Provisional answers: results of a copy of the state, as if the inputs ended now."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.local.portion import Portion
from xmlpunct.engine.run.local.provisional import PARTIAL_NAMESPACE, Provisional
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.run_options import NO_COPY, RunOptions, XmlForm, parse_time
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

STREAMS = """
CREATE STREAM a (k INT, x INT) WITH (element = 't');
CREATE STREAM b (k INT, x INT) WITH (element = 't');
CREATE STREAM w (k INT, ts INT NOT NULL) WITH (element = 't', timestamp = 'ts');
"""
QUERIES = {
    "group-by": "SELECT k, SUM(x) AS s FROM (SELECT k, x FROM a UNION ALL SELECT k, x FROM b) GROUP BY k",
    "outer join": "SELECT a.k, a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k",
    "difference": "SELECT k, x FROM a EXCEPT SELECT k, x FROM b",
    "in order": "SELECT k, x FROM a ORDER BY k, x LIMIT 3",
    "window": "RSTREAM(SELECT k, COUNT(*) AS n FROM w [RANGE 2] GROUP BY k)",
    "place": 'SELECT x, MAX("$byte") AS b FROM a GROUP BY x',
    "running": "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM w",
}


def document(rng: random.Random, second: str) -> bytes:
    parts = []
    for n in range(rng.randint(0, 12)):
        value = n // 2 if second == "ts" else rng.randint(0, 2)
        parts.append(f"<t><k>{rng.randint(0, 2)}</k><{second}>{value}</{second}></t>")
    if second == "ts" and parts and rng.random() < 0.7:
        parts.append(f"<p:t><k>*</k><ts>(,{rng.randint(0, len(parts) // 2)}]</ts></p:t>")
    elif rng.random() < 0.7:
        parts.append(f"<p:t><k>{rng.randint(0, 2)}</k></p:t>")
    return f'<s xmlns:p="{PUNCT_NAMESPACE}">{"".join(parts)}</s>'.encode()


@pytest.mark.parametrize("is_guarded", [False, True], ids=["", "guarded"])
@pytest.mark.parametrize("query", QUERIES)
def test_released_and_provisional_results_are_the_complete_answer(query: str, is_guarded: bool) -> None:
    for seed in range(12):
        rng, planned = random.Random(seed), plan(STREAMS + QUERIES[query], dict.fromkeys("abw", ""))
        planned = with_guards(planned) if is_guarded else planned
        kinds = {stream.name: "ts" if stream.timestamp else "x" for stream in planned.streams}
        sources = {name: Source.of(document(rng, kind), name) for name, kind in kinds.items()}
        with closing(LocalRun(planned, sources, 100, RunStats("local"), PUNCT_NAMESPACE)) as run:
            results: list[tuple[Any, ...]] = []
            ends: list[Portion] = []
            while (portion := run.read()) is not None:
                if portion.feed is not None and portion.parsed is None:
                    portion.feed.done = (
                        True  # the input has ended, but the operators have not received its end
                    )
                    ends.append(portion)
                else:
                    results += run.process(portion)[0].tuples.rows()
            possible = [*results, *run.partial().rows()]
            results += [row for end in ends for row in run.process(end)[0].tuples.rows()]
            assert possible == results if planned.root.ordered else Counter(possible) == Counter(results), (
                seed
            )
            assert run.partial().is_empty()


def test_a_provisional_answer_is_ordered() -> None:
    document = b"<s><t><k>1</k></t><t><k>3</k></t><t><k>2</k></t></s>"
    for order, keys in [("ORDER BY k DESC", [3, 2, 1]), ("", [1, 2, 3])]:
        planned = plan(f"{STREAMS} SELECT k, COUNT(*) AS n FROM a GROUP BY k {order}", {"a": ""})
        sources = {"a": Source.of(document, "a")}
        with closing(LocalRun(planned, sources, None, RunStats("local"), PUNCT_NAMESPACE)) as run:
            run.advance()
            assert run.partial()["k"].to_list() == keys


def test_two_inputs_end_in_a_copy() -> None:
    planned = plan(STREAMS + QUERIES["outer join"], {"a": "", "b": ""})
    a = b"<s><t><k>1</k><x>5</x></t><t><k>2</k><x>6</x></t></s>"
    sources = {"a": Source.of(a, "a"), "b": Source.of(b"<s><t><k>1</k><x>7</x></t></s>", "b")}
    with closing(LocalRun(planned, sources, None, RunStats("local"), PUNCT_NAMESPACE)) as run:
        assert run.partial().is_empty()
        portions = [run.read(), run.read()]
        certain = [row for portion in portions if portion for row in run.process(portion)[0].tuples.rows()]
        assert certain == [(1, 5, 7)]
        for _ in range(2):  # the run's own state is unchanged
            assert run.partial().rows() == [(2, 6, None)]
        remaining = []
        while (result := run.advance()) is not None:
            remaining += result.tuples.rows()
        assert remaining == [(2, 6, None)]


def provisional(**options: Any) -> Provisional:
    return Provisional(plan(STREAMS + "SELECT k, x FROM a", {"a": ""}), RunOptions(partial=10.0, **options))


def test_a_provisional_answer_is_marked() -> None:
    schema = plan(STREAMS + "SELECT k, x FROM a", {"a": ""}).root.schema
    rows = schema.frame([(1, None), (2, 1)])
    answer = etree.fromstring(provisional().text(rows))
    assert answer.tag == f"{{{PARTIAL_NAMESPACE}}}answer"
    assert [child.tag for child in answer] == [f"{{{PARTIAL_NAMESPACE}}}result"] * 2
    assert [[c.text for c in child] for child in answer] == [["1"], ["2", "1"]]
    lines = provisional(format="jsonl").text(rows).splitlines()
    assert lines == [b'{"$partial": {"k": 1, "x": null}}', b'{"$partial": {"k": 2, "x": 1}}']
    pretty = provisional(form=XmlForm(namespaces={"g": "urn:g"}, pretty=True)).text(rows)
    assert len(etree.fromstring(pretty)) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"format": "csv"}, "csv cannot"), ({"checkpoint": "c"}, "add -o FILE")],
)
def test_options_without_provisional_answers(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        provisional(**options)


def test_spark_refuses_provisional_answers() -> None:
    from xmlpunct.engine.spark import run

    with pytest.raises(UsageError, match="cannot be copied"):
        run(plan(STREAMS + "SELECT k FROM a", {"a": "a.xml"}), RunOptions(partial=1.0), RunStats("spark"))
    assert "--engine local" in NO_COPY


@pytest.mark.parametrize("text", ["", "10", "0s", "-1s", "1 day", "s"])
def test_invalid_times(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_time(text)
