"""The latest moment of a run, for those who look at it from other threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.rates import Rates
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.moment import Moment, moment_of, plan_of

REFRESH_SECONDS = 0.25
"""A new moment is made no more often: nobody reads faster."""
ANSWER_SECONDS = 10.0
"""So long a question waits for the run to come to it: a large slice, or a micro-batch, goes first."""
T = TypeVar("T")


class View:
    """Takes the moments of a run from the thread that runs it, and gives them to others.

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
        self._plan, self._rates = plan_of(query), Rates()
        self._made = 0.0
        self._questions: deque[Callable[[RunStats], None]] = deque()
        self._changed = threading.Condition()
        self._number, self._latest = 0, moment_of(self._plan, RunStats(engine), "starting", Rates())

    @property
    def latest(self) -> Moment:
        """The run as it stood last."""
        with self._changed:
            return self._latest

    def ask(self, question: Callable[[RunStats], T], seconds: float = ANSWER_SECONDS) -> T:
        """Have the run's own thread answer a question, between two slices. Raises what that raises; TimeoutError."""
        asked: Future[T] = Future()

        def answer(stats: RunStats) -> None:
            if asked.set_running_or_notify_cancel():
                try:
                    asked.set_result(question(stats))
                except BaseException as error:
                    asked.set_exception(error)

        self._questions.append(answer)
        try:
            return asked.result(seconds)
        finally:
            asked.cancel()

    def show(self, stats: RunStats) -> bool:
        """Take note of where the run stands; whether it was time for that. It may be called for every slice."""
        while self._questions:
            self._questions.popleft()(stats)
        now = time.monotonic()
        if now - self._made < REFRESH_SECONDS:
            return False
        self._made = now
        self._take(moment_of(self._plan, stats, "running", self._rates))
        return True

    def finish(self, stats: RunStats, state: str) -> None:
        """Take note of how the run ended: ended, stopped or failed."""
        self._take(moment_of(self._plan, stats, state, self._rates))

    def after(self, number: int, seconds: float) -> tuple[int, Moment]:
        """A moment later than that of a ``number``, with its own; after some seconds, what there is."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number, seconds)
            return self._number, self._latest

    def _take(self, moment: Moment) -> None:
        with self._changed:
            self._number, self._latest = self._number + 1, moment
            self._changed.notify_all()
