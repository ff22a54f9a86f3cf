"""With --rejects or --strict, every input is checked to its end, even after the output is complete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_late_tuples import by_spark
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
"""Slice size in bytes at which the limit is reached before any tuple is late."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Stream a has five late tuples, b two, each one wrong value, all after some outputs are complete."""
    good = "".join(f"<t><k>{n % 2}</k><v>{n}</v></t>\n" for n in range(4))
    closed = "<p:t><k>0</k></p:t>\n<p:t><k>1</k></p:t>\n"
    late = "".join(f"<t><k>{n % 2}</k><v>{n}</v></t>\n" for n in range(5))
    wrong = "<t><k>2</k><v>0</v></t>\n"
    (tmp_path / "a.xml").write_text(f'<s xmlns:p="{NAMESPACE}">\n{good}{closed}{late}{wrong}</s>\n')
    other = "<t><k>1</k><w>{}</w></t>\n"
    punctuation = "<p:t><w>[1,2]</w></p:t>\n"
    body = "".join(map(other.format, range(9))) + punctuation + "".join(map(other.format, [1, 2, 3, "many"]))
    (tmp_path / "b.xml").write_text(f'<s xmlns:p="{NAMESPACE}">\n{body}</s>\n')
    return tmp_path


def planned(folder: Path, name: str) -> Query:
    return plan(STREAMS.format(folder=folder) + QUERIES[name])


def judged(folder: Path, out: Path) -> list[dict[str, Any]]:
    """The rejects of a run by position; rejects of computed tuples come last."""
    rejects = [json.loads(line) for line in (out / "rejects").read_text().splitlines()]
    return sorted(rejects, key=lambda r: (r["byte"] is None, r["source"], r["byte"] or 0, r["text"]))


def on_local(query: Query, out: Path, size: int | None, **options: Any) -> RunStats:
    out.mkdir(exist_ok=True)
    stats = RunStats("local")
    asked = RunOptions(str(out / "out.xml"), rejects=str(out / "rejects"), slice_bytes=size, **options)
    local.run(query, asked, stats)
    return stats


def expected_rejects(folder: Path, name: str) -> tuple[list[tuple[str, int]], dict[str, InputStats]]:
    """The expected (file, byte) of each input reject, and the counts of each input."""
    a, b = ((folder / f"{stream}.xml").read_text() for stream in "ab")
    positions, counts = [], {}
    begin = a.index("</p:t>\n<t>") + len("</p:t>\n")
    positions += [("a.xml", begin + 24 * n) for n in range(6)]
    counts["a"] = InputStats(4, 2, 6, len(a))
    if "b" in (stream.name for stream in planned(folder, name).streams):
        begin = b.index("</p:t>\n<t>") + len("</p:t>\n")
        positions += [("b.xml", begin), ("b.xml", begin + 24), ("b.xml", begin + 72)]
        counts["b"] = InputStats(10, 1, 3, len(b))
    return positions, counts


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_rejects_for_all_slices(folder: Path, name: str) -> None:
    query, (positions, counts) = planned(folder, name), expected_rejects(folder, name)
    runs = []
    for size in SIZES:
        out = folder / str(size)
        stats = on_local(query, out, size)
        assert (out / "out.xml").read_text().endswith("</stream>\n")
        rejects = judged(folder, out)
        assert [(Path(r["source"]).name, r["byte"]) for r in rejects if r["line"]] == positions
        assert stats.inputs == counts
        runs.append(rejects)
        if len(counts) == 1 and "computed" not in name:
            assert runs[0] == [json.loads(line) for line in (out / "rejects").read_text().splitlines()]
    assert all(rejects == runs[0] for rejects in runs)


