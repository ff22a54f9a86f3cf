"""Datasets, directories of columnar files: their visible files, and when these become visible."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset
import pytest

from tests.cli.harness import Cli
from tests.reliability.bench import Bench
from tests.reliability.faults import Death
from tests.reliability.support import LONG
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors.outlet import Form, Results
from xmlpunct.engine.run.datasets import Dataset, dataset, dataset_files, open_partitions
from xmlpunct.engine.run.datasets.partition_names import directory
from xmlpunct.engine.run.local import ledger
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

SCHEMA = Schema.parse("sid STRING NOT NULL CHECK (sid IN ('S1', 'S2')), hour INT, x INT")


class Writing:
    """Writes groups of slices to a dataset."""

    def __init__(
        self, path: Path, *partition_by: str, format_: str = "parquet", schema: Schema = SCHEMA
    ) -> None:
        self.schema, self.numbers = schema, 0
        self.dataset = Dataset(f"{path}/", format_, partition_by)
        self.path = path

    def open(self, position: Any = None, run: str = "a") -> Writing:
        self.dataset.open(Form(run, self.schema, JsonlWriter(self.schema)), position)
        return self

    def put(
        self, *tuples: tuple[Any, ...], punctuated: tuple[str, ...] = (), last: bool = False
    ) -> list[str]:
        """Write a group. Returns the visible directories, or files, after it."""
        punctuations = [Punctuation.parse(self.schema, text) for text in punctuated]
        slice_ = Slice(self.schema.frame(tuples), punctuations)
        data = JsonlWriter(self.schema).body(slice_)
        self.dataset.write(Results(self.numbers, (slice_,), data, 0, last))
        self.numbers += 1
        return seen(self.path)

    def close(self) -> None:
        self.dataset.close()


def seen(path: Path) -> list[str]:
    """The visible directories with files, and files: their names do not begin with ``_`` or ``.``."""
    paths = {p.relative_to(path) for p in path.rglob("*.*") if p.is_file()}
    return sorted({str(p.parent) if len(p.parts) > 1 else p.name for p in paths if p.parts[0][0] not in "_."})


def content(path: Path) -> dict[Path, tuple[int, bytes]]:
    """The inode and the bytes of each visible file."""
    files = [p for p in path.rglob("part-*") if "_xmlpunct" not in p.parts]
    return {p: (p.stat().st_ino, p.read_bytes()) for p in files}


def rows(path: Path) -> list[tuple[Any, ...]]:
    return pl.read_parquet(path / "**/*.parquet", hive_partitioning=True).rows()


@pytest.mark.parametrize(
    "punctuated",
    [
        ("<*, 17, *>",),
        ("<*, [16,18), *>",),
        ("<*, {3,17}, *>",),
        ("<S1, 17, *>", "<S2, 17, *>"),
        ("<{S1,S2}, (,17], *>",),
        ("<*, 17, (,5]>", "<*, 17, (5,)>", "<*, (,17], *>"),
    ],
)
def test_a_partition_is_visible_when_punctuations_cover_it(
    tmp_path: Path, punctuated: tuple[str, ...]
) -> None:
    with closing(Writing(tmp_path / "d", "hour").open()) as writing:
        assert writing.put(("S1", 17, 1), ("S1", 18, 2)) == []
        for text in punctuated[:-1]:
            assert writing.put(punctuated=(text,)) == []
        assert writing.put(("S2", 17, 3), punctuated=punctuated[-1:]) == ["hour=17"]
        assert rows(tmp_path / "d") == [("S1", 1, 17), ("S2", 3, 17)]
        assert writing.put(("S2", 19, 3), last=True) == ["hour=17", "hour=18", "hour=19"]
    assert len(rows(tmp_path / "d")) == 4
    assert (tmp_path / "d" / "_SUCCESS").exists()


def test_rows_of_incomplete_partitions_are_kept_apart_when_a_run_fails(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new run refuses them, or replaces them."""
    monkeypatch.chdir(tmp_path)
    Path("t.xml").write_text("<s><t><k>1</k><v>2</v></t><t><k>3</k><v>4</v></t><t>")
    command = ["run", "--engine", "local", "-q", "SELECT * FROM 't.xml'", "-o", "d/", "--format", "parquet"]
    failed = cli(*command, "--partition-by", "k")
    assert "xmlpunct: d/_incomplete has the rows of 2 partitions that are not complete" in failed.err
    assert failed.code == 1
    assert [path.name for path in Path("d").iterdir()] == ["_incomplete"]
    assert sorted(rows(Path("d", "_incomplete"))) == [(2, 1), (4, 3)]
    Path("t.xml").write_text("<s><t><k>1</k><v>2</v></t><t><k>3</k><v>4</v></t></s>")
    assert "d/ holds _incomplete, and published files are never changed" in cli(*command).err
    assert cli(*command, "--partition-by", "k", "--replace").code == 0
    assert {path.name for path in Path("d").iterdir()} == {"k=1", "k=3", "_SUCCESS"}


