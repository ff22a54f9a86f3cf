"""A table written as XML, as Spark would, without Spark."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from tests.spark.tables import READINGS, Row, feed, hours, read, struct
from xmlpunct import UsageError, XmlPunctError
from xmlpunct.engine.spark.table.table_options import WRITING, TableOptions
from xmlpunct.engine.spark.table.table_writer import TableStreamWriter, TableWriter


def batches(columns: spark.StructType, *rows: Row) -> list[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    return [pa.RecordBatch.from_pylist(list(rows), schema=to_arrow_schema(columns, timezone="UTC"))]


def options_of(path: Path, **options: str) -> TableOptions:
    return TableOptions.read({"path": str(path), **options}, WRITING)


def write(
    path: Path, columns: spark.StructType, *tasks: list[Row], overwrite: bool = False, **options: str
) -> None:
    """Write rows as Spark would: a pickled copy of the writer runs the tasks."""
    writer = TableWriter(columns, options_of(path, **options), overwrite)
    task_writer = pickle.loads(pickle.dumps(writer))
    writer.commit([task_writer.write(iter(batches(columns, *rows))) for rows in tasks])


NESTED = struct(
    n="integer",
    _id="long",
    c=struct(zip=struct(_VALUE="string", _cc="string"), city="string"),
    line=spark.ArrayType(struct(qty="short", _sku="string")),
    tag=spark.ArrayType(spark.StringType()),
    at="timestamp",
    x="float",
    p="string",
)
VALUES: Row = {
    "n": 1,
    "_id": 7,
    "c": {"zip": {"_VALUE": "0150", "_cc": "NO"}, "city": "A & <B>"},
    "line": [{"qty": 2, "_sku": "a"}, {"qty": None, "_sku": "b"}],
    "tag": ["x", ""],
    "at": datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "x": 0.5,
    "p": None,
}


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "xz"])
def test_written_rows_are_read_back(tmp_path: Path, compression: str) -> None:
    out = tmp_path / "out"
    empty_row: Row = dict.fromkeys(NESTED.names)
    punctuation = {"n": None, "p": "<1, *, *, *, *, *, *, *, {0.5,1.5}>"}
    tasks = [[VALUES], [{**empty_row, "n": 2}, {**empty_row, **punctuation}], []]
    write(out, NESTED, *tasks, element="t", rootTag="r", columnNameOfPunctuation="p", compression=compression)
    rows = read(NESTED, out, columnNameOfPunctuation="p")
    assert rows[2]["p"] is not None  # the punctuation is last; the order of the tasks' tuples is arbitrary
    assert sorted(rows, key=lambda row: row["n"] or 9) == [
        VALUES,
        {**empty_row, "n": 2},
        {**empty_row, **punctuation},
    ]
    assert [entry.name for entry in out.iterdir()] == ["slice-000000000000"]


def test_appending_adds_a_slice_and_overwriting_leaves_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for hour in range(3):
        write(out, READINGS, [{"_sid": "S1", "hour": hour}], element="t")
    assert hours(read(READINGS, out)) == [0, 1, 2]
    write(out, READINGS, [{"_sid": "S1", "hour": 9}], element="t", overwrite=True)
    assert hours(read(READINGS, out)) == [9]
    write(out, READINGS, element="t", overwrite=True)
    assert not list(out.rglob("*.xml"))
    (out / "theirs.txt").write_text("")
    with pytest.raises(UsageError, match=r"theirs\.txt"):
        write(out, READINGS, element="t", overwrite=True)


def test_failed_attempts_leave_no_files(tmp_path: Path) -> None:
    out, columns = tmp_path / "out", READINGS
    writer = TableWriter(columns, options_of(out, element="t"), False)
    writer.write(iter(batches(columns, {"_sid": "S1", "hour": 1})))  # the task failed after this
    writer.commit([writer.write(iter(batches(columns, {"_sid": "S1", "hour": 1}))), None])
    assert hours(read(READINGS, out)) == [1]
    writer = TableWriter(columns, options_of(out, element="t"), False)
    message = writer.write(iter(batches(columns, {"_sid": "S1", "hour": 2})))
    assert hours(read(READINGS, out)) == [1]  # an uncommitted slice is invisible
    writer.abort([message])
    assert [entry.name for entry in out.iterdir()] == ["slice-000000000000"]


def test_errors_of_writing(tmp_path: Path) -> None:
    with pytest.raises(XmlPunctError, match="a character that XML cannot hold"):
        write(tmp_path / "a", READINGS, [{"_sid": "\x00", "hour": 1}])
    with pytest.raises(UsageError, match="is a file"):
        write(feed(tmp_path / "f.xml", range(1)), READINGS)
    with pytest.raises(UsageError, match="cannot be written"):
        TableWriter(READINGS, TableOptions(paths=("s3://bucket/x",)), False)
    with pytest.raises(UsageError, match="checkpointLocation"):
        TableStreamWriter(READINGS, options_of(tmp_path), False)
    with pytest.raises(UsageError, match="has no query id"):
        TableStreamWriter(READINGS, options_of(tmp_path, checkpointLocation=str(tmp_path)), False)


def test_a_repeated_micro_batch_is_written_once(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "ck"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "one"}')

    def stream() -> TableStreamWriter:
        options = options_of(out, element="t", checkpointLocation=f"file:{checkpoint}")
        return TableStreamWriter(READINGS, options, False)

    def take(batch: int, hour: int) -> None:
        message = stream().write(iter(batches(READINGS, {"_sid": "S1", "hour": hour})))
        stream().commit([message], batch)  # the driver has another writer than the tasks

    take(0, 1)
    take(1, 2)
    take(1, 2)
    take(0, 1)
    assert hours(read(READINGS, out)) == [1, 2]
    # The process was killed before it committed this.
    stream().write(iter(batches(READINGS, {"_sid": "S1", "hour": 5})))
    take(2, 3)
    stream().commit([None], 3)  # an empty micro-batch
    assert hours(read(READINGS, out)) == [1, 2, 3]
    assert sorted(entry.name for entry in out.iterdir()) == [f"slice-{n:012d}" for n in range(3)]
    (checkpoint / "metadata").write_text('{"id": "another"}')  # another query also begins with batch 0
    take(0, 4)
    assert hours(read(READINGS, out)) == [1, 2, 3, 4]
