"""Attributes from file names, below a subquery with PUNCTUATE, on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_file_names import COLUMNS, fill
from tests.spark.support import on_spark, read_back, split
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark


def test_names_and_punctuate(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file_rows = fill(tmp_path)
    query = plan(
        f"""CREATE STREAM t ({COLUMNS}) WITH (source = '{{sid}}/hour={{hour}}');
            CREATE STREAM one (hour INT NOT NULL, v INT) WITH (source = 'S1/hour={{hour}}', element = 't');
            SELECT q.h, t.sid, COUNT(*) AS n FROM t
              JOIN (SELECT hour AS h, v FROM one) AS q PUNCTUATE ORDER BY h ON t.hour = q.h
            GROUP BY q.h, t.sid"""
    )
    stats = on_spark(spark, query, tmp_path / "out.xml", slice_bytes=200)
    tuples, punctuations = split(read_back(tmp_path / "out.xml", query.root.schema))
    rows_by_hour = Counter(hour for sid, hour, _ in file_rows if sid == "S1")
    pairs = Counter((hour, sid) for sid, hour, _ in file_rows)
    assert {(h, sid): n for h, sid, n in tuples} == {
        (h, sid): n * rows_by_hour[h] for (h, sid), n in pairs.items() if rows_by_hour[h]
    }
    assert punctuations
    assert stats.slices > 2
