"""``--max-rejects`` gives the same result on both engines, for all slice sizes and shard counts."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_late_tuples import by_local, by_spark, document, planned
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.engine.run import reject_limit
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.local.portion import Portion
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

SQL = {"groups": "SELECT k, COUNT(*) AS n FROM a GROUP BY k", "in order": "SELECT k FROM c",
       "no state": "SELECT a.v FROM a UNION ALL SELECT w FROM b"}  # fmt: skip


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "101%", "5 %", "%", "1e3", "1/2"])
def test_invalid_limits(text: str) -> None:
    with pytest.raises(UsageError, match="--max-rejects"):
        RejectLimit.parse(text)


@given(
    st.lists(st.booleans(), max_size=60),
    st.sampled_from(["0%", "10%", "33.3%", "50%", "100%"]),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 20),
)
def test_a_share_is_checked_every_step_tuples(bad: list[bool], text: str, cuts: list[int], step: int) -> None:
    limit = RejectLimit.parse(text)
    share = float(text[:-1]) / 100
    judged = [n for n in range(1, len(bad) + 1) if n % step == 0] + [len(bad)]
    first = next((n for n in judged if sum(bad[:n]) > share * n + 1e-12), None)
    counts, failures = [0, 0], []
    bounds = sorted({0, len(bad), *(c for c in cuts if c < len(bad))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reject_limit, "STEP", step)
        for a, b in pairwise(bounds):
            failures.append(limit.share("s", counts, pl.Series(bad[a:b], dtype=pl.Boolean()), False))
        failures.append(limit.share("s", counts, pl.Series(dtype=pl.Boolean()), True))
    assert counts == [len(bad), sum(bad)]
    (failure, *_) = [f for f in failures if f is not None] or [None]
    if first is None:
        assert failure is None
    else:
        assert (
            str(failure)
            == f"s: {sum(bad[:first])} of its first {first} tuples are rejects, more than --max-rejects {text}"
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, root = random.Random(7), tmp_path_factory.mktemp("limits")
    (root / "a").mkdir()
    for name in ("1.xml", "2.xml"):
        (root / "a" / name).write_text(document(rng, "a", ["k", "v", "t"], 40))
    (root / "b.xml").write_text(document(rng, "b", ["k", "w"], 30))
    return root


def verdict(run: object, *arguments: object) -> str:
    try:
        run(*arguments)  # type: ignore[operator]
    except SourceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SQL)
def test_the_same_verdict_everywhere(
    folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmlpunct.engine.run.reject_limit.STEP", 7)
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 400)
    query = planned(folder, SQL[name])
    (tmp_path / "all").mkdir()
    rejects = by_local(query, tmp_path / "all", None, False)[0]
    positions = {(r["source"], r["byte"]) for r in rejects}
    allowed = set[str]()
    worst = 0.0
    for stream in query.streams:
        files = sorted((folder / "a").iterdir()) if stream.element == "a" else [folder / "b.xml"]
        bad = [(str(f), at) in positions for f in files for at in starts(f.read_text(), stream.element)]
        judged = [n for n in range(1, len(bad) + 1) if n % 7 == 0] + [len(bad)]
        worst = max([worst, *(sum(bad[:n]) / n for n in judged)])
        limit = 20
        first = next((n for n in judged if sum(bad[:n]) * 100 > limit * n), None)
        if first is not None:
            failure = (
                f"{sum(bad[:first])} of its first {first} tuples are rejects, more than --max-rejects 20%"
            )
            allowed.add(f"{stream.name}: {failure}")
    assert allowed
    runs = [(None, 0), (400, 0), (900, 1), (2000, 3)]
    texts = ["20%", f"{worst * 100 + 0.01:.2f}%", str(len(rejects)), str(len(rejects) - 1)]
    for text in texts:
        verdicts = []
        for size, shards in runs:
            out = tmp_path / f"{text}-{size}-{shards}"
            out.mkdir()
            limit_ = RejectLimit.parse(text)
            if shards:
                verdicts.append(verdict(by_spark, query, out, size, shards, False, False, limit_))
            else:
                options = RunOptions(output=str(out / "out.xml"), slice_bytes=size, max_rejects=limit_)
                verdicts.append(verdict(local.run, query, options, RunStats("local")))
        if text == "20%":
            assert set(verdicts) <= allowed  # the first input to fail is not fixed
        elif text in (texts[1], texts[2]):
            assert verdicts == [""] * len(runs)
        else:
            assert all(f"more rejects than --max-rejects {text}: " in message for message in verdicts)


def starts(text: str, element: str) -> list[int]:
    tag = f"<{element}>"
    return [len(text[:i].encode()) for i in range(len(text)) if text.startswith(tag, i)]


def test_counting_continues_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped and resumed run fails as an uninterrupted run does."""
    feed = tmp_path / "t.xml"
    feed.write_text("<s>" + "".join(f"<t><n>{'x' * (n % 4 == 3)}{n}</n></t>" for n in range(40)) + "</s>")
    query = plan(f"CREATE STREAM t (n INT NOT NULL) WITH (source = '{feed}', element = 't'); SELECT n FROM t")
    read, reads = LocalRun.read, 0

    def stopping(running: LocalRun) -> Portion | None:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise KeyboardInterrupt
        return read(running)

    monkeypatch.setattr(LocalRun, "read", stopping)
    for text in ("24.9%", "9"):
        options = RunOptions(
            output=str(tmp_path / f"{text}.xml"),
            slice_bytes=200,
            checkpoint=str(tmp_path / f"c{text}"),
            max_rejects=RejectLimit.parse(text),
        )
        uninterrupted = replace(options, checkpoint=None, output=str(tmp_path / "alone.xml"))
        reads = 3
        expected = verdict(local.run, query, uninterrupted, RunStats("local"))
        assert expected
        reads = 0
        with pytest.raises(KeyboardInterrupt):
            local.run(query, options, RunStats("local"))
        assert verdict(local.run, query, options, RunStats("local")) == expected
