"""Crash states of small runs on the simulated disk: ``python -m tests.reliability.power_loss 0 20000`` tries 20,000.

A state is a seed. It chooses an output, a call at which power is lost, calls that fail before, and which of the
unsynced changes survive. The run is then continued, and may lose power again. It ends with the exact output, or it is
refused and has not changed the output.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reliability.bench import Bench
from tests.reliability.disk import FAILURES, Disk
from tests.reliability.faults import Death
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.datasets import dataset
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.engine.run.local import ledger

SQL = "SELECT hour, 60 / x AS y FROM a UNION ALL SELECT hour, x FROM b"
KINDS = ("file", "spools", "parquet/", "arrow/ by hour", "csv/", "parquet")
"""Outputs: a file, a file of a run with spooled sources, directories, partitions, a single Parquet file."""


class State:
    """The crash state ``seed`` of a run in ``folder``."""

    def __init__(self, folder: Path, seed: int, expected: dict[str, Any]) -> None:
        self.folder, self.rng, self.expected = folder, random.Random(seed), expected
        self.kind = KINDS[seed % len(KINDS)]
        self.bench = bench(folder, self.kind)
        self.events: list[str] = []

    def run(self) -> str:
        """Try it; returns how it ended. Raises AssertionError with the events."""
        calls, losses = 400, self.rng.choice((1, 1, 1, 2, 3))
        for _ in range(losses):
            self._lose_power(calls)
            calls = 150
        before = contents(self.bench, self.kind)
        disk = Disk()
        try:
            with disk.watched():
                self.bench.run()
        except XmlPunctError as error:
            self.events.append(f"refused: {error}")
            assert contents(self.bench, self.kind) == before, self
            return "refused"
        disk.crash()  # all results of a finished run are durable
        assert contents(self.bench, self.kind) == self.expected[self.kind], self
        return "exact"

    def _lose_power(self, calls: int) -> None:
        rng, disk = self.rng, Disk()
        luck = rng.choice((0.0, 0.3, 0.5, 0.9))
        disk.forgets, disk.tears = lambda: rng.random() >= luck, rng.random() < 0.7
        first = rng.randrange(calls)
        if rng.random() < 0.4:
            disk.failures = dict.fromkeys(
                range(first, first + rng.choice((1, 1, 5, 1000))), rng.choice(FAILURES)
            )
        death = Death(rng.randrange(calls), torn=rng.random() < 0.5)
        try:
            with disk.watched(), death.awaited():
                self.bench.run()
        except (XmlPunctError, OSError) as error:
            self.events.append(f"the run ends: {error}")
        promised = disk.synced(self.bench.checkpoint / "log")
        self.events.append(f"{death if death.came else 'no death'}; failed: {disk.failed[:3]}; luck {luck}")
        disk.crash()
        if luck == 0.0 and not disk.tears:
            log = self.bench.checkpoint / "log"
            assert (log.read_bytes() if log.exists() else b"").startswith(promised), self

    def __repr__(self) -> str:
        return f"{self.kind}: {'; then '.join(self.events)}"


def bench(folder: Path, kind: str) -> Bench:
    """A run with an output of this kind."""
    encoding = "utf-16" if kind == "spools" else "utf-8"
    format_, _, rest = kind.partition("/")
    if kind in ("file", "spools"):
        return Bench(folder, SQL, encoding, slice_bytes=300)
    keys = ("hour",) if rest else ()
    made = Bench(folder, SQL, slice_bytes=300, format=format_, partition_by=keys)
    output = f"{folder}/out/" if "/" in kind else f"{folder}/out.{format_}"
    made.options = replace(made.options, output=output)
    return made


def contents(run: Bench, kind: str) -> Any:
    """What readers see of the outputs."""
    if kind in ("file", "spools"):
        return [sorted(part.splitlines()) for part in run.seen()]
    rejects = sorted(run.seen()[1].splitlines())
    paths = sorted(p for p in run.out.parent.glob("out*/**/part-*") if "_xmlpunct" not in p.parts)
    paths += [p for p in [Path(str(run.options.output))] if p.is_file()]
    read: dict[str, Any] = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "csv": pl.read_csv}
    options: dict[str, Any] = {"hive_partitioning": False} if kind.startswith("parquet") else {}
    format_ = run.options.format
    return rejects, {str(path): sorted(read[format_](path, **options).rows()) for path in paths}


def clear(folder: Path) -> None:
    """Remove the outputs and the checkpoint."""
    for path in folder.iterdir():
        if path.name not in ("a.xml", "b.xml"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def small_files() -> Iterator[None]:
    """Commit every slice, in small files, and copy spools in the thread that dies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "GROUP_SECONDS", 0.0)
        patch.setattr(ledger, "SAVE_SHARE", 1e9)
        patch.setattr(segments, "SEGMENT_BYTES", 512)
        patch.setattr(Spool, "start", Spool.run)
        patch.setattr(dataset, "FILE_BYTES", 200)
        yield


def try_states(folder: Path, seeds: Sequence[int]) -> Counter[str]:
    """Try crash states; the number of those that ended in each way."""
    ends = Counter[str]()
    with small_files():
        expected = {}
        for kind in KINDS:
            run = bench(folder, kind)
            run.run()
            expected[kind] = contents(run, kind)
            clear(folder)
        for seed in seeds:
            state = State(folder, seed, expected)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ledger, "SAVE_SECONDS", (0.0, 1e9)[seed // len(KINDS) % 2])
                try:
                    ends[f"{state.kind}: {state.run()}"] += 1
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}: {error}") from None
            clear(folder)
    return ends


def main(arguments: Sequence[str]) -> int:
    """``FIRST LAST``: try the crash states of these seeds, and print how they ended."""
    first, last = map(int, arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, suppress(BrokenPipeError):
        for end, count in sorted(try_states(Path(folder), range(first, last)).items()):
            print(f"{count:>7,} {end}")
    print(f"{last - first:,} crash states in {time.monotonic() - began:,.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
