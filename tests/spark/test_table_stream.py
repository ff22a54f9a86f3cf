"""Watching XML as a table, as Spark would drive it, without Spark."""

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
from xmlpunct.connectors.unchanged import ChangedError
from xmlpunct.engine.spark.table.stream import TableStreamReader


class Watcher:
    """Drives a stream reader as Spark does: offsets go through JSON, and any micro-batch may be asked for again."""

    def __init__(self, columns: spark.StructType, path: Path, **options: Any) -> None:
        self.table = table(columns, path, **options)
        self.offset = json.loads(json.dumps(TableStreamReader(self.table).initialOffset()))
        self.reader = TableStreamReader(self.table)

    def batch(self, limit: ReadLimit | None = None) -> list[Row] | None:
        """The next micro-batch, None if there is nothing; read once by who planned it, and once after a restart."""
        start = self.offset
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit)))
        if end == start:
            return None
        again = TableStreamReader(self.table)
        first, second = (of_tasks(reader, reader.partitions(start, end)) for reader in (self.reader, again))
        assert first == second
        self.offset = end
        return [row for rows in first for row in rows]

    def rest(self, limit: ReadLimit | None = None) -> list[list[Row]]:
        found = []
        while (rows := self.batch(limit)) is not None:
            found.append(rows)
        return found


@pytest.mark.parametrize("size", [150, 1000, 10**6])
def test_a_stream_gives_each_row_once_whatever_a_batch_takes(tmp_path: Path, size: int) -> None:
    for number in range(3):
        feed(tmp_path / f"{number}.xml", range(number * 100, number * 100 + 40))
    (tmp_path / "3.xml.gz").write_bytes(gzip.compress((tmp_path / "0.xml").read_bytes()))
    watcher = Watcher(READINGS, tmp_path, maxBytesPerTrigger=size, maxPartitionBytes=400)
    batches = watcher.rest()
    assert (len(batches) == 1) == (size == 10**6)
    expected = [n * 100 + i for n in range(3) for i in range(40)] + [*range(40)]
    assert sorted(hour for rows in batches for hour in hours(rows)) == sorted(expected)
    feed(tmp_path / "4.xml", range(7, 9))
    assert [hours(rows) for rows in watcher.rest()] == [[7, 8]]


def test_a_stream_respects_the_limit_that_spark_gives(tmp_path: Path) -> None:
    for number in range(4):
        feed(tmp_path / f"{number}.xml", range(number * 100, number * 100 + 40))
    by_files = Watcher(READINGS, tmp_path, maxFilesPerTrigger=1)
    assert isinstance(by_files.reader.getDefaultReadLimit(), ReadMaxFiles)
    assert [len(rows) for rows in by_files.rest()] == [40] * 4
    assert [len(rows) for rows in Watcher(READINGS, tmp_path).rest()] == [160]
    limited = Watcher(READINGS, tmp_path, maxBytesPerTrigger=300)
    assert isinstance(limited.reader.getDefaultReadLimit(), ReadMaxBytes)
    assert limited.batch(ReadAllAvailable()) is not None
    assert limited.batch() is None
    few = Watcher(READINGS, tmp_path).rest(ReadMaxRows(100))
    assert max(map(len, few)) <= 100


def test_available_now_is_what_is_there_now(tmp_path: Path) -> None:
    feed(tmp_path / "0.xml", range(3))
    feed(tmp_path / "1.xml", range(3))
    watcher = Watcher(READINGS, tmp_path, maxFilesPerTrigger=1)
    watcher.reader.prepareForTriggerAvailableNow()
    assert watcher.batch()
    feed(tmp_path / "2.xml", range(3))
    assert [len(rows) for rows in watcher.rest()] == [3]


def test_an_empty_directory_is_watched_until_something_comes(tmp_path: Path) -> None:
    watcher = Watcher(READINGS, tmp_path)
    assert watcher.batch() is None
    feed(tmp_path / "0.xml", range(3))
    assert watcher.batch()


def test_files_that_change_or_come_too_late_are_noticed(tmp_path: Path) -> None:
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


def test_a_half_read_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = feed(tmp_path / "0.xml", range(100))
    watcher = Watcher(READINGS, tmp_path, maxBytesPerTrigger=500, maxPartitionBytes=400)
    assert watcher.batch()
    path.write_text(path.read_text().replace("<hour>3<", "<hour>4<"))
    with pytest.raises(ChangedError):
        watcher.batch()


def test_a_socket_is_refused_with_who_reads_it() -> None:
    reader = TableStreamReader(table(READINGS, "tcp://127.0.0.1:1"))
    with pytest.raises(UsageError, match=r"xmlpunct\.spark\.query reads it"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