def test_a_partition_that_is_not_covered_stays_invisible(tmp_path: Path) -> None:
    with closing(Writing(tmp_path / "d", "hour").open()) as writing:
        writing.put(("S1", 17, 1), (("S1"), None, 1))
        for text in ("<S1, 17, *>", "<*, [18,), *>", "<*, 17, (,5]>", "<*, (,16], *>"):
            assert writing.put(punctuated=(text,)) == []
        assert writing.put(punctuated=("<*, (,), *>",)) == ["hour=17"], "only the end closes null"
        assert writing.put(last=True) == ["hour=17", "hour=__HIVE_DEFAULT_PARTITION__"]


def test_several_columns_make_directories_in_directories(tmp_path: Path) -> None:
    with closing(Writing(tmp_path / "d", "hour", "sid").open()) as writing:
        assert writing.put(("S1", 17, 1), ("S2", 17, 2), punctuated=("<S2, *, *>",)) == ["hour=17/sid=S2"]
        assert writing.put(punctuated=("<*, 17, *>",)) == ["hour=17/sid=S1", "hour=17/sid=S2"]
    assert sorted(rows(tmp_path / "d")) == [(1, 17, "S1"), (2, 17, "S2")]


def test_a_run_without_a_checkpoint_leaves_only_complete_partitions(tmp_path: Path) -> None:
    with closing(Writing(tmp_path / "d", "hour").open()) as writing:
        writing.put(("S1", 17, 1), ("S1", 18, 2), punctuated=("<*, 17, *>",))
    assert sorted(os.listdir(tmp_path / "d")) == ["hour=17"]


def test_names_as_spark_and_duckdb_read_them(tmp_path: Path) -> None:
    schema = Schema.parse("name STRING, x INT")
    names = ["a/b", "x=1", "100%", "ä ö", "..", "a'b\"c", "[1]{2}", "tab\there", "a:b?c*d#e^f\\g", None]
    with closing(Writing(tmp_path / "d", "name", schema=schema).open()) as writing:
        writing.put(*((name, i) for i, name in enumerate(names)), last=True)
    query = "SELECT x, name FROM read_parquet(?, hive_partitioning = true, hive_types_autocast = false) ORDER BY x"
    assert duckdb.execute(query, [f"{tmp_path}/d/*/*.parquet"]).fetchall() == list(enumerate(names))
    assert directory(["a=b"], ["c"]) == "a%3Db=c"


def test_values_that_can_name_no_directory_are_rejects(tmp_path: Path, cli: Cli) -> None:
    feed = tmp_path / "t.xml"
    feed.write_text(f"<s><t><a>x</a></t><t><a></a></t><t><a>{'ä' * 130}</a></t><t/></s>")
    query = (
        f"CREATE STREAM t (a STRING) WITH (source = '{feed}', element = 't'); SELECT a AS k, 1 AS n FROM t"
    )
    out, rejects = tmp_path / "out", tmp_path / "rejects"
    common = ("run", "--engine", "local", "-q", query, "--partition-by", "k", "--format", "parquet")
    ended = cli(*common, "-o", f"{out}/", "--rejects", rejects)
    assert ended.code == 0, ended.err
    assert seen(out) == ["k=__HIVE_DEFAULT_PARTITION__", "k=x"]
    reasons = [json.loads(line)["reason"] for line in rejects.read_text().splitlines()]
    assert sorted(reasons) == [
        "k is empty, and cannot name a directory",
        "k is too long for the name of a directory",
    ]


TYPES = "a STRING, b INT, c DOUBLE, d DECIMAL(38,3), e BOOLEAN, f DATE, g TIMESTAMP"
VALUES = [
    ("é", 2**63 - 1, 1.5, Decimal("12345678901234567890.125"), True, dt.date(2024, 2, 29)),
    (None, None, None, None, None, None),
    ("", -1, float("inf"), Decimal("-1.000"), False, dt.date(1, 1, 1)),
]


