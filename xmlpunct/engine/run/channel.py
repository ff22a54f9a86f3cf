"""Output channels: buffer results, and make them visible in groups."""

from __future__ import annotations

import zlib

from xmlpunct.connectors.outlet import Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames, Written
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.slice import Slice


class Channel:
    """Buffers the output for one outlet until `flush` makes it visible as a group."""

    def __init__(self, outlet: Outlet, written: Written) -> None:
        self._outlet, self.length, self.groups = outlet, written.length, written.groups
        """``length``: number of visible bytes; ``groups``: number of visible groups."""
        self._digest = written.digest
        self._data, self._slices = bytearray(), list[Slice]()
        self._closes = False

    def put(self, data: bytes, slice_: Slice | None = None) -> None:
        """Buffer the bytes of a slice, or the prologue."""
        self._data += data
        if slice_:
            self._slices.append(slice_)

    def end(self, data: bytes = b"") -> None:
        """Buffer the epilogue; the next group announces that the result is complete."""
        self._data += data
        self._closes = True

    @property
    def pending(self) -> bool:
        """True if `flush` has anything to write."""
        return bool(self._data or self._slices or self._closes)

    def checksum(self, before: int = 0) -> int:
        """Checksum of the buffered bytes."""
        return zlib.crc32(self._data, before)

    @property
    def reach(self) -> int:
        """Number of bytes that are visible after the next `flush`."""
        return self.length + len(self._data)

    def flush(self, *, more: bool = False) -> None:
        """Write the buffered output as one group. ``more``: it and the next group were visible before a restart."""
        if not self.pending:
            return
        data, link = bytes(self._data), self._digest
        digest = chained(link, data)
        results = Results(
            self.groups, tuple(self._slices), data, self.length, self._closes, digest=digest, link=link
        )
        self._outlet.write(results, again=more)
        self._digest = digest
        self.groups += 1
        self.length = self.reach
        self._data, self._slices, self._closes = bytearray(), [], False

    def check_last(self) -> None:
        """Raise `XmlPunctError` if the outlet holds groups of this run with higher numbers."""
        self._outlet.check_last(self.groups - 1)

    def finish(self) -> None:
        """Signal readers of the outlet that nothing follows."""
        self._outlet.finish()

    def break_off(self) -> None:
        """Signal that no group follows, although the result is incomplete."""
        self._outlet.break_off()

    def commit(self) -> Written:
        """Make the visible output durable, and return its extent."""
        return Written(self.length, self.groups, self._outlet.commit(), digest=self._digest)


class ResultChannel(Channel):
    """Writes the results of the answer ``name``, which ``output`` turns into bytes.

    It continues after ``written``, with ``output`` restored to ``state``.
    """

    def __init__(
        self, name: str, outlet: Outlet, output: Output, stats: RunStats, written: Written, state: Frames
    ) -> None:
        super().__init__(outlet, written)
        self.name, self.output, self.closed = name, output, written.closed
        """``closed``: the end was put."""
        self._stats, self._finished = stats, False
        if state:
            output.restore(state)

    def start(self) -> None:
        """Put the prologue, once."""
        if not self.groups:
            self.put(self.output.writer.start())

    def write(self, results: Slice) -> None:
        """Put a slice of results."""
        ready = self.output.prepare(results) if results else results
        if ready:
            self.put(self.output.writer.body(ready), ready)
        self._stats.wrote(self.name, **self.output.counts)

    def close(self) -> None:
        """Put the end, once."""
        if not self.closed:
            self.end(self.output.writer.end())
            self._stats.wrote(self.name, complete=True)
        self.closed = True

    def flush(self, *, more: bool = False) -> None:
        if self.pending:
            super().flush(more=more)
            self._stats.wrote(self.name, bytes=self.length)

    def finish(self) -> None:
        """Signal readers that nothing follows, once, and only after `close`."""
        if self.closed and not self._finished:
            self._finished = True
            super().finish()

    def commit(self) -> Written:
        written = super().commit()
        written.closed = self.closed
        return written
