"""FROM 'file.xml.gz' and FROM read_xml(...): files in queries, without a declaration."""

from __future__ import annotations

import gzip
from contextlib import nullcontext
from pathlib import Path

import pytest

from xmlpunct import query
from xmlpunct.base.errors import SourceError, SqlError, UsageError
from xmlpunct.engine.run.overlap import refuse_overlaps
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.sql import plan

XML = b"<s><t n='1'/><t n='2'/><u m='3'/></s>"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.xml").write_bytes(XML)
    (tmp_path / "d" / "it's b.xml.gz").write_bytes(gzip.compress(XML.replace(b"1", b"7")))
    return tmp_path


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT n FROM 'd/a.xml'", {(1,), (2,)}),
        ('SELECT a.n FROM "d/a.xml"', {(1,), (2,)}),
        ("SELECT x.n FROM 'd/it''s b.xml.gz' AS x", {(7,), (2,)}),
        ("SELECT k FROM 'd/a.xml' AS x (k)", {(1,), (2,)}),
        ("SELECT SUM(n) AS n FROM 'd'", {(12,)}),
        ("SELECT SUM(n) AS n FROM read_xml('d/*.xml*')", {(12,)}),
        ("SELECT m FROM read_xml('d/a.xml', element => 'u')", {(3,)}),
        ("SELECT read_xml.m FROM READ_XML('d/a.xml', ELEMENT => 'u') WHERE m > 2", {(3,)}),
        ("SELECT x.n, u.m FROM 'd/a.xml' x JOIN read_xml('d/a.xml', element => 'u') u ON x.n < u.m",
         {(1, 3), (2, 3)}),
        ("SELECT x.n FROM 'd/a.xml' x JOIN 'd/a.xml' y ON x.n = y.n", {(1,), (2,)}),
        ("SELECT n FROM (SELECT n FROM 'd/a.xml') WHERE n IN (SELECT m - 1 FROM read_xml('d/a.xml', element => 'u'))",
         {(2,)}),
        ("WITH q AS (SELECT n FROM 'd/a.xml') SELECT n FROM q UNION SELECT n FROM 'd/a.xml'", {(1,), (2,)}),
        ("WITH \"d/a.xml\" AS (SELECT m FROM read_xml('d/a.xml', element => 'u')) SELECT * FROM 'd/a.xml'", {(3,)}),
        ("CREATE STREAM \"d/a.xml\" (n INT PATH '@m') WITH (source = 'd/a.xml', element = 'u'); "
         "SELECT n FROM 'd/a.xml'", {(3,)}),
    ],
)  # fmt: skip
def test_files_are_read_in_any_query(sql: str, rows: set[object]) -> None:
    assert {row for row in query(sql) if isinstance(row, tuple)} == rows


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT n FROM read_xml()", "a source, and perhaps the tuples' element"),
        ("SELECT n FROM read_xml(a)", "a source, and perhaps"),
        ("SELECT n FROM read_xml('d/a.xml', 'u')", "a source, and perhaps"),
        ("SELECT n FROM read_xml('d/a.xml', element => 'u', element => 'u')", "a source, and perhaps"),
        ("SELECT n FROM read_xml('d/a.xml', elements => 'u')", "a source, and perhaps"),
        ("SELECT n FROM read_xml('d/a.xml', element => 'a b')", "is no name of an XML element"),
        ("SELECT n FROM read_json('d/a.xml')", "FROM reads a stream"),
        ("SELECT n FROM 'nosuch'", "no stream nosuch"),
        (
            "SELECT 1 AS a FROM read_xml('d/a.xml') JOIN read_xml('d') USING (n)",
            "two tables have the name read_xml",
        ),
    ],
)
def test_invalid_file_references_are_refused(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(sql)


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"nosuch\.xml: cannot be opened"):
        plan("SELECT n FROM 'nosuch.xml'")


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("d/a.xml", {}, "-o d/a.xml is read as .*, and would be overwritten"),
        ("%2e/d/a.xml", {}, "is read as"),
        ("d/new.xml", {}, "is in the directory that is read as"),
        ("x.db", {"stats": "x.db"}, "-o x.db is the same file as --stats x.db"),
        ("x.db", {"rejects": "./x.db"}, "-o x.db is the same file as --rejects"),
        ("x.db", {"rejects": "d/../x.db"}, "-o x.db is the same file as --rejects"),
        ("state/x.db", {"checkpoint": "state"}, "-o state/x.db is in the checkpoint state"),
        ("set/x.db", {"rejects": "set/"}, "-o set/x.db is in the dataset set/"),
        ("x.db", {"rejects": "{scheme}:///./x.db?table=t"}, "is the same place as -o"),
        ("x.db", {"rejects": "{scheme}:///x.db?table=u"}, ""),
        ("x.db", {"rejects": "y.db", "stats": "z.db", "checkpoint": "state"}, ""),
    ],
)
def test_the_file_of_a_database_is_a_file(
    scheme: str, out: str, options: dict[str, str], message: str, folder: Path
) -> None:
    paths = {name: path.format(scheme=scheme) for name, path in options.items()}
    asked = RunOptions(output=f"{scheme}:///{out}?table=t", **paths)  # type: ignore[arg-type]
    read = plan("SELECT n FROM 'd'" if "new" in out else "SELECT n FROM 'd/a.xml'")
    with pytest.raises(UsageError, match=message) if message else nullcontext():
        refuse_overlaps(read, asked)


def test_an_input_is_not_overwritten() -> None:
    with pytest.raises(UsageError, match="would be overwritten"):
        refuse_overlaps(plan("SELECT n FROM 'd/a.xml'"), RunOptions(output="d/a.xml"))
