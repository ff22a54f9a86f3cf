"""Chunks of bytes from an iterable or an asynchronous iterable as the input of a source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.inlet import Inlet


class ChunkInlet(Inlet):
    """The chunks of an iterable."""

    def __init__(self, chunks: Iterable[bytes], name: str) -> None:
        self.name = name
        self._chunks = chunks

    def open(self, position: Any) -> None:
        self._iterator = iter(self._chunks)

    def read(self) -> tuple[bytes, Any] | None:
        chunk = next(self._iterator, None)
        if chunk is None:
            return None
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise UsageError(f"{self.name}: a chunk is bytes, not {type(chunk).__name__}")
        return bytes(chunk), None

    def stop(self) -> None:
        if isinstance(self._chunks, AsyncChunks):
            self._chunks.stop()


class AsyncChunks(Iterator[bytes]):
    """The chunks of an asynchronous iterable, for another thread than that of its event loop.

    ``loop`` must be set before the first chunk is read.
    """

    def __init__(self, chunks: AsyncIterable[bytes], name: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._chunks, self._name = aiter(chunks), name
        self._next: Future[bytes | None] | None = None
        self._is_stopped = False

    def __next__(self) -> bytes:
        if self.loop is None:
            raise LoopNeededError(f"{self._name} is asynchronous: read it with async for")
        self._next = asyncio.run_coroutine_threadsafe(self._read(), self.loop)
        if self._is_stopped:
            self._next.cancel()
        try:
            chunk = self._next.result()
        except CancelledError:
            chunk = None
        if chunk is None:
            raise StopIteration
        return chunk

    def stop(self) -> None:
        """Let a read that waits in another thread return at once. There are no more chunks."""
        self._is_stopped = True
        if self._next is not None:
            self._next.cancel()

    async def _read(self) -> bytes | None:
        return await anext(self._chunks, None)


class NoBytesYetError(XmlPunctError):
    """A source to which bytes are pushed has none left, and has not ended. A later read can succeed."""


class LoopNeededError(UsageError):
    """An asynchronous source was read without an event loop."""
