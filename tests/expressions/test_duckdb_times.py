"""STRPTIME, compared with DuckDB."""

from __future__ import annotations

import pytest

from tests.expressions.test_duckdb import check

FORMATS = {
    "%a, %d %b %Y": ["Fri, 27 Nov 2026", "mon, 27 nov 2026", "Friday, 27 Nov 2026", "Xyz, 27 Nov 2026"],
    "%A $1 %Y-%j": ["FRIDAY $1 2026-331", "Monday $1 2026-1", "Monday $1 2026-366", "Monday $1 2026-0"],
    "%Y-%j %H:%M": ["2024-366 10:01", "2024-61 1:1", "2024-1", "2024-1000 10:01"],
    "%Y-%m-%d %H:%M:%S %z": [
        f"2026-01-02 10:00:00 {zone}"
        for zone in ("+0100", "-01:30", "+01", "Z", "-1", "+01:30:15", "+19:00", "+0160", "-00:30", "+01:3", "")
    ],
    "%z %Y-%m-%d": ["+01:00 0001-01-01", "-01:00 9999-12-31", "+0100 2026-01-01"],
    "%a, %d %b %Y %H:%M:%S.%f %Z!": [
        f"Fri, {moment}.25 {zone}!"
        for moment in ("02 Jan 2026 10:00:00", "02 Jul 2026 10:00:00", "29 Mar 2026 02:30:00", "25 Oct 2026 02:30:00")
        for zone in ("UTC", "gmt", "EST", "CET", "PST", "JST", "CST", "Europe/Oslo", "Australia/Lord_Howe", "Etc/GMT+3",
                     "EDT", "Nowhere/Else", "+01:00", "")
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_formats_of_moments(form: str) -> None:
    texts = [(None,), *((text,) for text in FORMATS[form])]
    failures = check(f"STRPTIME(s, '{form}')", f"TRY_STRPTIME(s, '{form}')", texts)
    assert 0 < failures < len(texts) - 1, "some texts fit, and some do not"
