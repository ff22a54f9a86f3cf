"""A sample of the feeds on Spark: the exchange sends arrays as their items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import SAMPLES
from tests.feeds.answers import FEEDS
from tests.oracle.values import bag
from tests.spark.support import on_spark, read_back, split
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark


def test_timetables(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    query = plan((SAMPLES / "feeds" / "siri.sql").read_text())
    stats = on_spark(spark, query, tmp_path / "out.xml", slice_bytes=1000)
    tuples, punctuations = split(read_back(tmp_path / "out.xml", query.root.schema))
    assert bag(tuples) == bag(FEEDS["siri"].answer((SAMPLES / "feeds" / "siri.xml").read_bytes()))
    assert punctuations
    assert stats.slices > 2