@pytest.mark.parametrize(("size", "shards"), [(1, 1), (100, 3), (10**6, 2)])
@pytest.mark.parametrize("name", QUERIES)
def test_the_same_rejects_for_all_shards(folder: Path, name: str, size: int, shards: int) -> None:
    """Simulated Spark rejects the same tuples as the local engine."""
    query = planned(folder, name)
    out, plain = folder / "out", folder / "plain"
    out.mkdir()
    counted = by_spark(query, out, size, shards, ordered=False)[2]
    on_local(query, plain, None)
    positions, counts = expected_rejects(folder, name)
    rejects = judged(folder, out)
    assert [(Path(r["source"]).name, r["byte"]) for r in rejects if r["line"]] == positions
    assert [r["text"] for r in rejects] == [r["text"] for r in judged(folder, plain)]
    assert counted == {n: (c.tuples, c.punctuations, c.rejected) for n, c in counts.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_without_rejects_reading_stops_with_the_output(folder: Path, name: str) -> None:
    path = folder / "a.xml"
    path.write_text(path.read_text().replace("</s>", "<wrong></s>"))  # the run must not read this
    stats = RunStats("local")
    local.run(planned(folder, name), RunOptions(str(folder / "out.xml"), slice_bytes=1), stats)
    assert stats.inputs["a"].tuples <= 4
    assert (folder / "out.xml").read_text().endswith("</stream>\n")
    (folder / "out").mkdir()
    with pytest.raises(SourceError, match="wrong"):
        on_local(planned(folder, name), folder / "out", 1)
    assert (folder / "out" / "out.xml").read_bytes() == (folder / "out.xml").read_bytes()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_strict_stops_at_a_reject_after_its_output_is_complete(folder: Path, checkpoint: bool) -> None:
    """The output is complete, and a second run gives the same."""
    query = planned(folder, "a limit")
    options = {"checkpoint": str(folder / "checkpoint")} if checkpoint else {}
    on_local(query, folder / "all", SMALL)
    for _ in range(2):
        with pytest.raises(StrictError, match=r"late: <0, \*> was closed before it"):
            on_local(query, folder / "strict", SMALL, strict=True, **options)
        complete, first = (folder / part / "out.xml" for part in ("all", "strict"))
        assert complete.read_bytes() == first.read_bytes()
        assert judged(folder, folder / "strict") == judged(folder, folder / "all")[:1]


def test_a_killed_run_resumes_after_its_output_is_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run killed after each slice logs in each life that its output is complete, and rejects all late tuples."""
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    query, options = planned(folder, "a limit"), {"checkpoint": str(folder / "checkpoint")}
    uninterrupted = on_local(query, folder / "whole", SMALL)
    assert completion_notices(caplog) == 1

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
                lives.append((done, completion_notices(caplog)))
    assert lives[:2] == [(False, 0), (True, 0)]
    assert len(lives) > 4
    assert set(lives[2:]) == {(True, 1)}
    assert stats.inputs == uninterrupted.inputs
    for name in ("out.xml", "rejects"):
        assert (folder / "lives" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    on_local(query, folder / "lives", SMALL, **options)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


def completion_notices(caplog: pytest.LogCaptureFixture) -> int:
    """The number of log messages that the output is complete."""
    return sum("output is complete" in record.message for record in caplog.records)


def test_the_output_closes_before_the_inputs_end(folder: Path) -> None:
    """The output pipe closes at the output's end; a message says that reading continues."""
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
        assert b"the output is complete; the inputs are read to the end" in run.stderr.readline()
        assert run.poll() is None
        run.stdin.write(text[half:].encode())
        run.stdin.close()
        *reasons, summary = run.stderr.read().decode().splitlines()
        assert [reason.split(" late: ")[0] for reason in reasons] == [
            f"xmlpunct: rejected: -, line {line}, byte {byte}:"
            for line, byte in ((8, 191), (9, 215), (10, 239))
        ]
        assert summary == f"xmlpunct: 6 tuples rejected; see {rejects}"
    assert run.returncode == 0
    assert len(rejects.read_text().splitlines()) == 6
