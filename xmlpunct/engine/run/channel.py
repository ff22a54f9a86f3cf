"""Output channels: buffer results, and make them visible in groups."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from xmlpunct.connectors.outlet import Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames, Written
from xmlpunct.engine.run.datasets.chunks import KeyedChunk
from xmlpunct.engine.run.datasets.staged_outlet import StagedOutlet
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.slice import Slice


class Channel:
    """Buffers the output for one outlet until `flush` makes it visible as a group."""

    def __init__(self, outlet: Outlet, written: Written) -> None:
        self._outlet, self.length, self.groups = outlet, written.length, written.groups
        """``length``: number of visible bytes; ``groups``: number of visible groups."""
        self._digest, self._last = written.digest, written.last
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

    def flush(self, *, more: bool = False, write_empty: bool = False) -> None:
        """Write the buffered output as one group, even an empty one if ``write_empty``.

        ``more``: it and the next group were visible before a restart.
        """
        if not (self.pending or write_empty):
            return
        data, link = bytes(self._data), self._digest
        digest = chained(link, self._identity())
        results = Results(
            self.groups, tuple(self._slices), data, self.length, self._closes, digest=digest, link=link
        )
        self._outlet.write(results, again=more)
        self._digest = digest
        if data:
            self._last = self.length, chained("", data)
        self.groups += 1
        self.length = self._new_length()
        self._data, self._slices, self._closes = bytearray(), [], False

    def _identity(self) -> bytes:
        """Bytes that identify the buffered group."""
        return bytes(self._data)

    def _new_length(self) -> int:
        """The number of visible bytes after a group was written."""
        return self.reach

    def check_last(self, pending: int = 0) -> None:
        """Raise `XmlPunctError` if the outlet holds groups of this run with higher numbers.

        ``pending``: a killed run may have written this many groups without a commit.
        """
        self._outlet.check_last(self.groups - 1 + pending)

    def finish(self) -> None:
        """Signal readers of the outlet that nothing follows."""
        self._outlet.finish()

    def break_off(self) -> None:
        """Signal that no group follows, although the result is incomplete."""
        self._outlet.break_off()

    def commit(self) -> Written:
        """Make the visible output durable, and return its extent."""
        return Written(self.length, self.groups, self._outlet.commit(), digest=self._digest, last=self._last)


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

    def flush(self, *, more: bool = False, write_empty: bool = False) -> None:
        if self.pending or (write_empty and not self.closed):
            super().flush(more=more, write_empty=write_empty)
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


class StagedChannel(ResultChannel):
    """Writes an answer whose tuples tasks have staged. Its groups consist of chunks and punctuations, without bytes.

    ``options`` are the options of its output.
    """

    def __init__(
        self,
        name: str,
        outlet: StagedOutlet,
        output: Output,
        stats: RunStats,
        written: Written,
        state: Frames,
        options: RunOptions,
    ) -> None:
        super().__init__(name, outlet, output, stats, written, state)
        self.outlet, self.options = outlet, options
        self._offset = b""

    def start(self) -> None:
        """Files of a dataset have their own prologues."""

    def stage(self, chunks: Sequence[KeyedChunk], tuples: int, late: int, offset: str) -> None:
        """Add staged rows, and the counts of their tuples. The group contains all input up to ``offset``."""
        self.outlet.stage(chunks)
        self.output.count(tuples, late)
        self._offset = offset.encode()

    def write(self, results: Slice) -> None:
        """Put the punctuations of a slice."""
        if results and (ready := self.output.prepare(results)):
            self.put(b"", ready)
        self._stats.wrote(self.name, **self.output.counts)

    def close(self) -> None:
        if not self.closed:
            self.end()
            self._stats.wrote(self.name, complete=True)
        self.closed = True

    def _identity(self) -> bytes:
        return self._offset

    def _new_length(self) -> int:
        return self.length + self.outlet.group_bytes
