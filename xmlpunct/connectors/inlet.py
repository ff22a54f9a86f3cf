"""Inlets: the input of one sender of a source, piece by piece."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import Any

from xmlpunct.base.errors import UsageError


class Inlet(ABC):
    """The input of one sender of a source: pieces of bytes, each with the position behind it.

    One thread calls its methods, in the order in which they are defined here; only `stop` can come from another
    thread. A fault is an OSError, or a `SourceError` with the name of the source.
    """

    can_seek = False
    """True if `open` can continue from a position; else the inlet must return the same bytes again."""
    wants_acknowledgement = False
    """True if the sender waits for `acknowledge`: then each piece is made durable by itself."""
    needs_checkpoint = ""
    """Why it can only be read with a checkpoint; empty if it can be read without."""

    @abstractmethod
    def open(self, position: Any) -> None:
        """Connect.

        Parameters
        ----------
        position : JSON value or None
            Where to go on: a position that `read` returned. None: at the beginning.
        """

    @abstractmethod
    def read(self) -> tuple[bytes, Any] | None:
        """Wait for the next piece.

        Returns
        -------
        tuple of (bytes, JSON value or None), or None
            The bytes, and the position behind them; that is None where reading cannot go on. None instead of the pair
            at the end, and after `stop`.
        """

    def acknowledge(self, position: Any) -> None:  # noqa: B027 - few need it
        """The data up to a position are durable, and will not be requested again."""

    def stop(self) -> None:  # noqa: B027
        """Let a `read` that waits in another thread return None."""

    def close(self) -> None:  # noqa: B027
        """Release all resources."""


class InletFile(io.RawIOBase):
    """An inlet as a file of bytes, with positions instead of offsets.

    The position is that after the last piece, if that was read to its end; None if reading cannot continue there.

    >>> class Two(Inlet):
    ...     def open(self, position): self.left = [(b"<a/>", 1), (b"<b/>", 2)][position or 0:]
    ...     def read(self): return self.left.pop(0) if self.left else None
    >>> file = InletFile(Two())
    >>> file.resume(1)
    >>> file.read(3), file.position, file.read(3), file.position, file.read(3)
    (b'<b/', None, b'>', 2, b'')
    """

    def __init__(self, inlet: Inlet) -> None:
        self._inlet, self._left = inlet, memoryview(b"")
        self._is_open = self._caller_acknowledges = self._stopped = False
        self._next_position: Any = None  # the position after the piece

    @property
    def can_seek(self) -> bool:
        """True if it can continue from a position."""
        return self._inlet.can_seek

    @property
    def wants_acknowledgement(self) -> bool:
        """True if the sender waits for `acknowledge`."""
        return self._inlet.wants_acknowledgement

    @property
    def position(self) -> Any:
        """The position after the last piece; None if that piece is only partly read."""
        return None if self._left else self._next_position

    def resume(self, position: Any) -> None:
        """Continue from a position; called before the first read."""
        self._is_open = True
        self._next_position = position
        self._inlet.open(position)

    def keep(self) -> None:
        """Leave acknowledgements to the caller; by default the next read acknowledges the previous piece."""
        self._caller_acknowledges = True

    def acknowledge(self, position: Any) -> None:
        """The data up to a position are durable."""
        self._inlet.acknowledge(position)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Wait for bytes; empty at the end, and after `stop`."""
        if not self._is_open:
            if self._inlet.needs_checkpoint and not self._caller_acknowledges:
                raise UsageError(self._inlet.needs_checkpoint)
            self.resume(None)
        while not self._left:
            if not self._caller_acknowledges and self._next_position is not None:
                self._inlet.acknowledge(self._next_position)
            piece = None if self._stopped else self._inlet.read()
            if piece is None:
                return b""
            self._left, self._next_position = memoryview(piece[0]), piece[1]
        count = len(self._left) if size < 0 else size
        data, self._left = bytes(self._left[:count]), self._left[count:]
        return data

    def stop(self) -> None:
        """Let a read that waits in another thread return no bytes."""
        self._stopped = True
        self._inlet.stop()

    def close(self) -> None:
        if not self.closed:
            self._inlet.close()
        super().close()
