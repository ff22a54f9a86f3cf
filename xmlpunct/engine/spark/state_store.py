"""The state of a shard: data frames by name in Spark's state store; only changed frames are read and written.

A large frame has keys of its own. All small frames are stored in one value, the head, with the digests of the large
frames: two heads are equal only if the states are equal. So a process compares the head to check that its cached state
is current, even if other processes have changed the state, or a task was repeated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

import polars as pl

from xmlpunct.base.codec import dump, load, pack, pieces

KEY_SCHEMA, VALUE_SCHEMA = "name STRING, piece INT", "data BINARY"
SMALL_BYTES = 16 * 2**10
"""Maximal size of a small frame: copying it costs less than a round trip to the store."""
PIECE_BYTES = 32 * 2**20
"""Size of the pieces of a large frame, because Spark limits the size of a value."""
CACHE_BYTES = 256 * 2**20
"""Maximal size of the cached states of a process (`benchmarks/retained.py --engine spark`)."""

StateKey = tuple[str, int]
HEAD: StateKey = ("", 0)
_LARGE = ""
"""Name in the head of the table of large frames: names, digests and sizes."""


class StateValues(Protocol):
    """The part of Spark's MapState in use: values by key, separate for each shard."""

    def getValue(self, key: StateKey) -> tuple[bytes] | None: ...  # noqa: N802 - Spark's names

    def updateValue(self, key: StateKey, value: tuple[bytes]) -> None: ...  # noqa: N802

    def removeKey(self, key: StateKey) -> None: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored frame: a small one with its bytes, a large one with their digest."""

    frame: pl.DataFrame
    size: int
    body: bytes = b""
    digest: str = ""

    def keys(self, name: str) -> list[StateKey]:
        """The keys of the pieces of a large frame."""
        return [(name, i) for i in range(-(-self.size // PIECE_BYTES))] if self.digest else []


class ShardState:
    """The state of a shard at the last read or write of this process."""

    def __init__(self) -> None:
        self._head = b""
        self._entries: dict[str, Entry] = {}

    def __bool__(self) -> bool:
        return bool(self._head)

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """The frames by name."""
        return {name: entry.frame for name, entry in self._entries.items()}

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(entry.size for entry in self._entries.values())

    def read(self, values: StateValues) -> bool:
        """Read the state from the store; returns True if it is unchanged."""
        head = _get(values, HEAD)
        if head == self._head:
            return True
        bodies = pieces(head)
        large = load(bodies.pop(_LARGE)).rows() if head else []
        entries = {name: Entry(load(body), len(body), body) for name, body in bodies.items()}
        for name, digest, size in large:
            entry = self._entries.get(name)
            if entry is None or entry.digest != digest:
                keys = Entry(pl.DataFrame(), size, digest=digest).keys(name)
                body = b"".join(_get(values, key) for key in keys)
                entry = Entry(load(body), size, digest=digest)
            entries[name] = entry
        self._head, self._entries = head, entries
        return False

    def write(self, values: StateValues, frames: Mapping[str, pl.DataFrame]) -> None:
        """Write frames to the store, which holds the state of the last `read` or `write`."""
        entries: dict[str, Entry] = {}
        obsolete_keys = {key for name, entry in self._entries.items() for key in entry.keys(name)}
        for name, frame in frames.items():
            cached = self._entries.get(name)
            if cached is None or cached.frame is not frame:
                body = dump(frame)
                if len(body) <= SMALL_BYTES:
                    cached = Entry(frame, len(body), body)
                else:
                    digest = blake2b(body, digest_size=16).hexdigest()
                    changed = cached is None or cached.digest != digest
                    cached = Entry(frame, len(body), digest=digest)
                    for key in cached.keys(name) if changed else ():
                        at = key[1] * PIECE_BYTES
                        values.updateValue(key, (body[at : at + PIECE_BYTES],))
            entries[name] = cached
            obsolete_keys.difference_update(cached.keys(name))
        for key in sorted(obsolete_keys):
            values.removeKey(key)
        large = [(name, e.digest, e.size) for name, e in entries.items() if e.digest]
        schema = {"name": pl.String(), "digest": pl.String(), "size": pl.Int64()}
        bodies = {name: e.body for name, e in entries.items() if not e.digest}
        head = pack(bodies | {_LARGE: dump(pl.DataFrame(large, schema, orient="row"))})
        if head != self._head:
            values.updateValue(HEAD, (head,))
        self._head, self._entries = head, entries


def _get(values: StateValues, key: StateKey) -> bytes:
    value = values.getValue(key)
    return b"" if value is None else bytes(value[0])


T = TypeVar("T")


class Cache(Generic[T]):
    """Least recently used cache of states, each with an object built from it.

    `take` removes an entry, and `put` returns it after the store is written: a failure in between leaves no entry.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._cached: OrderedDict[object, tuple[ShardState, T]] = OrderedDict()

    def take(self, key: object) -> tuple[ShardState, T | None]:
        """Remove and return an entry; an empty state and None if it is missing."""
        return self._cached.pop(key, None) or (ShardState(), None)

    def put(self, key: object, state: ShardState, object_: T) -> None:
        """Add an entry, and evict the oldest entries beyond ``limit`` bytes."""
        self._cached[key] = state, object_
        size = sum(state.size for state, _ in self._cached.values())
        while size > self._limit:
            _, (state, _) = self._cached.popitem(last=False)
            size -= state.size

    def __len__(self) -> int:
        return len(self._cached)
