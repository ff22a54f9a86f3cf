"""A database connection that is lost during a run: the error names this cause, not a later failure to clean up."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Cli
from xmlpunct.base.errors import UsageError, XmlPunctError, ended_by, undoing
from xmlpunct.connectors import Form, Results
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.database_dialects import Sqlite
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

DECLARED = "CREATE STREAM t (a INT) WITH (source = '-', element = 't');"
RESULT = Schema.parse("a INT")


def results(number: int) -> Results:
    return Results(number, (Slice(RESULT.frame([(number,)])),), b"")


def test_a_server_of_postgresql_that_is_lost(postgresql: str) -> None:
    from adbc_driver_postgresql import dbapi

    url = f"{postgresql}table=lost"
    outlet = connector_of(url).outlet(url, "postgresql:///postgres?table=lost")
    outlet.open(Form("r", RESULT, writer_for("xml", RESULT)), None)
    outlet.write(results(0))
    with closing(dbapi.connect(postgresql[:-1])) as other, closing(other.cursor()) as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND usename = 'xmlpunct'"
        )
        cursor.fetchall()
    with pytest.raises(XmlPunctError, match="table=lost cannot be written") as caught:
        outlet.write(results(1))
    assert "rollback" not in str(caught.value)
    assert "terminat" in str(caught.value) or "connection" in str(caught.value)
    with suppress(Exception):  # the connection is lost
        outlet.close()


class Broken(Sqlite):
    """A database in which, once lost, every INSERT, rollback and close fails."""

    is_lost = False

    def run(self, statement: str, parameters: Any = ()) -> None:
        if self.is_lost and statement.startswith("INSERT"):
            raise self.errors[0]("the cause")
        super().run(statement, parameters)

    def connect(self) -> None:
        super().connect()
        self._connection = Lost(self._connection, self)


class Lost:
    def __init__(self, connection: Any, database: Broken) -> None:
        self._connection, self._database = connection, database

    def cursor(self) -> Any:
        return self._connection.cursor()

    def rollback(self) -> None:
        if self._database.is_lost:
            raise self._database.errors[0]("Failed to rollback")
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()
        if self._database.is_lost:
            raise self._database.errors[0]("Failed to close")


def test_a_run_reports_the_first_error(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures while the run ends (rollback, close, --stats) are reported after the first error, if at all."""
    monkeypatch.setattr("xmlpunct.connectors.databases.DIALECTS", {"sqlite": Broken})
    monkeypatch.setattr(Broken, "is_lost", property(lambda self: self._connection is not None))
    ended = cli(
        *(
            "run",
            "--engine",
            "local",
            "-q",
            f"{DECLARED} SELECT a FROM t",
        ),
        *("-s", "t=data:,<s><t><a>1</a></t></s>", "-o", f"sqlite:///{tmp_path / 'x.db'}?table=t"),
        *("--stats", str(tmp_path / "nowhere" / "stats")),
    )
    assert ended.code == 1
    assert "table=t cannot be written: the cause" in ended.err.splitlines()[0]
    assert "and then: cannot write" in ended.err


def test_an_error_during_cleanup_is_a_note() -> None:
    def fails() -> None:
        raise UsageError("tidying up")

    for tidy in (undoing, ended_by):
        with pytest.raises(XmlPunctError, match="the cause") as caught, tidy(fails):
            raise XmlPunctError("the cause")
        assert str(caught.value) == "the cause"
        assert caught.value.__notes__ == ["and then: tidying up"]
    with pytest.raises(UsageError, match="tidying up"), ended_by(fails):
        pass
    with undoing(fails):
        pass
