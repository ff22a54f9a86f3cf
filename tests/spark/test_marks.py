"""Marks of a standard on Spark: the output and the rejects of the local engine, with a mark around many tuples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import on_spark, read_back, split
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark


def test_marks_close_groups_on_all_shards(spark: Any, tmp_path: Path) -> None:
    pages = "".join(
        f"<page k='{k}'><last>true</last>" + f"<t><k>{k}</k><v>1</v></t>" * 20 + "</page>" for k in range(9)
    )
    (tmp_path / "s.xml").write_text(f"<r>{pages}<t><k>3</k><v>5</v></t></r>")
    query = plan(
        f"""CREATE STREAM s (k INT NOT NULL, v INT) WITH (source = '{tmp_path / "s.xml"}', element = 't')
              PUNCTUATE ON 'page' WHERE 'last' = 'true' CLOSES (k = '@k');
            SELECT k, SUM(v) AS v FROM s GROUP BY k"""
    )
    options: dict[str, Any] = {"slice_bytes": 600, "rejects": str(tmp_path / "rejects")}
    on_spark(spark, query, tmp_path / "out.xml", **options)
    tuples, punctuations = split(read_back(tmp_path / "out.xml", query.root.schema))
    assert tuples == [(k, 20) for k in range(9)]
    assert {str(p) for p in punctuations} >= {f"<{k}, *>" for k in range(9)}
    (reject,) = map(json.loads, (tmp_path / "rejects").read_text().splitlines())
    assert reject["reason"] == "late: <3, *> was closed before it"
