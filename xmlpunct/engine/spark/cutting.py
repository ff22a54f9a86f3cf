"""Cuts large files before a run reads them, on all cores, so that the planning process need not scan them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext

from xmlpunct.engine.run.inputs.cuts import PIECE_BYTES, Scanned, Span, find_cuts, scan
from xmlpunct.engine.run.inputs.uncut import save, saved
from xmlpunct.engine.spark.job import Job

LARGE_BYTES = 128 * 2**20
"""One task reads a file up to this size: see `xmlpunct.engine.spark.spark_source.MOST_BYTES`."""

TASKS = 4
"""Tasks per core: several, so that all end at about the same time; few, because each has a fixed cost."""


def cut_large_files(context: SparkContext, job: Job) -> None:
    """Find the cuts of a job's files that are too large for one task, unless an earlier run has found them.

    Files whose tuples take values from other elements are left to the planning process, and so are all files if slices
    are small.
    """
    path = Path(job.cuts)
    if (job.slice_bytes is not None and job.slice_bytes < PIECE_BYTES) or saved(path) is not None:
        return

    def scan_all(spans: Sequence[Span]) -> Sequence[Scanned]:
        tasks = min(len(spans), TASKS * context.defaultParallelism)
        results: list[Scanned] = context.parallelize(spans, tasks).map(scan).collect()
        return results

    large = [
        (number, i, part)
        for number, input_ in enumerate(job.inputs)
        for i, part in enumerate(input_.parts)
        if not part.spooled
        and (part.size or 0) > LARGE_BYTES
        and not any(spec.said for spec in job.specs(number))
    ]
    if large:
        cuts = find_cuts([(part, job.elements(number)) for number, _, part in large], scan_all)
        save(path, {(number, i): pieces for (number, i, _), pieces in zip(large, cuts, strict=True)})
