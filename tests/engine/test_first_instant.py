"""The formal first instant: a tuple that a relation contains from the start has no instant, in output and input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.engine.test_relations import packets, rows
from xmlpunct import query
from xmlpunct.cli import invoke
from xmlpunct.engine.sql import plan

NAMES = """CREATE RELATION names (ip INT, at {type}, diff INT)
  WITH (source = '-', element = 'result', timestamp = 'at', change = 'diff');"""


def changes_of(*changes: str) -> bytes:
    """A document with changes such as ``1 5 -1``: ip, at (``-``: missing) and diff. The last may be a punctuation."""
    elements = []
    for change in changes:
        ip, at, diff = change.split()
        instant = "" if at == "-" else f"<at>{at}</at>"
        elements.append(f"<result><ip>{ip}</ip>{instant}<diff>{diff}</diff></result>")
    return f"<stream>{''.join(elements)}</stream>".encode()


@pytest.mark.parametrize("type_", ["INT", "INT NOT NULL", "DATE", "TIMESTAMP NOT NULL"])
def test_a_relation_reads_changes_without_an_instant_as_from_the_start(type_: str) -> None:
    later = {"DATE": "2024-05-01", "TIMESTAMP": "2024-05-01T00:00:00Z"}.get(type_.split()[0], "5")
    document = changes_of("1 - 2", f"1 {later} -1", "2 - 1", "2 - -1", f"3 {later} 1")
    answer = [*query(NAMES.format(type=type_) + "SELECT ip FROM names", names=document)]
    assert [(ip, at is None, diff) for ip, at, diff in answer] == [
        (1, True, 2),
        (1, False, -1),
        (3, False, 1),
    ]


def test_an_instant_that_all_inputs_declare_is_the_first_one() -> None:
    declared = NAMES.format(type="INT CHECK (at >= 3)") + "SELECT ip FROM names"
    answer = [r for r in query(declared, names=changes_of("1 - 1", "2 5 1")) if isinstance(r, tuple)]
    assert answer == [(1, 3, 1), (2, 5, 1)]


def test_no_user_sees_the_formal_first_instant(tmp_path: Path) -> None:
    """Neither in tuples and punctuations, nor in rejects."""
    closed = b"<p:result xmlns:p='http://www.cse.ogi.edu/dot/niagara/punct'><at>(,6]</at></p:result>"
    document = changes_of("1 - 1", "2 - -1", "3 - 0").replace(b"</stream>", closed)
    document += b"<result><ip>4</ip><diff>1</diff></result></stream>"
    (tmp_path / "r.xml").write_bytes(document)
    create = NAMES.format(type="INT").replace("'-'", f"'{tmp_path / 'r.xml'}'")
    out, rejected = tmp_path / "out.xml", tmp_path / "rejects"
    sql = create + "SELECT ip FROM names"
    assert invoke(["run", "--engine", "local", "-q", sql, "-o", str(out), "--rejects", str(rejected)]) == 0
    assert re.findall("<result>.*?</result>", out.read_text()) == [
        "<result><ip>1</ip><diff>1</diff></result>"
    ]
    assert "<at>(,6]</at>" in out.read_text()
    rejects = [json.loads(line) for line in rejected.read_text().splitlines()]
    assert sorted(r["reason"] for r in rejects) == [
        "deleted at the start but not in the relation",
        "late: <*, *, *> at the start was closed before it",
        "names.diff is not a number of copies from 1 to 1099511627776, negative for deletions",
    ]
    assert "9223372036854775808" not in rejected.read_text()
    assert [str(r) for r in query(create + "ISTREAM(SELECT ip FROM names)")] == ["<*, (,6]>"]
    one = "CREATE STREAM one (ip INT, ts INT NOT NULL) WITH (source = '-', timestamp = 'ts');"
    for sql in ("SELECT COUNT(*) AS n FROM one [NOW]", "ISTREAM(SELECT ip FROM one [NOW])"):
        start = (
            "<s xmlns:p='http://www.cse.ogi.edu/dot/niagara/punct'><p:one><ts>(,{}]</ts></p:one><one><ip>1"
        )
        outputs = []
        for bound in (-(2**63), 1 - 2**63, 7):
            answer = query(one + sql, one=f"{start.format(bound)}</ip><ts>9</ts></one></s>".encode())
            outputs.append(str([*answer]))
        assert "-9223372036854775808" not in "".join(outputs)
        assert "(,-9223372036854775807]" in outputs[1]
        assert "(,7]" in outputs[2]


def test_a_stream_needs_each_timestamp() -> None:
    create = (
        "CREATE STREAM s (ip INT, at INT NOT NULL) WITH (source = '-', element = 'result', timestamp = 'at');"
    )
    answer = query(create + "SELECT ip FROM s [NOW]", s=changes_of("1 - 1", "2 5 1"))
    assert [*answer] == [(2, 5, 1), (2, 6, -1)]


FROM_THE_START = [
    "SELECT COUNT(*) AS n FROM packet [RANGE 2]",
    "SELECT src, name, COUNT(*) AS n FROM packet [RANGE 2] FULL JOIN names ON src = ip GROUP BY src, name",
    "SELECT ip FROM names UNION ALL SELECT src FROM packet [NOW]",
    "SELECT ip, name, 1 AS one FROM names WHERE ip NOT IN (SELECT src FROM packet [NOW])",
]


@pytest.mark.parametrize("sql", FROM_THE_START)
def test_the_output_of_a_query_is_a_relation_of_the_same_meaning(sql: str, tmp_path: Path) -> None:
    """From XML and from a table, with the tuples that are there from the start."""
    create = packets(tmp_path / "p.xml", (1, 60, 2), (1, 60, 3), (2, 40, 3))
    (tmp_path / "n.xml").write_text("<s><t><ip>1</ip><name>u</name></t><t><ip>3</ip><name>v</name></t></s>")
    create += (
        f"CREATE RELATION names (ip INT, name STRING) WITH (source = '{tmp_path / 'n.xml'}', element = 't');"
    )
    out = tmp_path / "out.xml"
    assert invoke(["run", "--engine", "local", "-q", create + sql, "-o", str(out)]) == 0
    assert "9223372036854775808" not in out.read_text()
    changes = rows(create + sql)
    assert any(change[-2] is None for change in changes)
    columns = ", ".join(f"{a.name} {a.type}" for a in plan(create + sql).root.schema)
    back = f"CREATE RELATION r ({columns}) WITH (source = '-', element = 'result', timestamp = 'at', change = 'diff');"
    table = query(create + sql).to_polars()
    for source in (out, table):
        again = [r for r in query(back + "SELECT * FROM r", r=source) if isinstance(r, tuple)]
        assert sorted(again, key=str) == sorted(changes, key=str)
        counts = [*query(back + "RSTREAM(SELECT COUNT(*) AS n FROM r)", r=source)]
        assert counts == [*query(f"{create} RSTREAM(SELECT COUNT(*) AS n FROM ({sql}))")]
