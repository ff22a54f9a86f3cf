"""Parsing and changing of text, compared with DuckDB: regular expression classes, letter case, CAST."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pytest

from tests.expressions.test_duckdb import as_ours, check, planned
from tests.expressions.test_evaluation import MONEY
from tests.oracle.values import same
from xmlpunct.expressions.program import Program
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, Type

CLASSES = [
    "\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\b", "\\ba", "a\\b", "[\\w]", "[^\\w]", "[\\W]", "[^\\W]",
    "[\\d\\s]", "[\\w.-]+", "[-\\w]", "[\\d-z]", "[a-z&&b]", "[[a]", "[[]", "[]a]", "[^]a]", "[a~~b]", "[+--]",
    "[--a]", "[*--]", "[a\\-z]", "[\\[\\]]", "[&-~]", "[\\\\]", "x{a}", "{", "x{", "a{2}", "a{,2}", "\\Qa.b\\E",
    "\\Q[\\E", "a\\\\Q", "\\Q[", "\\p{L}", "\\p{^L}", "\\PL", "\\P{^L}", "[\\pL\\d]", "[^\\pL]", "\\p{Greek}",
    "[[:alpha:]]", "[[:^alpha:]]", "[[:alpha:]é]", "[:alpha:]", "[[:word:]-]", "[[:digit:][:punct:]]",
    "[[:space:]]", "\\<", "\\/", "\\-", "\\_", "[a^]", "\\x41", "[\\x{e0}-\\x{ef}]", "(?i)\\w", "(?i)[^\\W]",
    "(?i)k", "(?i)[a-z]", "(?i)ß", "(?i)σ", "(?i)ω", "\\A\\w+\\z", "(\\w+)-(\\w+)", "\\w*é", "[\\t\\v]",
]  # fmt: skip
SIGNS = [
    "", "a", "é", "Zß", "a b", "a\xa0b", "٣", "3", "_", "a_3", "x-y", "-", "&", "~", "[", "]", "a&b", "\\", "K",
    "ſ", "k", "\t", "\x0b", "\n", "Σας", "ω1", "日本", "a.b", "x{a}", "x{", "{2}", "^", "é3", "3é", "aé", "éa", " é ",
    "<a>", "/", "[a]", "--", "+", "a{,2}", ":", "\u2003", "😀",
]  # fmt: skip


@pytest.mark.parametrize("pattern", CLASSES)
def test_classes_are_those_of_duckdb(pattern: str) -> None:
    """Classes contain only ASCII, as in RE2; the classes of polars contain Unicode."""
    rows = [(text,) for text in SIGNS]
    check(f"REGEXP_LIKE(s, '{pattern}')", f"regexp_matches(s, '{pattern}')", rows)
    check(f"REGEXP_REPLACE(s, '{pattern}', '<>', 'g')", rows=rows)
    check(f"s SIMILAR TO '{pattern}'", f"regexp_full_match(s, '{pattern}')", rows)
    check(f"REGEXP_EXTRACT(s, '{pattern}')", rows=rows)


def test_case_is_that_of_duckdb() -> None:
    """Case mapping is one character to one, in any language, for every cased letter of Unicode 14."""
    letters = [chr(i) for i in range(1, 0x20000) if not 0xD800 <= i < 0xE000]
    cased = [c for c in letters if c.lower() != c or c.upper() != c]
    assert len(cased) > 2500
    words = ["ΟΔΟΣ Σ", "Straße", "İıI", "\ufb01n", "ŉ", "ΐΰ", "ᾳ", "ǆǅǄ", "ﬀ\u0131ß", "KÅ", "Ως", None]
    rows = [(text,) for text in [*cased, *words]]
    for sql in (
        "UPPER(s)",
        "LOWER(s)",
        "UPPER(LOWER(s))",
        "LENGTH(UPPER(s))",
        "s ILIKE '%ς%'",
        "s ILIKE 'straße'",
    ):
        assert check(sql, rows=rows) == 0


CASTS = [
    "", "0", "+5", " 7 ", "\t7\n", "007", "-007", "1.5", "2.5", "-2.5", "1.", "1.0", ".5", "-.5", ".", "-", "1e3",
    "1E3", "15e-1", "1e20", "1e400", "1_000", "1,000", "0x10", "9223372036854775807", "9223372036854775808",
    "99999.995", "1.005", "INF", "-INF", "+INF", "inf", "-inf", "infinity", "Infinity", "NaN", "nan", "NAN", "1f",
    "true", "false", "TRUE", "False", "t", "f", "T", "F", "yes", "no", "y", "n", "YES", "on", "off", "1", "2", "10",
    "2024-02-29", "2023-02-29", "2024-2-9", "2024/02/29", "20240229", " 2024-02-29 ", "24-02-29", "10000-01-01",
    "epoch", "2024-02-29T12:00:00", "2024-02-29 12:00:00", "2024-02-29  12:00:00", "2024-02-29 12:00",
    "2024-02-29T12:00Z", "2024-02-29 12", "2024-02-29T12:00:00Z", "2024-02-29 12:00:00Z", "2024-02-29 12:00:00 UTC",
    "2024-02-29 12:00:00+01", "2024-02-29 12:00:00.5", "2024-02-29T12:00:00.123456", "2024-02-29T12:00:00.1234567",
    "2024-02-29T24:00:00", "2024-02-29T25:00:00", "2024-02-29 1:2:3", "x", "--1", "1 2", "٣", "12abc", "$1", "yeſ",
    "t\n", "falſe",
]  # fmt: skip
NOT_READ = {
    INT: r".*[.eE_xb].*",
    DOUBLE: ".*_.*",
    MONEY: r".*[eE_].*|[0-9]+\.[0-9]{3,}",
    BOOLEAN: "$",
    DATE: r".*[ T:/].*|.*inf.*|epoch|.*\b[0-9]{1,2}-.*-.*|[0-9]{5,}-.*|.*-[0-9]-.*",
    TIMESTAMP: r".*(UTC|\+01)|.* [0-9]+(:[0-9]:.*)?|.*/.*|.*inf.*|epoch|[0-9]{1,2}-.*-.*|[0-9]{5,}-.*|.*-[0-9]-.*",
}
"""Texts that DuckDB accepts but we do not; docs/functions.md documents them."""


@pytest.mark.parametrize("type_", NOT_READ, ids=str)
def test_texts_are_read_as_in_duckdb(type_: Type) -> None:
    """CAST accepts the same texts, except `NOT_READ` and XML white space. Literals are read like columns."""
    column = pl.DataFrame({"st.s": CASTS})
    (ours,), _ = Program([("r", planned(f"TRY_CAST(s AS {type_})"))]).run(column)
    with duckdb.connect() as connection:
        connection.register("st", pl.DataFrame({"s": [text.strip(" \t\n") for text in CASTS]}).to_arrow())
        name = "BIGINT" if type_ is INT else type_
        theirs = connection.execute(f"SELECT TRY_CAST(s AS {name}) FROM st").fetchall()
    accepted = 0
    for text, our_value, (answer,) in zip(CASTS, ours, theirs, strict=True):
        (literal,), _ = Program([("r", planned(f"TRY_CAST('{text}' AS {type_})"))]).run(column[:1])
        assert same(literal[0]) == same(our_value), text
        if our_value is not None or not re.fullmatch(NOT_READ[type_], text, re.IGNORECASE):
            assert same(our_value) == same(as_ours(type_, answer)), text
            accepted += our_value is not None
    assert accepted > 1


@pytest.mark.parametrize("text", ["1.5", "1e3", "1_000", "0x10"])
def test_try_cast_of_a_text_that_duckdb_alone_reads_is_null(text: str) -> None:
    """docs/functions.md states this difference."""
    (ours,), _ = Program([("r", planned("TRY_CAST(s AS INT)"))]).run(pl.DataFrame({"st.s": [text]}))
    with duckdb.connect() as connection:
        theirs = connection.execute("SELECT TRY_CAST(? AS BIGINT)", [text]).fetchone()
    assert ours.to_list() == [None] != [theirs and theirs[0]]


def test_a_zone_counts() -> None:
    """A zone is applied, as DuckDB does only for TIMESTAMPTZ."""
    for text, moment in (
        ("2024-02-29T12:00:00+01:00", datetime(2024, 2, 29, 11, tzinfo=UTC)),
        ("2024-02-29 12:00-14:00", datetime(2024, 3, 1, 2, tzinfo=UTC)),
        ("2024-02-29 12:00:00.5+05:30", datetime(2024, 2, 29, 6, 30, 0, 500000, tzinfo=UTC)),
    ):
        (ours,), _ = Program([("r", planned("TRY_CAST(s AS TIMESTAMP)"))]).run(pl.DataFrame({"st.s": [text]}))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            theirs = connection.execute("SELECT epoch_us(CAST(? AS TIMESTAMPTZ))", [text]).fetchone()
        assert ours.to_list() == [moment]
        assert theirs == ((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1),)
