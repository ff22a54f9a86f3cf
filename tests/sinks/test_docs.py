"""The commands of docs/sinks.md have the results that the page describes."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests.cli.harness import SAMPLES, Cli

PAGE = (SAMPLES.parent / "docs" / "sinks.md").read_text()
COMMANDS = re.findall(r"^```sh\n(.*)\n```", PAGE, re.MULTILINE)
HOURS = [(81, 17), (76, 18), (73, 19), (79, 20), (77, 21), (76, 22)]


def test_tables(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    for number, command in enumerate(COMMANDS[:2]):
        ended = cli(*shlex.split(command.replace("state", f"state{number}"))[1:])
        assert ended.code == 0, ended.err
    with closing(sqlite3.connect("hours.db")) as database:
        assert sorted(database.execute("SELECT maxtemp, hour FROM hours")) == sorted(HOURS)
    with closing(duckdb.connect("hours.duckdb")) as database:
        assert sorted(database.execute("SELECT maxtemp, hour FROM hours").fetchall()) == sorted(HOURS)


def test_postgresql(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, postgresql: str) -> None:
    """The password in the URL appears in no message and no file."""
    (tmp_path / "samples").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", "hush-hush-hush")
    (command,) = COMMANDS[2:]
    address = postgresql.replace("user=xmlpunct", "user=xmlpunct&password=${PGPASSWORD}")
    command = command.replace("postgresql://me:${PGPASSWORD}@db.example.com/base?", address)
    assert address in command
    words = [*shlex.split(command)[1:], "--engine", "local"]
    for expected in (0, 0):
        ended = cli(*words)
        assert ended.code == expected, ended.err
    wrong = cli(
        *[word.replace("table=hours", "table=hours&sslmode=wrong") for word in words[:-4]], *words[-2:]
    )
    assert wrong.code == 1
    assert "${PGPASSWORD}" in wrong.err
    texts = [wrong.err.encode(), *(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())]
    assert not any(b"hush-hush" in text for text in texts)
