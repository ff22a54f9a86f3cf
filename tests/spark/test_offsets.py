"""Spark's own offsets beside the log of a run: a mismatch is an error."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import SCHEMA, select_all
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
    """Offsets of three micro-batches, the first two committed in Spark."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for batch, end in enumerate(ENDS):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{end}')
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    return tmp_path


def test_matching_offsets_and_commits(folder: Path) -> None:
    offsets = SparkOffsets(folder)
    assert [offsets.end(batch) for batch in range(4)] == [*ENDS, ""]
    for batch in (1, 2):  # Spark repeats a micro-batch, or starts the next one
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
def test_a_run_compares_the_offsets(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that stopped after a commit continues with the same offsets only."""
    source, checkpoint = tmp_path / "in.xml", tmp_path / "checkpoint"
    hours = "".join(f"<tempdata><hour>{n}</hour></tempdata>" for n in range(40))
    source.write_text(f"<s>{hours}</s>")
    query = select_all(source, SCHEMA)
    options = RunOptions(output=str(tmp_path / "out.xml"), checkpoint=str(checkpoint), slice_bytes=500)
    commit = Checkpoint.commit

    def stop(self: Checkpoint, new_commit: Commit) -> None:
        commit(self, new_commit)
        if new_commit.batch == 1:
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
