"""``async for`` over work that a thread does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from xmlpunct.connectors.chunk_sources import AsyncChunks

T = TypeVar("T")

_ELEMENTS_PER_TURN = 1000
"""The number of elements after which the other tasks of an event loop get a turn."""


async def from_thread(groups: Generator[list[T]], sources: Collection[AsyncChunks] = ()) -> AsyncGenerator[T]:
    """The elements of groups that a separate thread computes, so that the event loop never waits.

    A generator whose groups take long yields empty groups meanwhile: only between groups can it be closed.
    ``sources`` are those of the groups that are asynchronous.
    """
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, thread_name_prefix="xmlpunct")
    for source in sources:
        source.loop = loop
    try:
        while (group := await loop.run_in_executor(thread, next, groups, None)) is not None:
            for number, element in enumerate(group, 1):
                yield element
                if number % _ELEMENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
    finally:
        for source in sources:
            source.stop()
        closing = thread.submit(groups.close)  # queued behind the step that a cancelled task left running
        thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closing))
