"""Queries of both engines on directories whose file names carry attribute values."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.engine.test_late_tuples import by_local, by_spark
from tests.reliability.bench import Bench
from tests.reliability.faults import Death
from xmlpunct import SourceError, SqlError, query
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain

COLUMNS = "sid STRING NOT NULL, hour INT NOT NULL, v INT"
BY_BOTH = "SELECT sid, hour, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY sid, hour"
BY_HOUR = "SELECT hour, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY hour"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(folder: Path, seed: int = 0, packed: bool = True) -> list[tuple[str, int, int]]:
    """Write files by sender and hour, some compressed; return the tuples that match their file name."""
    chance = random.Random(seed)
    tuples = []
    for sid in ("S1", "S2", "S3"):
        for hour in range(4):
            rows = []
            for _ in range(chance.randrange(1, 6)):
                v, element_hour = chance.randrange(9), chance.choice((None, hour, 77))
                hour_xml = "" if element_hour is None else f"<hour>{element_hour}</hour>"
                rows.append(f"<t><v>{v}</v>{hour_xml}</t>")
                tuples += [(sid, hour, v)] if element_hour != 77 else []
            path, data = (
                folder / sid / f"hour={hour}" / "part.xml",
                "\n".join(["<r>", *rows, "</r>"]).encode(),
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            if packed and hour == 2:
                path, data = path.with_suffix(".xml.gz"), gzip.compress(data)
            path.write_bytes(data)
    return tuples


def declared(pattern: str, query_text: str = BY_BOTH, clause: str = "") -> str:
    return f"CREATE STREAM t ({COLUMNS}) WITH (source = '{pattern}') {clause}; {query_text}"


@pytest.mark.parametrize("pattern", ["{sid}/hour={hour}/part.*", "{sid}/hour={hour}"])
def test_hive_style_for_every_slicing_and_on_shards(folder: Path, pattern: str) -> None:
    tuples = fill(folder)
    planned = plan(declared(pattern))
    sums: Counter[tuple[str, int]] = Counter()
    for sid, hour, v in tuples:
        sums[sid, hour] += v
    counts = Counter((sid, hour) for sid, hour, _ in tuples)
    expected = sorted((str(s), str(h), str(n), str(sums[s, h])) for (s, h), n in counts.items())
    first_output = None
    for size, shards in ((None, 0), (1, 0), (60, 1), (300, 3)):
        out = folder / f"out-{size}-{shards}"
        out.mkdir()
        output = (
            by_spark(planned, out, size, shards, False) if shards else by_local(planned, out, size, False)
        )
        assert sorted(tuple(map(str, t)) for t in output[1]) == expected
        first_output = first_output or output
        assert output == first_output
    assert first_output is not None
    assert first_output[0]
    assert all("but the name of the file has" in r["reason"] for r in first_output[0])


def test_the_end_of_the_last_file_releases(folder: Path) -> None:
    """A file's end closes (sender, hour); the last sender's file closes the hour."""
    fill(folder)
    punctuations = [e for e in query(declared("{sid}/hour={hour}")) if not isinstance(e, tuple)]
    assert [str(p) for p in punctuations] == [f"<S{s}, {h}, *, *>" for s in (1, 2, 3) for h in range(4)]
    elements = list(query(declared("*/hour={hour}", BY_HOUR.replace("hour, COUNT", "hour, MIN(sid), COUNT"))
                       .replace("sid STRING NOT NULL", "sid STRING")))  # fmt: skip
    assert [str(p) for p in elements if not isinstance(p, tuple)] == [f"<{h}, *, *, *>" for h in range(4)]


def test_names_and_punctuate_together(folder: Path) -> None:
    tuples = fill(folder, 3)
    sql = f"""CREATE STREAM t ({COLUMNS}) WITH (source = 'S1/hour={{hour}}');
              SELECT h, COUNT(*) AS n FROM (SELECT hour * 2 AS h FROM t) AS q PUNCTUATE ORDER BY h GROUP BY h"""
    elements = list(query(sql.replace("sid STRING NOT NULL, ", "")))
    counts = Counter(2 * hour for sid, hour, _ in tuples if sid == "S1")
    assert dict(e for e in elements if isinstance(e, tuple)) == counts
    assert {"<[-1,1], *>", "<(,1], *>"} <= {str(p) for p in elements}


def test_files_in_from_and_the_verdicts(folder: Path) -> None:
    tuples = fill(folder)
    elements = query("SELECT hour, sid, COUNT(*) AS n FROM '{sid}/hour={hour}' GROUP BY hour, sid")
    counts = Counter((hour, sid) for sid, hour, _ in tuples)
    assert {e[:2]: e[2] for e in elements if isinstance(e, tuple)} == counts
    complete = explain(plan(declared("{sid}/hour={hour}")))
    assert "group-by: fine\n" in complete
    partial = explain(plan(declared("{sid}/hour={hour}", BY_HOUR)))
    assert "blocks for ever" in partial
    assert "t: PUNCTUATED BY (hour)" in partial


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (declared("{day}.xml"), r"\{day\} in the source names no column"),
        (declared("{hour}*.xml"), "a fixed text is needed between"),
        (declared("{x}.xml").replace("v INT", "x XML"), "cannot be compared"),
    ],
)
def test_invalid_patterns_are_refused_before_reading(folder: Path, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(sql)


def test_a_wrong_value_in_a_name_is_an_error_before_reading(folder: Path) -> None:
    fill(folder)
    (folder / "S3" / "hour=x").mkdir()
    (folder / "S3" / "hour=x" / "part.xml").write_text("<r/>")
    planned = plan(declared("{sid}/hour={hour}"))
    for run in (lambda: by_local(planned, folder, 1, False), lambda: by_spark(planned, folder, 1, 1, False)):
        with pytest.raises(
            SourceError, match=r"S3/hour=x/part\.xml: hour in its name: 'x' is not of type INT"
        ):
            run()


def test_a_killed_run_resumes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file added since the run began is not read."""
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", 0.0)
    fill(folder, packed=False)
    bench = Bench(folder)
    bench.sql, bench.sources = declared("{sid}/hour={hour}"), {}
    bench.run()
    expected = bench.seen()
    for number in range(20, 1000, 50):
        bench.clear()
        death = Death(number)
        with death.awaited():
            bench.run()
        if not death.came:
            assert number > 100
            break
        late = folder / "S3" / "hour=3" / "z.xml"
        if bench.out.exists():  # the run has recorded its inputs
            late.write_text("<r><t><v>1</v></t></r>")
        bench.run()
        late.unlink(missing_ok=True)
        assert bench.seen() == expected, death
