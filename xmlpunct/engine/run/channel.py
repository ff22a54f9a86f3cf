"""What is written to one place: held back, and made visible in groups."""

from __future__ import annotations

import zlib

from xmlpunct.connectors.contract import Outlet, Results, chained
from xmlpunct.engine.run.checkpoint.commit import Frames, Written
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.slice import Slice


class Channel:
    """One place to write to: what is put out is held back until `flush` makes it visible, as a group."""

    def __init__(self, outlet: Outlet, written: Written) -> None:
        self._outlet, self.length, self.groups = outlet, written.length, written.groups
        """``length``: the bytes that were made visible; ``groups``: how many groups were."""
        self._digest = written.digest
        self._data, self._slices = bytearray(), list[Slice]()
        self._closes = False

    def put(self, data: bytes, slice_: Slice | None = None) -> None:
        """Put out the bytes of a slice, or what stands around all slices."""
        self._data += data
        if slice_:
            self._slices.append(slice_)

    def end(self, data: bytes = b"") -> None:
        """Put out the end: what is complete then is said with the next group."""
        self._data += data
        self._closes = True

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        return bool(self._data or self._slices or self._closes)

    def checksum(self, before: int = 0) -> int:
        """A checksum of what is held back."""
        return zlib.crc32(self._data, before)

    @property
    def reach(self) -> int:
        """How many bytes will be visible."""
        return self.length + len(self._data)

    def flush(self, *, more: bool = False) -> None:
        """Make visible what was held back. With ``more`` it was, before the run went on, and so was what follows."""
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
        """Raise `XmlPunctError` if the outlet holds groups of this run that were not written by now."""
        self._outlet.check_last(self.groups - 1)

    def finish(self) -> None:
        """Let who reads it know that nothing follows."""
        self._outlet.finish()

    def break_off(self) -> None:
        """No group follows, though nothing is complete."""
        self._outlet.break_off()

    def commit(self) -> Written:
        """Come back when all that is visible is durable; how far that is."""
        return Written(self.length, self.groups, self._outlet.commit(), digest=self._digest)


class ResultChannel(Channel):
    """Where the results of an answer go, after ``output`` has made them bytes. It is told by its ``name``.

    It goes on behind what was ``written``, when ``output`` was in the state that is given.
    """

    def __init__(
        self, name: str, outlet: Outlet, output: Output, stats: RunStats, written: Written, state: Frames
    ) -> None:
        super().__init__(outlet, written)
        self.name, self.output, self.closed = name, output, written.closed
        """``closed``: whether the end was put out."""
        self._stats, self._finished = stats, False
        if state:
            output.restore(state)

    def start(self) -> None:
        """Put out what comes before everything, once."""
        if not self.groups:
            self.put(self.output.writer.start())

    def write(self, given: Slice) -> None:
        """Put out a slice of results."""
        ready = self.output.prepare(given) if given else given
        if ready:
            self.put(self.output.writer.body(ready), ready)
        self._stats.wrote(self.name, **self.output.counts)

    def close(self) -> None:
        """Put out the end, once."""
        if not self.closed:
            self.end(self.output.writer.end())
            self._stats.wrote(self.name, complete=True)
        self.closed = True

    def flush(self, *, more: bool = False) -> None:
        if self.pending:
            super().flush(more=more)
            self._stats.wrote(self.name, bytes=self.length)

    def finish(self) -> None:
        """Let who reads it know that nothing follows, if that is so; once."""
        if self.closed and not self._finished:
            self._finished = True
            super().finish()

    def commit(self) -> Written:
        written = super().commit()
        written.closed = self.closed
        return written
