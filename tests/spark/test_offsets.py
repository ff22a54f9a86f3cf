"""Spark's own offsets beside the log of a run: one that does not go with the other is found out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import SCHEMA, everything
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark import run
from xmlpunct.engine.spark.offsets import SparkOffsets

ENDS = ['{"0": 1}', '{"0": 2}', '{"0": 3}']


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three micro-batches, of which Spark knows that two were written."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for batch, end in enumerate(ENDS):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{end}')
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    return tmp_path


def test_what_goes_with_a_commit(folder: Path) -> None:
    offsets = SparkOffsets(folder)
    assert [offsets.end(batch) for batch in range(4)] == [*ENDS, ""]
    for batch in (1, 2):  # a micro-batch is written again, or the next one is
        offsets.check(Commit(batch, offset=ENDS[batch]))
    SparkOffsets(folder / "new").check(Commit())


@pytest.mark.parametrize("batch", [-1, 0, 3])
def test_an_older_log_or_older_offsets(folder: Path, batch: int) -> None:
    with pytest.raises(XmlPunctError, match="do not match the log"):
        SparkOffsets(folder).check(Commit(batch, offset=[*ENDS, "x"][batch]))


@pytest.mark.parametrize("text", ["", "v1\n{}", 'v1\n{}\n{"0": 7}', None])
def test_torn_or_other_offsets(folder: Path, text: str | None) -> None:
    path = folder / "offsets" / "2"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(XmlPunctError, match="do not match the log"):
        SparkOffsets(folder).check(Commit(2, offset=ENDS[2]))


@pytest.mark.spark
def test_a_run_keeps_them_and_compares(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that stops behind a commit goes on with the same offsets, and with no others."""
    source, checkpoint = tmp_path / "in.xml", tmp_path / "checkpoint"
    hours = "".join(f"<tempdata><hour>{n}</hour></tempdata>" for n in range(40))
    source.write_text(f"<s>{hours}</s>")
    query = everything(source, SCHEMA)
    options = RunOptions(output=str(tmp_path / "out.xml"), checkpoint=str(checkpoint), slice_bytes=500)
    commit = Checkpoint.commit

    def stop(self: Checkpoint, new: Commit) -> None:
        commit(self, new)
        if new.batch == 1:
            raise XmlPunctError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "commit", stop)
        with pytest.raises(XmlPunctError, match="stopped"):
            run(query, options, RunStats("spark"), session=spark)
    spark_folder = checkpoint / "spark"
    shutil.copytree(spark_folder, tmp_path / "held")
    (spark_folder / "offsets" / "1").unlink()
    with pytest.raises(XmlPunctError, match="do not match the log"):
        run(query, options, RunStats("spark"), session=spark)
    shutil.rmtree(spark_folder)
    shutil.copytree(tmp_path / "held", spark_folder)
    run(query, options, RunStats("spark"), session=spark)
    assert (tmp_path / "out.xml").read_text().count("<hour>") == 40
