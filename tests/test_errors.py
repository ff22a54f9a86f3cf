"""The tree of errors: messages, positions and exit codes."""

from __future__ import annotations

import inspect
import pickle

import pytest

from xmlpunct.base import errors
from xmlpunct.base.errors import (
    PatternError,
    Reject,
    SchemaError,
    SourceError,
    SqlError,
    StrictError,
    TransientError,
    UsageError,
    XmlPunctError,
)

EVERY = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, Exception)]


def test_every_error_is_an_xmlpunct_error_drawn_in_the_tree() -> None:
    for error in EVERY:
        assert issubclass(error, XmlPunctError)
        assert error.__name__ in (errors.__doc__ or "")


def test_exit_codes() -> None:
    codes = {e.__name__: e.exit_code for e in EVERY}
    assert codes == {
        "XmlPunctError": 1, "UsageError": 2, "SqlError": 2, "SchemaError": 2, "PatternError": 1,
        "SourceError": 1, "TransientError": 1, "StrictError": 1,
    }  # fmt: skip


def test_sql_error_underlines_the_place() -> None:
    sql = "SELECT a\nFROM\ts JOIN\nt"
    error = SqlError("no JOIN", sql, 16, 20)
    assert str(error) == "no JOIN (line 2, column 8)\n  FROM\ts JOIN\n      \t  ^^^^"
    assert str(SqlError("nothing", sql, 21, 99)).endswith("  t\n  ^")
    assert str(SqlError("x", sql, 7)).endswith("\n         ^")
    assert str(SqlError("no place")) == "no place"
    assert str(SqlError("at the end", sql, len(sql), len(sql))).endswith("^")
    assert "^^" not in str(SqlError("x", "a\nb", 0, 3))


def test_pattern_error_names_attribute_text_and_place() -> None:
    error = PatternError("not good", "[1,x]", 3, "hour")
    assert str(error) == "attribute hour: not good in pattern '[1,x]' at character 4"
    assert "attribute" not in str(PatternError("not good", "x", 0))


def test_source_error_names_source_line_and_byte() -> None:
    assert str(SourceError("a.xml", "cut", 3, 120)) == "a.xml, line 3, byte 120: cut"
    assert str(SourceError("a.xml", "missing")) == "a.xml: missing"


def test_a_reject_reads_like_an_error() -> None:
    assert str(Reject("a.xml", 3, 120, "late", "<t/>")) == "a.xml, line 3, byte 120: late"
    assert str(Reject("a.xml", None, None, "late", "<t/>")) == "a.xml: late"


SAMPLES = [
    XmlPunctError("x"),
    UsageError("x"),
    SqlError("x", "SELECT", 0, 3),
    SchemaError("x"),
    PatternError("x", "[1", 1, "a"),
    SourceError("a.xml", "cut", 3, 120),
    TransientError("a.xml", "cannot be read: Stale file handle"),
    StrictError("x"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
def test_errors_survive_pickling(error: XmlPunctError) -> None:
    """Spark sends errors from workers to the driver."""
    unpickled = pickle.loads(pickle.dumps(error))
    assert type(unpickled) is type(error)
    assert str(unpickled) == str(error)
    assert vars(unpickled) == vars(error)
