"""Counts of the tasks of the first micro-batch, for the live page and ``/metrics`` until it is committed.

Each task that has read its ranges writes a small file into a folder of the checkpoint, and the driver sums the files.
A task that runs twice writes the same file twice. On a machine that does not share the folder, tasks write nothing.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from xmlpunct.engine.run.durable_files import private
from xmlpunct.engine.run.stats import InputStats


def write_counts(folder: Path, seq: int, counts: Mapping[str, InputStats]) -> None:
    """Write the counts of task ``seq`` by stream, if the folder exists."""
    with suppress(OSError), open(folder / str(seq), "w", opener=private) as file:
        json.dump({name: asdict(counted) for name, counted in counts.items()}, file)


def read_counts(folder: Path) -> dict[str, InputStats]:
    """The sums of all tasks by stream."""
    sums = defaultdict[str, InputStats](InputStats)
    for path in folder.glob("*"):
        with suppress(OSError, ValueError):  # a file that is being written
            for name, counted in json.loads(path.read_text()).items():
                sums[name].add(InputStats(**counted))
    return dict(sums)


def remove_counts(folder: Path) -> None:
    """Remove the folder: tasks of later micro-batches write nothing."""
    shutil.rmtree(folder, ignore_errors=True)
