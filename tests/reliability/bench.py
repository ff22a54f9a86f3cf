"""A query small enough to be killed at every system call, with its sources, output and checkpoint."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.run.stop import Stop
from xmlpunct.engine.sql import plan

DECLARED = """CREATE STREAM a (x INT, hour INT NOT NULL) WITH (source = 'unset', element = 't');
CREATE STREAM b (x INT, hour INT NOT NULL) WITH (source = 'unset', element = 't');
"""
UNION = "SELECT hour, MAX(x) AS most FROM (SELECT x, hour FROM a UNION SELECT x, hour FROM b) GROUP BY hour"


def feed(seed: int, hours: int = 4) -> str:
    """A document of three tuples per hour, and a punctuation after each hour."""
    rng = random.Random(seed)
    lines = [f'<s xmlns:punct="{PUNCT_NAMESPACE}">']
    for hour in range(hours):
        lines += [f"<t><x>{rng.randrange(4)}</x><hour>{hour}</hour></t>" for _ in range(3)]
        lines.append(f"<punct:t><hour>{hour}</hour></punct:t>")
    return "\n".join([*lines, "</s>", ""])


class Bench:
    """A query over two small files, with its output and its checkpoint in one folder.

    Files that are not in UTF-8 are spooled.
    """

    def __init__(self, folder: Path, sql: str = UNION, encoding: str = "utf-8", **options: Any) -> None:
        self.sources = {name: folder / f"{name}.xml" for name in "ab"}
        for seed, path in enumerate(self.sources.values()):
            path.write_text(feed(seed), encoding=encoding)
        self.out, self.rejects, self.checkpoint = (folder / n for n in ("out.xml", "rejects", "checkpoint"))
        self.sql = DECLARED + sql
        self.options = RunOptions(
            output=str(self.out),
            rejects=str(self.rejects),
            checkpoint=str(self.checkpoint),
            **{"slice_bytes": 200, **options},
        )

    def run(self, stop: Stop | None = None) -> RunStats:
        """Start the run, or continue it from its checkpoint."""
        stats = RunStats("local")
        planned = plan(self.sql, {n: str(p) for n, p in self.sources.items()})
        local.run(planned, self.options, stats, stop=stop)
        return stats

    def seen(self) -> tuple[bytes, bytes]:
        """The output and the rejects file as they are on disk now."""
        contents = [path.read_bytes() if path.exists() else b"" for path in (self.out, self.rejects)]
        return contents[0], contents[1]

    def clear(self) -> None:
        """Remove the checkpoint, the output and the rejects file."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        self.out.unlink(missing_ok=True)
        self.rejects.unlink(missing_ok=True)
