"""Verdicts before a run: the operators that block or grow for ever, and the schemes that would help."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import xmlpunct
from xmlpunct.engine.plan.outlooks import outlook_of
from xmlpunct.engine.plan.schemes import Outlook
from xmlpunct.engine.sql import plan
from xmlpunct.engine.verdicts import NEEDS_PUNCTUATIONS, endless_faults, faults, mending, verdicts
from xmlpunct.engine.why.plan_text import explain

DECLARED = """
CREATE STREAM s (hour INT NOT NULL, sid STRING NOT NULL, temp INT, id INT NOT NULL) WITH (source = 'tcp://h:1') {s};
CREATE STREAM r (hour INT NOT NULL, sid STRING NOT NULL, temp INT, ts INT NOT NULL)
  WITH (source = 'tcp://h:2', timestamp = 'ts') {r};
CREATE STREAM f (hour INT NOT NULL, sid STRING NOT NULL) WITH (source = 'f.xml');
CREATE STREAM k (id INT PRIMARY KEY, v INT) WITH (source = 'tcp://h:3');
CREATE STREAM p (id INT PRIMARY KEY, v INT NOT NULL) WITH (source = 'tcp://h:4', timestamp = 'v');
CREATE STREAM d (hour INT NOT NULL, sid STRING CHECK (sid IN ('A', 'B'))) WITH (source = '-') PUNCTUATED BY (sid, hour);
CREATE RELATION names (sid STRING NOT NULL, name STRING) WITH (source = 'names.xml');
"""
GROUPS = "SELECT hour, COUNT(*) AS n FROM s GROUP BY hour"
JOINED = "SELECT s.temp AS p, r.temp AS q FROM s JOIN r ON s.hour = r.hour"
LEFT = "SELECT s.temp AS p, r.temp AS q FROM s LEFT JOIN r ON s.hour = r.hour"
FULL = "SELECT s.temp AS p, r.temp AS q FROM s FULL JOIN r ON s.hour = r.hour"
NEAR = "SELECT s.temp FROM s JOIN r ON r.ts BETWEEN s.hour AND s.hour + 5"
SESSION = "SELECT sid, window_end FROM SESSION(TABLE r PARTITION BY sid, DESCRIPTOR(ts), 5)"
TUMBLE = "SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE r, DESCRIPTOR(ts), 5) GROUP BY window_start"
OVER = "SELECT sid, SUM(temp) OVER (PARTITION BY sid ORDER BY ts ROWS 3 PRECEDING) AS x FROM r"
NEXT = "SELECT sid, LEAD(temp) OVER (PARTITION BY sid ORDER BY ts) AS x FROM r"
ENDS = f"SELECT window_end, COUNT(*) AS n FROM ({SESSION}) AS w GROUP BY window_end"
WINDOW = "SELECT sid, COUNT(*) AS n FROM r [RANGE 5] GROUP BY sid"
PAIRS = "SELECT x.temp AS p, y.temp AS q FROM r [RANGE 5] x JOIN r [RANGE 5] y ON x.sid = y.sid"
BY_HOUR, BY_SID, BY_BOTH = "PUNCTUATED BY (hour)", "PUNCTUATED BY (sid)", "PUNCTUATED BY (hour, sid)"
IN_ORDER = "PUNCTUATE ORDER BY {}"
IN_HOUR, OR = "s: PUNCTUATE ORDER BY hour", "or, if the sender punctuates,"


@pytest.mark.parametrize(
    ("s", "r", "query", "expected"),
    [
        ("", "", GROUPS, "group-by blocks for ever"),
        (BY_HOUR, "", GROUPS, ""),
        (BY_BOTH, "", GROUPS, "group-by blocks for ever"),
        (BY_BOTH, "", "SELECT hour, COUNT(*) AS n FROM s WHERE sid = 'A' GROUP BY hour", ""),
        (BY_BOTH, "", "SELECT hour, COUNT(*) AS n FROM s WHERE sid IN ('A', 'B') GROUP BY hour", ""),
        (BY_BOTH, "", "SELECT hour, COUNT(*) AS n FROM s WHERE sid > 'A' GROUP BY hour", "group-by blocks for ever"),
        ("", "", "SELECT hour, COUNT(*) AS n FROM d GROUP BY hour", ""),
        ("", "", "SELECT id, COUNT(*) AS n FROM k GROUP BY id", ""),
        ("", "", "SELECT id, v, COUNT(*) AS n FROM k GROUP BY id, v", ""),
        ("", "", "SELECT v, COUNT(*) AS n FROM k GROUP BY v", "group-by blocks for ever"),
        ("", "", "SELECT DISTINCT id FROM k WHERE v > 5", ""),
        (BY_SID, "", "SELECT k.v FROM k JOIN s ON k.id = s.id", "join grows for ever"),
        ("PUNCTUATED BY (id)", "", "SELECT k.v FROM s LEFT JOIN k ON s.id = k.id", "join blocks for ever"),
        (IN_ORDER.format("hour"), "", "SELECT hour / 24 AS d, COUNT(*) AS n FROM s GROUP BY hour / 24", ""),
        (BY_HOUR, "", "SELECT hour / 24 AS d, COUNT(*) AS n FROM s GROUP BY hour / 24", ""),
        (IN_ORDER.format("hour"), "", "SELECT LEAST(hour, 9) AS h, COUNT(*) AS n FROM s GROUP BY LEAST(hour, 9)",
         "group-by blocks for ever"),
        ("", "", "SELECT sid, MIN(hour) AS h FROM s GROUP BY sid", "group-by blocks for ever"),
        (IN_ORDER.format("hour"), "", "SELECT sid, MIN(hour) AS h FROM s GROUP BY sid", "group-by grows for ever"),
        ("", "", "SELECT COUNT(*) AS n FROM s", "group-by blocks for ever"),
        ("", "", "SELECT COUNT(*) AS n FROM f", ""),
        ("", "", "SELECT DISTINCT sid FROM s", "dupelim grows for ever"),
        (BY_SID, "", "SELECT DISTINCT sid FROM s", ""),
        (BY_HOUR, "", JOINED, "join grows for ever"),
        (BY_HOUR, BY_HOUR, JOINED, ""),
        (BY_HOUR, BY_BOTH, JOINED, "join grows for ever"),
        ("", BY_HOUR, LEFT, "join grows for ever"),
        (BY_HOUR, "", LEFT, "join blocks for ever"),
        (BY_HOUR, "", FULL, "join blocks for ever"),
        (BY_HOUR, BY_HOUR, FULL, ""),
        ("", BY_HOUR, "SELECT hour FROM s WHERE hour NOT IN (SELECT hour FROM r)", "antijoin grows for ever"),
        ("", "", "SELECT temp FROM s WHERE temp NOT IN (SELECT temp FROM r)", "not-in blocks for ever"),
        (BY_HOUR, "", "SELECT hour FROM s WHERE hour IN (SELECT hour FROM r)", "semijoin grows for ever"),
        (IN_ORDER.format("hour"), IN_ORDER.format("ts"), NEAR, ""),
        ("PUNCTUATED BY (hour)", "PUNCTUATED BY (ts)", NEAR, ""),
        ("PUNCTUATED BY (hour)", "PUNCTUATED BY (ts)", "SELECT s.temp FROM s JOIN r ON r.ts >= s.hour",
         "join grows for ever"),
        (IN_ORDER.format("hour"), IN_ORDER.format("ts"), "SELECT s.temp FROM s JOIN r ON r.ts >= s.hour",
         "join grows for ever"),
        ("", "PUNCTUATE ORDER BY ts", "SELECT s.temp FROM s LEFT JOIN r ON r.ts <= s.hour", "join grows for ever"),
        (BY_HOUR, BY_SID, "SELECT hour, sid FROM s EXCEPT SELECT hour, sid FROM r", ""),
        (BY_HOUR, "", "SELECT hour, sid FROM s EXCEPT SELECT hour, sid FROM r", "difference blocks for ever"),
        ("", BY_HOUR, "SELECT hour, sid FROM s EXCEPT SELECT hour, sid FROM r", "difference grows for ever"),
        (BY_HOUR, "", "SELECT hour FROM s INTERSECT SELECT hour FROM r", "intersect grows for ever"),
        (BY_HOUR, "", "SELECT hour FROM s UNION SELECT hour FROM r", "union grows for ever"),
        (BY_HOUR, "", "SELECT hour FROM s UNION ALL SELECT hour FROM r", ""),
        (BY_HOUR, "", "SELECT hour FROM s UNION SELECT hour FROM f", ""),
        (BY_HOUR, "", "SELECT hour FROM s ORDER BY hour", "sort blocks for ever"),
        (IN_ORDER.format("hour"), "", "SELECT hour FROM s ORDER BY hour", ""),
        (IN_ORDER.format("hour"), "", "SELECT hour FROM s ORDER BY hour DESC", "sort blocks for ever"),
        (IN_ORDER.format("temp"), "", "SELECT temp FROM s ORDER BY temp NULLS FIRST", "sort blocks for ever"),
        ("", "", TUMBLE, "group-by blocks for ever"),
        ("", "PUNCTUATED BY (ts)", TUMBLE, ""),
        ("", BY_HOUR, SESSION, "session blocks for ever"),
        ("", "PUNCTUATED BY (ts, sid)", SESSION, ""),
        ("", BY_HOUR, OVER, "over blocks for ever"),
        ("", IN_ORDER.format("ts"), OVER, ""),
        ("", "PUNCTUATED BY (ts)", OVER, "over blocks for ever"),
        ("", "PUNCTUATED BY (sid, ts)", OVER, ""),
        ("", BY_SID, OVER, ""),
        ("", IN_ORDER.format("ts"), NEXT, "over blocks for ever"),
        ("", "PUNCTUATED BY (sid) PUNCTUATE ORDER BY ts", NEXT, ""),
        ("", "PUNCTUATED BY (ts)", SESSION, ""),
        ("", "PUNCTUATED BY (ts)", ENDS, "group-by blocks for ever"),
        ("", IN_ORDER.format("ts"), ENDS, ""),
        ("", "", "SELECT id, COUNT(*) OVER (PARTITION BY id ORDER BY v) AS n FROM p", ""),
        ("", "PUNCTUATED BY (ts)", "SELECT sid FROM r [PARTITION BY sid ROWS 2]",
         "rows blocks for ever; pointwise blocks for ever"),
        ("", "", "SELECT id, COUNT(*) AS n FROM p [RANGE 3] GROUP BY id", ""),
        (BY_HOUR, BY_HOUR, "SELECT s.temp FROM s JOIN r ON r.hour BETWEEN s.hour AND s.hour + 2", ""),
        (BY_HOUR, BY_HOUR, "SELECT s.temp FROM s JOIN r ON r.hour BETWEEN s.hour / 2 AND s.hour", ""),
        (BY_HOUR, BY_HOUR, "SELECT s.temp FROM s JOIN r ON r.hour BETWEEN SIGN(s.hour) AND s.hour",
         "join grows for ever"),
        ("", BY_HOUR, "SELECT f.sid FROM f LEFT JOIN s ON f.sid = s.sid", "join blocks for ever"),
        ("", "", "SELECT f.sid FROM f JOIN s ON f.sid = s.sid", ""),
        ("", "", "SELECT hour, sid FROM f EXCEPT SELECT hour, sid FROM s", "difference blocks for ever"),
        (IN_ORDER.format("hour"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE hour < 100 GROUP BY sid", ""),
        (IN_ORDER.format("hour"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE 100 > hour AND id > 3 GROUP BY sid", ""),
        (IN_ORDER.format("hour"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE hour / 24 BETWEEN 2 AND 5 GROUP BY sid",
         ""),
        (IN_ORDER.format("hour"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE hour >= 100 GROUP BY sid",
         "group-by blocks for ever"),
        (IN_ORDER.format("temp"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE temp < 9 OR temp IS NULL GROUP BY sid",
         "group-by blocks for ever"),
        (IN_ORDER.format("temp"), "", "SELECT sid, COUNT(*) AS n FROM s WHERE temp < 9 GROUP BY sid", ""),
        (BY_HOUR, "", "SELECT sid, COUNT(*) AS n FROM s WHERE hour < 9 GROUP BY sid", "group-by blocks for ever"),
        (IN_ORDER.format("temp"), "", "SELECT temp FROM s WHERE temp < 9 ORDER BY temp DESC", ""),
        (IN_ORDER.format("temp"), "", "SELECT temp FROM s WHERE temp IS NOT NULL ORDER BY temp NULLS FIRST", ""),
        ("PUNCTUATED BY (temp)", "PUNCTUATED BY (temp)",
         "SELECT temp FROM s WHERE temp NOT IN (SELECT temp FROM r WHERE temp > 0)", ""),
        ("PUNCTUATED BY (temp)", "", "SELECT temp FROM s WHERE temp NOT IN (SELECT temp FROM r WHERE temp > 0)",
         "not-in blocks for ever"),
        ("", "PUNCTUATED BY (temp)", "SELECT temp FROM s WHERE temp NOT IN (SELECT temp FROM r WHERE temp > 0)",
         "not-in grows for ever"),
        ("", "", WINDOW, "group-by blocks for ever"),
        ("", IN_ORDER.format("ts"), WINDOW, ""),
        ("", "PUNCTUATED BY (sid, ts)", WINDOW, ""),
        ("", IN_ORDER.format("ts"), PAIRS, ""),
        ("", IN_ORDER.format("ts"), "SELECT r.temp, name FROM r [NOW] JOIN names ON r.sid = names.sid", ""),
        ("", "", "RSTREAM(SELECT sid FROM r [NOW])", "rstream blocks for ever"),
        ("", IN_ORDER.format("ts"), "SELECT DISTINCT sid FROM r [RANGE UNBOUNDED]", ""),
    ],
)  # fmt: skip
def test_operators_that_block_or_grow(s: str, r: str, query: str, expected: str) -> None:
    texts = faults(plan(DECLARED.format(s=s, r=r) + query))
    assert "; ".join(text.split(" ", 1)[1] for text in texts) == expected


@pytest.mark.parametrize(
    ("s", "r", "query", "expected"),
    [
        ("", "", GROUPS, [IN_HOUR, f"{OR} s: {BY_HOUR}"]),
        (BY_HOUR, "", GROUPS, []),
        (BY_SID, "", GROUPS, [IN_HOUR, f"{OR} s: PUNCTUATED BY (hour), (sid)"]),
        ("", "", JOINED, ["r: PUNCTUATE ORDER BY hour", IN_HOUR, f"{OR} r: {BY_HOUR}; s: {BY_HOUR}"]),
        (BY_HOUR, "", JOINED, ["r: PUNCTUATE ORDER BY hour", f"{OR} r: {BY_HOUR}"]),
        ("", "", "SELECT DISTINCT hour, temp FROM s", [IN_HOUR, f"{OR} s: {BY_HOUR}"]),
        ("", "", "SELECT DISTINCT temp FROM s", ['s: PUNCTUATE ORDER BY "temp"', f'{OR} s: PUNCTUATED BY ("temp")']),
        ("", "", "SELECT DISTINCT sid FROM s", [f"s: {BY_SID}", NEEDS_PUNCTUATIONS]),
        ("", "", "SELECT hour FROM s UNION SELECT hour FROM f", [IN_HOUR, f"{OR} s: {BY_HOUR}"]),
        ("", "", "SELECT hour FROM s ORDER BY hour", [IN_HOUR]),
        ("PUNCTUATE ORDER BY temp", "", GROUPS, [f"s: {BY_HOUR}", NEEDS_PUNCTUATIONS]),
        ("", "", WINDOW, ["r: PUNCTUATE ORDER BY ts", f"{OR} r: {BY_SID}"]),
        ("", "", "SELECT s.hour, COUNT(*) AS n FROM s JOIN r ON s.sid = r.sid GROUP BY s.hour",
         [f"r: {BY_SID}", "s: PUNCTUATED BY (sid) PUNCTUATE ORDER BY hour", NEEDS_PUNCTUATIONS]),
        ("", "", "SELECT COUNT(*) AS n FROM s",
         ["no scheme helps #2 group-by: only the end of its input does"]),
        ("", "", "SELECT COUNT(*) AS n FROM (SELECT DISTINCT sid FROM s)",
         ["no scheme helps #3 group-by: only the end of its input does"]),
        ("", "", "SELECT hour, COUNT(*) AS n FROM (SELECT DISTINCT hour, sid FROM s) GROUP BY hour",
         [IN_HOUR, f"{OR} s: {BY_HOUR}"]),
    ],
)  # fmt: skip
def test_suggested_promises(s: str, r: str, query: str, expected: list[str]) -> None:
    """An order where a column can be in order; nothing for results that only an end lets through."""
    assert sorted(mending(plan(DECLARED.format(s=s, r=r) + query)).lines()) == sorted(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (GROUPS, "group-by blocks for ever on s; PUNCTUATE ORDER BY hour would unblock it"),
        (JOINED, "join grows for ever on s and r; PUNCTUATE ORDER BY hour on r and on s would bound its state"),
        ("SELECT DISTINCT sid FROM s",
         "dupelim grows for ever on s; PUNCTUATED BY (sid) would bound its state, if the sender punctuates"),
        ("SELECT COUNT(*) AS n FROM s", "group-by blocks for ever on s; no punctuation would unblock it"),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT sid FROM s)",
         "group-by blocks for ever on s; no punctuation would unblock it"),
        ("SELECT hour, COUNT(*) AS n FROM i GROUP BY hour",
         "group-by blocks until i ends; PUNCTUATE ORDER BY hour would unblock it"),
        ("SELECT COUNT(*) AS n FROM f", ""),
        ("SELECT COUNT(*) AS n FROM (SELECT hour FROM f UNION ALL SELECT hour FROM s)",
         "group-by blocks for ever on s; no punctuation would unblock it"),
    ],
)  # fmt: skip
def test_faults_of_sources_that_do_not_end(query: str, expected: str) -> None:
    standard_input = "CREATE STREAM i (hour INT NOT NULL) WITH (source = '-');"
    planned = plan(DECLARED.format(s="", r="") + standard_input + query)
    assert "; ".join(map(str, endless_faults(planned))) == expected


def test_the_promises_of_many_streams_are_found_in_time() -> None:
    """The number of combinations of schemes, and of selections of promises, grows exponentially with the streams."""
    names = [f"s{number}" for number in range(30)]
    declared = "".join(f"CREATE STREAM {n} (a INT, b INT) WITH (source = 'tcp://h:{n[1:]}1');" for n in names)
    lines = list(mending(plan(declared + " UNION ".join(f"SELECT a, b FROM {n}" for n in names))).lines())
    assert len(lines) == len(names) + 1
    assert len({line.partition(": ")[2] for line in lines[:-1]}) == 1


@pytest.mark.parametrize("joins", [False, True])
def test_a_run_over_many_endless_streams_finds_its_faults_in_few_steps(
    joins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 streams take 0.2 s of CPU; 30 joins took 4 s."""
    names = [f"s{number}" for number in range(30)]
    declared = "".join(f"CREATE STREAM {n} (a INT, b INT) WITH (source = 'tcp://h:{n[1:]}1');" for n in names)
    union = f"SELECT a, COUNT(*) FROM ({' UNION '.join(f'SELECT a, b FROM {n}' for n in names)}) GROUP BY a"
    chain = "SELECT s0.b FROM s0" + "".join(f" JOIN {n} USING (a)" for n in names[1:])
    steps = count()

    def counted(*arguments: Any) -> Outlook:
        next(steps)
        return outlook_of(*arguments)

    query = plan(declared + (chain if joins else union))
    monkeypatch.setattr("xmlpunct.engine.plan.outlooks.outlook_of", counted)
    found = endless_faults(query)
    assert len(found) == (29 if joins else 2)
    assert {p.scheme for fault in found for p in fault.promises} == {frozenset("a")}
    assert next(steps) < (5_000 if joins else 1_000)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT hour, COUNT(*) AS n FROM f GROUP BY hour", "group-by: fine (f ends)"),
        ("SELECT temp, COUNT(*) AS n FROM s GROUP BY temp", "group-by: fine but for nulls in temp"),
        ("SELECT DISTINCT sid FROM r [RANGE UNBOUNDED]",
         "window: fine: grows with its distinct content, by definition"),
        ("SELECT s.temp FROM s JOIN f ON s.hour = f.hour", "join: fine (f ends)"),
        (OVER, "over: fine: retains state for each partition, by definition"),
        ("SELECT hour, sid FROM s INTERSECT SELECT hour, sid FROM f", "intersect: fine (f ends)"),
        ("SELECT hour FROM f WHERE hour NOT IN (SELECT id FROM k)", "antijoin: blocks for ever"),
        ("SELECT temp AS x FROM s UNION SELECT ts FROM r", "union: fine but for nulls in temp, ts"),
        ("SELECT temp AS ts FROM s UNION SELECT ts AS temp FROM r", "union: fine but for nulls in temp, ts"),
    ],
)  # fmt: skip
def test_verdicts_in_words(query: str, expected: str) -> None:
    planned = plan(DECLARED.format(s="PUNCTUATED BY (temp)", r="PUNCTUATE ORDER BY ts") + query)
    assert expected in [f"{node.name}: {verdict}" for node, verdict in verdicts(planned)]
    assert expected in explain(planned)


