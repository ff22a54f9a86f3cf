"""The examples of docs/pyspark.md on Spark, and the same documents through Spark's own source of XML."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

import xmlpunct
import xmlpunct.spark
from tests.cli.harness import SAMPLES
from tests.spark.test_sockets import sending
from xmlpunct import Punctuation, UsageError
from xmlpunct.spark.session_setup import use_this_python

ROOT = SAMPLES.parent
PAGE = (ROOT / "docs" / "pyspark.md").read_text()
SHOWN = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def played(spark: Any, folder: Path) -> dict[str, Any]:
    """The variables after the page's code blocks ran in ``folder``."""
    text = "\n".join(BLOCKS).replace('"samples/', f'"{SAMPLES}/')
    for name in ("out", "hottest", "ck"):
        assert f'"{name}"' in text
        text = text.replace(f'"{name}"', f'"{folder / name}"')
    names: dict[str, Any] = {"spark": spark}
    exec(compile(text, "docs/pyspark.md", "exec"), names)
    return names


def hours_of(sql: str) -> Counter[Any]:
    return Counter(t for t in xmlpunct.query(sql) if not isinstance(t, Punctuation))


def written(frame: Any, folder: Path) -> Any:
    """The rows that a streaming frame emits for the available input, written to Parquet and read back."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
    stream = writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()
    stream.awaitTermination(300)
    assert not stream.isActive
    return [
        tuple(row)
        for row in frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "rows")).collect()
    ]


@pytest.mark.spark
def test_the_page_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names = played(spark, tmp_path)
    shown = capsys.readouterr().out
    assert all(text in shown for text in SHOWN)
    assert re.search(r"\| +76\| +22\|", shown)
    readings = names["readings"]
    assert readings.columns == ["currtmp", "hour", "min", "sid"]
    back = spark.read.format("xmlpunct").option("element", "tempdata").load(str(tmp_path / "out"))
    assert Counter(back.collect()) == Counter(readings.collect())
    sql = (SAMPLES / "warehouse.sql").read_text()
    assert Counter(map(tuple, spark.read.parquet(str(tmp_path / "hottest")).collect())) == hours_of(sql)
    assert sorted(written(names["counted"], tmp_path / "counted")) == [(17, "five", 6), (18, "six", 6)]
    assert names["orders"].collect() == [(1, "Oslo")]


NESTED = """<r><o id="1"><name>A &amp; B</name><c><city>Oslo</city><zip n="3">x150</zip></c><l sku="a"><q>1</q></l>
<l sku="b"><q>2</q></l><d>2020-01-02</d><at>2020-01-02T03:04:05Z</at><b>true</b><x>1.5</x></o>
<o id="2"><name/><l sku="c"><q>3</q></l></o></r>"""


@pytest.mark.spark
def test_reads_and_writes_as_sparks_own_source(spark: Any, tmp_path: Path) -> None:
    xmlpunct.spark.register(spark)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text(NESTED)
    ours, theirs = (spark.read.format(f).option("rowTag", "o") for f in ("xmlpunct", "xml"))
    frame, expected = (reader.load(str(tmp_path / "in")) for reader in (ours, theirs))
    assert frame.schema == expected.schema
    rows = expected.collect()
    assert frame.collect() == rows
    out = str(tmp_path / "out")
    frame.write.format("xmlpunct").options(rowTag="o", rootTag="all").mode("append").save(out)
    reread = spark.read.format("xml").options(rowTag="o", recursiveFileLookup="true").load(out)
    assert reread.schema == expected.schema
    assert reread.collect() == rows


@pytest.mark.spark
def test_the_state_store_is_set_where_it_is_the_default_and_this_is_logged(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    session = spark.newSession()
    session.conf.unset(PROVIDER)
    default = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    session.conf.set(PROVIDER, default)
    with caplog.at_level(logging.INFO, "xmlpunct"):
        xmlpunct.spark.register(session)
    assert "RocksDBStateStoreProvider" in session.conf.get(PROVIDER)
    assert "RocksDB" in caplog.text
    session_with_own_store = spark.newSession()
    session_with_own_store.conf.set(PROVIDER, "org.example.Mine")
    xmlpunct.spark.register(session_with_own_store)
    assert session_with_own_store.conf.get(PROVIDER) == "org.example.Mine"
    with pytest.raises(UsageError, match=r"org\.example\.Mine"):
        xmlpunct.spark.query(session_with_own_store, (SAMPLES / "warehouse.sql").read_text())


@pytest.mark.spark
def test_unsupported_queries_and_options_are_errors(spark: Any) -> None:
    frame = spark.createDataFrame([(1, b"")], "n INT, b BINARY").select("n")
    declared = "CREATE STREAM s (n INT) WITH (source = 's.xml'); "
    cases: list[tuple[str, dict[str, Any], str]] = [
        (declared + "SELECT n FROM s ORDER BY n", {}, "ORDER BY and LIMIT are refused"),
        (declared + "SELECT n FROM s LIMIT 3", {}, "ORDER BY and LIMIT are refused"),
        ("SELECT n FROM f", {"f": frame, "g": frame}, "does not read g"),
        ("SELECT n FROM f", {"f": xmlpunct.spark.punctuated(frame, "p")}, "no column p"),
        ("SELECT n FROM f", {"f": 3}, "f is a int"),
        ("SELECT n FROM f", {"f": frame, "columnNameOfPunctuation": "n"}, "another name"),
        ("SELECT n FROM f", {"f": frame, "mode": "DROPMALFORMED"}, "PERMISSIVE and FAILFAST"),
        ("SELECT n FROM f", {"f": frame, "maxBytesPerTrigger": "much"}, "'much' is no size"),
        ("CREATE STREAM f (n BOOLEAN); SELECT n FROM f", {"f": frame}, "does not fit BOOLEAN"),
        ("CREATE STREAM f (n INT); SELECT n FROM f", {"f": "-"}, "standard input"),
    ]
    for sql, frames, message in cases:
        with pytest.raises(UsageError, match=message):
            xmlpunct.spark.query(spark, sql, **frames)
    with pytest.raises(UsageError, match="not possible for a column"):
        xmlpunct.spark.from_xml("x", "a INT", mode="DROPMALFORMED")


@pytest.mark.spark
def test_every_session_knows_the_format(spark: Any, tmp_path: Path) -> None:
    """Spark looks for the format in the active session, which needs no `register`."""
    new_session = spark.newSession()
    out = str(tmp_path / "out")
    new_session.createDataFrame([(1, "a")], "n INT, s STRING").coalesce(1).write.format("xmlpunct").mode(
        "append"
    ).save(out)
    assert new_session.read.format("xmlpunct").schema("n INT, s STRING").option("rowTag", "ROW").load(
        out
    ).collect() == [(1, "a")]
    assert xmlpunct.spark.start().sparkContext is spark.sparkContext


@pytest.mark.spark
def test_a_query_reads_a_socket(spark: Any, tmp_path: Path) -> None:
    declared = "CREATE STREAM s (hour INT) WITH (source = '{}', element = 'tempdata'); "
    sql = declared + "SELECT hour, COUNT(*) AS n FROM s GROUP BY hour"
    with sending((SAMPLES / "sensor1.xml").read_bytes()) as name:
        rows = written(xmlpunct.spark.query(spark, sql.format(name), shards=2), tmp_path)
    assert Counter(rows) == hours_of(sql.format(SAMPLES / "sensor1.xml"))


NOTEBOOK = """
import pyspark
{before}
import xmlpunct.spark
{after}
rows = spark.read.format("xmlpunct").option("element", "tempdata").load({sample!r})
print("rows", rows.groupBy("hour").count().count())
"""
BUILT = 'spark = pyspark.sql.SparkSession.builder.master("local[1]").getOrCreate()'


@pytest.mark.spark
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", BUILT),
        (BUILT, "xmlpunct.spark.register(spark)"),
        ("", 'spark = xmlpunct.spark.start("local[1]")'),
    ],
    ids=["session after the import", "session before the import", "start"],
)
def test_an_environment_need_not_be_activated(tmp_path: Path, before: str, after: str) -> None:
    """PATH has another Python, which has no package at all."""
    (tmp_path / "python3").write_text('#!/bin/sh\nexec /usr/bin/python3 -I -S "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK.format(before=before, after=after, sample=str(SAMPLES / "sensor1.xml")))
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PYTHONPATH": str(ROOT),
        **{name: value for name, value in os.environ.items() if name == "JAVA_HOME"},
    }
    process = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.stdout == "rows 6\n", process.stderr[-4000:]


@pytest.mark.parametrize("path", ["environment", "another"])
def test_the_import_names_the_python_of_tasks_if_path_has_another(path: str) -> None:
    code = "import os, xmlpunct.spark; print(os.environ.get('PYSPARK_PYTHON'))"
    directory = str(Path(sys.executable).parent) if path == "environment" else os.devnull
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    shown = subprocess.check_output(
        [sys.executable, "-c", code], env=environment | {"PATH": directory}, text=True
    )
    assert shown.strip() == {"environment": "None", "another": sys.executable}[path]


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_tasks_of_a_running_session_change_their_python_on_this_machine_only(
    master: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = SimpleNamespace(master=master, pythonExec="python3")
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    use_this_python()
    is_local = master == "local[2]"
    assert context.pythonExec == (sys.executable if is_local else "python3")
    assert (f"set PYSPARK_PYTHON={sys.executable} before the session starts" in caplog.text) is not is_local
    assert "PYSPARK_PYTHON" not in os.environ


SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder{where}.config("spark.sql.shuffle.partitions", "2").getOrCreate()
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.spark.test_pyspark import played, written
names = played(spark, Path({folder!r}))
print("rows", sorted(written(names["counted"], Path({folder!r}) / "counted")))
try:
    names["xmlpunct"].spark.query(spark, "CREATE STREAM s (n INT); SELECT n FROM s", s="tcp://127.0.0.1:1")
    print("sockets are read")
except Exception as error:
    print("sockets are refused:", error)
"""


def scripted(tmp_path: Path, where: str, *command: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(where=where, root=str(ROOT), folder=str(tmp_path)))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(tmp_path / "local")}
    process = subprocess.run(
        [*command, str(script)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    assert "rows [(17, 'five', 6), (18, 'six', 6)]" in process.stdout
    return process.stdout


@pytest.mark.long
@pytest.mark.spark
def test_the_page_runs_under_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("grpc_status")
    shown = scripted(tmp_path, ".remote('local[2]')", sys.executable)
    assert "sockets are refused: tcp://127.0.0.1:1: under Spark Connect" in shown


@pytest.mark.long
@pytest.mark.spark
def test_the_page_runs_in_spark_submit(tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    shown = scripted(tmp_path, "", submit, "--master", "local[2]")
    assert "sockets are read" in shown


@pytest.mark.long
@pytest.mark.spark
def test_fifty_million_result_rows_do_not_grow_the_drivers_heap() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "dataframe.py"), "--rows", "50000000"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=7200)
    assert process.returncode == 0, process.stderr[-4000:]
    report = json.loads(process.stdout)
    assert report["written"] == 50_000_000
    assert report["right"]
    heap = report["driver_heap_mib"]
    assert heap["100%"] < heap["25%"] + 32
