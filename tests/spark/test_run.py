"""Complete queries on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import committed
from tests.spark.support import (
    HOURS,
    NAMESPACE,
    READINGS,
    Warehouse,
    hot,
    locally,
    on_spark,
    read_back,
    select_all,
    split,
)
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, TransientError, UsageError, XmlPunctError
from xmlpunct.engine.plan import Limit, Query, numbered
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.durable_files import Appender
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark import run, runner
from xmlpunct.engine.spark.shard_keys import shard_keys, spark_hash
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.schema import Schema

pytestmark = pytest.mark.spark


def test_keys_fill_the_partitions(spark: Any) -> None:
    from pyspark.sql import functions as f

    frame = spark.createDataFrame([(k,) for k in (-5, 0, 1, 7, 2**31 - 1)], "k INT")
    assert all(row.h == spark_hash(row.k) for row in frame.select("k", f.hash("k").alias("h")).collect())
    for shards in (2, 5):
        frame = spark.createDataFrame([(k,) for k in shard_keys(shards)], "k INT").repartition(shards, "k")
        rows = frame.select("k", f.spark_partition_id().alias("partition")).collect()
        assert [row.k for row in sorted(rows, key=lambda row: row.partition)] == shard_keys(shards)
        assert sorted(row.partition for row in rows) == list(range(shards))


def test_warehouse_in_tiny_slices(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    query = warehouse.hottest()
    stats = on_spark(spark, query, tmp_path / "out.xml", slice_bytes=6000)
    expected = locally(query, tmp_path / "local.xml")
    tuples, punctuations = split(output := read_back(tmp_path / "out.xml", query.root.schema))
    assert tuples == split(read_back(tmp_path / "local.xml", query.root.schema))[0]
    assert tuples == sorted(_hottest_by_spark(spark, warehouse), key=repr)
    received: list[Punctuation] = []
    for item in output:  # no tuple matches an earlier punctuation
        if isinstance(item, Punctuation):
            received.append(item)
        else:
            assert not any(match(item, p) for p in received)
    assert sorted(str(p) for p in punctuations) == sorted(f"<*, {hour}>" for hour in range(HOURS))
    assert output.index(punctuations[0]) < len(output) / 2, "results are released before the end"

    assert stats.slices > 2
    assert stats.inputs == expected.inputs
    assert (stats.tuples_out, stats.late) == (len(tuples), 0)
    ours, theirs = ({o.id: o for o in s.operators} for s in (stats, expected))
    assert ours.keys() > theirs.keys(), "operators of edges have their own statistics"
    for number, o in theirs.items():
        assert (ours[number].operator, ours[number].tuples_out) == (o.operator, o.tuples_out)
    for o in ours.values():
        assert (o.state_rows, o.held_punctuations) == (0, 0), "nothing is retained at the end"
    assert max(o.state_rows_peak for o in ours.values()) > 0
    assert stats.first_result_seconds is not None


def _hottest_by_spark(spark: Any, warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """The same query over the same files by Spark's own ``xml`` source and SQL."""
    declared = "sid STRING, hour BIGINT, min BIGINT, currtmp BIGINT"
    for stream in warehouse.streams:
        frame = spark.read.format("xml").option("rowTag", stream.element).schema(declared).load(stream.source)
        frame.createOrReplaceTempView(stream.name)
    union = "SELECT currtmp, hour FROM sensor1 UNION SELECT currtmp, hour FROM sensor2"
    return [
        tuple(row) for row in spark.sql(f"SELECT MAX(currtmp), hour FROM ({union}) GROUP BY hour").collect()
    ]