OF_THREE = """
CREATE STREAM x (a INT NOT NULL, b INT NOT NULL) WITH (source = 'tcp://h:1') {};
CREATE STREAM y (b INT NOT NULL, c INT NOT NULL) WITH (source = 'tcp://h:2') {};
CREATE STREAM z (c INT NOT NULL, a INT NOT NULL) WITH (source = 'tcp://h:3') {};
"""
RING = "SELECT x.a, y.b, z.c FROM x JOIN y ON x.b = y.b JOIN z ON y.c = z.c AND z.a = x.a"


def test_a_ring_of_joins() -> None:
    """One join of all three inputs would be bounded, but no join of two inputs is."""
    planned = plan(OF_THREE.format("PUNCTUATED BY (b)", "PUNCTUATED BY (c)", "PUNCTUATED BY (a)") + RING)
    assert faults(planned) == ["#3 join grows for ever"]
    lines = list(mending(planned).lines())
    assert "#5 join: no order of its joins stays bounded, but one join of all inputs would" in lines
    assert lines[:2] == ["y: PUNCTUATE ORDER BY b", f"{OR} y: PUNCTUATED BY (b), (c)"]
    assert len(lines) == 3


def test_joins_take_an_order_that_stays_bounded() -> None:
    """The query joins y and z on c first, but z closes only pairs (a, c)."""
    promises = ["PUNCTUATED BY (a), (b)", "PUNCTUATED BY (b)", "PUNCTUATED BY (a, c)"]
    query = RING.replace(
        "x JOIN y ON x.b = y.b JOIN z ON y.c = z.c AND", "y JOIN z ON y.c = z.c JOIN x ON x.b = y.b AND"
    )
    planned = plan(OF_THREE.format(*promises) + query)
    assert faults(planned) == []
    assert "not in the query's order" in explain(planned)
    values = [(1, 2), (2, 1), (2, 2), (1, 2)]
    feeds = {
        name: "".join(f"<{name}><{p}>{i}</{p}><{q}>{j}</{q}></{name}>" for i, j in values)
        for name, p, q in (("x", "a", "b"), ("y", "b", "c"), ("z", "c", "a"))
    }
    results = [
        sorted(
            t
            for t in xmlpunct.query(
                OF_THREE.format(*schemes) + query,
                **{n: f"<s>{feed}</s>".encode() for n, feed in feeds.items()},
            )
            if isinstance(t, tuple)
        )
        for schemes in (promises, ["", "", ""])
    ]
    assert results[0] == results[1]
    assert len(results[0]) > 5


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ("NOT NULL", "NOT NULL", "fine"),
        ("", "", "fine but for nulls in id"),
        ("", "NOT NULL", "fine but for nulls in id"),
        ("NOT NULL", "", "fine but for nulls in id"),
    ],
)
def test_intersect_retains_nulls_that_no_punctuation_on_the_column_closes(
    left: str, right: str, verdict: str
) -> None:
    ddl = "".join(
        f"CREATE STREAM {name} (id INT {null}) WITH (source = 'tcp://:700{port}') PUNCTUATED BY (id); "
        for port, (name, null) in enumerate([("a", left), ("b", right)])
    )
    text = explain(plan(f"{ddl}SELECT id FROM a INTERSECT SELECT id FROM b"))
    assert f"#3 intersect: {verdict}\n" in text
