"""overlap against a plain model, and in queries: an archive, then a live source that repeats its end."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_late_tuples import by_local, by_spark
from xmlpunct import Schema, Slice, SourceError, SqlError, query
from xmlpunct.engine.sql import plan
from xmlpunct.operators import DropOverlap, run
from xmlpunct.operators.time.drop_overlap import Overlap
from xmlpunct.schema.provenance import with_origin

SCHEMA = with_origin(Schema.parse("a INT NOT NULL, v INT"))
Pairs = list[tuple[int, int | None]]
ROWS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 1)), max_size=12)


def rows_of(archive: Pairs, live: Pairs) -> list[tuple[Any, ...]]:
    rows = [(*row, "old.xml", n, n) for n, row in enumerate(archive)]
    return rows + [(*row, "live.xml", n, n) for n, row in enumerate(live)]


def results(
    overlap: Overlap, rows: list[tuple[Any, ...]], cuts: set[int], restarts: set[int]
) -> tuple[list[Any], int]:
    """The rows that pass, and the number of rejects; the operator is restored at restarts."""
    operator, start, passed, rejects = DropOverlap(SCHEMA, overlap), 0, list[Any](), 0
    for end in [*sorted(c for c in cuts if c < len(rows)), len(rows)]:
        passed += [row[:3] for row in run(operator, 0, Slice(SCHEMA.frame(rows[start:end]))).tuples.rows()]
        rejects += len(operator.rejects)
        restored = DropOverlap(SCHEMA, overlap)
        if end in restarts:
            restored.state.restore(operator.state.snapshot())
            operator = restored
        operator.rejects = []
        start = end
    return passed, rejects


@given(ROWS, ROWS, st.integers(0, 2), st.sets(st.integers(0, 24)), st.sets(st.integers(0, 24)), st.booleans())
def test_a_column_in_order(
    archive: Pairs, live: Pairs, slack: int, cuts: set[int], restarts: set[int], proven: bool
) -> None:
    rows = rows_of(archive, live)
    overlap = Overlap("live", "a", slack, proven=proven)
    m = max((a for a, _ in archive), default=None)
    if proven and live and (m is None or not live[0][0] < m - 2 * slack):
        with pytest.raises(SourceError, match="rows may be missing between the two"):
            results(overlap, rows, cuts, restarts)
        return
    expected: list[Any] = [(*row, "old.xml") for row in archive]
    bag = Counter(row for row in archive if m is not None and row[0] >= m - slack)
    for row in live:
        if m is not None and row[0] < m - slack:
            continue
        if bag[row]:
            bag[row] -= 1
        else:
            expected.append((*row, "live.xml"))
    assert results(overlap, rows, cuts, restarts) == (expected, 0)


@given(ROWS, ROWS, st.sets(st.integers(0, 24)), st.sets(st.integers(0, 24)))
def test_a_key(archive: Pairs, live: Pairs, cuts: set[int], restarts: set[int]) -> None:
    rows, overlap = rows_of(archive, live), Overlap("live", None, key=("a",))
    if live and live[0] not in archive:
        with pytest.raises(SourceError, match="rows may be missing between the two"):
            results(overlap, rows, cuts, restarts)
        return
    keys = {a for a, _ in archive}
    expected = [(*row, "old.xml") for row in archive]
    expected += [(*row, "live.xml") for row in live if row[0] not in keys]
    rejected = sum(row[0] in keys and row not in archive for row in live)
    assert results(overlap, rows, cuts, restarts) == (expected, rejected)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    for name, numbers in (("old/1.xml", (1, 2, 3)), ("old/2.xml", (4, 5, 6)), ("live.xml", (4, 5, 6, 7, 8))):
        texts = (f"<r><id>{n}</id><v>{n % 3}</v></r>" for n in numbers)
        (tmp_path / name).write_text("<s>" + "\n".join(texts) + "</s>")
    return tmp_path


def sql(folder: Path, options: str, columns: str = "id INT NOT NULL, v INT", live: str = "live.xml") -> str:
    sources = f"source = '{folder}/old/*.xml' THEN '{folder}/{live}'"
    head, _, clause = options.partition(";")
    return f"CREATE STREAM r ({columns}) WITH ({sources}{head}, element = 'r'){clause}; SELECT id, v FROM r"


BY_ID = ", overlap = 'id'; PUNCTUATE ORDER BY id"
KEYED = "id INT PRIMARY KEY, v INT"


@pytest.mark.parametrize(
    ("options", "columns"), [(BY_ID, "id INT NOT NULL, v INT"), (", overlap = 'key';", KEYED)]
)
def test_both_engines_remove_the_overlap_before_lateness_is_judged(
    folder: Path, options: str, columns: str
) -> None:
    """With rejects, which need a guard, as without: no row of the overlap is late, and a conflict is a reject."""
    expected = [(n, n % 3) for n in range(1, 9)]
    assert query(sql(folder, options, columns)).to_polars().rows() == expected
    live = (folder / "live.xml").read_text()
    (folder / "live.xml").write_text(live.replace("<id>5</id><v>2</v>", "<id>5</id><v>9</v>"))
    outputs = []
    for size, shards in ((60, 0), (10**6, 0), (60, 2)):
        out = folder / f"{size}-{shards}"
        out.mkdir()
        planned = plan(sql(folder, options, columns))
        run_once = (
            by_spark(planned, out, size, shards, False) if shards else by_local(planned, out, size, False)
        )
        outputs.append(run_once[:2])
    assert outputs[0] == outputs[1] == outputs[2]
    rejects, tuples = outputs[0]
    if "key" in options:
        assert [(r["reason"], json.loads(r["text"])["id"]) for r in rejects] == [
            ("another row of the archive has its id", 5)
        ]
        assert tuples == sorted(expected, key=repr)
    else:
        assert not rejects, "5 is below the greatest value of the archive"


def test_without_proof_the_run_is_refused(folder: Path) -> None:
    text = (folder / "live.xml").read_text().replace("<id>4", "<id>6").replace("<id>5", "<id>6")
    (folder / "gap.xml").write_text(text)
    with pytest.raises(SourceError) as raised:
        query(sql(folder, BY_ID, live="gap.xml")).to_polars()
    ends = f"r.id = 6 ({folder}/old/2.xml, line 3), and the live source begins at r.id = 6 ({folder}/gap.xml, line 1)"
    assert f"the archive ends at {ends}: rows may be missing between the two" in str(raised.value)
    contiguous = sql(folder, " CONTIGUOUS" + BY_ID, live="gap.xml")
    assert query(contiguous).to_polars()["id"].to_list() == [1, 2, 3, 4, 5, 6, 6, 6, 7, 8]


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ("", "id INT", "THEN needs overlap = 'key' or a column in order"),
        (", overlap = 'position'", "id INT", "do not have the positions of the live source"),
        (", overlap = 'key'", "id INT", "overlap = 'key' needs a PRIMARY KEY"),
        (", overlap = 'nr'", "id INT", "no column nr here"),
        (
            ", overlap = 'id'",
            "id INT NOT NULL",
            "overlap = 'id' needs the order of the stream: PUNCTUATE ORDER BY",
        ),
        (
            ", overlap = 'id'; PUNCTUATE ORDER BY id",
            "id INT",
            "overlap needs a column of numbers or times that is NOT",
        ),
    ],
)
def test_refused(folder: Path, options: str, columns: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(sql(folder, options, f"{columns}, v INT"))


def test_overlap_needs_an_archive() -> None:
    with pytest.raises(SqlError, match="overlap is for an archive and a live source"):
        plan("CREATE STREAM r (id INT) WITH (source = 'a.xml', overlap = 'id'); SELECT id FROM r")
