"""PUNCTUATE after a subquery in FROM, compared with a loop over the tuples in document order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.engine.test_late_tuples import by_local, by_spark
from xmlpunct import SqlError, query
from xmlpunct.engine.plan import Merge, Punctuate, Query, Scan
from xmlpunct.engine.plan.outlooks import outlooks
from xmlpunct.engine.sql import plan

Row = tuple[int, str, int | None, int]
"""The line of a tuple, and its columns."""
COLUMNS = "sid STRING NOT NULL, ts INT, v INT NOT NULL"
SENDERS = ("S1", "S2")
CLAUSES = ["ORDER BY h SLACK 1", "ORDER BY h", "ORDER BY h SLACK 1 FROM '{0}/senders.txt' BY sender"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "senders.txt").write_text("\n".join(SENDERS))
    return tmp_path


def rows(seed: int) -> list[Row]:
    """Roughly rising times; some are null, some fail in the select list, some senders are unlisted."""
    chance = random.Random(seed)
    return [
        (
            2 + i,
            chance.choice(("S1", "S1", "S2", "S2", "S3")),
            None if chance.random() < 0.1 else 10 * i // 4 + chance.randrange(-60, 30),
            chance.randrange(8),
        )
        for i in range(120)
    ]


def written(folder: Path, tuples: Iterable[Row]) -> str:
    def child(name: str, value: object) -> str:
        return "" if value is None else f"<{name}>{value}</{name}>"

    lines = [f"<t>{child('sid', s)}{child('ts', ts)}{child('v', v)}</t>" for _, s, ts, v in tuples]
    path = folder / "t.xml"
    path.write_text("\n".join(["<r>", *lines, "</r>"]))
    return str(path)


def text(source: str, folder: Path, clause: str, where: str = "v <> 3") -> str:
    return f"""CREATE STREAM t ({COLUMNS}) WITH (source = '{source}');
               SELECT h, COUNT(*) AS n FROM
                 (SELECT sid AS sender, ts / 10 AS h, 12 / v AS w FROM t WHERE {where}) AS q
                 PUNCTUATE {clause.format(folder)}
               GROUP BY h"""


def expected(tuples: list[Row], clause: str) -> tuple[Counter[tuple[int | None, int]], list[int]]:
    """The expected groups, and the lines of the rejects."""
    slack, is_by_sender = (1 if "SLACK" in clause else 0), "FROM" in clause
    reached: dict[str, int] = {}
    groups: Counter[int | None] = Counter()
    rejects = []
    for line, sid, ts, v in tuples:
        if v == 3:
            continue
        sender = sid if is_by_sender else ""
        if v == 0 or (is_by_sender and sid not in SENDERS):
            rejects.append(line)
            continue
        h = None if ts is None else abs(ts) // 10 * (1 if ts >= 0 else -1)
        if h is not None and h < reached.get(sender, h) - slack:
            rejects.append(line)
            continue
        if h is not None:
            reached[sender] = max(h, reached.get(sender, h))
        groups[h] += 1
    return Counter(groups.items()), rejects


@pytest.mark.parametrize("clause", CLAUSES)
def test_the_same_for_every_slicing_and_on_shards(folder: Path, tmp_path: Path, clause: str) -> None:
    for seed in range(3):
        input_rows = rows(seed)
        planned = plan(text(written(folder, input_rows), folder, clause))
        groups, lines = expected(input_rows, clause)
        assert lines
        for size, shards in ((None, 0), (1, 0), (300, 1), (700, 3)):
            out = tmp_path / f"{seed}-{size}-{shards}"
            out.mkdir()
            output = (
                by_spark(planned, out, size, shards, False) if shards else by_local(planned, out, size, False)
            )
            rejects, tuples, _ = output
            assert Counter((None if h is None else int(h), int(n)) for h, n in tuples) == groups
            assert sorted(r["line"] for r in rejects) == lines
            assert {r["source"] for r in rejects} == {str(folder / "t.xml")}


@pytest.mark.parametrize(
    "table",
    [
        "'{0}' PUNCTUATE",
        "'{0}' AS q PUNCTUATE",
        "read_xml('{0}') PUNCTUATE",
        "(SELECT * FROM '{0}') PUNCTUATE",
    ],
)
@pytest.mark.parametrize("shards", [0, 3])
def test_a_file_without_a_declaration(folder: Path, table: str, shards: int) -> None:
    """As after a subquery, which has the same order; on Spark too."""
    input_rows = rows(5)
    source = written(folder, input_rows)
    sql = f"SELECT ts, COUNT(*) AS n FROM {table.format(source)} ORDER BY ts SLACK 10 GROUP BY ts"
    planned = plan(sql)
    run = by_spark(planned, folder, 300, shards, False) if shards else by_local(planned, folder, 300, False)
    rejects, tuples, punctuations = run
    reached, lines, groups = -(10**9), [], Counter[int | None]()
    for line, _, ts, _ in input_rows:
        if ts is not None and ts < reached - 10:
            lines.append(line)
            continue
        reached = reached if ts is None else max(reached, ts)
        groups[ts] += 1
    assert lines
    assert sorted(r["line"] for r in rejects) == lines
    assert Counter((None if ts is None else int(ts), int(n)) for ts, n in tuples) == Counter(groups.items())
    assert punctuations


def test_files_of_a_join_are_each_in_order(folder: Path) -> None:
    source = written(folder, [(2, "S1", 10, 1), (3, "S1", 30, 1), (4, "S1", 20, 1)])
    sql = f"""SELECT a.ts FROM '{source}' a PUNCTUATE ORDER BY ts
              JOIN '{source}' b PUNCTUATE ORDER BY ts SLACK 10 ON a.ts = b.ts"""
    assert sorted(r for r in query(sql) if isinstance(r, tuple)) == [(10,), (30,)]


@pytest.mark.parametrize(
    "table", ["t", "t AS q", "w", "(VALUES (1)) AS v(ts)", "TUMBLE(TABLE t, DESCRIPTOR(ts), 5)", "undeclared"]
)
def test_refused_after_other_tables(table: str) -> None:
    sql = f"""CREATE STREAM t (ts INT NOT NULL) WITH (source = 'a');
              WITH w AS (SELECT ts FROM t) SELECT ts FROM {table} PUNCTUATE ORDER BY ts"""
    with pytest.raises(SqlError) as caught:
        plan(sql)
    message = "no stream undeclared" if table == "undeclared" else "PUNCTUATE must follow a subquery"
    assert message in str(caught.value)


def test_punctuations_follow_the_greatest_value(folder: Path) -> None:
    source = written(folder, [(2, "S1", 5, 1), (3, "S1", 31, 1), (4, "S1", 12, 1), (5, "S1", 25, 1)])
    elements = [str(r) for r in query(text(source, folder, "ORDER BY h SLACK 1"))]
    assert elements[:2] == ["(0, 1)", "<(,1], *>"]
    assert sorted(elements[2:]) == ["(2, 1)", "(3, 1)"]


def test_the_order_of_the_stream_is_retained(folder: Path) -> None:
    """The order of the stream and the order of the subquery both hold."""
    input_rows = [(2, "S1", 10, 1), (3, "S1", 30, 1), (4, "S1", 20, 1), (5, "S1", 40, 7)]
    source = written(folder, input_rows)
    sql = f"""CREATE STREAM t ({COLUMNS}) WITH (source = '{source}') PUNCTUATE ORDER BY ts;
              SELECT v2 FROM (SELECT 10 - v AS v2 FROM t) PUNCTUATE ORDER BY v2"""
    assert [r for r in query(sql) if isinstance(r, tuple)] == [(9,), (9,)]


def test_a_query_of_with_keeps_the_order_too(folder: Path) -> None:
    source = written(folder, [(2, "S1", 10, 1), (3, "S1", 30, 1), (4, "S1", 20, 1)])
    sql = f"""CREATE STREAM t ({COLUMNS}) WITH (source = '{source}');
              WITH q AS (SELECT ts AS at FROM t)
              SELECT At FROM (SELECT * FROM q) PUNCTUATE ORDER BY AT JOIN (SELECT v FROM t) AS r ON at = 10 * v"""
    assert [r for r in query(sql) if isinstance(r, tuple)] == [(10,), (10,), (10,)]


def test_each_of_several_senders_is_in_order_by_itself(folder: Path) -> None:
    planned = plan(text("tcp-listen://127.0.0.1:0?connections=2", folder, "ORDER BY h"))
    (merge,) = planned.root.find(Merge)
    for number, side in enumerate(merge.inputs, 1):
        assert len(list(side.find(Punctuate))) == 1
        assert [scan.stream.sender for scan in side.find(Scan)] == [number]


def outlook(planned: Query) -> set[frozenset[str]]:
    (node,) = planned.root.find(Punctuate)
    return set(outlooks(planned.root)[id(node)].offers)


def test_verdicts_use_the_order_of_a_subquery(folder: Path) -> None:
    """The order of the subquery counts as if the stream had declared it."""
    assert outlook(plan(text("t.xml", folder, "ORDER BY h"))) == {frozenset(["h"])}
    assert outlook(plan(text("-", folder, "ORDER BY h"))) == {frozenset(["h"])}


@pytest.mark.parametrize(
    ("subquery", "message"),
    [
        ("SELECT DISTINCT ts AS h FROM t", "dupelim does not keep"),
        ("SELECT ts AS h, COUNT(*) AS n FROM t GROUP BY ts", "group-by does not keep"),
        ("SELECT ts AS h FROM t UNION ALL SELECT ts AS h FROM u", "merge does not keep"),
        ("SELECT t.ts AS h FROM t JOIN u ON t.sid = u.sid", "join does not keep"),
        ("SELECT ts AS h FROM t WHERE sid IN (SELECT sid FROM u)", "semijoin does not keep"),
        ("SELECT ts AS hour FROM t", "no column h to punctuate: there are hour"),
        ("SELECT ts AS h, v AS h FROM t", "ambiguous"),
        ("SELECT sid AS h FROM keyed", "the key of keyed is checked after the senders"),
    ],
)
def test_refused_where_the_order_is_lost(subquery: str, message: str) -> None:
    sql = f"""CREATE STREAM t ({COLUMNS}) WITH (source = 'a');
              CREATE STREAM u ({COLUMNS}) WITH (source = 'b');
              CREATE STREAM keyed (sid STRING PRIMARY KEY)
                WITH (source = 'tcp-listen://127.0.0.1:0?connections=2');
              SELECT h FROM ({subquery}) AS q PUNCTUATE ORDER BY h"""
    with pytest.raises(SqlError, match=message):
        plan(sql)


def test_punctuate_after_a_name_is_no_alias() -> None:
    sql = f"CREATE STREAM t ({COLUMNS}) WITH (source = 'a'); SELECT ts FROM t {{}} ORDER BY ts"
    with pytest.raises(SqlError, match="PUNCTUATE must follow a subquery"):
        plan(sql.format("PUNCTUATE"))
    assert plan(sql.format("AS punctuate")).root.ordered


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("ORDER BY h SLACK -1", "0 or more"),
        ("ORDER BY sender SLACK 1", "STRING"),
        ("ORDER BY h FROM 'no-such-file' BY sender", "cannot read no-such-file"),
        ("ORDER h", "PUNCTUATE ORDER BY a"),
    ],
)
def test_refused_as_in_create_stream(folder: Path, clause: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(text("t.xml", folder, clause))
