"""A database that is lost in the middle of a run: the message is about that, and not about tidying up behind it."""

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
    with suppress(Exception):  # there is nothing to say goodbye to
        outlet.close()


class Broken(Sqlite):
    """A database of which neither a statement nor anything behind it succeeds any more."""

    is_lost = False

    def run(self, statement: str, given: Any = ()) -> None:
        if self.is_lost and statement.startswith("INSERT"):
            raise self.errors[0]("the cause")
        super().run(statement, given)

    def connect(self) -> None:
        super().connect()
        self._connection = Lost(self._connection, self)


class Lost:
    def __init__(self, connection: Any, of: Broken) -> None:
        self._connection, self._of = connection, of

    def cursor(self) -> Any:
        return self._connection.cursor()

    def rollback(self) -> None:
        if self._of.is_lost:
            raise self._of.errors[0]("Failed to rollback")
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()
        if self._of.is_lost:
            raise self._of.errors[0]("Failed to close")


def test_a_run_tells_the_first_error(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while a run ends comes behind that, if at all: rollback, close, and --stats."""
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


def test_an_error_of_tidying_up_is_a_note() -> None:
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
