"""What is certain of a run of the local engine, so that another can take its place.

Slices go by groups. Before anybody can see what a group gives, the log says, durably, where its slices were
read and what they gave; so a run that is killed leaves nothing in its output that the log does not tell how to
make again. Now and then the state is saved, which takes the place of the log before it. Whoever continues takes
that state, reads the slices of the log once more, in their order, and with them writes the same bytes again.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from xmlpunct.base.errors import Reject, SourceError, StrictError, XmlPunctError
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint, Found
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.inputs.ranges import Cursor
from xmlpunct.engine.run.inputs.segments import READ_AT_ONCE
from xmlpunct.engine.run.local.portion import Portion
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.reject_log import log_notices
from xmlpunct.engine.run.sink import Sink, tell_complete

GROUP_SECONDS = 0.05
"""How often results are committed while there is more to read. Syncs are what that costs (`benchmarks/latency.py`)."""
SAVE_SECONDS, SAVE_SHARE = 5.0, 0.05
"""The state is saved so often, and less often where saving would take a larger share of the time."""
RELEASE_BYTES = READ_AT_ONCE // 2
"""After so many bytes of spools the state is saved too: only then are they released."""
_log = logging.getLogger("xmlpunct")


class Ledger:
    """Takes what is read to the output and, where there is a checkpoint, keeps account of it there.

    Without one, each slice is made visible by itself.
    """

    def __init__(
        self,
        running: LocalRun,
        sink: Sink,
        checkpoint: Checkpoint | None,
        found: Found | None,
        limit: RejectLimit | None = None,
    ) -> None:
        self._running, self._sink, self._checkpoint, self._limit = running, sink, checkpoint, limit
        self._excess: SourceError | None = None
        self._number = found.commit.batch if found is not None else -1
        self._places: list[Any] = []
        self._committed = self._saved = time.monotonic()
        self._cost = 0.0
        self._released = 0
        self._told = False
        self._held = 0  # the look at what is held that was put down last
        if found is not None and self._number >= 0:
            self._continue(found)
        else:
            self._number = 0
            self._save()  # from now on the outputs are this run's
            sink.check_last()
            sink.start()
            sink.flush()

    def take(self, portion: Portion, strict: bool = False) -> None:
        """Process what was read. With ``strict``, raises `StrictError` for a reject and what was overlooked."""
        results, unfit = self._sink.fitting(self._running.process(portion))
        rejects = sorted([*self._running.rejects, *unfit], key=Reject.place)
        self._running.rejects = []
        notices, self._running.notices = self._running.notices, []
        if self._limit is not None and self._excess is None:
            rejects, excess = self._limit.first(rejects, self._sink.stats.rejected)
            self._excess = excess or self._running.judge(portion, self._limit, rejects)
        self._sink.stats.rejected += len(rejects)
        if strict and rejects:
            self.commit()
            self._sink.rejects(rejects[:1])
            self._sink.flush()
            raise StrictError(f"--strict: {rejects[0]}")
        if strict and (failing := [notice for notice in notices if notice.fails]):
            self.commit()
            raise StrictError(f"--strict: {failing[0]}")
        log_notices(notices)
        self._sink.rejects(rejects)
        self._sink.write(results)
        if self._excess is None:
            self._sink.close(self._running.closed)
        if self._checkpoint is not None and portion.place is not None:
            self._places.append(portion.place)

    def check(self) -> None:
        """Raise `SourceError` if there are too many rejects by now."""
        if self._excess is not None:
            raise self._excess

    def commit_if_due(self) -> None:
        """Commit, if it is time to: always where nothing else is there to be read, or nothing is kept."""
        late = time.monotonic() - self._committed >= GROUP_SECONDS
        if self._checkpoint is None or late or not self._running.is_ready():
            self.commit()

    def commit(self) -> None:
        """Put down what was taken, then make it visible; save the state, if it is time to."""
        self._commit()
        due = self._committed - self._saved >= max(SAVE_SECONDS, self._cost / SAVE_SHARE)
        if due or self._running.spooled - self._released >= RELEASE_BYTES:
            self._save()

    def break_off(self) -> None:
        """Put down what was taken and make it visible, in the middle of a run.

        The state is not saved: more may have been read than was taken, and would be lost.
        """
        self._running.look()
        self._commit()

    def _commit(self) -> None:
        if self._checkpoint is not None and (self._places or self._sink.pending):
            self._number += 1
            slices = {"number": self._number, "places": self._places, "mark": self._sink.mark}
            self._checkpoint.put_down(slices | {"ended": self._sink.ended})
            self._places = []
        holding = self._sink.stats.holding
        if self._checkpoint is not None and self._held != holding.looked:
            self._checkpoint.put_down_held(holding.snapshot())
            self._held = holding.looked
        self._running.settle_said()
        self._sink.flush()
        self._committed = time.monotonic()
        if self._running.reads_on and not self._told:
            self._told = True
            tell_complete()
        if self._running.reads_on or not self._running.ended:
            self._sink.finish()

    def finish(self, failure: SourceError | None = None) -> None:
        """Commit all, for good: nothing is left to do, or, after a ``failure``, can be done."""
        if failure is None:
            self._sink.end()
        self._commit()
        self._sink.over()
        if self._checkpoint is not None:
            self._save(over=True, failure=failure)

    def _save(self, over: bool = False, failure: SourceError | None = None) -> None:
        """Save the state, if it is still of use, and drop what led there."""
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
            commit.held, self._held = sink.stats.holding.snapshot(), sink.stats.holding.looked
        sink.commit(commit)
        self._checkpoint.commit(commit)
        self._running.release()
        self._released = self._running.spooled
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def _continue(self, found: Found) -> None:
        """Do once more what was done since the state was saved."""
        assert self._checkpoint is not None
        commit, where = found.commit, self._checkpoint.path
        self._sink.stats.resume(commit.stats)
        self._sink.stats.holding.restore(commit.held)
        closed = [written.closed for written in commit.outputs]
        self._running.restore(commit.cursors, commit.operators, closed)
        self._released = self._running.spooled
        self._sink.start()
        self._sink.flush(more=bool(found.slices))
        for record in found.slices:
            self._number += 1
            if record["number"] != self._number:
                raise XmlPunctError(f"the checkpoint {where} is damaged: record {self._number} is missing")
            for number, place, *said in record["places"]:
                self.take(self._running.again(number, Cursor.from_json(place), *said))
            if record["ended"]:
                self._sink.end()
            if self._sink.mark != record["mark"]:
                raise XmlPunctError(
                    f"{where}: the same slices do not give the same output any more: "
                    "an input has changed, or the program has"
                )
            # Of all groups but the last it is certain that they were seen.
            self._sink.flush(more=record is not found.slices[-1])
        self._sink.check_last()
        self._places = []
        stats = self._sink.stats
        _log.warning("continuing after %s tuples, %s bytes", f"{stats.tuples_out:,}", f"{stats.bytes_out:,}")
