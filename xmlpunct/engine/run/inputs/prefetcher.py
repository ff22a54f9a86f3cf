"""Reads slices in advance in several threads, with the same results in the same order.

Reading and cutting need order, so one thread at a time does them for each source. Parsing, and stateless operators, run
in all threads. Slices are taken in the order of the cuts. The thread of the other operators is one of the threads:
while it waits for a slice, it runs tasks that no thread has begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from xmlpunct.engine.run.inputs.helper_threads import HelperThreads
from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.slice_reader import Cuts, ReadState, SliceReader
from xmlpunct.operators.driver import Precomputed

Precompute = Callable[[Parsed], Sequence[Precomputed]]
"""Runs stateless operators on a slice of each stream."""
Prefetched = tuple[Parsed, ReadState, Sequence[Precomputed]] | BaseException | None
"""A slice read in advance, or the exception that it raised; None at the end of the source."""


class Prefetcher:
    """Reads slices of a reader that `begin` started in advance, and otherwise the next slice.

    ``precomputed`` has the results of ``precompute`` for the last slice returned by `read`.
    """

    def __init__(self, reader: SliceReader, helpers: HelperThreads, precompute: Precompute) -> None:
        self._reader, self._helpers, self._precompute = reader, helpers, precompute
        self.precomputed: Sequence[Precomputed] = ()
        self._sizes: deque[int] = deque()  # of the slices to cut next
        self._cutting = False
        self._cuts = self._taken = 0  # numbers of slices
        self._results: dict[int, Prefetched] = {}

    @property
    def begun(self) -> int:
        """The number of slices that were begun and not taken."""
        if not self._helpers.here:
            return 0
        with self._helpers.changed:
            return self._cuts - self._taken + len(self._sizes) + self._cutting

    def begin(self, size: int) -> None:
        """Begin to read the slice of about ``size`` bytes that follows. It must not have to wait for a sender."""
        with self._helpers.changed:
            self._sizes.append(size)
        self._cut_next()

    def read(self, size: int) -> Parsed | None:
        """As `SliceReader.read`: the first slice that was begun, or if there is none, the next ``size`` bytes."""
        self.precomputed = ()
        if not self.begun:
            parsed = self._reader.read(size)
            return parsed and parsed.settle()
        number = self._taken
        self._helpers.wait(lambda: number in self._results)
        result = self._results.pop(number)
        self._taken += 1
        if isinstance(result, BaseException):
            raise result
        if result is not None and result[0].error is not None:
            self._sizes.clear()
            self._helpers.wait(lambda: not self._cutting)
        if result is None:
            return None
        parsed, state, self.precomputed = result
        return self._reader.take(parsed, state)

    def is_ready(self) -> bool:
        """True if `read` returns without waiting for a sender."""
        return self.begun > 0 or self._reader.is_ready()

    @property
    def silent(self) -> float:
        """The seconds since the last bytes of a live part came; 0 if there are bytes to read, or no part is open."""
        return 0.0 if self.begun else self._reader.cutter.silent

    def _cut_next(self) -> None:
        with self._helpers.changed:
            if self._cutting or not self._sizes:
                return
            self._cutting = True
            size = self._sizes.popleft()
        self._helpers.do(partial(self._cut_and_parse, size))

    def _cut_and_parse(self, size: int) -> None:
        cuts: Cuts | None = None
        result: Prefetched = None
        try:
            cuts = self._reader.cutter.cut(size)
        except BaseException as error:  # `read` raises it
            result = error
        with self._helpers.changed:
            number = self._cuts
            self._cuts, self._cutting = number + 1, False
        self._cut_next()
        try:
            if cuts is not None:
                parsed, state = self._reader.parse(cuts)
                result = parsed.settle(), state, ()
                with suppress(Exception):  # the operators will raise it in their order
                    result = parsed, state, self._precompute(parsed)
        except BaseException as error:
            result = error
        with self._helpers.changed:
            self._results[number] = result
            self._helpers.changed.notify_all()
        if isinstance(result, KeyboardInterrupt):
            raise result