@pytest.mark.parametrize("partition_by", [(), ("b",)])
@pytest.mark.parametrize("format_", ["parquet", "arrow", "csv"])
def test_written_values_are_read_back(tmp_path: Path, format_: str, partition_by: tuple[str, ...]) -> None:
    schema = Schema.parse(TYPES)
    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 500000, tzinfo=dt.UTC)
    tuples = [(*values, moment if values[0] else None) for values in VALUES]
    with closing(Writing(tmp_path / "d", *partition_by, format_=format_, schema=schema).open()) as writing:
        for row in tuples:
            writing.put(row)
        writing.put(last=True)
    if format_ == "csv":
        lines = [line for p in content(tmp_path / "d") for line in p.read_text().splitlines()[1:]]
        assert len(lines) == 3
        assert sum("2024-02-29T12:00:00.500000Z" in line for line in lines) == 1
        return
    keys = pyarrow.dataset.partitioning(
        pyarrow.schema([("b", pyarrow.int64())] if partition_by else []), flavor="hive"
    )
    read = pyarrow.dataset.dataset(tmp_path / "d", format=format_, partitioning=keys).to_table()
    frame = pl.DataFrame(pl.from_arrow(read)).select(schema.names)
    key = lambda row: (row[0] is None, str(row[0]))  # noqa: E731
    assert sorted(frame.rows(), key=key) == sorted(tuples, key=key)


