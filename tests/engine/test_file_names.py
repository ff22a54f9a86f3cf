"""A directory whose file names carry values, in queries of both engines."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.engine.test_guard import by_local, by_spark
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
    """Files by sender and hour, some packed; what they hold, without the tuples that contradict a name."""
    chance = random.Random(seed)
    held = []
    for sid in ("S1", "S2", "S3"):
        for hour in range(4):
            rows = []
            for _ in range(chance.randrange(1, 6)):
                v, said = chance.randrange(9), chance.choice((None, hour, 77))
                told = "" if said is None else f"<hour>{said}</hour>"
                rows.append(f"<t><v>{v}</v>{told}</t>")
                held += [(sid, hour, v)] if said != 77 else []
            path, data = (
                folder / sid / f"hour={hour}" / "part.xml",
                "\n".join(["<r>", *rows, "</r>"]).encode(),
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            if packed and hour == 2:
                path, data = path.with_suffix(".xml.gz"), gzip.compress(data)
            path.write_bytes(data)
    return held


def declared(pattern: str, rest: str = BY_BOTH, clause: str = "") -> str:
    return f"CREATE STREAM t ({COLUMNS}) WITH (source = '{pattern}') {clause}; {rest}"


@pytest.mark.parametrize("pattern", ["{sid}/hour={hour}/part.*", "{sid}/hour={hour}"])
def test_hive_style_for_every_slicing_and_on_shards(folder: Path, pattern: str) -> None:
    held = fill(folder)
    planned = plan(declared(pattern))
    sums: Counter[tuple[str, int]] = Counter()
    for sid, hour, v in held:
        sums[sid, hour] += v
    counts = Counter((sid, hour) for sid, hour, _ in held)
    wanted = sorted((str(s), str(h), str(n), str(sums[s, h])) for (s, h), n in counts.items())
    first = None
    for size, shards in ((None, 0), (1, 0), (60, 1), (300, 3)):
        out = folder / f"out-{size}-{shards}"
        out.mkdir()
        found = by_spark(planned, out, size, shards, False) if shards else by_local(planned, out, size, False)
        assert sorted(tuple(map(str, t)) for t in found[1]) == wanted
        first = first or found
        assert found == first
    assert first is not None
    assert first[0]
    assert all("but the name of the file has" in r["reason"] for r in first[0])


def test_the_end_of_the_last_file_releases(folder: Path) -> None:
    """One sender after the other: an hour is closed by the last sender's file, a sender's hour by its own."""
    fill(folder)
    alone = [e for e in query(declared("{sid}/hour={hour}")) if not isinstance(e, tuple)]
    assert [str(p) for p in alone] == [f"<S{s}, {h}, *, *>" for s in (1, 2, 3) for h in range(4)]
    found = list(query(declared("*/hour={hour}", BY_HOUR.replace("hour, COUNT", "hour, MIN(sid), COUNT"))
                       .replace("sid STRING NOT NULL", "sid STRING")))  # fmt: skip
    assert [str(p) for p in found if not isinstance(p, tuple)] == [f"<{h}, *, *, *>" for h in range(4)]


def test_names_and_punctuate_together(folder: Path) -> None:
    held = fill(folder, 3)
    sql = f"""CREATE STREAM t ({COLUMNS}) WITH (source = 'S1/hour={{hour}}');
              SELECT h, COUNT(*) AS n FROM (SELECT hour * 2 AS h FROM t) AS q PUNCTUATE ORDER BY h GROUP BY h"""
    found = list(query(sql.replace("sid STRING NOT NULL, ", "")))
    counts = Counter(2 * hour for sid, hour, _ in held if sid == "S1")
    assert dict(e for e in found if isinstance(e, tuple)) == counts
    assert {"<[-1,1], *>", "<(,1], *>"} <= {str(p) for p in found}


def test_files_in_from_and_the_verdicts(folder: Path) -> None:
    held = fill(folder)
    found = query("SELECT hour, sid, COUNT(*) AS n FROM '{sid}/hour={hour}' GROUP BY hour, sid")
    counts = Counter((hour, sid) for sid, hour, _ in held)
    assert {e[:2]: e[2] for e in found if isinstance(e, tuple)} == counts
    told = explain(plan(declared("{sid}/hour={hour}")))
    assert "group-by: fine\n" in told
    mended = explain(plan(declared("{sid}/hour={hour}", BY_HOUR)))
    assert "blocks for ever" in mended
    assert "t: PUNCTUATED BY (hour)" in mended


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (declared("{day}.xml"), r"\{day\} in the source names no column"),
        (declared("{hour}*.xml"), "a fixed text is needed between"),
        (declared("{x}.xml").replace("v INT", "x XML"), "cannot be compared"),
    ],
)
def test_refused_before_anything_is_read(folder: Path, sql: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        plan(sql)


def test_a_name_that_does_not_fit_is_told_before_anything_is_read(folder: Path) -> None:
    fill(folder)
    (folder / "S3" / "hour=x").mkdir()
    (folder / "S3" / "hour=x" / "part.xml").write_text("<r/>")
    planned = plan(declared("{sid}/hour={hour}"))
    for run in (lambda: by_local(planned, folder, 1, False), lambda: by_spark(planned, folder, 1, 1, False)):
        with pytest.raises(
            SourceError, match=r"S3/hour=x/part\.xml: hour in its name: 'x' is not of type INT"
        ):
            run()


def test_it_goes_on_where_it_was_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that came since then is not read."""
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
        if bench.out.exists():  # its inputs are known
            late.write_text("<r><t><v>1</v></t></r>")
        bench.run()
        late.unlink(missing_ok=True)
        assert bench.seen() == expected, death
