"""Reading ahead of the operators, in several threads, with the same result.

The parts of a slice's way from bytes to columns that need order (reading, and cutting) are done by one thread at a
time for each input; parsing is done by all, and what operators do tuple by tuple. What comes of it is taken in the
order in which it was cut. The thread that runs the operators is one of them: where it has to wait for an input it does
what the others have not begun.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.reader import Cuts, InputReader, Standing
from xmlpunct.firehose import StreamSpec
from xmlpunct.firehose.builder import Parsed
from xmlpunct.operators.driver import Precomputed

_JOIN_SECONDS = 1.0
"""How long the end of a run waits for a thread that still reads: one that hangs in a connection keeps nobody."""

Task = Callable[[], None]
Further = Callable[[Parsed], Sequence[Precomputed]]
"""What else is done of what was parsed: for each of its streams."""
Found = tuple[Parsed, Standing, Sequence[Precomputed]] | BaseException | None
"""What was read ahead: nothing at the end of an input."""


class Helpers:
    """Threads that read, beside the one that waits for what they have read: ``threads`` in all.

    >>> helpers, found = Helpers(2), []
    >>> helpers.do(partial(found.append, 1))
    >>> helpers.wait(lambda: found)
    >>> found, helpers.close()
    ([1], None)
    """

    def __init__(self, threads: int) -> None:
        self.changed = threading.Condition()
        """Notified of all that they have done."""
        self._count, self._threads = threads - 1, list[threading.Thread]()
        self._tasks: deque[Task] = deque()
        self._idle, self._closed = 0, False
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Whether this process is the one whose threads they are. A fork has neither them nor their locks."""
        return self._process == os.getpid()

    @property
    def count(self) -> int:
        """How many threads read, the one that waits among them."""
        return self._count + 1 if self.here else 1

    def do(self, task: Task) -> None:
        """Have a task done, by whoever is free. It must not raise anything but what interrupts this thread."""
        with self.changed:
            self._tasks.append(task)
            if len(self._tasks) > self._idle and len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name="read ahead", daemon=True)
                self._threads.append(thread)
                thread.start()
            self.changed.notify_all()

    def wait(self, is_done: Callable[[], object]) -> None:
        """Come back when something is done, and do meanwhile what nobody has begun."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: is_done() or self._tasks)
                if is_done():
                    return
                task = self._tasks.popleft()
            task()

    def close(self) -> None:
        """Begin nothing more, and come back when nothing is being done."""
        if not self.here:
            return
        with self.changed:
            self._closed = True
            self._tasks.clear()
            self.changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():  # collecting what somebody left
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


class AheadReader(InputReader):
    """An `InputReader` that can be told to `begin` what is going to be read. It gives the same, in the same order.

    With ``spread`` cutting leaves to parsing all that it can: more work in all, and more of it for several threads.
    ``precompute`` runs stateless operators on the slices that are read ahead; ``precomputed`` has their results for the
    last slice returned by `read`.
    """

    def __init__(
        self,
        given: Source | Input,
        specs: Sequence[StreamSpec],
        punct_namespace: str,
        bell: threading.Condition,
        alone: bool,
        helpers: Helpers,
        spread: bool,
        precompute: Further,
    ) -> None:
        super().__init__(given, specs, punct_namespace, bell, alone)
        self._helpers, self.parses_ahead, self._precompute = helpers, not spread, precompute
        self.precomputed: Sequence[Precomputed] = ()
        self._sizes: deque[int] = deque()  # of what is to be cut next
        self._cutting = False
        self._cuts = self._taken = 0  # how many were cut, and how many of them were taken
        self._found: dict[int, Found] = {}

    @property
    def begun(self) -> int:
        """How many slices have begun to be read, and were not taken."""
        if not self._helpers.here:
            return 0
        with self._helpers.changed:
            return self._cuts - self._taken + len(self._sizes) + self._cutting

    def begin(self, size: int) -> None:
        """Begin to read a slice of about ``size`` bytes, behind those that have begun. It must not have to wait."""
        with self._helpers.changed:
            self._sizes.append(size)
        self._go_on_cutting()

    def read(self, size: int) -> Parsed | None:
        """As `InputReader.read` has it: what was begun first, or if nothing was, what there is."""
        self.precomputed = ()
        if not self.begun:
            return super().read(size)
        number = self._taken
        self._helpers.wait(lambda: number in self._found)
        found = self._found.pop(number)
        self._taken += 1
        if isinstance(found, BaseException):
            raise found
        if found is not None and found[0].error is not None:
            self._sizes.clear()
            self._helpers.wait(lambda: not self._cutting)
        if found is None:
            return None
        parsed, at, self.precomputed = found
        return self.take(parsed, at)

    def is_ready(self) -> bool:
        """Whether `read` would not have to wait for anyone but those who read ahead."""
        return self.begun > 0 or super().is_ready()

    @property
    def silent(self) -> float:
        """For how many seconds nothing has come of a part that may grow; 0 for all else."""
        return 0.0 if self.begun else super().silent

    def _go_on_cutting(self) -> None:
        with self._helpers.changed:
            if self._cutting or not self._sizes:
                return
            self._cutting = True
            size = self._sizes.popleft()
        self._helpers.do(partial(self._cut_and_parse, size))

    def _cut_and_parse(self, size: int) -> None:
        cuts: Cuts | None = None
        found: Found = None
        try:
            cuts = self.cut_some(size)
        except BaseException as error:  # whatever it is, it is for the one that takes it
            found = error
        with self._helpers.changed:
            number = self._cuts
            self._cuts, self._cutting = number + 1, False
        self._go_on_cutting()
        try:
            if cuts is not None:
                parsed, at = self.parse_all(cuts)
                found = parsed, at, ()
                with suppress(Exception):  # it is met again when it is the slice's turn
                    found = parsed, at, self._precompute(parsed)
        except BaseException as error:
            found = error
        with self._helpers.changed:
            self._found[number] = found
            self._helpers.changed.notify_all()
        if isinstance(found, KeyboardInterrupt):
            raise found
