"""The latest moment of a run, shared with other threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.moment import Moment, moment_of, plan_of
from xmlpunct.engine.view.trend import Trend

REFRESH_SECONDS = 0.25
"""Minimum time between two moments; people do not read faster."""
ANSWER_SECONDS = 10.0
"""Timeout of a question to the run, which first finishes its current slice or micro-batch."""
T = TypeVar("T")


class View:
    """Passes moments from the run's own thread to other threads.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan("CREATE STREAM s (x INT) WITH (source = 's.xml'); SELECT DISTINCT x FROM s")
    >>> view = View(query, "local")
    >>> view.latest.state, [box.name for box in view.latest.boxes]
    ('starting', ['scan', 'dupelim'])
    >>> view.show(RunStats("local"))
    True
    >>> view.latest.state
    'running'
    """

    def __init__(self, query: Query, engine: str) -> None:
        self.query = query
        self._plan, self._trend = plan_of(query), Trend()
        self._last_refresh = 0.0
        self._questions: deque[Callable[[RunStats], None]] = deque()
        self._changed = threading.Condition()
        self._number, self._latest = 0, moment_of(self._plan, RunStats(engine), "starting", Trend())

    @property
    def latest(self) -> Moment:
        """The latest moment."""
        with self._changed:
            return self._latest

    def ask(self, question: Callable[[RunStats], T], seconds: float = ANSWER_SECONDS) -> T:
        """Call ``question`` in the run's own thread between two slices. Raises its exceptions, or TimeoutError."""
        future: Future[T] = Future()

        def answer(stats: RunStats) -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(question(stats))
                except BaseException as error:
                    future.set_exception(error)

        self._questions.append(answer)
        try:
            return future.result(seconds)
        finally:
            future.cancel()

    def show(self, stats: RunStats) -> bool:
        """Answer questions, and publish a new moment if one is due; True if so. Called for every slice."""
        while self._questions:
            self._questions.popleft()(stats)
        timestamp = time.monotonic()
        if timestamp - self._last_refresh < REFRESH_SECONDS:
            return False
        self._last_refresh = timestamp
        self._publish(moment_of(self._plan, stats, "running", self._trend))
        return True

    def finish(self, stats: RunStats, state: str) -> None:
        """Publish the last moment, with the state ended, stopped or failed."""
        self._publish(moment_of(self._plan, stats, state, self._trend))

    def after(self, number: int, seconds: float) -> tuple[int, Moment]:
        """The first moment with a higher number, and its number; the latest moment after a timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number, seconds)
            return self._number, self._latest

    def _publish(self, moment: Moment) -> None:
        with self._changed:
            self._number, self._latest = self._number + 1, moment
            self._changed.notify_all()
