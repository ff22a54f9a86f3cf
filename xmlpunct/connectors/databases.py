"""Results as the rows of a database's table: ``sqlite:///x.db?table=t``, ``duckdb:///x.duckdb?table=t``,
``postgresql://host/name?table=t``.

A group of results is one transaction, which also stores its number and its digest, by run and table: a group that is
written again after a kill is skipped, and a different group with that number is refused. With ``key=a,b`` a row
replaces the row with the same key. Punctuations are not written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import polars as pl

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.contract import Connector, url_scheme
from xmlpunct.connectors.database_dialects import DIALECTS, Dialect, quoted_name
from xmlpunct.connectors.last_group import LastGroup
from xmlpunct.connectors.outlet import Existing, Form, Outlet, Results
from xmlpunct.connectors.retries import Retries
from xmlpunct.schema import Schema

PROGRESS = "xmlpunct_progress"
"""The table with the number and the digest of the last group, by run and table. Up to version 11 of checkpoints it had
no digest: then the column is added."""


class Databases(Connector):
    """Tables of SQLite, DuckDB and PostgreSQL, for output."""

    def outlet(self, spec: str, name: str) -> Outlet:
        url = urlsplit(spec)
        options = dict(parse_qsl(url.query))
        table, key = options.pop("table", ""), options.pop("key", "")
        if not table:
            raise UsageError(f"{name}: which table? Add ?table=NAME")
        dialect = DIALECTS[url_scheme(spec)]
        if dialect.is_file:
            if url.netloc or len(url.path) < 2 or options:
                example = f"{url.scheme}:///x.db?table=t, with four slashes for a path from the root"
                raise UsageError(f"{name}: write {example}; only key=a,b may follow")
            database = unquote(url.path[1:])
        else:
            database = f"{url.scheme}://{url.netloc}{url.path}?{urlencode(options)}"
        return DatabaseTable(dialect(database), table, [part for part in key.split(",") if part], name)

    def place(self, spec: str) -> str:
        """The database, and the table in it."""
        url = urlsplit(spec)
        database = next(map(os.path.realpath, self.written(spec)), f"{url.netloc}{url.path}")
        return f"{database} {dict(parse_qsl(url.query)).get('table', '')}"

    def written(self, spec: str) -> list[str]:
        return [unquote(urlsplit(spec).path[1:])] if DIALECTS[url_scheme(spec)].is_file else []


class DatabaseTable(Outlet):
    """Writes to a table, which is created if it is missing. ``name`` is its URL for messages."""

    takes_columns = can_replace = True

    def __init__(self, dialect: Dialect, table: str, key: Sequence[str], name: str) -> None:
        self._dialect, self._table, self._key, self._name = dialect, table, list(key), name
        self._last = LastGroup(name)
        dialect.retries = Retries(name)
        self._is_open = False

    def check(self, schema: Schema) -> None:
        missing = [column for column in self._key if column not in schema]
        if missing:
            raise UsageError(
                f"{self._name}: key={missing[0]} is no column of the results: {', '.join(schema.names)}"
            )
        for column in self._key:
            if not schema[column].type.comparable:
                raise UsageError(f"{self._name}: column {column} is {schema[column].type.kind}: no key")

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """Rejects tuples with a null in the key, and values that the database cannot store."""
        tests = [(pl.col(c).is_null(), f"{c} is null, but a column of the table's key") for c in self._key]
        tests += self._dialect.tests(tuples)
        if not (tests and tuples.height):
            return None
        reasons = pl.coalesce(*(pl.when(test).then(pl.lit(reason)) for test, reason in tests))
        tuple_reasons = tuples.select(reasons.alias("reason")).to_series()
        return tuple_reasons if tuple_reasons.null_count() < len(tuple_reasons) else None

    def open(self, form: Form, position: Any) -> None:
        self._run, self._schema = form.run, form.schema
        self._insert = self._insert_statement()
        number, digest = (-1, "") if position is None else position
        if number >= 0 and self._dialect.is_file and not os.path.exists(self._dialect.place):
            raise self._lost_error()
        with self._converted_errors("opened"):
            self._dialect.connect()
            self._is_open = True
            with self._dialect.transaction():
                self._prepare_progress()
                query = f"SELECT number, digest FROM {PROGRESS} WHERE run = ? AND target = ?"
                for last in self._dialect.rows(query, (form.run, self._table)):
                    self._last = LastGroup(self._name, *last)
                if number > self._last.number or (
                    self._last.number >= 0 and not self._dialect.columns(self._table)
                ):
                    raise self._lost_error()
                if position is None and self._last.number < 0:
                    self._prepare(form.existing)
                else:
                    self._prepare(Existing.ACCEPT)
        self._last.holds(Results(number, (), b"", digest=digest))

    def check_complete(self, form: Form, position: Any) -> None:
        self.open(form, position)
        self.close()

    def _lost_error(self) -> XmlPunctError:
        return XmlPunctError(
            f"{self._name} does not contain the committed results of this run: were they removed, or is it "
            "another database? Restore it as it was with the checkpoint, or start again with another --checkpoint"
        )

    def check_last(self, last: int) -> None:
        self._last.check(last)

    def write(self, results: Results, *, again: bool = False) -> None:
        frames = [slice_.tuples for slice_ in results.slices if slice_.tuples.height]
        if not frames or self._last.holds(results):
            return
        tuples = pl.concat(frames)
        if self._key:
            tuples = tuples.unique(self._key, keep="last", maintain_order=True)
        with self._converted_errors("written"), self._dialect.transaction():
            self._dialect.insert(*self._insert, self._schema, tuples)
            upsert = (
                f"INSERT INTO {PROGRESS} (run, target, number, digest) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (run, target) DO UPDATE SET number = excluded.number, digest = excluded.digest"
            )
            self._dialect.run(upsert, (self._run, self._table, results.number, results.digest))
        self._last = LastGroup(self._name, results.number, results.digest)

    def commit(self) -> list[Any]:
        return [self._last.number, self._last.digest]

    def close(self) -> None:
        if self._is_open:
            self._dialect.close()
            self._is_open = False

    def _prepare_progress(self) -> None:
        text, number = self._dialect.TEXT, self._dialect.NUMBER
        columns = f"run {text}, target {text}, number {number}, digest {text}, PRIMARY KEY (run, target)"
        self._dialect.run(f"CREATE TABLE IF NOT EXISTS {PROGRESS} ({columns})")
        if "digest" not in self._dialect.columns(PROGRESS):
            self._dialect.run(f"ALTER TABLE {PROGRESS} ADD COLUMN digest {text}")

    def _prepare(self, existing: Existing) -> None:
        """Create or check the table. Raises `UsageError` if it cannot hold the results, or must not be changed."""
        earlier_runs = self._dialect.rows(f"SELECT run FROM {PROGRESS} WHERE target = ?", (self._table,))
        columns = self._dialect.columns(self._table)
        if columns:
            if earlier_runs and existing is Existing.REFUSE:
                raise UsageError(
                    f"{self._name} holds results of another run, and the checkpoint is new: give the --checkpoint of "
                    "that run, name another table, or replace all rows with --replace"
                )
            self._compare(columns)
            self._look_for_index()
            if existing is Existing.REPLACE:
                self._dialect.run(f"DELETE FROM {self._target}")
                self._dialect.run(f"DELETE FROM {PROGRESS} WHERE target = ?", (self._table,))
            return
        types = [f"{quoted_name(a.name)} {self._dialect.types(a.type)[0]}" for a in self._schema]
        unique = [f"PRIMARY KEY ({', '.join(map(quoted_name, self._key))})"] if self._key else []
        self._dialect.run(f"CREATE TABLE {self._target} ({', '.join([*types, *unique])})")

    def _compare(self, columns: dict[str, str]) -> None:
        for a in self._schema:
            if a.name not in columns:
                raise UsageError(
                    f"{self._name}: table {self._table} has no column {a.name}; it has {', '.join(columns)}"
                )
            accepted = self._dialect.types(a.type)
            if columns[a.name].upper() not in accepted:
                raise UsageError(
                    f"{self._name}: column {a.name} of table {self._table} is {columns[a.name]}, and the results' "
                    f"{a.type.kind} takes {' or '.join(dict.fromkeys(accepted))}: CAST it, or name another table"
                )

    def _look_for_index(self) -> None:
        """Raise `UsageError` if an existing table has no unique index on the key."""
        if not self._key:
            return
        head, tail = self._insert
        names = ", ".join(map(quoted_name, self._schema.names))
        try:
            self._dialect.run(f"{head}SELECT {names} FROM {self._target} WHERE 1 = 0{tail}")
        except self._dialect.errors:
            key = ", ".join(map(quoted_name, self._key))
            raise UsageError(
                f"{self._name}: key= needs a unique index: CREATE UNIQUE INDEX i ON {self._target} ({key})"
            ) from None

    @property
    def _target(self) -> str:
        return ".".join(map(quoted_name, self._table.split(".")))

    def _insert_statement(self) -> tuple[str, str]:
        """The statement that inserts rows: its text before and after the rows."""
        names = [quoted_name(name) for name in self._schema.names]
        head = f"INSERT INTO {self._target} ({', '.join(names)}) "
        if not self._key:
            return head, ""
        updated = [quoted_name(name) for name in self._schema.names if name not in self._key]
        update = f"UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in updated)}" if updated else "NOTHING"
        return head, f" ON CONFLICT ({', '.join(map(quoted_name, self._key))}) DO {update}"

    @contextmanager
    def _converted_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except self._dialect.errors as error:
            raise XmlPunctError(f"{self._name} cannot be {action}: {' '.join(str(error).split())}") from error