def test_restart(spark: Any, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fragments; a run that fails between writing and committing; a restart after the end."""
    query, options = warehouse.coldest_of_hottest(), {"slice_bytes": 4000}
    undisturbed, resumed_path = tmp_path / "straight.xml", tmp_path / "broken.xml"
    on_spark(spark, query, undisturbed, **options)
    locally(query, tmp_path / "local.xml")
    schema = query.root.schema
    assert split(read_back(undisturbed, schema))[0] == split(read_back(tmp_path / "local.xml", schema))[0]

    options["checkpoint"] = str(tmp_path / "checkpoint")
    append, calls = Appender.append, []

    def die(self: Appender, data: bytes, length: int, *, replaying: bool = False) -> int:
        new_length = append(self, data + b"<half-written", length)
        calls.append(new_length)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return append(self, data, length)

    monkeypatch.setattr(Appender, "append", die)
    with pytest.raises(XmlPunctError, match="No space left"):
        on_spark(spark, query, resumed_path, **options)
    monkeypatch.undo()
    assert resumed_path.read_bytes().endswith(b"<half-written")
    resumed_stats = on_spark(spark, query, resumed_path, **options)
    assert resumed_path.read_bytes() == undisturbed.read_bytes()
    assert resumed_stats.inputs["sensor1"].tuples == HOURS * READINGS

    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    repeated = on_spark(None, query, resumed_path, **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (repeated.slices, repeated.inputs, repeated.tuples_out) == (
        resumed_stats.slices,
        resumed_stats.inputs,
        1,
    )
    with pytest.raises(UsageError, match="another query"):
        on_spark(None, warehouse.hottest(), resumed_path, **options)


def test_rejects_after_the_end_of_the_output(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    """After LIMIT has its rows, the run still reads the whole input for rejects."""
    text = Path(str(warehouse.streams[0].source)).read_text()
    source, out = tmp_path / "in.xml", tmp_path / "out.xml"
    source.write_text(text.replace("<hour>11</hour><min>", "<hour>3</hour><min>"))  # late by eight hours
    query, stats = hot(source), RunStats("local")
    query = Query.of(numbered(Limit(query.root, 2)), query.streams)
    options = {"slice_bytes": 8000, "rejects": str(tmp_path / "rejects")}
    local.run(query, RunOptions(str(tmp_path / "local.xml"), **options), stats)
    expected = (tmp_path / "rejects").read_text()
    assert expected.count("late: <*, 3, *, *> was closed before it") == READINGS

    spark_stats = on_spark(spark, query, out, checkpoint=str(tmp_path / "checkpoint"), **options)
    assert sorted((tmp_path / "rejects").read_text().splitlines()) == sorted(expected.splitlines())
    assert out.read_text().count("<result>") == 2
    assert out.read_text().endswith("</stream>\n")
    assert spark_stats.slices > 1
    assert spark_stats.inputs == stats.inputs
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    on_spark(None, query, out, checkpoint=str(tmp_path / "checkpoint"), **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_malformed_input(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    """A stateless query over a file with a reject, malformed near its end."""
    text = Path(str(warehouse.streams[0].source)).read_text()
    text = text.replace("<min>3</min>", "<min>three</min>", 1).replace("</stream>", "")
    source, out, rejects = tmp_path / "in.xml", tmp_path / "out.xml", tmp_path / "rejects.jsonl"
    good = "<tempdata><hour>13</hour><currtmp>77</currtmp></tempdata>"
    source.write_text(f"{text}\n{good}<tempdata><hour>14</wrong></tempdata>{good}</stream>")
    query, stats = hot(source), RunStats("spark")
    options = RunOptions(
        output=str(out), rejects=str(rejects), slice_bytes=8000, checkpoint=str(tmp_path / "checkpoint")
    )
    with pytest.raises(SourceError) as error:
        run(query, options, stats, session=spark)
    assert (error.value.source, error.value.line) == (str(source), text.count("\n") + 2)
    (line,) = rejects.read_text().splitlines()
    reject = json.loads(line)
    assert (reject["source"], reject["text"][:10]) == (str(source), "<tempdata>")
    assert "three" in reject["reason"]
    assert (stats.inputs["sensor1"].rejected, stats.inputs["sensor1"].tuples) == (1, HOURS * READINGS)

    locally_out = tmp_path / "local.xml"
    with pytest.raises(SourceError) as expected:
        locally(query, locally_out)
    assert str(expected.value) == str(error.value)
    assert not out.read_text().endswith("</stream>\n")
    closed = [(path.read_text() + "</stream>").encode() for path in (out, locally_out)]
    ours, theirs = (split(read_back(content, query.root.schema)) for content in closed)
    assert ours[0] == theirs[0]
    assert set(ours[1]) == set(theirs[1])
    assert (None, 13, None, 77) in ours[0]
    with pytest.raises(SourceError, match=str(error.value)):  # a finished run has nothing to continue
        run(query, options, RunStats("spark"))


def test_dataset_of_a_spooled_source(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All types through Spark's xml writer and back. The UTF-16 source is spooled. The run fails after the slice is
    visible, before it is committed."""
    declared = "s STRING, i INT, d DOUBLE, n DECIMAL(9,2), b BOOLEAN, day DATE, at TIMESTAMP, _1 STRING"
    schema = Schema.parse(declared)
    rows = [
        "<s> a &lt;&amp;&gt; \u00fc\u2603 &#13; b </s><i>-3</i><d>INF</d><n>7.50</n><b>true</b>"
        "<day>2024-02-29</day><at>2024-02-29T23:59:59.123456Z</at><_1>u</_1>",
        "<s></s><i>4</i><d>1e-300</d><n>-0.01</n><b>false</b><day>0001-01-01</day><at>9999-12-31T00:00:00</at>",
        "<i>5</i>",
    ]
    body = "".join(f"<tempdata>{row}</tempdata>" for row in rows)
    punctuation = "<punct:tempdata><s>[a,b)</s><n>{1.00,2.50}</n><day>2020-01-01</day></punct:tempdata>"
    document = f'<?xml version="1.0" encoding="utf-16"?><r xmlns:punct="{NAMESPACE}">{body}{punctuation}</r>'
    source, out = tmp_path / "in.xml", f"{tmp_path}/out/"
    source.write_bytes(document.encode("utf-16"))
    commit_batch, slices = Checkpoint.commit, list[Path]()

    def die(self: Checkpoint, commit: Commit) -> None:
        if commit.batch == 0 and not slices:
            slices.extend(Path(out).glob("slice-*"))
            raise OSError(5, "died")
        commit_batch(self, commit)

    monkeypatch.setattr(Checkpoint, "commit", die)
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(XmlPunctError, match="died"):
        on_spark(spark, select_all(source, schema), out, **options)
    assert [folder.name for folder in slices] == ["slice-000000000000"]
    stats = on_spark(spark, select_all(source, schema), out, **options)
    assert (stats.tuples_out, stats.punctuations_out) == (3, 1)
    assert stats.outputs[""].bytes == sum(p.stat().st_size for p in Path(out).rglob("part-*"))
    (folder,) = Path(out).iterdir()
    assert sorted(p.name for p in folder.iterdir()) == ["0-tuples", "1-punctuations"]
    expected = list(parse(str(source), schema, element="tempdata"))
    output = read_back(out, schema)
    assert split(output)[0] == split(expected)[0]
    assert output[3:] == expected[3:]
    with pytest.raises(UsageError, match="xml"):
        on_spark(spark, hot(source), out, format="jsonl")


def test_overlooked_elements_are_counted_and_reported(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    readings = "<tempdata><hour>1</hour><o:min>2</o:min><tempdata/></tempdata>\n" * 200
    source = tmp_path / "s.xml"
    source.write_text(f"<s xmlns:o='urn:o'>{readings}</s>")
    query = select_all(source, Schema.parse("hour INT, min INT, sid STRING"))
    stats = on_spark(spark, query, tmp_path / "out.xml", slice_bytes=3000)
    assert stats.as_dict()["inputs"]["sensor1"]["overlooked"] == {
        "namespace": {"min": 200},
        "nested": {"tempdata": 200},
        "path": {"sid": 200},
    }
    assert sorted(caplog.messages) == [
        "sensor1: <tempdata> inside a tuple is part of that tuple, not a separate tuple",
        "sensor1: elements in another namespace are not read at PATH min",
        "sensor1: nothing was found in any tuple at PATH sid",
    ]


def test_an_input_that_is_replaced_in_mid_run(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    """The run ends with an error; its commits stay, so a later run can continue."""
    source, out, folder = tmp_path / "in.xml", tmp_path / "out.xml", tmp_path / "checkpoint"
    source.write_bytes(Path(str(warehouse.streams[0].source)).read_bytes())

    def replace(stats: RunStats) -> None:
        if stats.slices == 1:
            source.with_suffix(".new").write_text(source.read_text().replace("<min>", "<min>1"))
            source.with_suffix(".new").replace(source)

    options = RunOptions(output=str(out), slice_bytes=4000, checkpoint=str(folder))
    with pytest.raises(XmlPunctError, match=f"^{source}: an input has changed: "):
        run(hot(source), options, RunStats("spark"), replace, spark)
    commit = committed(folder / "log")
    assert commit.batch >= 0
    assert not commit.over
    assert len(out.read_bytes()) == commit.outputs[0].length
    assert not out.read_text().endswith("</stream>\n")


@pytest.mark.parametrize("slice_bytes", [None, 2000], ids=["read by tasks", "cut before"])
def test_a_file_that_is_missing_for_a_while(
    spark: Any, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int | None
) -> None:
    """The checkpoint does not record the error: the same command continues, with an undisturbed run's output."""
    query, output, path = warehouse.hottest(), tmp_path / "out.xml", warehouse.folder / "sensor2.xml"
    options = {"checkpoint": str(tmp_path / "checkpoint"), "slice_bytes": slice_bytes}
    hidden = tmp_path / "away"
    with monkeypatch.context() as patch:
        patch.setattr(runner, "cut_large_files", lambda *_: path.rename(hidden))
        with pytest.raises(TransientError, match=r"sensor2\.xml.*(No such file|has changed)") as error:
            on_spark(spark, query, output, **options)
    assert "the same command continues" in error.value.__notes__[0]
    hidden.rename(path)
    on_spark(spark, query, output, **options)
    locally(query, tmp_path / "local.xml")
    schema = query.root.schema
    output_elements, expected = (split(read_back(out, schema)) for out in (output, tmp_path / "local.xml"))
    assert output_elements[0] == expected[0]
    assert output.read_text().endswith("</stream>\n")