def test_files_and_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_files, "GROUP_ROWS", 100)
    monkeypatch.setattr(dataset, "FILE_BYTES", 8_000)
    monkeypatch.setattr(open_partitions, "MEMORY_BYTES", 5_000)
    by_hour, unpartitioned = (
        Writing(tmp_path / name, *by).open() for name, by in (("h", ("hour",)), ("w", ()))
    )
    counts, rng = [], random.Random(1)
    for i in range(100):
        tuples = [("S1", i % 3, i * 2**40 + rng.randrange(2**40)) for n in range(60)]
        by_hour.put(*tuples)
        counts.append(len(unpartitioned.put(*tuples)))
        for writing in (by_hour, unpartitioned):
            buffered = sum(p.memory_bytes for p in writing.dataset._open)
            assert buffered <= 5_000
    assert counts[20] > 0, "files are published as they fill"
    assert sorted(counts) == counts
    for writing in (by_hour, unpartitioned):
        writing.put(last=True)
        writing.close()
    for path in content(tmp_path / "h") | content(tmp_path / "w"):
        meta = pyarrow.parquet.read_metadata(path)
        assert all(meta.row_group(i).num_rows <= 100 for i in range(meta.num_row_groups))
        assert path.stat().st_size < 16_000
    assert 3 < len(content(tmp_path / "h")) < 60
    assert len(rows(tmp_path / "h")) == len(rows(tmp_path / "w")) == 6000
    groups = [x // 2**40 for *_, x in rows(tmp_path / "w")]
    assert groups == sorted(groups)


def test_published_files_never_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d"
    writing = Writing(path, "hour").open()
    writing.put(("S1", 17, 1), punctuated=("<*, 17, *>",))
    with pytest.raises(XmlPunctError, match="which was complete"):
        writing.put(("S1", 17, 2))
    with pytest.raises(UsageError, match="another run is writing"):
        Writing(path, "hour").open()
    position = writing.dataset.commit()
    writing.close()
    with pytest.raises(UsageError, match="holds hour=17"):
        Writing(path, "hour").open(run="b")
    shutil.rmtree(path / "_xmlpunct")
    with pytest.raises(UsageError, match="holds hour=17"):
        Writing(path, "hour").open(position)
    shutil.rmtree(path)
    with pytest.raises(XmlPunctError, match="does not contain the committed"):
        Writing(path, "hour").open(position)


def test_lost_staged_rows_are_an_error(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "d", "hour").open()
    writing.put(("S1", 17, 1))
    position = writing.dataset.commit()
    writing.close()
    (staged,) = (tmp_path / "d" / "_xmlpunct").glob("aside-*")
    staged.write_bytes(b"")
    with pytest.raises(XmlPunctError, match="shorter than the committed"):
        Writing(tmp_path / "d", "hour").open(position)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "d/", "--format", "parquet", "--partition-by", "nothing"], "the results have maxtemp, hour"),
        (["-o", "d/", "--format", "parquet", "--partition-by", "hour,hour"], "named twice"),
        (["-o", "d/", "--format", "parquet", "--partition-by", "hour,maxtemp"], "leaves no column"),
        (["-o", "d.csv", "--format", "parquet"], "is a name for csv"),
        (["--format", "arrow"], "needs a file or a directory: -o DIR/"),
        (["-o", "d/"], "--format parquet, arrow or csv"),
        (["-o", "d/", "--format", "jsonl", "--partition-by", "hour"], "--format parquet, arrow or csv"),
        (["-o", "d/", "--format", "parquet", "--pretty"], "leave them out"),
        (["-o", "d/", "--format", "parquet", "--rejects", "d/"], "name another place"),
    ],
)
def test_invalid_options_are_refused(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    query = Path("samples/warehouse.sql").absolute()
    sources = [f"sensor{i}={Path(f'samples/sensor{i}.xml').absolute()}" for i in (1, 2)]
    monkeypatch.chdir(tmp_path)
    ended = cli("run", query, "--engine", "local", "-s", sources[0], "-s", sources[1], *options)
    assert ended.code == 2
    assert message in ended.err
    assert os.listdir(tmp_path) == []


def test_a_source_that_fails_publishes_complete_files(tmp_path: Path) -> None:
    """Partitioned by hour, the complete hours are published; else all received rows."""
    for partition_by, expected in ((("hour",), ["hour=0", "hour=1"]), ((), ["part-000000-0.parquet"])):
        folder = tmp_path / str(len(partition_by))
        folder.mkdir()
        bench = Bench(folder, "SELECT x, hour FROM a", format="parquet", partition_by=partition_by)
        bench.options = replace(bench.options, output=f"{bench.out}/", rejects=None)
        text = bench.sources["a"].read_text()
        bench.sources["a"].write_text(text[: text.index("<hour>2</hour>") + 30])
        for _ in range(2):
            with pytest.raises(SourceError):
                bench.run()
            assert seen(bench.out) == expected
        assert not (bench.out / "_SUCCESS").exists()


@pytest.fixture
def every_slice_counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(dataset, "FILE_BYTES", 200)
    return


@pytest.mark.usefixtures("every_slice_counts")
@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("partition_by", [("hour",), ()], ids=["by hour", "as files fill"])
def test_every_moment_to_die_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, partition_by: tuple[str, ...]
) -> None:
    """Visible files are complete and never change; in the end each row and each reject is written once."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    sql = "SELECT hour, 60 / x AS y FROM a UNION ALL SELECT hour, x FROM b"
    bench = Bench(tmp_path, sql, slice_bytes=300, format="parquet", partition_by=partition_by)
    bench.options = replace(bench.options, output=f"{bench.out}/", rejects=f"{bench.rejects}/")

    def clear() -> None:
        for folder in (bench.checkpoint, bench.out, bench.rejects):
            shutil.rmtree(folder, ignore_errors=True)

    bench.run()
    expected, names = sorted(rows(bench.out)), seen(bench.out)
    rejected = sorted(rows(bench.rejects))
    assert len(expected) > 15
    assert rejected
    parts = {name: pl.read_parquet(bench.out / name, hive_partitioning=False).rows() for name in names}
    deaths = [Death(0)]
    for death in deaths:
        clear()
        with death.awaited(), suppress(OSError):
            bench.run()
        if not death.came:
            break
        before = content(bench.out)
        for name in seen(bench.out) if bench.out.exists() else ():
            assert pl.read_parquet(bench.out / name, hive_partitioning=False).rows() == parts[name], death
        bench.run()
        after = content(bench.out)
        assert {path: after[path] for path in before} == before, death
        assert sorted(rows(bench.out)) == expected, death
        assert sorted(rows(bench.rejects)) == rejected, death
        deaths.append(death.next() if LONG else Death(death.number + 29, torn=not death.torn))
    assert len(deaths) > 5
    assert seen(bench.out) == names
    assert (
        subprocess.run(["find", bench.out, "-name", "aside-*"], capture_output=True, check=True).stdout == b""
    )


@pytest.mark.usefixtures("every_slice_counts")
@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_single_file_survives_every_moment_to_die_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float, format_: str
) -> None:
    """Killed anywhere and continued, the file has each row once. A visible file can always be read."""
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    sql = "SELECT hour, 60 / x AS y FROM a UNION ALL SELECT hour, x FROM b"
    bench = Bench(tmp_path, sql, slice_bytes=300, format=format_)
    read = pl.read_parquet if format_ == "parquet" else pl.read_ipc
    bench.run()
    expected = sorted(read(bench.out).rows())
    assert len(expected) > 15
    deaths = [Death(0)]
    for death in deaths:
        bench.clear()
        with death.awaited(), suppress(OSError):
            bench.run()
        if not death.came:
            break
        if bench.out.exists():
            assert {*read(bench.out).rows()} <= {*expected}, death
        bench.run()
        assert sorted(read(bench.out).rows()) == expected, death
        deaths.append(death.next() if LONG else Death(death.number + 11, torn=not death.torn))
    assert len(deaths) > 5
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("_")]
