"""XML as a table, read as Spark would, without Spark."""

from __future__ import annotations

import gzip
import json
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as spark

from tests.spark.tables import READINGS, feed, hours, of_tasks, read, struct, table
from xmlpunct import SourceError, StrictError, UsageError, XmlPunctError
from xmlpunct.engine.spark.table.datasource import XmlTable, inferred_columns
from xmlpunct.engine.spark.table.table_batch import TableReader
from xmlpunct.engine.spark.table.table_options import DOCUMENTS, READING, WATCHING, WRITING, TableOptions
from xmlpunct.engine.spark.table.tasks import TableRead


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
    # Spark passes the schema to the reader as JSON.
    serialized = spark.StructType.fromJson(json.loads(columns.json()))
    (first, _) = read(serialized, path)
    assert first["g:vat"] == 12
    assert first["line"] == [{"_VALUE": 2, "_sku": "a"}, {"_VALUE": 3, "_sku": "b"}]
    texts = XmlTable({"path": str(path), "inferSchema": "false", "attributePrefix": "at_"}).schema()
    assert {field.dataType.simpleString() for field in texts if field.name in ("at_id", "z")} == {"string"}
    options = {"columnNameOfPunctuation": "p", "columnNameOfCorruptRecord": "c", "path": str(path)}
    assert {"p", "c"} <= {*XmlTable(options).schema().names}


def test_a_local_name_is_the_first_element_with_this_name_if_columns_are_inferred(tmp_path: Path) -> None:
    """Elements of this name in other namespaces are not read. With a schema of the user, the name is exact."""
    path = tmp_path / "statement.xml"
    path.write_text(
        """<Doc xmlns="urn:bank"><Ntry id="7"><Amt>1.5</Amt></Ntry><Ntry id="8"><Amt>2.5</Amt></Ntry>
        <Ntry xmlns="urn:other" id="9"/></Doc>"""
    )

    def ids(element: str, schema: spark.StructType | None = None) -> list[int]:
        source = XmlTable({"path": str(path), "element": element})
        columns = spark.StructType.fromJson(json.loads((schema or source.schema()).json()))
        reader = source.reader(columns)
        rows = [row for rows in of_tasks(reader, reader.partitions()) for row in rows]
        assert all(row["Amt"] is not None for row in rows if "Amt" in row)
        return [row["_id"] for row in rows]

    assert ids("Ntry") == [7, 8]
    assert ids("{urn:other}Ntry") == [9]
    assert ids("{urn:bank}Ntry", struct(_id="integer", Amt="double")) == [7, 8]
    assert ids("Ntry", struct(_id="integer")) == []


def test_the_element_is_inferred_by_default(tmp_path: Path) -> None:
    reader = XmlTable({"path": str(feed(tmp_path / "a.xml", range(3)))}).reader(READINGS)
    assert reader.table.options.element == "t"


MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
WITH_CORRUPT = struct(hour="byte", _corrupt_record="string")


