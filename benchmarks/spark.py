"""The warehouse query on Spark, steady state: xmlpunct against Spark's own streaming, with DISTINCT and without.

    python benchmarks/spark.py [--hours N] [--readings N] [--master URL] [--slice SIZE]

Spark's own is its xml source, a watermark, dropDuplicates and an aggregation. Starting takes long and is not what is
compared: each contender runs over some data and over three times as much, and its cost is what the rest of the data
took. Both run with two shards. Prints JSON; ``times_the_seconds`` says how many times as long Spark's own took.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import common

TARGETS = {"distinct": 5.0, "plain": 2.5}
GROWTH = 3
UNION_ALL = """
CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
SELECT MAX(currtmp) AS maxtemp, hour FROM
  (SELECT currtmp, hour FROM sensor1 UNION ALL SELECT currtmp, hour FROM sensor2)
GROUP BY hour;
"""


def folders(parent: Path, hours: int, readings: int, growth: int) -> dict[str, Path]:
    """A directory per sensor with ``growth`` files, each of as many hours as the first."""
    found = {}
    for sensor in ("sensor1", "sensor2"):
        folder = parent / f"spark-{hours}-{readings}-{growth}" / sensor
        found[sensor] = folder
        if folder.is_dir():
            continue
        whole = common.warehouse(parent, hours * growth, readings)[sensor]
        lines = whole.read_text().splitlines(keepends=True)
        head, body, tail = lines[0], lines[1:-1], lines[-1]
        each = len(body) // growth
        folder.mkdir(parents=True)
        for part in range(growth):
            text = "".join([head, *body[part * each : (part + 1) * each], tail])
            (folder / f"{part:03}.xml").write_text(text)
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.set_defaults(rounds=1)
    parser.add_argument("--hours", type=int, default=24, help="hours of the smaller run")
    parser.add_argument("--readings", type=int, default=1000, help="per minute and sensor")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--slice", help="input bytes per slice; without, they follow what there is to do")
    given = parser.parse_args()
    data = {n: folders(given.data, given.hours, given.readings, n) for n in (1, GROWTH)}
    queries = {"distinct": common.SAMPLES / "warehouse.sql", "plain": UNION_ALL}
    options = ["--engine", "spark", "--master", given.master]
    options += ["--slice", given.slice] if given.slice else []
    contenders: dict[str, common.Contender] = {}
    for n, sources in data.items():
        for kind, query in queries.items():
            contenders[f"xmlpunct {kind} {n}"] = lambda query=query, sources=sources: common.without_answer(
                common.engine(query, sources, *options, core=False)
            )
            contenders[f"spark {kind} {n}"] = lambda kind=kind, sources=sources: common.rival(
                "spark-warehouse", kind, given.master, *sources.values(), core=False
            )
    runs = common.in_turn(contenders, given.rounds)

    def steady(name: str) -> list[float]:
        pairs = zip(runs[f"{name} {GROWTH}"], runs[f"{name} 1"], strict=True)
        return [large.seconds - small.seconds for large, small in pairs]

    tuples = 2 * given.hours * 60 * given.readings * (GROWTH - 1)
    seconds = {f"{who} {kind}": steady(f"{who} {kind}") for who in ("xmlpunct", "spark") for kind in queries}
    times = {
        kind: round(
            statistics.median(
                theirs / ours
                for theirs, ours in zip(seconds[f"spark {kind}"], seconds[f"xmlpunct {kind}"], strict=True)
            ),
            3,
        )
        for kind in queries
    }
    figures = {
        name: {
            "seconds": round(statistics.median(found), 3),
            "tuples_per_second": round(tuples / statistics.median(found)),
            "whole_run_seconds": round(statistics.median(r.seconds for r in runs[f"{name} {GROWTH}"]), 3),
        }
        for name, found in seconds.items()
    }
    common.report({"tuples": tuples, "steady": figures, "times_the_seconds": times, "targets": TARGETS})
    common.plot(given.plot, lambda axes: common.bars(axes, figures))


if __name__ == "__main__":
    main()
