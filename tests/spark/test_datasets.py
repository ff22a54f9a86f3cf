"""The same on Spark: partitions, tables and rejects, through a death between writing and putting that down."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.test_datasets import content, rows, seen
from tests.spark.support import HOURS, READINGS, Warehouse, everything, on_spark
from xmlpunct.engine.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.checkpoint.commit import Commit
from xmlpunct.errors import XmlPunctError

pytestmark = pytest.mark.spark


def test_a_death_between_writing_and_keeping(
    spark: Any, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = warehouse.folder / "rejected.xml"
    text = (warehouse.folder / "sensor1.xml").read_text()
    source.write_text(text.replace("</stream>", "<tempdata><hour>x</hour></tempdata></stream>"))
    (stream,) = warehouse.streams[:1]
    query, out, database = everything(source, stream.schema), tmp_path / "out", tmp_path / "x.db"
    options: dict[str, Any] = {
        "format": "parquet",
        "partition_by": ("hour",),
        "checkpoint": str(tmp_path / "checkpoint"),
        "rejects": f"sqlite:///{database}?table=rejects",
        "slice_bytes": 6000,
    }
    keep, lives = Checkpoint.commit, []

    def die(self: Checkpoint, commit: Commit) -> None:
        if commit.batch >= 0 and len(lives) < commit.batch:
            lives.append(commit.batch)
            raise OSError(5, "died")
        keep(self, commit)

    monkeypatch.setattr(Checkpoint, "commit", die)
    with pytest.raises(XmlPunctError):
        on_spark(spark, query, f"{out}/", **options)
    before = content(out)
    assert before, "some hours are complete"
    lives += [1] * 100
    on_spark(spark, query, f"{out}/", **options)
    after = content(out)
    assert {path: after[path] for path in before} == before
    assert seen(out) == sorted(f"hour={hour}" for hour in range(HOURS))
    assert len(rows(out)) == HOURS * READINGS
    with closing(sqlite3.connect(database)) as connection:
        ((text,),) = connection.execute("SELECT text FROM rejects").fetchall()
    assert text == "<tempdata><hour>x</hour></tempdata>"
