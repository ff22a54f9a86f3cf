"""Commits of the local engine, from which another process can continue the run.

Slices are committed in groups. The log records the input positions and the output checksum of a group durably before
the output of the group becomes visible. So the log can reproduce all output of a killed run. From time to time the
state is saved, which replaces the log before it. A restarted run restores the state, rereads the slices of the log in
their order, and writes the same bytes.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from xmlpunct.base.errors import Reject, SourceError, XmlPunctError
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint, RestoredRun
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.inputs.segments import READ_AT_ONCE
from xmlpunct.engine.run.local.portion import Portion
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.sink import RunSink
from xmlpunct.firehose.position import Cursor

GROUP_SECONDS = 0.05
"""Commit interval while input is available; each commit costs a sync (`benchmarks/latency.py`)."""
SAVE_SECONDS, SAVE_SHARE = 5.0, 0.05
"""Interval of saving the state in seconds; it grows if saving takes a larger share of the time."""
RELEASE_BYTES = READ_AT_ONCE // 2
"""The state is also saved after this many spooled bytes, because only a save releases them."""
_log = logging.getLogger("xmlpunct")


class Ledger:
    """Processes portions, writes their results, and commits them to the checkpoint.

    Without a checkpoint, the results of each slice become visible at once.
    """

    def __init__(
        self,
        running: LocalRun,
        sink: RunSink,
        checkpoint: Checkpoint | None,
        restored: RestoredRun | None,
    ) -> None:
        self._running, self._sink, self._checkpoint = running, sink, checkpoint
        self._number = restored.commit.batch if restored is not None else -1
        self._positions: list[Any] = []
        self._committed = self._saved = time.monotonic()
        self._cost = 0.0
        self._released = 0
        self._holding_version = 0  # the last version of `Holding` in the log
        if restored is not None and self._number >= 0:
            self._continue(restored)
        else:
            self._number = 0
            self._save()  # claims the outputs for this run
            sink.check_last()
            sink.start()
            sink.flush()

    def take(self, portion: Portion) -> None:
        """Process a portion. Raises `StrictError`: see `RunSink.report`."""
        results, unfit = self._sink.fitting(self._running.process(portion))
        rejects = sorted([*self._running.rejects, *unfit], key=Reject.place)
        self._running.rejects = []
        notices, self._running.notices = self._running.notices, []
        if self._sink.ends_run(rejects, notices):
            self.commit()
        self._sink.report(rejects, notices, partial(self._running.judge, portion))
        self._sink.write(results)
        if self._sink.excess is None:
            self._sink.close(self._running.closed)
        if self._checkpoint is not None and portion.position is not None:
            self._positions.append(portion.position)

    def check(self) -> None:
        """Raise `SourceError` if the limit of rejects is exceeded."""
        if self._sink.excess is not None:
            raise self._sink.excess

    def commit_if_due(self) -> None:
        """Commit if the interval is over, no input is ready, or there is no checkpoint."""
        is_due = time.monotonic() - self._committed >= GROUP_SECONDS
        if self._checkpoint is None or is_due or not self._running.is_ready():
            self.commit()

    def commit(self) -> None:
        """Log the processed slices, then make their results visible; save the state if it is due."""
        self._commit()
        due = self._committed - self._saved >= max(SAVE_SECONDS, self._cost / SAVE_SHARE)
        if due or self._running.spooled - self._released >= RELEASE_BYTES:
            self._save()

    def break_off(self) -> None:
        """Log the processed slices and make their results visible, when a run is interrupted.

        The state is not saved: the readers may be ahead of the processed slices, and input would be lost. Without a
        checkpoint no run continues, so that all results must appear now.
        """
        self._running.look()
        self._commit()
        if self._checkpoint is None:
            self._sink.break_off()

    def _commit(self) -> None:
        if self._checkpoint is not None and (self._positions or self._sink.pending):
            self._number += 1
            slices = {"number": self._number, "places": self._positions, "mark": self._sink.mark}
            self._checkpoint.put_down(slices | {"ended": self._sink.ended})
            self._positions = []
        holding = self._sink.stats.holding
        if self._checkpoint is not None and self._holding_version != holding.looked:
            self._checkpoint.put_down_held(holding.snapshot())
            self._holding_version = holding.looked
        self._running.settle_said()
        self._sink.flush()
        self._committed = time.monotonic()
        if self._running.reads_on:
            self._sink.announce_complete()
        if self._running.reads_on or not self._running.ended:
            self._sink.finish()

    def finish(self, failure: SourceError | None = None) -> None:
        """Commit the end of the run, or its ``failure``."""
        if failure is None:
            self._sink.end()
        self._commit()
        self._sink.over()
        if self._checkpoint is not None:
            self._save(over=True, failure=failure)

    def _save(self, over: bool = False, failure: SourceError | None = None) -> None:
        """Save the state, unless the run is over, and drop the log before it."""
        if self._checkpoint is None:
            return
        began = time.monotonic()
        sink = self._sink
        commit = Commit(self._number, stats=sink.stats.saved())
        if over:
            commit.ended = failure is None
            commit.failure = None if failure is None else list(failure.__reduce__()[1])
        else:
            commit.cursors, commit.operators = self._running.snapshot()
            commit.output = sink.snapshot()
        if not commit.ended:
            self._running.look()
            commit.held, self._holding_version = sink.stats.holding.snapshot(), sink.stats.holding.looked
        sink.commit(commit)
        self._checkpoint.commit(commit)
        self._running.release()
        self._released = self._running.spooled
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def _continue(self, restored: RestoredRun) -> None:
        """Restore the saved state, and repeat the slices since then."""
        assert self._checkpoint is not None
        commit, path = restored.commit, self._checkpoint.path
        self._sink.stats.resume(commit.stats)
        self._sink.stats.holding.restore(commit.held)
        closed = [written.closed for written in commit.outputs]
        self._running.restore(commit.cursors, commit.operators, closed)
        self._released = self._running.spooled
        self._sink.start()
        self._sink.flush(more=bool(restored.slices))
        for record in restored.slices:
            self._number += 1
            if record["number"] != self._number:
                raise XmlPunctError(f"the checkpoint {path} is damaged: record {self._number} is missing")
            for number, cursor, *injected in record["places"]:
                self.take(self._running.reread(number, Cursor.from_json(cursor), *injected))
            if record["ended"]:
                self._sink.end()
            if self._sink.mark != record["mark"]:
                raise XmlPunctError(
                    f"{path}: the same slices no longer give the same output: "
                    "an input or the program has changed"
                )
            # All groups but the last were certainly visible.
            self._sink.flush(more=record is not restored.slices[-1])
        self._sink.check_last()
        self._positions = []
        stats = self._sink.stats
        _log.warning("continuing after %s tuples, %s bytes", f"{stats.tuples_out:,}", f"{stats.bytes_out:,}")
