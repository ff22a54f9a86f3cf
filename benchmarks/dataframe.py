"""What a result costs the driver that does not pass it: a query as a streaming data frame, written as Parquet, or a
run whose results go to a dataset.

    python benchmarks/dataframe.py [--dataset] [--rows 50000000] [--master local-cluster[2,1,1024]] [--heap 512m]

The result has as many rows as the feed, which is written first: DISTINCT over hours that are promised one after the
other, so that there is state, and little of it. Prints JSON: the rows written, whether they are those of the feed, the
seconds, what the driver's heap held when collected, at each quarter of the way and at the most, and what its Python
process computed and had resident at the most.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
PER_HOUR = 100_000
GLANCE_SECONDS = 5.0
QUARTERS = (0.25, 0.5, 0.75, 1.0)
SQL = """
CREATE STREAM readings (hour INT NOT NULL, id INT NOT NULL) WITH (element = 't');
SELECT DISTINCT hour, id FROM readings
"""


def write_feed(path: Path, rows: int) -> None:
    """A feed of so many rows, each hour promised when it is over."""
    with open(path, "w") as out:
        out.write('<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct">\n')
        for hour, first in enumerate(range(0, rows, PER_HOUR)):
            head = f"<t><hour>{hour}</hour><id>"
            ids = map(str, range(first, min(first + PER_HOUR, rows)))
            out.write(head + f"</id></t>\n{head}".join(ids) + "</id></t>\n")
            out.write(f"<p:t><hour>{hour}</hour></p:t>\n")
        out.write("</s>\n")


def session(master: str, heap: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.driver.memory": heap,
        "spark.executorEnv.PYTHONPATH": str(HERE.parent),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def held_mib(spark: Any) -> float:
    """What the driver's heap holds when all that can be is collected."""
    java = spark._jvm.java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


class Frame:
    """A query as a data frame, which Spark's own sink writes."""

    def __init__(self, spark: Any, feed: Path, folder: Path) -> None:
        import xmlpunct.spark

        frame = xmlpunct.spark.query(spark, SQL, readings=str(feed), shards=2)
        writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
        self._stream = (
            writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()
        )
        self._size = feed.stat().st_size

    @property
    def is_active(self) -> bool:
        if self._stream.exception() is not None:
            raise self._stream.exception()
        return bool(self._stream.isActive)

    @property
    def share(self) -> float:
        """How much of the feed has been read."""
        progress = self._stream.lastProgress
        if progress is None:
            return 0.0
        end = json.loads(progress["sources"][0]["endOffset"])["0"]
        return 1.0 if end["eos"] else float(end["position"]["byte"]) / self._size

    @property
    def micro_batches(self) -> int:
        return int(self._stream.lastProgress["batchId"]) + 1


class Dataset:
    """A run whose results go to a dataset, which tasks of its own write."""

    def __init__(self, spark: Any, feed: Path, folder: Path) -> None:
        from xmlpunct.engine.run.run_options import RunOptions
        from xmlpunct.engine.run.stats import RunStats
        from xmlpunct.engine.spark import run
        from xmlpunct.engine.sql import plan

        self._stats, self._size = RunStats("spark"), feed.stat().st_size
        options = RunOptions(output=f"{folder}/out/", format="parquet", checkpoint=str(folder / "ck"))
        planned = plan(SQL, {"readings": str(feed)})
        self._running = ThreadPoolExecutor(1).submit(run, planned, options, self._stats, session=spark)

    @property
    def is_active(self) -> bool:
        return not self._running.done() or self._running.result() is not None

    @property
    def share(self) -> float:
        """How much of the feed has been read."""
        return sum(given.bytes for given in self._stats.inputs.values()) / self._size

    @property
    def micro_batches(self) -> int:
        return self._stats.slices


def measure(rows: int, dataset: bool, master: str, heap: str, folder: Path) -> dict[str, Any]:
    """Write the result of so many rows."""
    feed = folder / "feed.xml"
    write_feed(feed, rows)
    spark = session(master, heap, folder)
    began, computed = time.monotonic(), time.process_time()
    try:
        running = (Dataset if dataset else Frame)(spark, feed, folder)
        known: list[tuple[float, float]] = []
        while running.is_active:
            time.sleep(GLANCE_SECONDS)
            known.append((running.share, held_mib(spark)))
        known.append((1.0, held_mib(spark)))
        seconds, computed = time.monotonic() - began, time.process_time() - computed
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = spark.read.parquet(str(folder / "out"))
        count, total, most = found.selectExpr("count(id)", "sum(id)", "max(id)").first()
        heap = {f"{at:.0%}": next(round(mib, 1) for share, mib in known if share >= at) for at in QUARTERS}
        return {
            "rows": rows,
            "written": count,
            "right": (count, total, most) == (rows, rows * (rows - 1) // 2, rows - 1),
            "feed_mib": round(feed.stat().st_size / 2**20),
            "micro_batches": running.micro_batches,
            "seconds": round(seconds, 1),
            "driver_heap_mib": heap | {"most": round(max(mib for _, mib in known), 1)},
            "driver_python": {"cpu_seconds": round(computed, 1), "peak_mib": round(resident)},
        }
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--heap", default="512m", help="the most that the driver's heap may hold")
    parser.add_argument("--dataset", action="store_true", help="write a dataset, and not a data frame")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.rows, given.dataset, given.master, given.heap, Path(folder))
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
