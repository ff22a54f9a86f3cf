"""The differences between SQLite, DuckDB and PostgreSQL: connections, types, and bulk inserts."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import polars as pl

from xmlpunct.base.errors import ended_by, undoing
from xmlpunct.base.lazy_imports import import_extra
from xmlpunct.connectors.retries import Retries
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, DecimalType, Type

_LOCKED_SECONDS, _GLANCE_SECONDS = 60.0, 0.5
"""How long to wait for a SQLite database that another process has locked, and how often to report that."""
UnstorableTest = tuple[pl.Expr, str]
"""A condition for tuples that a database cannot store, and the reason to report."""


class Dialect(ABC):
    """A database at a ``place``, which is a file or a URL. `connect` loads its driver.

    Statements have ``?`` for parameters.
    """

    is_file: ClassVar[bool] = True
    TEXT: ClassVar[str] = "TEXT"
    NUMBER: ClassVar[str] = "BIGINT"
    errors: tuple[type[Exception], ...] = ()
    """The driver's exceptions."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.retries = Retries(place)
        self._connection: Any = None

    @abstractmethod
    def connect(self) -> None:
        """Connect, for use by any thread. A missing file is created. Raises `UsageError` without the driver."""

    @abstractmethod
    def types(self, type_: Type) -> Sequence[str]:
        """The column types that can store all values of a type; the first is for new tables."""

    @abstractmethod
    def columns(self, table: str) -> dict[str, str]:
        """The types of a table's columns, by name; empty if there is no table."""

    @abstractmethod
    def insert(self, head: str, tail: str, schema: Schema, tuples: pl.DataFrame) -> None:
        """Run a statement that consists of ``head``, the tuples, and ``tail``."""

    def tests(self, tuples: pl.DataFrame) -> list[UnstorableTest]:
        """Conditions for tuples that it cannot store."""
        return []

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement."""
        with self._cursor() as cursor:
            cursor.execute(statement, tuple(parameters))

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query's result."""
        with self._cursor() as cursor:
            cursor.execute(query, tuple(parameters))
            return list(map(tuple, cursor.fetchall()))

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._connection.cursor()
        with ended_by(cursor.close):
            yield cursor

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements inside as one transaction."""
        self._begin()
        with undoing(self._connection.rollback):
            yield
            self._commit()

    def _begin(self) -> None:
        self.run("BEGIN")

    def _commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Sqlite(Dialect):
    """SQLite has few types. Values of other types are text in XML Schema's form, so that DECIMAL stays exact."""

    NUMBER = "INTEGER"
    errors = (sqlite3.Error,)

    def connect(self) -> None:
        self._connection = sqlite3.connect(
            self.place, timeout=_GLANCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        self.run("PRAGMA synchronous = EXTRA")  # a commit is durable when the journal's removal is

    def _begin(self) -> None:
        self._when_unlocked("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._when_unlocked("COMMIT")

    def _when_unlocked(self, statement: str) -> None:
        """Run a statement once no other process has locked the database."""
        until = time.monotonic() + _LOCKED_SECONDS
        while True:
            try:
                self.run(statement)
                self.retries.progressed()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                self.retries.waited(error)

    def types(self, type_: Type) -> Sequence[str]:
        if type_ is INT:
            return "INTEGER", "INT", "BIGINT"
        if type_ is DOUBLE:
            return "REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT"
        if type_ is BOOLEAN:
            return "BOOLEAN", "INTEGER"
        return "TEXT", "VARCHAR"

    def columns(self, table: str) -> dict[str, str]:
        schema, name = _split(table, "main")
        return dict(self.rows("SELECT name, type FROM pragma_table_info(?, ?)", (name, schema)))

    def tests(self, tuples: pl.DataFrame) -> list[UnstorableTest]:
        doubles = [name for name, dtype in tuples.schema.items() if dtype == pl.Float64()]
        return [(pl.col(name).is_nan(), f"{name} is NaN, which SQLite stores as null") for name in doubles]

    def insert(self, head: str, tail: str, schema: Schema, tuples: pl.DataFrame) -> None:
        native_types = (INT, DOUBLE, BOOLEAN)
        values = tuples.select(
            _text(a.name, a.type) if a.type not in native_types else pl.col(a.name) for a in schema
        )
        marks = ", ".join("?" * len(schema))
        with self._cursor() as cursor:
            cursor.executemany(f"{head}VALUES ({marks}){tail}", values.iter_rows())


class DuckDb(Dialect):
    """DuckDB reads Arrow tables directly. A run locks its file."""

    def connect(self) -> None:
        duckdb = import_extra("duckdb", "duckdb:// needs DuckDB's driver", "duckdb")
        self.errors = (duckdb.Error,)
        self._connection = duckdb.connect(self.place)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        yield self._connection  # DuckDB's cursors are separate connections with their own transactions

    def types(self, type_: Type) -> Sequence[str]:
        return _standard(type_, "VARCHAR", "DOUBLE")

    def columns(self, table: str) -> dict[str, str]:
        schema, name = _split(table, None)
        query = """SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?
          AND database_name = current_database() AND schema_name = coalesce(?, current_schema())"""
        return dict(self.rows(query, (name, schema)))

    def insert(self, head: str, tail: str, schema: Schema, tuples: pl.DataFrame) -> None:
        self._connection.register(_STAGE, _arrow(schema, tuples))
        with ended_by(lambda: self._connection.unregister(_STAGE)):
            self.run(head + _from_stage(self, schema) + tail)


class PostgreSql(Dialect):
    """PostgreSQL receives rows by COPY into a temporary table, from which they are inserted."""

    is_file = False

    def connect(self) -> None:
        driver = import_extra(
            "adbc_driver_postgresql.dbapi", "postgresql:// needs ADBC's driver", "postgresql"
        )
        self.errors = (driver.Error,)
        self._connection = driver.connect(self.place)

    def types(self, type_: Type) -> Sequence[str]:
        return _standard(type_, "TEXT", "DOUBLE PRECISION")

    def columns(self, table: str) -> dict[str, str]:
        query = """SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
          WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
        return dict(self.rows(query, (".".join(map(quoted_name, table.split("."))),)))

    def tests(self, tuples: pl.DataFrame) -> list[UnstorableTest]:
        texts = [name for name, dtype in tuples.schema.items() if dtype == pl.String()]
        reason = "has the character U+0000, which PostgreSQL cannot hold"
        return [(pl.col(name).str.contains("\0", literal=True), f"{name} {reason}") for name in texts]

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        super().run(_numbered(statement) if parameters else statement, parameters)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return super().rows(_numbered(query), parameters)

    def _begin(self) -> None:
        """ADBC's driver begins transactions itself."""

    def insert(self, head: str, tail: str, schema: Schema, tuples: pl.DataFrame) -> None:
        with self._cursor() as cursor:
            cursor.adbc_ingest(_STAGE, _arrow(schema, tuples), mode="create", temporary=True)
        self.run(head + _from_stage(self, schema) + tail)
        self.run(f"DROP TABLE pg_temp.{_STAGE}")


DIALECTS: dict[str, type[Dialect]] = {"sqlite": Sqlite, "duckdb": DuckDb, "postgresql": PostgreSql}
"""By scheme."""
_STAGE = "xmlpunct_stage"


def quoted_name(name: str) -> str:
    """A name quoted for SQL.

    >>> quoted_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def _standard(type_: Type, text: str, double: str) -> Sequence[str]:
    """Standard SQL types, as in DuckDB and PostgreSQL."""
    if isinstance(type_, DecimalType):
        return (
            f"DECIMAL({type_.precision},{type_.scale})",
            f"NUMERIC({type_.precision},{type_.scale})",
            "NUMERIC",
        )
    if isinstance(type_, ArrayType):
        return "JSON", "JSONB"
    if type_ is INT:
        return "BIGINT", "HUGEINT"
    if type_ is DOUBLE:
        return (double,)
    if type_ is BOOLEAN:
        return ("BOOLEAN",)
    if type_ is DATE:
        return ("DATE",)
    if type_ is TIMESTAMP:
        return ("TIMESTAMP WITH TIME ZONE",)
    return text, "TEXT", "VARCHAR", "CHARACTER VARYING"


def _text(name: str, type_: Type) -> pl.Expr:
    """A polars expression for the texts of a column; arrays as JSON."""
    column = pl.col(name)
    texts = type_.json_column(column) if isinstance(type_, ArrayType) else type_.format_column(column)
    return texts.alias(name)


def _arrow(schema: Schema, tuples: pl.DataFrame) -> Any:
    """Tuples as an Arrow table; arrays as JSON."""
    columns = [_text(a.name, a.type) if isinstance(a.type, ArrayType) else pl.col(a.name) for a in schema]
    return tuples.select(columns).to_arrow(compat_level=pl.CompatLevel.oldest())


def _from_stage(dialect: Dialect, schema: Schema) -> str:
    """The query that reads the staging table."""
    columns = [f"CAST({quoted_name(a.name)} AS {dialect.types(a.type)[0]})" for a in schema]
    return f"SELECT {', '.join(columns)} FROM {_STAGE}"


def _split(table: str, schema: str | None) -> tuple[str | None, str]:
    """The schema and the name of a table."""
    before, dot, name = table.rpartition(".")
    return (before if dot else schema), name


def _numbered(statement: str) -> str:
    """A statement with ``$1``, ``$2``... for ``?``.

    >>> _numbered("SELECT ? + ?")
    'SELECT $1 + $2'
    """
    first, *texts = statement.split("?")
    return first + "".join(f"${n}{text}" for n, text in enumerate(texts, 1))
