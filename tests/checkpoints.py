"""Helpers that read and write the logs and spools of checkpoints."""

from __future__ import annotations

import threading
from pathlib import Path

from xmlpunct.engine.run.checkpoint.commit import COMMIT, Commit
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.inputs.segments import SpoolWriter, create, log_of, segment, segments


def committed(log: Path) -> Commit:
    """The commit that a log holds; a new one if it holds none."""
    records = [record for record in WriteAheadLog(log).read() if COMMIT in record]
    return Commit.from_record(records[-1]) if records else Commit()


class Keeping:
    """Stand-in for a checkpoint: writes commits to a log."""

    def __init__(self, log: Path) -> None:
        self._log = WriteAheadLog(log)

    def check(self) -> None:
        self._log.check()

    def commit(self, commit: Commit) -> None:
        self._log.replace(commit.to_record())


def take_back_end(spool: Path) -> None:
    """Remove the end record from the log of a spool."""
    log = log_of(spool)
    log.replace(*log.read()[:-1])


def spooled(spool: Path, data: bytes) -> None:
    """Replace the bytes of a spool. Its log is not changed."""
    if spool.exists() and spool.stat().st_size:
        for number in segments(spool):
            segment(spool, number).unlink()
    create(spool)
    with SpoolWriter(spool, threading.Event()) as out:
        out.append(data)
