"""Reading, watching and writing XML as a table, as Spark would drive it, without Spark."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
)

from tests.spark.support import NAMESPACE
from xmlpunct import SourceError, StrictError, UsageError, XmlPunctError
from xmlpunct.engine.spark.table.batch import TableReader
from xmlpunct.engine.spark.table.datasource import XmlTable, inferred_columns
from xmlpunct.engine.spark.table.options import DOCUMENTS, READING, WATCHING, WRITING, TableOptions
from xmlpunct.engine.spark.table.stream import TableStreamReader
from xmlpunct.engine.spark.table.tasks import Table
from xmlpunct.engine.spark.table.writer import TableStreamWriter, TableWriter
from xmlpunct.firehose.steady import ChangedError

Row = dict[str, Any]
READINGS = spark.StructType().add("_sid", "string").add("hour", "integer")


def struct(**columns: Any) -> spark.StructType:
    found = spark.StructType()
    for name, type_ in columns.items():
        found.add(name, type_)
    return found


def feed(path: Path, hours: Iterator[int] | range, sid: str = "S1", said: int | None = None) -> Path:
    """A file of readings."""
    tuples = "".join(f'<t sid="{sid}"><hour>{hour}</hour></t>\n' for hour in hours)
    promise = "" if said is None else f"<p:t><hour>(,{said}]</hour></p:t>"
    path.write_text(f'<s xmlns:p="{NAMESPACE}">{tuples}{promise}</s>')
    return path


def table(columns: spark.StructType, path: Path | str, **options: Any) -> Table:
    said = {"element": "t", "path": str(path), **{name: str(value) for name, value in options.items()}}
    return Table(columns, TableOptions.read(said, WATCHING))


def of_tasks(reader: TableReader | TableStreamReader, tasks: Any) -> list[list[Row]]:
    """The rows of each task, read elsewhere."""
    found = []
    for task in tasks:
        there, given = pickle.loads(pickle.dumps((reader, task)))
        found.append([row for batch in there.read(given) for row in batch.to_pylist()])
    return found


def read(columns: spark.StructType, path: Path | str, **options: Any) -> list[Row]:
    reader = TableReader(table(columns, path, **options))
    return [row for rows in of_tasks(reader, reader.partitions()) for row in rows]


def hours(rows: list[Row]) -> list[int]:
    return [row["hour"] for row in rows]


def test_nested_columns_are_structs_and_arrays(tmp_path: Path) -> None:
    path = tmp_path / "orders.xml"
    path.write_text(
        """<r xmlns:g="urn:g"><t id="7"><buyer since="2020-01-02"><city>Oslo</city></buyer><g:vat>12.5</g:vat>
        <g:tax>3.5</g:tax>
        <line sku="a"><qty>2</qty></line><line sku="b"><qty>3</qty></line><tag>x</tag><tag>y</tag>
        <note lang="no">hei</note><at>2020-01-02T03:04:05Z</at></t><t id="8"/></r>"""
    )
    line = spark.ArrayType(struct(_sku="string", qty="byte"))
    columns = struct(
        _id="integer",
        buyer=struct(city="string", _since="date"),
        line=line,
        tag=spark.ArrayType(spark.StringType()),
        note=struct(_VALUE="string", _lang="string"),
        at="timestamp",
    )
    columns.add("g:vat", spark.DecimalType(6, 2)).add("tax", "double", metadata={"path": "{urn:g}tax"})
    first, second = read(columns, path, namespaces="g=urn:g")
    assert first == {
        "_id": 7,
        "buyer": {"city": "Oslo", "_since": datetime(2020, 1, 2).date()},
        "line": [{"_sku": "a", "qty": 2}, {"_sku": "b", "qty": 3}],
        "tag": ["x", "y"],
        "note": {"_VALUE": "hei", "_lang": "no"},
        "at": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "g:vat": Decimal("12.50"),
        "tax": 3.5,
    }
    assert second == dict.fromkeys(columns.names) | {"_id": 8}


def test_inference_names_columns_as_spark_does_and_reads_by_them(tmp_path: Path) -> None:
    path = tmp_path / "orders.xml"
    path.write_text(
        """<r xmlns:g="urn:g"><t id="7"><z>1.5</z><buyer><city>Oslo</city></buyer><g:vat>12</g:vat>
        <line sku="a">2</line><line sku="b">3</line><code>007</code></t><t id="8"><code>b</code></t></r>"""
    )
    columns = XmlTable({"path": str(path), "rowTag": "t"}).schema()
    assert columns.simpleString() == (
        "struct<_id:bigint,buyer:struct<city:string>,code:string,g:vat:bigint,"
        "line:array<struct<_VALUE:bigint,_sku:string>>,z:double>"
    )
    shipped = spark.StructType.fromJson(json.loads(columns.json()))  # as Spark hands it to the reader
    (first, _) = read(shipped, path)
    assert first["g:vat"] == 12
    assert first["line"] == [{"_VALUE": 2, "_sku": "a"}, {"_VALUE": 3, "_sku": "b"}]
    texts = XmlTable({"path": str(path), "inferSchema": "false", "attributePrefix": "at_"}).schema()
    assert {field.dataType.simpleString() for field in texts if field.name in ("at_id", "z")} == {"string"}
    wanted = {"columnNameOfPunctuation": "p", "columnNameOfCorruptRecord": "c", "path": str(path)}
    assert {"p", "c"} <= {*XmlTable(wanted).schema().names}


def test_the_element_is_found_where_nobody_names_it(tmp_path: Path) -> None:
    reader = XmlTable({"path": str(feed(tmp_path / "a.xml", range(3)))}).reader(READINGS)
    assert reader.table.options.element == "t"


MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
WITH_CORRUPT = struct(hour="byte", _corrupt_record="string")


@pytest.mark.parametrize("bad", ["x", "128"])
def test_what_does_not_fit_is_shown_dropped_or_fails(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "a.xml"
    path.write_text(f"<s><t><hour>1</hour></t><t><hour>{bad}</hour></t><t><hour>3</hour></t></s>")
    shown = read(WITH_CORRUPT, path)
    text = f"<t><hour>{bad}</hour></t>"
    assert [(row["hour"], row["_corrupt_record"]) for row in shown] == [(1, None), (3, None), (None, text)]
    assert hours(read(WITH_CORRUPT, path, mode="dropMalformed")) == [1, 3]
    with pytest.raises(StrictError, match="line 1, byte 24"):
        read(WITH_CORRUPT, path, mode="FAILFAST")
    other = struct(hour="byte", broken="string")
    assert read(other, path, columnNameOfCorruptRecord="broken")[-1]["broken"] == text
    assert hours(read(struct(hour="byte"), path)) == [1, 3, None]  # as Spark's own source has it


def test_a_document_that_is_cut_fails_unless_somebody_sees_it(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<s><t><hour>1</hour></t><t><hour>2</ho")
    feed(tmp_path / "b.xml", range(5, 7))
    shown = read(WITH_CORRUPT, tmp_path)
    assert hours(shown) == [1, None, 5, 6]
    assert "a.xml, line 1, byte 38" in shown[1]["_corrupt_record"]
    assert hours(read(WITH_CORRUPT, tmp_path, mode="DROPMALFORMED")) == [1, 5, 6]
    for columns, mode in ((WITH_CORRUPT, "FAILFAST"), (struct(hour="byte"), "PERMISSIVE")):
        with pytest.raises(SourceError, match=r"a\.xml, line 1"):
            read(columns, tmp_path, mode=mode)


def test_punctuations_have_a_column_where_asked_for(tmp_path: Path) -> None:
    path = feed(tmp_path / "a.xml", range(2), said=1)
    columns = struct(_sid="string", p="string", hour="integer")
    shown = read(columns, path, columnNameOfPunctuation="p")
    assert [row["p"] for row in shown] == [None, None, "<*, (,1]>"]
    assert hours(shown) == [0, 1, None]
    assert len(read(READINGS, path)) == 2


def test_large_files_are_cut_and_small_ones_put_together(tmp_path: Path) -> None:
    for number in range(5):
        feed(tmp_path / f"{number}.xml", range(number * 10, number * 10 + 4))
    feed(tmp_path / "large.xml", range(100, 400))
    reader = TableReader(table(READINGS, tmp_path, maxPartitionBytes=2000))
    by_task = of_tasks(reader, reader.partitions())
    assert len(by_task) > 5
    found = [hour for rows in by_task for hour in hours(rows)]
    assert sorted(found) == sorted([n * 10 + i for n in range(5) for i in range(4)] + [*range(100, 400)])
    small = [hours(rows) for rows in by_task if max(hours(rows)) < 100]
    assert len(small) == 1  # five files, one task
    # What reads on behind a fault is not cut: the tasks behind it would not know.
    tolerant = TableReader(table(READINGS, tmp_path, maxPartitionBytes=2000, mode="DROPMALFORMED"))
    assert len(tolerant.partitions()) == 2


def test_compressed_files_and_archives_are_read_whole(tmp_path: Path) -> None:
    plain = feed(tmp_path / "plain.xml", range(50))
    (tmp_path / "b.xml.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.write(plain, "x/d.xml")
    assert hours(read(READINGS, tmp_path, maxPartitionBytes=500)).count(7) == 3


def test_names_of_files_carry_values(tmp_path: Path) -> None:
    for hour in (17, 18):
        (tmp_path / f"hour={hour}").mkdir()
        (tmp_path / f"hour={hour}" / "a.xml").write_text("<s><t sid='S1'/></s>")
        (tmp_path / f"hour={hour}" / "b.xml").write_text("<s><t sid='S2'/></s>")
    columns = struct(_sid="string", hour="integer", p="string")
    shown = read(columns, f"{tmp_path}/hour={{hour}}/*.xml", columnNameOfPunctuation="p")
    tuples = [(row["_sid"], row["hour"]) for row in shown if row["p"] is None]
    assert tuples == [("S1", 17), ("S2", 17), ("S1", 18), ("S2", 18)]
    assert [row["p"] for row in shown if row["p"]] == ["<*, 17>", "<*, 18>"]  # each by its last file


def test_a_file_that_changed_since_it_was_listed_is_noticed(tmp_path: Path) -> None:
    path = feed(tmp_path / "a.xml", range(3))
    reader = TableReader(table(READINGS, path))
    (task,) = reader.partitions()
    feed(path, range(30))
    with pytest.raises(SourceError, match="when it was listed"):
        list(reader.read(task))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bogus": "1"}, "bogus is no option"),
        ({"element": "a", "rowTag": "b"}, "one option"),
        ({"element": "g:t"}, "namespaces"),
        ({"mode": "LOUD"}, "PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"maxPartitionBytes": "many"}, "maxPartitionBytes"),
        ({"maxFilesPerTrigger": "0"}, "number of files"),
        ({"inferSchema": "1"}, "true or false"),
        ({"compression": "rar"}, "gzip"),
    ],
)
def test_wrong_options_say_what_to_write(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TableOptions.read(options, WATCHING | WRITING)


def test_options_belong_to_a_use() -> None:
    for name, uses in (
        ("maxFilesPerTrigger", {WATCHING}),
        ("rootTag", {WRITING}),
        ("mode", {READING, WATCHING, DOCUMENTS}),
    ):
        for use in (READING, WATCHING, WRITING, DOCUMENTS):
            if use in uses:
                assert TableOptions.read({name.lower(): "1" if "max" in name else "FAILFAST"}, use)
            else:
                with pytest.raises(UsageError, match=f"{name} is no option of xmlpunct here"):
                    TableOptions.read({name: "1"}, use)


def test_wrong_columns_and_sources_say_what_to_write(tmp_path: Path) -> None:
    path = feed(tmp_path / "a.xml", range(3))
    cases: list[tuple[spark.StructType, dict[str, Any], str]] = [
        (
            struct(m=spark.MapType(spark.StringType(), spark.StringType())),
            {},
            "column m: .* declare it STRUCT",
        ),
        (struct(n="timestamp_ntz"), {}, "declare it TIMESTAMP"),
        (struct(_corrupt_record="integer"), {}, "declare it STRING"),
        (struct(hour="integer"), {"columnNameOfPunctuation": "p"}, "no column p"),
        (struct(a=spark.ArrayType(spark.ArrayType(spark.StringType()))), {}, "array of arrays"),
        (spark.StructType().add("g:a", "string"), {}, "namespaces says what prefixes"),
        (struct(_a="string", b="string").add("c", "string", metadata={"path": "b"}), {}, "one place"),
    ]
    for columns, options, said in cases:
        with pytest.raises(XmlPunctError, match=said):
            table(columns, path, **options)
    with pytest.raises(UsageError, match="which elements are tuples"):
        Table(READINGS, TableOptions())
    with pytest.raises(UsageError, match=r"xmlpunct.spark.query reads it"):
        read(READINGS, "tcp://127.0.0.1:1")


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
    with pytest.raises(ChangedError, match="written anew"):
        TableStreamReader(watcher.table).partitions(start, end)


def test_a_half_read_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = feed(tmp_path / "0.xml", range(100))
    watcher = Watcher(READINGS, tmp_path, maxBytesPerTrigger=500, maxPartitionBytes=400)
    assert watcher.batch()
    path.write_text(path.read_text().replace("<hour>3<", "<hour>4<"))
    with pytest.raises(ChangedError):
        watcher.batch()


def batches(columns: spark.StructType, *rows: Row) -> list[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    return [pa.RecordBatch.from_pylist(list(rows), schema=to_arrow_schema(columns, timezone="UTC"))]


def options_of(path: Path, **options: str) -> TableOptions:
    return TableOptions.read({"path": str(path), **options}, WRITING)


def write(
    path: Path, columns: spark.StructType, *tasks: list[Row], overwrite: bool = False, **options: str
) -> None:
    """Write rows as Spark would: the tasks elsewhere."""
    writer = TableWriter(columns, options_of(path, **options), overwrite)
    there = pickle.loads(pickle.dumps(writer))
    writer.commit([there.write(iter(batches(columns, *rows))) for rows in tasks])


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
def test_what_is_written_is_read_back(tmp_path: Path, compression: str) -> None:
    out = tmp_path / "out"
    nothing: Row = dict.fromkeys(NESTED.names)
    said = {"n": None, "p": "<1, *, *, *, *, *, *, *, {0.5,1.5}>"}
    tasks = [[VALUES], [{**nothing, "n": 2}, {**nothing, **said}], []]
    write(out, NESTED, *tasks, element="t", rootTag="r", columnNameOfPunctuation="p", compression=compression)
    found = read(NESTED, out, columnNameOfPunctuation="p")
    assert found[2]["p"] is not None  # behind all tuples; of which task the first ones are is not known here
    assert sorted(found, key=lambda row: row["n"] or 9) == [VALUES, {**nothing, "n": 2}, {**nothing, **said}]
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


def test_attempts_that_do_not_count_leave_nothing(tmp_path: Path) -> None:
    out, columns = tmp_path / "out", READINGS
    writer = TableWriter(columns, options_of(out, element="t"), False)
    writer.write(iter(batches(columns, {"_sid": "S1", "hour": 1})))  # whose task failed behind this
    writer.commit([writer.write(iter(batches(columns, {"_sid": "S1", "hour": 1}))), None])
    assert hours(read(READINGS, out)) == [1]
    writer = TableWriter(columns, options_of(out, element="t"), False)
    message = writer.write(iter(batches(columns, {"_sid": "S1", "hour": 2})))
    assert hours(read(READINGS, out)) == [1]  # nothing is seen before its time
    writer.abort([message])
    assert [entry.name for entry in out.iterdir()] == ["slice-000000000000"]


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(XmlPunctError, match="a character that XML cannot hold"):
        write(tmp_path / "a", READINGS, [{"_sid": "\x00", "hour": 1}])
    with pytest.raises(UsageError, match="is a file"):
        write(feed(tmp_path / "f.xml", range(1)), READINGS)
    with pytest.raises(UsageError, match="cannot be written"):
        TableWriter(READINGS, TableOptions(paths=("s3://bucket/x",)), False)
    with pytest.raises(UsageError, match="checkpointLocation"):
        TableStreamWriter(READINGS, options_of(tmp_path), False)
    with pytest.raises(UsageError, match="tells no number"):
        TableStreamWriter(READINGS, options_of(tmp_path, checkpointLocation=str(tmp_path)), False)


def test_a_micro_batch_is_written_once_however_often_it_comes(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "ck"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "one"}')

    def stream() -> TableStreamWriter:
        options = options_of(out, element="t", checkpointLocation=f"file:{checkpoint}")
        return TableStreamWriter(READINGS, options, False)

    def take(batch: int, hour: int) -> None:
        message = stream().write(iter(batches(READINGS, {"_sid": "S1", "hour": hour})))
        stream().commit([message], batch)  # by another process than the tasks'

    take(0, 1)
    take(1, 2)
    take(1, 2)
    take(0, 1)
    assert hours(read(READINGS, out)) == [1, 2]
    stream().write(iter(batches(READINGS, {"_sid": "S1", "hour": 5})))  # and then it was killed
    take(2, 3)
    stream().commit([None], 3)  # there was nothing
    assert hours(read(READINGS, out)) == [1, 2, 3]
    assert sorted(entry.name for entry in out.iterdir()) == [f"slice-{n:012d}" for n in range(3)]
    (checkpoint / "metadata").write_text('{"id": "another"}')  # another query begins with batch 0, too
    take(0, 4)
    assert hours(read(READINGS, out)) == [1, 2, 3, 4]


def test_inference_tells_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<s><t><a>1</a></t><t><a>2</a></t><t></s>")
    with pytest.raises(SourceError, match="line 1"):
        inferred_columns(TableOptions.read({"path": str(tmp_path / "a.xml"), "rowTag": "t"}, READING))
    with pytest.raises(UsageError, match="nothing to read"):
        inferred_columns(TableOptions.read({"rowTag": "t"}, READING))
