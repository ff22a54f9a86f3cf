"""With --rejects or --strict every input is judged to its end, though the output may have ended long before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_guard import by_spark
from tests.spark.support import NAMESPACE
from xmlpunct.base.errors import SourceError, StrictError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import InputStats, RunStats
from xmlpunct.engine.sql import plan

STREAMS = """
CREATE STREAM a (k INT CHECK (k BETWEEN 0 AND 1), v INT) WITH (source = '{folder}/a.xml', element = 't');
CREATE STREAM b (k INT, w INT) WITH (source = '{folder}/b.xml', element = 't');
"""
QUERIES = {
    "a limit": "SELECT v FROM a LIMIT 2",
    "a limit of none": "SELECT v FROM a LIMIT 0",
    "an order and a limit": "SELECT k, v FROM a ORDER BY k LIMIT 1",
    "a domain that is closed": "SELECT COUNT(*) AS n, MAX(v) AS most FROM a",
    "nothing can be true": "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE 1 = 0)",
    "nothing can be in it": "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k > 3 AND b.k < 2)",
    "no partner can come": "SELECT v, w FROM a JOIN b ON a.k = b.k WHERE b.k > 5",
    "a constant": "SELECT v FROM a WHERE 1 = 0",
    "what cannot be computed": "SELECT 8 / v AS x FROM a LIMIT 1",
}
SIZES = [1, 100, 300, None]
SMALL = 90
"""In slices of so many bytes the limit is reached before any tuple is late."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Streams in which five and two tuples come late, and one each is wrong, where some outputs have ended."""
    good = "".join(f"<t><k>{n % 2}</k><v>{n}</v></t>\n" for n in range(4))
    closed = "<p:t><k>0</k></p:t>\n<p:t><k>1</k></p:t>\n"
    late = "".join(f"<t><k>{n % 2}</k><v>{n}</v></t>\n" for n in range(5))
    wrong = "<t><k>2</k><v>0</v></t>\n"
    (tmp_path / "a.xml").write_text(f'<s xmlns:p="{NAMESPACE}">\n{good}{closed}{late}{wrong}</s>\n')
    other = "<t><k>1</k><w>{}</w></t>\n"
    said = "<p:t><w>[1,2]</w></p:t>\n"
    body = "".join(map(other.format, range(9))) + said + "".join(map(other.format, [1, 2, 3, "many"]))
    (tmp_path / "b.xml").write_text(f'<s xmlns:p="{NAMESPACE}">\n{body}</s>\n')
    return tmp_path


def planned(folder: Path, name: str) -> Query:
    return plan(STREAMS.format(folder=folder) + QUERIES[name])


def judged(folder: Path, out: Path) -> list[dict[str, Any]]:
    """The rejects of a run, by their places; those that were computed come last."""
    found = [json.loads(line) for line in (out / "rejects").read_text().splitlines()]
    return sorted(found, key=lambda r: (r["byte"] is None, r["source"], r["byte"] or 0, r["text"]))


def on_local(query: Query, out: Path, size: int | None, **options: Any) -> RunStats:
    out.mkdir(exist_ok=True)
    stats = RunStats("local")
    asked = RunOptions(str(out / "out.xml"), rejects=str(out / "rejects"), slice_bytes=size, **options)
    local.run(query, asked, stats)
    return stats


def wanted(folder: Path, name: str) -> tuple[list[tuple[str, int]], dict[str, InputStats]]:
    """Where the rejects of the inputs are, in the order of each, and what is counted of these."""
    a, b = ((folder / f"{stream}.xml").read_text() for stream in "ab")
    places, counts = [], {}
    begin = a.index("</p:t>\n<t>") + len("</p:t>\n")
    places += [("a.xml", begin + 24 * n) for n in range(6)]
    counts["a"] = InputStats(4, 2, 6, len(a))
    if "b" in (stream.name for stream in planned(folder, name).streams):
        begin = b.index("</p:t>\n<t>") + len("</p:t>\n")
        places += [("b.xml", begin), ("b.xml", begin + 24), ("b.xml", begin + 72)]
        counts["b"] = InputStats(10, 1, 3, len(b))
    return places, counts


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_rejects_for_all_slices(folder: Path, name: str) -> None:
    query, (places, counts) = planned(folder, name), wanted(folder, name)
    runs = []
    for size in SIZES:
        out = folder / str(size)
        stats = on_local(query, out, size)
        assert (out / "out.xml").read_text().endswith("</stream>\n")
        found = judged(folder, out)
        assert [(Path(r["source"]).name, r["byte"]) for r in found if r["line"]] == places
        assert stats.inputs == counts
        runs.append(found)
        if len(counts) == 1 and "computed" not in name:
            assert runs[0] == [json.loads(line) for line in (out / "rejects").read_text().splitlines()]
    assert all(found == runs[0] for found in runs)