@pytest.mark.parametrize("bad", ["x", "128"])
def test_wrong_values_are_shown_dropped_or_errors(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "a.xml"
    path.write_text(f"<s><t><hour>1</hour></t><t><hour>{bad}</hour></t><t><hour>3</hour></t></s>")
    rows = read(WITH_CORRUPT, path)
    text = f"<t><hour>{bad}</hour></t>"
    assert [(row["hour"], row["_corrupt_record"]) for row in rows] == [(1, None), (3, None), (None, text)]
    assert hours(read(WITH_CORRUPT, path, mode="dropMalformed")) == [1, 3]
    with pytest.raises(StrictError, match="line 1, byte 24"):
        read(WITH_CORRUPT, path, mode="FAILFAST")
    renamed_columns = struct(hour="byte", broken="string")
    assert read(renamed_columns, path, columnNameOfCorruptRecord="broken")[-1]["broken"] == text
    assert hours(read(struct(hour="byte"), path)) == [1, 3, None]  # as in Spark's own source


def test_a_truncated_document_is_an_error_unless_it_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<s><t><hour>1</hour></t><t><hour>2</ho")
    feed(tmp_path / "b.xml", range(5, 7))
    rows = read(WITH_CORRUPT, tmp_path)
    assert hours(rows) == [1, None, 5, 6]
    assert "a.xml, line 1, byte 38" in rows[1]["_corrupt_record"]
    assert hours(read(WITH_CORRUPT, tmp_path, mode="DROPMALFORMED")) == [1, 5, 6]
    for columns, mode in ((WITH_CORRUPT, "FAILFAST"), (struct(hour="byte"), "PERMISSIVE")):
        with pytest.raises(SourceError, match=r"a\.xml, line 1"):
            read(columns, tmp_path, mode=mode)


def test_punctuations_have_a_column_where_asked_for(tmp_path: Path) -> None:
    path = feed(tmp_path / "a.xml", range(2), closed_hour=1)
    columns = struct(_sid="string", p="string", hour="integer")
    rows = read(columns, path, columnNameOfPunctuation="p")
    assert [row["p"] for row in rows] == [None, None, "<*, (,1]>"]
    assert hours(rows) == [0, 1, None]
    assert len(read(READINGS, path)) == 2


def test_large_files_are_cut_and_small_ones_put_together(tmp_path: Path) -> None:
    for number in range(5):
        feed(tmp_path / f"{number}.xml", range(number * 10, number * 10 + 4))
    feed(tmp_path / "large.xml", range(100, 400))
    reader = TableReader(table(READINGS, tmp_path, maxPartitionBytes=2000))
    by_task = of_tasks(reader, reader.partitions())
    assert len(by_task) > 5
    all_hours = [hour for rows in by_task for hour in hours(rows)]
    assert sorted(all_hours) == sorted([n * 10 + i for n in range(5) for i in range(4)] + [*range(100, 400)])
    small = [hours(rows) for rows in by_task if max(hours(rows)) < 100]
    assert len(small) == 1  # five files, one task
    # DROPMALFORMED continues after a fault, which tasks of later pieces would not see: a file is one task.
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
    rows = read(columns, f"{tmp_path}/hour={{hour}}/*.xml", columnNameOfPunctuation="p")
    tuples = [(row["_sid"], row["hour"]) for row in rows if row["p"] is None]
    assert tuples == [("S1", 17), ("S2", 17), ("S1", 18), ("S2", 18)]
    # Each follows the last file of its hour.
    assert [row["p"] for row in rows if row["p"]] == ["<*, 17>", "<*, 18>"]


def test_a_file_that_changed_since_it_was_listed_is_noticed(tmp_path: Path) -> None:
    path = feed(tmp_path / "a.xml", range(3))
    reader = TableReader(table(READINGS, path))
    (task,) = reader.partitions()
    feed(path, range(30))
    with pytest.raises(SourceError, match="when it was listed"):
        list(reader.read(task))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bogus": "1"}, "bogus is no option"),
        ({"element": "a", "rowTag": "b"}, "the same option"),
        ({"element": "g:t"}, "namespaces"),
        ({"mode": "LOUD"}, "PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"maxPartitionBytes": "many"}, "maxPartitionBytes"),
        ({"maxFilesPerTrigger": "0"}, "number of files"),
        ({"inferSchema": "1"}, "true or false"),
        ({"compression": "rar"}, "gzip"),
    ],
)
def test_wrong_options_say_what_to_write(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
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
        (spark.StructType().add("g:a", "string"), {}, "with the option namespaces"),
        (struct(_a="string", b="string").add("c", "string", metadata={"path": "b"}), {}, "the same path"),
    ]
    for columns, options, message in cases:
        with pytest.raises(XmlPunctError, match=message):
            table(columns, path, **options)
    with pytest.raises(UsageError, match="the element of the tuples is missing"):
        TableRead(READINGS, TableOptions())
    with pytest.raises(UsageError, match=r"xmlpunct.spark.query reads it"):
        read(READINGS, "tcp://127.0.0.1:1")


def test_errors_of_inference(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<s><t><a>1</a></t><t><a>2</a></t><t></s>")
    with pytest.raises(SourceError, match="line 1"):
        inferred_columns(TableOptions.read({"path": str(tmp_path / "a.xml"), "rowTag": "t"}, READING))
    with pytest.raises(UsageError, match="no path to read"):
        inferred_columns(TableOptions.read({"rowTag": "t"}, READING))
