"""XML as a streaming table, read as Spark would, without Spark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as spark
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
)

from tests.spark.tables import READINGS, Row, feed, hours, of_tasks, table
from xmlpunct import UsageError
from xmlpunct.connectors.source import ChangedError
from xmlpunct.engine.spark.table.stream import TableStreamReader


class Watcher:
    """Drives a stream reader as Spark does: offsets pass through JSON, and a micro-batch can be repeated."""

    def __init__(self, columns: spark.StructType, path: Path, **options: Any) -> None:
        self.table = table(columns, path, **options)
        self.offset = json.loads(json.dumps(TableStreamReader(self.table).initialOffset()))
        self.reader = TableStreamReader(self.table)

    def batch(self, limit: ReadLimit | None = None) -> list[Row] | None:
        """The next micro-batch, or None: read by the reader that planned it, and by a restarted one."""
        start = self.offset
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit)))
        if end == start:
            return None
        restarted = TableStreamReader(self.table)
        first, second = (
            of_tasks(reader, reader.partitions(start, end)) for reader in (self.reader, restarted)
        )
        assert first == second
        self.offset = end
        return [row for rows in first for row in rows]

    def batches(self, limit: ReadLimit | None = None) -> list[list[Row]]:
        batches = []
        while (rows := self.batch(limit)) is not None:
            batches.append(rows)
        return batches


@pytest.mark.parametrize("size", [150, 1000, 10**6])
def test_each_row_is_read_once_for_any_batch_size(tmp_path: Path, size: int) -> None:
    for number in range(3):
        feed(tmp_path / f"{number}.xml", range(number * 100, number * 100 + 40))
    (tmp_path / "3.xml.gz").write_bytes(gzip.compress((tmp_path / "0.xml").read_bytes()))
    watcher = Watcher(READINGS, tmp_path, maxBytesPerTrigger=size, maxPartitionBytes=400)
    batches = watcher.batches()
    assert (len(batches) == 1) == (size == 10**6)
    expected = [n * 100 + i for n in range(3) for i in range(40)] + [*range(40)]
    assert sorted(hour for rows in batches for hour in hours(rows)) == sorted(expected)
    feed(tmp_path / "4.xml", range(7, 9))
    assert [hours(rows) for rows in watcher.batches()] == [[7, 8]]


def test_a_stream_respects_the_limit_that_spark_gives(tmp_path: Path) -> None:
    for number in range(4):
        feed(tmp_path / f"{number}.xml", range(number * 100, number * 100 + 40))
    by_files = Watcher(READINGS, tmp_path, maxFilesPerTrigger=1)
    assert isinstance(by_files.reader.getDefaultReadLimit(), ReadMaxFiles)
    assert [len(rows) for rows in by_files.batches()] == [40] * 4
    assert [len(rows) for rows in Watcher(READINGS, tmp_path).batches()] == [160]
    by_bytes = Watcher(READINGS, tmp_path, maxBytesPerTrigger=300)
    assert isinstance(by_bytes.reader.getDefaultReadLimit(), ReadMaxBytes)
    assert by_bytes.batch(ReadAllAvailable()) is not None
    assert by_bytes.batch() is None
    by_rows = Watcher(READINGS, tmp_path).batches(ReadMaxRows(100))
    assert max(map(len, by_rows)) <= 100


def test_available_now_ignores_later_files(tmp_path: Path) -> None:
    feed(tmp_path / "0.xml", range(3))
    feed(tmp_path / "1.xml", range(3))
    watcher = Watcher(READINGS, tmp_path, maxFilesPerTrigger=1)
    watcher.reader.prepareForTriggerAvailableNow()
    assert watcher.batch()
    feed(tmp_path / "2.xml", range(3))
    assert [len(rows) for rows in watcher.batches()] == [3]


def test_an_empty_directory_is_watched_until_a_file_arrives(tmp_path: Path) -> None:
    watcher = Watcher(READINGS, tmp_path)
    assert watcher.batch() is None
    feed(tmp_path / "0.xml", range(3))
    assert watcher.batch()


def test_changed_or_late_files_are_errors(tmp_path: Path) -> None:
    feed(tmp_path / "5.xml", range(3))
    watcher = Watcher(READINGS, tmp_path)
    start = watcher.offset
    assert watcher.batch()
    end = watcher.offset
    feed(tmp_path / "1.xml", range(3))
    with pytest.raises(ChangedError, match=r"before .*5\.xml"):
        watcher.batch()
    (tmp_path / "1.xml").unlink()
    feed(tmp_path / "5.xml", range(30))
    with pytest.raises(ChangedError, match="overwritten"):
        TableStreamReader(watcher.table).partitions(start, end)


def test_a_change_of_a_partly_read_file_is_an_error(tmp_path: Path) -> None:
    path = feed(tmp_path / "0.xml", range(100))
    watcher = Watcher(READINGS, tmp_path, maxBytesPerTrigger=500, maxPartitionBytes=400)
    assert watcher.batch()
    path.write_text(path.read_text().replace("<hour>3<", "<hour>4<"))
    with pytest.raises(ChangedError):
        watcher.batch()


def test_the_error_for_a_socket_names_the_function_that_reads_it() -> None:
    reader = TableStreamReader(table(READINGS, "tcp://127.0.0.1:1"))
    with pytest.raises(UsageError, match=r"xmlpunct\.spark\.query reads it"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
