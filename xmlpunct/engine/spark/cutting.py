"""Large files are cut before a run reads them, by all cores: then the process that plans need not look at them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext

from xmlpunct.engine.run.inputs.cuts import PIECE_BYTES, Scanned, Span, find_cuts, scan
from xmlpunct.engine.run.inputs.uncut import save, saved
from xmlpunct.engine.spark.job import Job

LARGE_BYTES = 128 * 2**20
"""What is no larger, a task reads as one: see `xmlpunct.engine.spark.spark_source.MOST_BYTES`."""

TASKS = 4
"""How many tasks a core gets: several, so that all end at about the same time; few, since each has its own cost."""


def cut_large_files(context: SparkContext, job: Job) -> None:
    """Find the cuts of the files of a job that are larger than what a task reads, unless they were found before.

    Left to the process that plans are files whose tuples have something of the elements beside them, and all of them
    where slices are to be small.
    """
    path = Path(job.cuts)
    if (job.slice_bytes is not None and job.slice_bytes < PIECE_BYTES) or saved(path) is not None:
        return

    def scan_all(spans: Sequence[Span]) -> Sequence[Scanned]:
        tasks = min(len(spans), TASKS * context.defaultParallelism)
        found: list[Scanned] = context.parallelize(spans, tasks).map(scan).collect()
        return found

    large = [
        (number, i, part)
        for number, given in enumerate(job.inputs)
        for i, part in enumerate(given.parts)
        if not part.spooled
        and (part.size or 0) > LARGE_BYTES
        and not any(spec.said for spec in job.specs(number))
    ]
    if large:
        found = find_cuts([(part, job.elements(number)) for number, _, part in large], scan_all)
        save(path, {(number, i): pieces for (number, i, _), pieces in zip(large, found, strict=True)})
