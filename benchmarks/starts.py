"""The two programs of ``start.py``, which tell how they spend their time.

    python benchmarks/starts.py spark | xmlpunct MASTER FOLDER BATCHES

FOLDER gets ``said.json``: the seconds of each stage, by name, and those of each micro-batch behind the first.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

BEGAN = time.monotonic()


class Stages:
    """What passes between marks, by the name of the mark that ends it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.later: list[float] = []
        self._last = BEGAN

    def mark(self, name: str) -> None:
        """Here ends a stage; a name that comes again adds to it."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now

    def before(self, owner: Any, function: str, name: str) -> None:
        """Let a stage end whenever a function is called."""
        self._patch(owner, function, name, first=True)

    def after(self, owner: Any, function: str, name: str) -> None:
        """Let a stage end whenever a function returns."""
        self._patch(owner, function, name, first=False)

    def _patch(self, owner: Any, function: str, name: str, first: bool) -> None:
        plain: Callable[..., Any] = getattr(owner, function)

        def patched(*values: Any, **named: Any) -> Any:
            if first:
                self.mark(name)
            found = plain(*values, **named)
            if not first:
                self.mark(name)
            return found

        setattr(owner, function, patched)


def spark(master: str, folder: Path, batches: int, stages: Stages) -> None:
    """An empty streaming query, as whoever uses Spark would write it."""
    from pyspark.sql import SparkSession

    stages.mark("import")
    (folder / "in").mkdir()
    for number in range(batches):
        (folder / "in" / f"{number}.txt").write_text("one\n")
    session = (
        SparkSession.builder.master(master).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    stages.mark("Java and session")
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))
    writer = lines.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    stages.mark("query")
    query.awaitTermination()
    stages.mark("micro-batches")
    stages.later = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress[1:]]
    process = session.sparkContext._gateway.proc
    session.stop()
    process.stdin.close()  # as Python's end does; what Java computed counts
    process.wait()
    stages.mark("stop")


def xmlpunct(master: str, folder: Path, batches: int, stages: Stages) -> None:
    """The first command of the README."""
    from pyspark.sql.streaming import StreamingQuery

    from xmlpunct.cli import main
    from xmlpunct.engine.spark import runner, spark_session
    from xmlpunct.engine.spark.spark_sink import MicroBatchSink

    stages.mark("import")
    stages.before(spark_session, "java_home", "plan")
    stages.after(spark_session, "launch_gateway", "Java")
    stages.after(spark_session, "SparkSession", "session")
    stages.after(runner, "stages", "query")
    stages.after(MicroBatchSink, "take", "micro-batches")
    stop = StreamingQuery.stop

    def stopped(query: StreamingQuery) -> None:
        stages.later = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress[1:]]
        stop(query)

    StreamingQuery.stop = stopped
    warehouse = Path(__file__).parent.parent / "samples" / "warehouse.sql"
    feeds = [f"{name}={warehouse.parent / name}.xml" for name in ("sensor1", "sensor2")]
    sources = [word for feed in feeds for word in ("-s", feed)]
    slices = ["--slice", "256"] if batches > 1 else []
    with suppress(SystemExit):
        main(["run", str(warehouse), *sources, "--master", master, "-o", str(folder / "out.xml"), *slices])
    stages.mark("stop")
    assert (folder / "out.xml").read_text().endswith("</stream>\n"), "it did not run to its end"


def start() -> None:
    name, master, folder, batches = sys.argv[1:]
    stages = Stages()
    {"spark": spark, "xmlpunct": xmlpunct}[name](master, Path(folder), int(batches), stages)
    Path(folder, "said.json").write_text(json.dumps({"stages": stages.seconds, "later": stages.later}))


if __name__ == "__main__":
    start()
