"""The warehouse query on Spark, steady state: xmlpunct against Spark's own streaming, with DISTINCT and without.

    python benchmarks/spark.py [--hours N] [--readings N] [--files N] [--master URL] [--slice SIZE] [--only WHAT]...

Spark's own is its xml source, a watermark, dropDuplicates and an aggregation. Starting takes long and is not what is
compared: each contender runs over some data and over three times as much, and its cost is what the rest of the data
took. Each stream is a directory of files, or one large file. Both run with two shards; xmlpunct's local engine runs
beside them, on the same cores. Prints JSON; ``times_the_seconds`` says how many times as long Spark's own took, and
``share_of_local`` how fast the Spark engine is, of what the local one is.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import common

TARGETS = {"distinct": 8.0, "plain": 4.0, "share of local": 0.7}
SHAPES = ("files", "one")
GROWTH = 3
UNION_ALL = """
CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (element = 'tempdata');
SELECT MAX(currtmp) AS maxtemp, hour FROM
  (SELECT currtmp, hour FROM sensor1 UNION ALL SELECT currtmp, hour FROM sensor2)
GROUP BY hour;
"""


def folders(parent: Path, hours: int, readings: int, files: int) -> dict[str, Path]:
    """A directory per sensor with so many files, about as large as each other."""
    found = {}
    for sensor in ("sensor1", "sensor2"):
        folder = parent / f"spark-{hours}-{readings}-{files}" / sensor
        found[sensor] = folder
        if folder.is_dir():
            continue
        whole = common.warehouse(parent, hours, readings)[sensor]
        lines = whole.read_text().splitlines(keepends=True)
        head, body, tail = lines[0], lines[1:-1], lines[-1]
        each = -(-len(body) // files)
        folder.mkdir(parents=True)
        for part in range(files):
            text = "".join([head, *body[part * each : (part + 1) * each], tail])
            (folder / f"{part:03}.xml").write_text(text)
    return found


def steady(runs: dict[str, list[common.Run]], name: str) -> list[float]:
    """The seconds that the rest of the data took, by round."""
    pairs = zip(runs[f"{name} {GROWTH}"], runs[f"{name} 1"], strict=True)
    return [large.seconds - small.seconds for large, small in pairs]


def ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    """How many times as long one took as another, in the same round."""
    return round(statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True)), 3)


def main() -> None:
    parser = common.parser(__doc__)
    parser.set_defaults(rounds=1)
    parser.add_argument("--hours", type=int, default=30, help="hours of the smaller run")
    parser.add_argument("--readings", type=int, default=1000, help="per minute and sensor")
    parser.add_argument("--files", type=int, default=13, help="files of a stream in the smaller run")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--slice", help="input bytes per slice; without, they follow what there is to do")
    parser.add_argument("--only", action="append", help="a part of the contenders' names: run no others")
    given = parser.parse_args()
    queries = {"distinct": common.SAMPLES / "warehouse.sql", "plain": UNION_ALL}
    slices = ["--slice", given.slice] if given.slice else []
    spark = ["--engine", "spark", "--master", given.master, *slices]
    contenders: dict[str, common.Contender] = {}
    for n in (1, GROWTH):
        for shape in SHAPES:
            files = given.files * n if shape == "files" else 1
            sources = folders(given.data, given.hours * n, given.readings, files)
            for kind, query in queries.items():
                for who, options in (("xmlpunct", spark), ("local", ["--engine", "local", *slices])):
                    contenders[f"{who} {kind} {shape} {n}"] = (
                        lambda query=query, sources=sources, options=options: common.without_answer(
                            common.engine(query, sources, *options, core=False)
                        )
                    )
                contenders[f"spark {kind} {shape} {n}"] = lambda kind=kind, sources=sources: common.rival(
                    "spark-warehouse", kind, given.master, *sources.values(), core=False
                )
    wanted = {n: c for n, c in contenders.items() if not given.only or any(o in n for o in given.only)}
    runs = common.in_turn(wanted, given.rounds)
    seconds = {name: steady(runs, name) for name in dict.fromkeys(n.rpartition(" ")[0] for n in runs)}
    cases = [
        f"{kind} {shape}" for kind in queries for shape in SHAPES if f"xmlpunct {kind} {shape}" in seconds
    ]
    times = {
        case: ratio(seconds, f"spark {case}", f"xmlpunct {case}")
        for case in cases
        if f"spark {case}" in seconds
    }
    share = {
        case: ratio(seconds, f"local {case}", f"xmlpunct {case}")
        for case in cases
        if f"local {case}" in seconds
    }
    tuples = 2 * given.hours * 60 * given.readings * (GROWTH - 1)
    figures = {
        name: {
            "seconds": round(statistics.median(found), 3),
            "tuples_per_second": round(tuples / statistics.median(found)),
            "whole_run_seconds": round(statistics.median(r.seconds for r in runs[f"{name} {GROWTH}"]), 3),
            "cpu_seconds": round(
                statistics.median(r.cpu for r in runs[f"{name} {GROWTH}"])
                - statistics.median(r.cpu for r in runs[f"{name} 1"]),
                3,
            ),
        }
        for name, found in seconds.items()
    }
    common.report(
        {
            "tuples": tuples,
            "steady": figures,
            "times_the_seconds": times,
            "share_of_local": share,
            "targets": TARGETS,
        }
    )
    common.plot(given.plot, lambda axes: common.bars(axes, figures))


if __name__ == "__main__":
    main()
