"""Datasets on Spark, with partitions, tables and rejects, when the run fails between a write and its commit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.test_create_sink import DECLARED
from tests.sinks.test_datasets import content, rows, seen
from tests.spark.support import HOURS, NAMESPACE, READINGS, Warehouse, on_spark, read_back, select_all, split
from xmlpunct.base.errors import SourceError, XmlPunctError
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.sql import plan
from xmlpunct.schema import Schema

pytestmark = pytest.mark.spark


def test_a_failure_between_write_and_commit(
    spark: Any, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = warehouse.folder / "rejected.xml"
    text = (warehouse.folder / "sensor1.xml").read_text()
    source.write_text(text.replace("</stream>", "<tempdata><hour>x</hour></tempdata></stream>"))
    (stream,) = warehouse.streams[:1]
    query, out, database = select_all(source, stream.schema), tmp_path / "out", tmp_path / "x.db"
    options: dict[str, Any] = {
        "format": "parquet",
        "partition_by": ("hour",),
        "checkpoint": str(tmp_path / "checkpoint"),
        "rejects": f"sqlite:///{database}?table=rejects",
        "slice_bytes": 6000,
    }
    commit_batch, failed_batches = Checkpoint.commit, []

    def die(self: Checkpoint, commit: Commit) -> None:
        if commit.batch >= 0 and len(failed_batches) < commit.batch:
            failed_batches.append(commit.batch)
            raise OSError(5, "died")
        commit_batch(self, commit)

    monkeypatch.setattr(Checkpoint, "commit", die)
    with pytest.raises(XmlPunctError):
        on_spark(spark, query, f"{out}/", **options)
    before = content(out)
    assert before, "some hours are complete"
    failed_batches += [1] * 100
    on_spark(spark, query, f"{out}/", **options)
    after = content(out)
    assert {path: after[path] for path in before} == before
    assert seen(out) == sorted(f"hour={hour}" for hour in range(HOURS))
    assert len(rows(out)) == HOURS * READINGS
    with closing(sqlite3.connect(database)) as connection:
        ((text,),) = connection.execute("SELECT text FROM rejects").fetchall()
    assert text == "<tempdata><hour>x</hour></tempdata>"


def test_sinks_of_tasks_when_an_input_fails(spark: Any, tmp_path: Path) -> None:
    """A dataset of XML, one of columns and a file contain exactly the tuples before the failed input."""
    folder = tmp_path / "feed.xml"
    folder.mkdir()
    for number in range(4):
        tuples = "".join(f"<a><x>{i % 7}</x><hour>{number}</hour></a>\n" for i in range(50))
        text = f'<s xmlns:punct="{NAMESPACE}">{tuples}<punct:a><hour>{number}</hour></punct:a></s>'
        (folder / f"{number}.xml").write_text(text if number != 2 else text.replace("</hour></a>", "</hour>"))
    query = plan(
        f"""{DECLARED.format(folder=tmp_path)}
        CREATE SINK groups WITH (output = '{tmp_path}/groups/') AS
          SELECT x, hour, COUNT(*) AS n FROM a GROUP BY x, hour;
        CREATE SINK rows WITH (output = '{tmp_path}/rows/') AS SELECT x, hour FROM a;
        CREATE SINK columns WITH (output = '{tmp_path}/columns/', format = 'parquet') AS SELECT x, hour FROM a;
        SELECT x, hour FROM a"""
    )
    out, checkpoint = tmp_path / "out.xml", str(tmp_path / "checkpoint")
    for _ in range(2):  # the second run reads the failure from the checkpoint
        with pytest.raises(SourceError):
            on_spark(spark, query, out, checkpoint=checkpoint)
    schema = Schema.parse("x INT, hour INT")
    output = read_back(out.read_bytes() + b"</stream>", schema)
    tuples = split(output)[0]
    assert tuples == sorted(((i % 7, hour) for hour in (0, 1) for i in range(50)), key=repr)
    assert split(read_back(f"{tmp_path}/rows/", schema)) == split(output)
    assert sorted(rows(tmp_path / "columns")) == tuples
    counted = split(read_back(f"{tmp_path}/groups/", Schema.parse("x INT, hour INT, n INT")))
    assert counted[0] == sorted(((*t, tuples.count(t)) for t in {*tuples}), key=repr)
    assert [str(p) for p in counted[1]] == ["<*, 0, *>", "<*, 1, *>"]
    parts = list(tmp_path.glob("groups/slice-*/0-tuples/part-*"))
    assert len(parts) == 2, "one of each shard"
    assert not [*tmp_path.rglob("_xmlpunct/aside-*")]
