"""Threads that run tasks beside the thread that waits for their results."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

_JOIN_SECONDS = 1.0
"""Maximal time to wait at the end of a run for a thread that hangs in a connection."""

Task = Callable[[], None]


class HelperThreads:
    """``threads`` threads in all: one waits for results, and meanwhile runs tasks, too.

    >>> helpers, results = HelperThreads(2), []
    >>> helpers.do(lambda: results.append(1))
    >>> helpers.wait(lambda: results)
    >>> results, helpers.close()
    ([1], None)
    """

    def __init__(self, threads: int) -> None:
        self.changed = threading.Condition()
        """Notified of each result."""
        self._count, self._threads = threads - 1, list[threading.Thread]()
        self._tasks: deque[Task] = deque()
        self._idle, self._closed = 0, False
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """True in the process that created them. A fork has neither the threads nor their locks."""
        return self._process == os.getpid()

    @property
    def count(self) -> int:
        """The number of threads, including the one that waits."""
        return self._count + 1 if self.here else 1

    def do(self, task: Task) -> None:
        """Run a task in any thread. It must raise nothing but KeyboardInterrupt."""
        with self.changed:
            self._tasks.append(task)
            if len(self._tasks) > self._idle and len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name="read ahead", daemon=True)
                self._threads.append(thread)
                thread.start()
            self.changed.notify_all()

    def wait(self, is_done: Callable[[], object]) -> None:
        """Return when ``is_done`` holds; meanwhile, run the tasks that no thread has begun."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: is_done() or self._tasks)
                if is_done():
                    return
                task = self._tasks.popleft()
            task()

    def close(self) -> None:
        """Drop the tasks that have not begun, and wait for the others."""
        if not self.here:
            return
        with self.changed:
            self._closed = True
            self._tasks.clear()
            self.changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():  # garbage collection of helpers left open
                thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        while True:
            with self.changed:
                self._idle += 1
                self.changed.wait_for(lambda: self._tasks or self._closed)
                self._idle -= 1
                if self._closed:
                    return
                task = self._tasks.popleft()
            task()
