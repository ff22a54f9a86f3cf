"""Results in tables of SQLite, DuckDB and PostgreSQL: their types and keys, and each row once."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.harness import SAMPLES, Cli
from tests.reliability.support import LONG, ends_well, launch
from xmlpunct.engine.run.sink import REJECTS
from xmlpunct.firehose import generators

KINDS = ("sqlite", "duckdb", "postgresql")
TYPES = """<s><t><a>é"'</a><b>9223372036854775807</b><c>1.5</c><d>12345678901234567890.125</d><e>true</e>
<f>2024-02-29</f><g>2024-02-29T12:00:00.5Z</g><l k="1">u</l><l k="2"/><x><y>1</y></x></t>
<t><a></a><c>INF</c><d>-1</d><l/></t></s>"""
DECLARED = """CREATE STREAM t (a STRING, b INT, c DOUBLE, d DECIMAL(38,3), e BOOLEAN, f DATE, g TIMESTAMP,
  l ARRAY(k INT PATH '@k', v STRING PATH '.'), x XML) WITH (source='{}', element='t'); """


class Database:
    """A database of one kind, in which runs write a table ``t``."""

    def __init__(self, kind: str, folder: Path, server: str | None) -> None:
        self.kind, self.file = kind, folder / f"x.{kind}"
        self.url = f"{kind}:///{self.file}?" if server is None else server
        self.run("DROP TABLE IF EXISTS t")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        connect: Callable[[], Any]
        if self.kind == "postgresql":
            from adbc_driver_postgresql import dbapi

            connect = lambda: dbapi.connect(self.url[:-1])  # noqa: E731
        else:
            module: Any = sqlite3 if self.kind == "sqlite" else duckdb
            connect = lambda: module.connect(str(self.file))  # noqa: E731
        with closing(connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            rows = cursor.fetchall() if statement.startswith("SELECT") else []
            connection.commit()
            return [tuple(row) for row in rows]


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    server = request.getfixturevalue("postgresql") if request.param == "postgresql" else None
    return Database(request.param, tmp_path, server)


def feed(folder: Path, text: str) -> Path:
    path = folder / "t.xml"
    path.write_text(text)
    return path


def test_all_types(database: Database, tmp_path: Path, cli: Cli) -> None:
    """A second run accepts the table of the first run, and appends to it."""
    source = feed(tmp_path, TYPES)
    for count in (1, 2):
        ended = cli(
            "run",
            "--engine",
            "local",
            "-q",
            DECLARED.format(source) + "SELECT * FROM t",
            "-o",
            f"{database.url}table=t",
        )
        assert ended.code == 0, ended.err
        assert database.run("SELECT count(*) FROM t") == [(2 * count,)]
    (row,) = set(
        database.run("SELECT a, b, c, CAST(d AS TEXT), e, f, CAST(l AS TEXT), x FROM t WHERE b IS NOT NULL")
    )
    is_sqlite = database.kind == "sqlite"
    assert row == (
        "é\"'",
        2**63 - 1,
        1.5,
        "12345678901234567890.125",
        True,
        "2024-02-29" if is_sqlite else date(2024, 2, 29),
        '[{"k": 1, "v": "u"}, {"k": 2, "v": ""}]',
        "<x><y>1</y></x>",
    )
    ((moment,),) = set(database.run("SELECT CAST(g AS TEXT) FROM t WHERE b IS NOT NULL"))
    assert datetime.fromisoformat(moment) == datetime(2024, 2, 29, 12, 0, 0, 500000, UTC)
    assert set(database.run("SELECT a, c, e, x FROM t WHERE b IS NULL")) == {("", float("inf"), None, None)}


def test_a_key_is_upserted(database: Database, tmp_path: Path, cli: Cli) -> None:
    """The last row of a key wins, within a group and across groups; a null in the key is a reject."""
    rows = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6)]
    text = "".join(f"<t><k>{k}</k><j>1</j><v>{v}</v></t>" for k, v in rows)
    source = feed(tmp_path, f"<s>{text}<t><v>7</v></t></s>")
    declared = f"CREATE STREAM t (k STRING, j INT, v INT) WITH (source = '{source}', element = 't'); "
    command = ("run", "--engine", "local", "-q", declared + "SELECT k, j, v FROM t", "--slice", "60")
    rejects = tmp_path / "rejects"
    for _ in range(2):
        ended = cli(*command, "-o", f"{database.url}table=t&key=k,j", "--rejects", rejects)
        assert ended.code == 0, ended.err
        table_rows = database.run("SELECT k, j, v FROM t")
        assert sorted(table_rows) == [("a", 1, 6), ("b", 1, 5), ("c", 1, 4)]
    (reject,) = map(json.loads, rejects.read_text().splitlines())
    assert reject["reason"] == "k is null, but a column of the table's key"
    ended = cli(*command, "-o", f"{database.url}table=t&key=v")
    assert (ended.code, "unique index" in ended.err) == (2, True)
    ended = cli(*command, "-o", f"{database.url}table=t&key=z")
    assert (ended.code, "key=z is no column" in ended.err) == (2, True)
    assert len(database.run("SELECT k FROM t")) == 3


def test_a_table_that_does_not_fit_is_refused(database: Database, cli: Cli) -> None:
    command = ("run", SAMPLES / "warehouse.sql", "--engine", "local", "-o", f"{database.url}table=t")
    database.run("CREATE TABLE t (maxtemp REAL, hour BIGINT)")
    ended = cli(*command)
    assert ended.code == 2
    assert "column maxtemp of table t is" in ended.err
    database.run("DROP TABLE t")
    database.run("CREATE TABLE t (maxtemp BIGINT)")
    ended = cli(*command)
    assert ended.code == 2
    assert "has no column hour" in ended.err
    assert database.run("SELECT * FROM t") == []


def test_rejects_in_a_table(database: Database, tmp_path: Path, cli: Cli) -> None:
    source = feed(tmp_path, "<s><t><b>1</b></t><t><b>x</b></t></s>")
    declared = f"CREATE STREAM t (b INT) WITH (source = '{source}', element = 't'); "
    ended = cli(
        "run", "--engine", "local", "-q", declared + "SELECT b FROM t", "--rejects", f"{database.url}table=t"
    )
    assert ended.code == 0, ended.err
    ((source_name, line, text),) = database.run("SELECT source, line, text FROM t")
    assert (source_name, line, text) == (str(source), 1, "<t><b>x</b></t>")
    assert REJECTS.names == ("source", "line", "byte", "reason", "text")


def test_invalid_options_are_refused(tmp_path: Path, cli: Cli) -> None:
    command = ("run", SAMPLES / "warehouse.sql", "--engine", "local")
    url = f"sqlite:///{tmp_path}/x.db"
    for options, message in (
        (["-o", "sqlite://x.db?table=t"], "write sqlite:///x.db?table=t"),  # two slashes make x.db a host
        (["-o", "duckdb://x.db"], "write duckdb:///x.db?table=t"),
        (["-o", "sqlite:"], "write sqlite:///x.db?table=t"),
        (["-o", f"{url}?table=t&colour=red"], "only key=a,b may follow"),
        (["-o", f"{url}?table=t", "--format", "jsonl"], "is a database, which has no format"),
        (["-o", f"{url}?table=t", "--root", "r"], "needs columns"),
        (["-o", f"{url}?table=t", "--rejects", f"{url}?table=t"], "the same place"),
        (["-o", "sqlite:////nowhere/at/all/x.db?table=t"], "cannot be opened"),
    ):
        ended = cli(*command, *options)
        assert ended.code in (1, 2)
        assert message in ended.err
    assert not (tmp_path / "x.db").exists()


def test_another_database_is_refused(tmp_path: Path, cli: Cli) -> None:
    """A run refuses to continue if its database has been deleted."""
    source = tmp_path / "t.xml"
    source.write_text("<s><t><b>1</b></t><t><b>2</b>")
    declared = f"CREATE STREAM t (b INT) WITH (source = 'follow:{source}', element = 't'); "
    file = tmp_path / "x.db"
    command = [
        "run",
        "--engine",
        "local",
        "-q",
        declared + "SELECT b FROM t",
        "-o",
        f"sqlite:///{file}?table=t",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "xmlpunct", *command, "--checkpoint", str(tmp_path / "c")]
    )
    until = time.monotonic() + 60
    while not file.exists() or not _count(file):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(6)  # until the run has saved its state
    process.kill()
    process.wait()
    file.unlink()
    with open(source, "a") as file_end:
        file_end.write("</t></s>")
    ended = cli(*command, "--checkpoint", tmp_path / "c")
    assert ended.code == 1
    assert "another database?" in ended.err


def _count(file: Path) -> int:
    with closing(sqlite3.connect(file)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM t").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


KILLED = """CREATE STREAM s (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{}', element = 'tempdata');
SELECT sid, hour, min, currtmp FROM s"""


def test_killed_at_random(database: Database, tmp_path: Path) -> None:
    """Each row is in the table once, whenever the run is killed."""
    rng, kills = random.Random(1), 0
    lines = generators.warehouse(sensors=1, hours=12, readings=3, punctuations=4, seed=1)
    (source, *_) = generators.write(lines, str(tmp_path))
    query = KILLED.format(source)
    rows = sorted(rows_of(Path(source)))
    for number in range(10 if LONG else 1):
        table = f"t{number}"
        database.run(f"DROP TABLE IF EXISTS {table}")
        command = ["run", "--engine", "local", "--slice", "4KiB", "-q", query]
        command += ["-o", f"{database.url}table={table}", "--checkpoint", str(tmp_path / f"c{number}")]
        for _ in range(8 if LONG else 2):
            process = launch(*command)
            time.sleep(rng.uniform(0.5, 2.0))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        ends_well(launch(*command))
        assert sorted(database.run(f"SELECT sid, hour, min, currtmp FROM {table}")) == rows
    assert kills


def rows_of(source: Path) -> list[tuple[Any, ...]]:
    """The tuples of a feed, read by the library."""
    from xmlpunct import Schema, parse

    schema = Schema.parse("sid STRING, hour INT NOT NULL, min INT, currtmp INT")
    return [row for row in parse(source, schema, element="tempdata") if isinstance(row, tuple)]
