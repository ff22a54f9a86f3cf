"""Large files on Spark: all cores cut them before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import Warehouse, locally, on_spark, read_back, split
from xmlpunct.engine.run.inputs import cuts
from xmlpunct.engine.run.inputs.uncut import saved
from xmlpunct.engine.spark import cutting

pytestmark = pytest.mark.spark


def test_the_cuts_are_computed_once_and_stored(
    spark: Any, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "LARGE_BYTES", 2000)
    monkeypatch.setattr(cutting, "PIECE_BYTES", 1)
    monkeypatch.setattr(cuts, "SPAN_BYTES", 3000)
    query, checkpoint = warehouse.hottest(), tmp_path / "checkpoint"
    stats = on_spark(spark, query, tmp_path / "out.xml", slice_bytes=5000, checkpoint=str(checkpoint))
    locally(query, tmp_path / "local.xml")
    schema = query.root.schema
    assert (
        split(read_back(tmp_path / "out.xml", schema))[0]
        == split(read_back(tmp_path / "local.xml", schema))[0]
    )
    tables = saved(checkpoint / "cuts")
    assert tables is not None
    for number, stream in enumerate(warehouse.streams):
        size = Path(str(stream.source)).stat().st_size
        assert sum(piece.size for piece in tables[number, 0]) == size
        assert len(tables[number, 0]) > size // 4000
    assert stats.slices > 2