@pytest.mark.parametrize(("size", "shards"), [(1, 1), (100, 3), (10**6, 2)])
@pytest.mark.parametrize("name", QUERIES)
def test_and_for_all_shards(folder: Path, name: str, size: int, shards: int) -> None:
    """What Spark would do, without it."""
    query = planned(folder, name)
    out, plain = folder / "out", folder / "plain"
    out.mkdir()
    counted = by_spark(query, out, size, shards, ordered=False)[2]
    on_local(query, plain, None)
    places, counts = wanted(folder, name)
    found = judged(folder, out)
    assert [(Path(r["source"]).name, r["byte"]) for r in found if r["line"]] == places
    assert [r["text"] for r in found] == [r["text"] for r in judged(folder, plain)]
    assert counted == {n: (c.tuples, c.punctuations, c.rejected) for n, c in counts.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_who_does_not_ask_reads_no_further(folder: Path, name: str) -> None:
    path = folder / "a.xml"
    path.write_text(path.read_text().replace("</s>", "<wrong></s>"))  # nobody comes so far
    stats = RunStats("local")
    local.run(planned(folder, name), RunOptions(str(folder / "out.xml"), slice_bytes=1), stats)
    assert stats.inputs["a"].tuples <= 4
    assert (folder / "out.xml").read_text().endswith("</stream>\n")
    (folder / "out").mkdir()
    with pytest.raises(SourceError, match="wrong"):
        on_local(planned(folder, name), folder / "out", 1)
    assert (folder / "out" / "out.xml").read_bytes() == (folder / "out.xml").read_bytes()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_strict_run_that_stops_behind_its_output(folder: Path, checkpoint: bool) -> None:
    """It is complete, and stays that; doing it over gives the same."""
    query = planned(folder, "a limit")
    options = {"checkpoint": str(folder / "checkpoint")} if checkpoint else {}
    on_local(query, folder / "all", SMALL)
    for _ in range(2):
        with pytest.raises(StrictError, match=r"late: <0, \*> was closed before it"):
            on_local(query, folder / "strict", SMALL, strict=True, **options)
        whole, first = (folder / part / "out.xml" for part in ("all", "strict"))
        assert whole.read_bytes() == first.read_bytes()
        assert judged(folder, folder / "strict") == judged(folder, folder / "all")[:1]


def test_it_goes_on_behind_its_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed behind each slice, a run says in each life that its output is complete, and judges all in the end."""
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    query, options = planned(folder, "a limit"), {"checkpoint": str(folder / "checkpoint")}
    whole = on_local(query, folder / "whole", SMALL)
    assert said(caplog) == 1

    class Killed(Exception):
        pass

    def die(self: ledger.Ledger) -> None:
        self.commit()
        raise Killed

    lives = []
    while True:
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(ledger.Ledger, "commit_if_due", die)
            try:
                stats = on_local(query, folder / "lives", SMALL, **options)
                break
            except Killed:
                done = (folder / "lives" / "out.xml").read_text().endswith("</stream>\n")
                lives.append((done, said(caplog)))
    assert lives[:2] == [(False, 0), (True, 0)]
    assert len(lives) > 4
    assert set(lives[2:]) == {(True, 1)}
    assert stats.inputs == whole.inputs
    for name in ("out.xml", "rejects"):
        assert (folder / "lives" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    on_local(query, folder / "lives", SMALL, **options)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


def said(caplog: pytest.LogCaptureFixture) -> int:
    """How often it was said that the output is complete, and the run goes on."""
    return sum("output is complete" in record.message for record in caplog.records)


def test_who_reads_the_output_need_not_wait_for_the_inputs(folder: Path) -> None:
    """A pipe is closed behind the output's end; a line says what the run is still at."""
    text, rejects = (folder / "a.xml").read_text(), folder / "rejects"
    half = text.index("<p:t>")
    query = STREAMS.format(folder=folder) + QUERIES["a limit"]
    options = ["--engine", "local", "-s", "a=-", "--format", "jsonl", "--rejects", str(rejects)]
    command = [sys.executable, "-m", "xmlpunct", "run", "-q", query, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdin.write(text[:half].encode())
        run.stdin.flush()
        assert len(run.stdout.read().splitlines()) == 2
        assert b"the output is complete; the inputs are read on" in run.stderr.readline()
        assert run.poll() is None
        run.stdin.write(text[half:].encode())
        run.stdin.close()
        assert run.stderr.read().decode() == f"xmlpunct: 6 tuples rejected; see {rejects}\n"
    assert run.returncode == 0
    assert len(rejects.read_text().splitlines()) == 6
