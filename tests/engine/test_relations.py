"""Windows, relations, ISTREAM, DSTREAM and RSTREAM in SQL: parsing, results, explain and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xmlpunct
from xmlpunct.base.errors import Reject, SqlError
from xmlpunct.engine.plan import Declared, Pointwise, RowsWindow, ToStream, Window
from xmlpunct.engine.run.local.local_run import open_sources, results
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.punctuations.punctuation import Punctuation

STREAMS = """
CREATE STREAM packet (src INT, len INT, ts INT NOT NULL) WITH (source = '-', timestamp = 'ts');
CREATE STREAM bare (src INT, x DOUBLE) WITH (source = '-');
CREATE STREAM dated (src INT, d DATE NOT NULL) WITH (source = '-', timestamp = 'd');
CREATE STREAM timed (src INT, t TIMESTAMP NOT NULL) WITH (source = '-', timestamp = 't');
CREATE RELATION domainof (ip INT, name STRING) WITH (source = '-');
CREATE RELATION moved (ip INT, name STRING, since INT NOT NULL, n INT)
  WITH (source = '-', timestamp = 'since', change = 'n');
"""
PUNCT = 'xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"'


def only_node(sql: str, kind: type[Any]) -> Any:
    """The only node of a type in the plan of a query."""
    (node,) = plan(STREAMS + sql).root.find(kind)
    return node


# Parsing


@pytest.mark.parametrize(
    ("sql", "length", "slide", "origin"),
    [
        ("SELECT src FROM packet [NOW] p", 0, None, 0),
        ("SELECT src FROM packet [RANGE 5] AS p", 5, None, 0),
        ("SELECT src FROM packet[RANGE 5 SLIDE 3 ORIGIN -1]", 5, 3, -1),
        ("SELECT src FROM packet [RANGE 99999999999999999999]", 99999999999999999999, None, 0),
        ("SELECT src FROM packet [RANGE UNBOUNDED]", None, None, 0),
        ("SELECT src FROM packet [RANGE UNBOUNDED SLIDE 2]", None, 2, 0),
        ("SELECT a FROM (SELECT src AS a, ts FROM packet) [RANGE 2] q", 2, None, 0),
        ("SELECT src FROM timed [RANGE INTERVAL '2' MINUTE]", 120_000_000, None, 0),
        (
            "SELECT src FROM timed [RANGE INTERVAL '0.5' SECOND SLIDE INTERVAL '1' HOUR]",
            500_000,
            3_600_000_000,
            0,
        ),
        ("SELECT src FROM timed [RANGE INTERVAL '1' WEEK]", 7 * 86400 * 10**6, None, 0),
        ("SELECT src FROM dated [RANGE 7]", 7, None, 0),
        ("SELECT src FROM dated [RANGE INTERVAL '1' WEEK SLIDE 2 ORIGIN -1]", 7, 2, 719162),
        ("SELECT src FROM dated [RANGE INTERVAL '7' DAYS SLIDE 7]", 7, 7, 719163),
        ("SELECT src FROM dated [RANGE 7 SLIDE 7 ORIGIN DATE '1970-01-05']", 7, 7, 719167),
    ],
)
def test_windows_are_read(sql: str, length: int | None, slide: int | None, origin: int) -> None:
    window = only_node(sql, Window)
    assert (window.length, window.slide, window.origin) == (length, slide, origin)


def test_rows_are_read() -> None:
    rows = only_node("SELECT src FROM packet [PARTITION BY src, len ROWS 3] p", RowsWindow)
    assert (rows.count, rows.by) == (3, ("p.src", "p.len"))
    assert only_node("SELECT src FROM packet [ROWS 3]", RowsWindow).by == ()


def test_streams_of_relations_are_read() -> None:
    stream = only_node("RSTREAM(SELECT src FROM packet [NOW] EVERY 4 ORIGIN 1)", ToStream)
    assert (stream.kind, stream.every, stream.origin, stream.transient) == ("rstream", 4, 1, True)
    assert (
        only_node("WITH q AS (SELECT src FROM packet [ROWS 1]) DSTREAM(SELECT * FROM q)", ToStream).kind
        == "dstream"
    )


@pytest.mark.parametrize(
    ("relation", "transient"),
    [
        ("SELECT src FROM packet [RANGE 3]", True),
        ("SELECT src FROM packet [RANGE UNBOUNDED]", False),
        ("SELECT src FROM packet [ROWS 3]", False),
        ("SELECT src, COUNT(*) AS n FROM packet [RANGE 3] GROUP BY src", True),
        ("SELECT COUNT(*) AS n FROM packet [RANGE 3]", False),
        ("SELECT src FROM packet [RANGE 3], domainof", True),
        ("SELECT src FROM packet [NOW] RIGHT JOIN domainof ON src = ip", False),
        ("SELECT ip FROM domainof WHERE ip IN (SELECT src FROM packet [NOW])", True),
        ("SELECT ip FROM domainof WHERE NOT EXISTS (SELECT src FROM packet [NOW] WHERE src = ip)", False),
        ("SELECT src FROM packet [NOW] UNION ALL SELECT ip FROM domainof", False),
        ("SELECT src FROM packet [NOW] EXCEPT SELECT ip FROM domainof", True),
        ("SELECT ip FROM domainof INTERSECT ALL SELECT src FROM packet [NOW]", True),
    ],
)
def test_a_relation_is_transient_or_not(relation: str, transient: bool) -> None:
    assert only_node(f"RSTREAM({relation})", ToStream).transient is transient


def test_instants_are_those_that_all_inputs_declare() -> None:
    def instants(first: str, second: str) -> tuple[int | None, int | None]:
        text = "CREATE STREAM {0} (k INT, ts INT NOT NULL {1}) WITH (source = '-', timestamp = 'ts');"
        sql = text.format("a", first) + text.format("b", second)
        node = next(plan(f"{sql} SELECT a.k FROM a [NOW], b [NOW]").root.find(Window))
        return node.instants.least, node.instants.greatest

    assert instants("CHECK (ts BETWEEN 0 AND 9)", "CHECK (ts >= 0 AND ts < 10)") == (0, 9)
    assert instants("CHECK (ts >= 0)", "CHECK (ts >= 1)") == (None, None)
    assert instants("CHECK (ts BETWEEN 0 AND 9)", "CHECK (ts >= 0)") == (0, None)
    assert instants("CHECK (ts >= 0)", "") == (None, None)


def test_a_query_of_with_hides_a_stream() -> None:
    sql = "WITH dated AS (SELECT src FROM packet [NOW]) SELECT p.src FROM packet [NOW] p, dated"
    assert only_node(sql.replace("p.src FROM packet [NOW] p, dated", "src FROM dated"), Window).length == 0


def test_unused_columns_are_dropped_below_windows() -> None:
    root = plan(f"{STREAMS} SELECT COUNT(*) AS n FROM packet [RANGE 3] GROUP BY src").root
    assert only_node("SELECT ip FROM moved", Declared).input.schema.names == (
        "moved.ip",
        "moved.name",
        "moved.since",
        "moved.n",
    )
    assert [node.schema.names for node in root.find(Window)] == [("packet.src", "$at", "$diff")]


@pytest.mark.parametrize(
    ("sql", "functions"),
    [
        ("SELECT src, COUNT(*) AS n FROM packet [RANGE 3] GROUP BY src", []),
        ("SELECT SUM(len) AS n FROM packet [RANGE 3] HAVING SUM(len) > 5", []),
        ("SELECT src, COUNT(*) AS n, src + 1 AS more FROM packet [RANGE 3] GROUP BY src", []),
        (
            "SELECT COUNT(*) AS n FROM packet [RANGE 3] GROUP BY src",
            ["changes"],
        ),  # equal tuples of two groups
        ("SELECT src, COUNT(*) > 1 AS n FROM packet [RANGE 3] GROUP BY src", ["changes"]),
        ("SELECT DISTINCT src FROM packet [RANGE 3]", ["distinct"]),
        ("SELECT src FROM packet [RANGE 3]", ["changes"]),
        ("SELECT src FROM packet [ROWS 3]", ["changes"]),
    ],
)
def test_changes_are_made_canonical_once(sql: str, functions: list[str]) -> None:
    assert [node.function for node in plan(STREAMS + sql).root.find(Pointwise)] == functions


# Errors

REFUSED = [
    (
        "SELECT src FROM packet [NOW] p, bare b",
        "bare b",
        "b is a stream without a window",
    ),
    (
        "SELECT src FROM bare b, packet [NOW] p",
        "bare b",
        "b is a stream without a window",
    ),
    ("SELECT src FROM packet [NOW] UNION SELECT src FROM bare", "src FROM bare", "a stream without a window"),
    (
        "SELECT len FROM packet [NOW] WHERE src IN (SELECT src FROM bare)",
        None,
        "bare is a stream without a window",
    ),
    ("ISTREAM(SELECT src FROM bare)", "bare", "ISTREAM needs a relation, and this is a stream"),
    ("ISTREAM(ISTREAM(SELECT src FROM packet [NOW]))", None, "ISTREAM needs a relation"),
    (
        "SELECT ISTREAM(SELECT src FROM packet [NOW]) FROM bare",
        None,
        "must be the complete query, the complete list",
    ),
    ("SELECT src FROM bare [NOW]", "[NOW]", "a window needs a timestamp: CREATE STREAM bare"),
    ("SELECT ip FROM domainof [NOW]", "[NOW]", "a window needs a stream, and this is a relation"),
    ("SELECT src FROM (SELECT src FROM packet) [NOW]", "[NOW]", "does not select ts"),
    (
        "SELECT a FROM (SELECT ts AS a, ts AS b FROM packet) [NOW]",
        "[NOW]",
        "the timestamp is ambiguous: a, b.",
    ),
    ("SELECT a FROM (SELECT ts, MAX(src) AS a FROM packet GROUP BY ts) [NOW]", "[NOW]", "tuple by tuple"),
    ("SELECT 1 AS a FROM (SELECT ts FROM packet) [NOW]", "[NOW]", "no column is left: the timestamp"),
    ("SELECT p.src FROM packet [NOW] p, dated [NOW] d", "dated", "that of packet is INT, that of dated DATE"),
    ("SELECT src FROM packet [RANGE -1]", None, "the length of a window is 0 or more"),
    ("SELECT src FROM packet [RANGE 3 SLIDE 0]", "0", "the slide of a window is 1 or more"),
    ("SELECT src FROM packet [ROWS 0]", "0", "the number of rows of a window is 1 or more"),
    (
        "SELECT src FROM packet [ROWS 99999999999999999999]",
        "9999",
        "the number of rows of a window is too long",
    ),
    ("RSTREAM(SELECT src FROM packet [NOW] EVERY 0)", "0", "EVERY is 1 or more"),
    ("RSTREAM(SELECT src FROM packet [NOW] EVERY 99999999999999999999)", "9999", "EVERY is too long"),
    ("RSTREAM(SELECT src FROM timed [NOW] EVERY INTERVAL '1' YEAR)", None, "a year is no constant number"),
    ("SELECT at FROM domainof", "at", "The timestamp is not a column of a relation"),
    ("SELECT ip FROM moved WHERE since > 3", "since", "The timestamp is not a column of a relation"),
    ("SELECT ip FROM moved GROUP BY ip, n", "n", "The timestamp is not a column of a relation"),
    ("SELECT src FROM packet [NOW] JOIN bare USING (src)", "bare", "bare is a stream without a window"),
    (
        "SELECT x.src FROM (SELECT src FROM packet [NOW] ORDER BY src) x",
        "src",
        "ORDER BY is not supported here",
    ),
    ("SELECT x.src FROM (SELECT src FROM packet [NOW] LIMIT 3) x", "3", "LIMIT is not supported here"),
    (
        "SELECT COUNT(*) OVER (PARTITION BY src ORDER BY len) AS n FROM packet [NOW]",
        None,
        "OVER needs a stream",
    ),
    ("SELECT * FROM HOP(TABLE domainof, DESCRIPTOR(ip), 1, 2)", "HOP", "and this is a relation: ISTREAM"),
    ("SELECT src, src FROM packet [NOW]", "src", "two output columns have the name src"),
    ("SELECT src FROM timed [RANGE INTERVAL '1' MONTH]", None, "a month is no constant number of instants"),
    ("SELECT src FROM timed [RANGE 5]", None, "over TIMESTAMP is an INTERVAL"),
    ("SELECT src FROM packet [PARTITION BY ts ROWS 3]", "ts", "there is no ts"),
    ("SELECT src FROM packet [WEEK]", "WEEK", "a window is [NOW]"),
    ("SELECT src FROM packet p [NOW]", "[", "a window is written before the alias"),
    ("SELECT ts FROM packet [NOW]", "ts", "The timestamp is not a column of a relation"),
    ("SELECT src FROM packet [NOW] ORDER BY src", "src", "a relation has no order"),
    ("SELECT src FROM packet [NOW] LIMIT 3", "3", "a relation has no order"),
    ("ISTREAM(SELECT src FROM packet [NOW] ORDER BY src)", "src", "a relation has no order"),
    ("RSTREAM(SELECT src FROM timed [RANGE INTERVAL '1' DAY])", None, "RSTREAM without EVERY"),
    ("ISTREAM(SELECT src AS ts FROM packet [NOW])", "src AS ts", "two outputs have the name ts"),
    ("SELECT src AS diff FROM packet [NOW]", "src AS diff", "two outputs have the name diff"),
    ("SELECT XMLAGG(XMLELEMENT(NAME a, src)) AS x FROM packet [NOW]", None, "XMLAGG over a relation"),
]


@pytest.mark.parametrize(("sql", "where", "why"), REFUSED)
def test_refused_with_a_position(sql: str, where: str | None, why: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(STREAMS + sql)
    error = caught.value
    assert why in error.reason
    assert error.start is not None
    if where is not None:
        assert (STREAMS + sql)[error.start : error.end].startswith(where)


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("a INT, ts INT", "timestamp = 'ts'", "each tuple has a timestamp: declare ts NOT NULL"),
        (
            "a INT, ts DOUBLE NOT NULL",
            "timestamp = 'ts'",
            "timestamp needs a column of INT, DATE or TIMESTAMP",
        ),
        ("a INT, ts INT NOT NULL", "timestamp = 'tx'", "no column tx here: there are a, ts"),
        ("a INT, ts INT NOT NULL", "timestamp = 'ts', change = 'a'", "a stream has no changes"),
    ],
)
def test_wrong_declarations(columns: str, options: str, why: str) -> None:
    with pytest.raises(SqlError, match=why):
        plan(f"CREATE STREAM s ({columns}) WITH (source = '-', {options}); SELECT a FROM s")


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("a INT, ts INT NOT NULL", ", timestamp = 'ts'", "both timestamp and change"),
        (
            "a INT, n DOUBLE, ts INT NOT NULL",
            ", timestamp = 'ts', change = 'n'",
            "change needs a column of INT or STRING",
        ),
        (
            "n INT, ts INT NOT NULL",
            ", timestamp = 'ts', change = 'n'",
            "a column besides timestamp and change",
        ),
    ],
)
def test_wrong_relations(columns: str, options: str, why: str) -> None:
    with pytest.raises(SqlError, match=why):
        plan(f"CREATE RELATION s ({columns}) WITH (source = '-'{options}); SELECT 1 AS one FROM s")


# Small queries


def rows(sql: str) -> list[tuple[Any, ...]]:
    tuples = [t for t in xmlpunct.query(sql) if not isinstance(t, Punctuation)]
    return sorted(tuples, key=lambda t: [(v is not None, v) for v in t])


def judged(sql: str) -> tuple[list[tuple[Any, ...]], list[Reject]]:
    """The sorted rows, and the rejects."""
    query, rejects = plan(sql), list[Reject]()
    opened = open_sources(query)
    tuples = [t for part in results(query, opened, rejects.append) for t in part.tuples.rows()]
    return sorted(tuples, key=lambda t: [(v is not None, v) for v in t]), rejects


def packets(path: Path, *tuples: tuple[int, int, int], end: str = "") -> str:
    """A file of packets, and its declaration."""
    elements = "".join(f"<packet><src>{s}</src><len>{n}</len><ts>{t}</ts></packet>" for s, n, t in tuples)
    path.write_text(f"<stream {PUNCT}>{elements}{end}</stream>")
    return f"CREATE STREAM packet (src INT, len INT, ts INT NOT NULL) WITH (source = '{path}', timestamp = 'ts');"


def test_the_names_of_outputs(tmp_path: Path) -> None:
    create = packets(tmp_path / "p.xml", (1, 60, 2))
    assert plan(create + "ISTREAM(SELECT src FROM packet [NOW])").root.schema.names == ("src", "ts")
    assert plan(create + "SELECT src FROM packet [NOW]").root.schema.names == ("src", "at", "diff")
    stream = "ISTREAM(SELECT src FROM packet [NOW])"
    for query in (
        f"(({stream}))",
        f"({stream}) UNION ALL ({stream})",
        f"SELECT src, ts FROM packet UNION {stream}",
    ):
        assert plan(create + query).root.schema.names == ("src", "ts")
    renamed = "RSTREAM(SELECT a FROM (SELECT src AS a, ts AS seen FROM packet) [NOW])"
    assert plan(create + renamed).root.schema.names == ("a", "seen")


def test_nested_streams_and_plain_queries_over_them(tmp_path: Path) -> None:
    create = packets(tmp_path / "p.xml", (1, 60, 2), (2, 40, 2), (2, 40, 3))
    inner = "RSTREAM(SELECT COUNT(*) AS n FROM packet [NOW])"
    assert rows(create + inner) == [(0, 4), (1, 3), (2, 2)]
    assert rows(f"{create} SELECT n FROM {inner} WHERE ts > 2") == [(0,), (1,)]
    greatest = rows(f"{create} ISTREAM(SELECT MAX(n) AS most FROM {inner} [RANGE 1])")
    assert greatest == [(None, 6), (0, 5), (1, 4), (2, 2)]


def test_a_failing_expression_rejects_once(tmp_path: Path) -> None:
    """One reject per failing pair; none for each change, and none for pairs that never join."""
    create = packets(tmp_path / "p.xml", (1, 0, 2), (1, 0, 5), (2, 4, 2))
    sql = "ISTREAM(SELECT p.src, 8 / q.len AS x FROM packet [RANGE 1] p, packet [NOW] q WHERE p.src = q.src)"
    tuples, rejects = judged(create + sql)
    assert tuples == [(2, 2, 2)]
    assert len(rejects) == 2


def test_an_outer_join_rejects_once(tmp_path: Path) -> None:
    create = packets(tmp_path / "p.xml", (1, 0, 2), (2, 4, 2))
    sql = """ISTREAM(SELECT a.x, b.src FROM (SELECT src, 8 / len AS x FROM packet [NOW]) a
             FULL JOIN packet [NOW] b ON a.src = b.src)"""
    tuples, rejects = judged(create + sql)
    assert tuples == [(None, 1, 2), (2, 2, 2)]
    assert len(rejects) == 1


def test_a_relation_reads_back_its_own_changes(tmp_path: Path) -> None:
    create = packets(tmp_path / "p.xml", (1, 60, 2), (1, 60, 3), (2, 40, 3))
    query = "SELECT src, COUNT(*) AS n FROM packet [RANGE 2] GROUP BY src"
    changes = rows(create + query)
    elements = "".join(
        f"<r><src>{s}</src><n>{n}</n><at>{at}</at><diff>{diff}</diff></r>" for s, n, at, diff in changes
    )
    (tmp_path / "r.xml").write_text(f"<stream>{elements}</stream>")
    back = f"""CREATE RELATION r (src INT, n INT, at INT NOT NULL, diff INT)
      WITH (source = '{tmp_path / "r.xml"}', timestamp = 'at', change = 'diff');"""
    assert rows(f"{back} SELECT * FROM r") == changes


def test_figure_6(tmp_path: Path) -> None:
    """A semijoin: ip 1 has two rows, but each packet is emitted once."""
    create = packets(tmp_path / "p.xml", (1, 60, 2), (2, 40, 2), (2, 40, 3), (2, 40, 3), (1, 60, 4))
    elements = "".join(
        f"<d><ip>{ip}</ip><name>stanford.edu</name><at>{at}</at><diff>{n}</diff></d>"
        for ip, at, n in ((1, 0, 2), (2, 3, 1), (1, 4, -1))
    )
    (tmp_path / "d.xml").write_text(f"<stream>{elements}</stream>")
    create += f"""CREATE RELATION domainof (ip INT, name STRING, at INT NOT NULL, diff INT)
      WITH (source = '{tmp_path / "d.xml"}', element = 'd', timestamp = 'at', change = 'diff');"""
    sql = """RSTREAM(SELECT p.src, p.len FROM packet [NOW] p
                     WHERE p.src IN (SELECT ip FROM domainof WHERE name = 'stanford.edu'))"""
    assert rows(create + sql) == [(1, 60, 2), (1, 60, 4), (2, 40, 3), (2, 40, 3)]


# Explain


def test_explain_shows_the_punctuations_that_are_needed() -> None:
    text = explain(plan(f"{STREAMS} RSTREAM(SELECT src, SUM(len) AS s FROM packet [RANGE 3] GROUP BY src)"))
    assert "once packet has closed ts up to there for its src" in text
    text = explain(plan(f"{STREAMS} RSTREAM(SELECT len FROM packet [ROWS 3])"))
    assert "on one shard" in text
    assert "of a relation that is not transient" in text
    assert "a state is told up to the last change behind it" in text


def test_explain_warns_of_a_constant_relation_that_may_never_end() -> None:
    text = explain(plan(f"{STREAMS} RSTREAM(SELECT src FROM packet [NOW], domainof WHERE src = ip)"))
    assert "WARNING: the source of domainof may never end" in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT src, name FROM packet [NOW] LEFT JOIN domainof ON src = ip",
        "SELECT src, name FROM packet [NOW] FULL JOIN domainof ON src = ip",
        "SELECT src FROM packet [NOW] WHERE src NOT IN (SELECT ip FROM domainof)",
    ],
)
def test_explain_warns_once_of_a_relation_that_is_read_several_times(query: str) -> None:
    assert explain(plan(f"{STREAMS} {query}")).count("WARNING") == 1
