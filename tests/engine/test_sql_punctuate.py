"""PUNCTUATE in CREATE STREAM: a feed without punctuations releases results before its end."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from xmlpunct import SqlError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Punctuate
from xmlpunct.engine.run.local.local_run import open_sources
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.operators.time.access_order import AccessOrder

ROWS = [
    ("S1", 1),
    ("S2", 1),
    ("S1", 2),
    ("S2", 3),
    ("S1", 1),
    ("S1", 3),
    ("S3", 9),
    ("S1", 4),
    ("S2", 4),
    ("S1", 3),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "\n".join(f"<t><sid>{sid}</sid><hour>{hour}</hour></t>" for sid, hour in ROWS)
    (tmp_path / "t.xml").write_text(f"<s>\n{rows}\n</s>")
    (tmp_path / "senders.txt").write_text("S1\n\nS2\n")
    return tmp_path


def sql(folder: Path, clause: str, columns: str = "sid STRING, hour INT NOT NULL") -> str:
    return f"""CREATE STREAM t ({columns}) WITH (source = '{folder / "t.xml"}') PUNCTUATE ORDER BY {clause};
               SELECT hour, COUNT(*) AS n FROM t GROUP BY hour"""


def run(folder: Path, clause: str, size: int) -> tuple[list[tuple[int, int]], list[str], int]:
    """The results, the rejects, and the number of results before the end of the stream."""
    query = plan(sql(folder, clause))
    results: list[tuple[int, int]] = []
    early = 0
    with closing(LocalRun(query, open_sources(query), size, RunStats("local"), PUNCT_NAMESPACE)) as running:
        while (result := running.advance()) is not None:
            if not any(p.is_everything for p in result.punctuations):
                early += result.tuples.height
            results += result.tuples.rows()
        rejects = [f"{json.loads(r.text)['t.sid']} {json.loads(r.text)['t.hour']}" for r in running.rejects]
    return sorted(results), rejects, early


@pytest.mark.parametrize(
    ("clause", "results", "rejects", "early"),
    [
        ("hour", [(1, 2), (2, 1), (3, 2), (9, 1)], ["S1 1", "S1 4", "S2 4", "S1 3"], 2),
        ("hour SLACK 2", [(1, 3), (2, 1), (3, 2), (9, 1)], ["S1 4", "S2 4", "S1 3"], 0),
        ("hour SLACK 9", [(1, 3), (2, 1), (3, 3), (4, 2), (9, 1)], [], 0),
        ("hour AHEAD 3", [(1, 2), (2, 1), (3, 2), (4, 2)], ["S1 1", "S3 9", "S1 3"], 2),
        ("hour AHEAD 3 AFTER 1", [(1, 2), (2, 1), (3, 2), (9, 1)], ["S1 1", "S1 4", "S2 4", "S1 3"], 2),
        ("hour AHEAD 3 AFTER 2 FROM '{0}/senders.txt' BY sid", [(1, 2), (2, 1), (3, 2), (4, 2)],
         ["S1 1", "S3 9", "S1 3"], 3),
        ("hour FROM '{0}/senders.txt' BY sid", [(1, 2), (2, 1), (3, 2), (4, 2)], ["S1 1", "S3 9", "S1 3"], 3),
    ],
)  # fmt: skip
def test_the_same_for_every_slicing(
    folder: Path, clause: str, results: list[tuple[int, int]], rejects: list[str], early: int
) -> None:
    for size in (1, 60, 10**6):
        output = run(folder, clause.format(folder), size)
        assert sorted(output[0]) == results
        assert sorted(output[1]) == sorted(rejects)
    assert run(folder, clause.format(folder), 1)[2] >= early


def test_punctuate_runs_on_one_shard_in_document_order(folder: Path) -> None:
    parts = cut_plan(plan(sql(folder, "hour")).root, ["t"])
    assert [f.single for f in parts.fragments] == [True, False]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("hours", "no column hours in t"),
        ("hour SLACK -1", "0 or more"),
        ("sid SLACK 1", "STRING"),
        ("at SLACK 5", "INTERVAL"),
        ("day SLACK INTERVAL '5' MINUTE", "in DAY"),
        ("hour FROM 'no-such-file' BY sid", "cannot read no-such-file"),
        ("hour FROM '{0}/senders.txt' BY zid", "no column zid"),
        ("hour FROM '{0}/senders.txt' BY hour", "'S1' is not of type INT"),
        ("hour FROM '{0}/senders.txt'", "BY"),
        ("hour SLACK 2 MORE", "ends here"),
    ],
)
def test_refused(folder: Path, clause: str, message: str) -> None:
    columns = "sid STRING, hour INT NOT NULL, day DATE, at TIMESTAMP"
    with pytest.raises((SqlError, UsageError), match=message):
        plan(sql(folder, clause.format(folder), columns))


def test_slack_over_time_is_an_interval(folder: Path) -> None:
    columns = "sid STRING, hour INT NOT NULL, day DATE, at TIMESTAMP"
    (stream,) = plan(sql(folder, "at SLACK INTERVAL '5' MINUTE", columns)).streams
    assert stream.order is not None
    assert stream.order.slack == 300 * 10**6


@pytest.mark.parametrize(
    ("clause", "jumps"),
    [
        ("PUNCTUATE ORDER BY at AHEAD INTERVAL '1' DAY", (86_400 * 10**6, 3)),
        (
            "PUNCTUATE ORDER BY at SLACK INTERVAL '5' MINUTE AHEAD INTERVAL '1' HOUR AFTER 5",
            (3600 * 10**6, 5),
        ),
        ("PUNCTUATE ORDER BY day AHEAD 7 AFTER 2", (7, 2)),
        ("PUNCTUATE ORDER BY price AHEAD 1.5", (15, 3)),
    ],
)
def test_ahead_in_each_type(clause: str, jumps: tuple[float, int]) -> None:
    columns = "at TIMESTAMP, day DATE, price DECIMAL(9,1)"
    (stream,) = plan(f"CREATE STREAM t ({columns}) WITH (source = '-') {clause}; SELECT * FROM t").streams
    assert stream.order is not None
    assert (stream.order.ahead, stream.order.after) == jumps


def test_a_watermark_has_ahead_as_well() -> None:
    watermark = "WATERMARK FOR at AS at - INTERVAL '5' SECOND AHEAD INTERVAL '1' DAY AFTER 4"
    query = plan(f"CREATE STREAM t (at TIMESTAMP, {watermark}) WITH (source = '-'); SELECT * FROM t")
    (stream,) = query.streams
    assert stream.order == AccessOrder("at", 5 * 10**6, watermark=True, ahead=86_400 * 10**6, after=4)
    (node,) = query.root.find(Punctuate)
    assert node.parameters == "by t.at, watermark t.at - 5 SECOND, ahead 1 DAY after 4"
    assert node.unblocked_by.startswith(
        "a tuple more than 1 DAY ahead is held until its sender sends a nearer one"
    )
