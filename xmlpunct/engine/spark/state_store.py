"""The state of a shard: data frames by name in Spark's store, of which only what has changed is read and written.

A large frame has keys of its own. The small ones lie together in one value, the head, with the digests of the
large: two heads are equal only if the whole states are. So a process that worked on a shard before knows by that
value alone whether what it still has in memory is what the store holds, whoever has worked on it since and
whatever came to nothing.
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
"""A frame of at most so many bytes is small. A round trip to the store costs more than moving it."""
PIECE_BYTES = 32 * 2**20
"""A large frame is stored in pieces of so many bytes, since Spark limits the size of a value."""
CACHE_BYTES = 256 * 2**20
"""A process keeps so many bytes of the states it worked on last (`benchmarks/retained.py --engine spark`)."""

Key = tuple[str, int]
HEAD: Key = ("", 0)
_LARGE = ""
"""Among the names in the head: the large frames' names, digests and sizes."""


class Values(Protocol):
    """What is asked of Spark's MapState: values by key, which one shard has to itself."""

    def getValue(self, key: Key) -> tuple[bytes] | None: ...  # noqa: N802 - Spark's names

    def updateValue(self, key: Key, value: tuple[bytes]) -> None: ...  # noqa: N802

    def removeKey(self, key: Key) -> None: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class Entry:
    """A frame as it is stored: a small one with its bytes, a large one with their digest."""

    frame: pl.DataFrame
    size: int
    body: bytes = b""
    digest: str = ""

    def keys(self, name: str) -> list[Key]:
        """The keys of its pieces."""
        return [(name, i) for i in range(-(-self.size // PIECE_BYTES))] if self.digest else []


class State:
    """What the store held of a shard when this process last looked."""

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
        """How many bytes they take."""
        return sum(entry.size for entry in self._entries.values())

    def read(self, values: Values) -> bool:
        """Look what the store holds; whether it is still the same."""
        head = _get(values, HEAD)
        if head == self._head:
            return True
        bodies = pieces(head)
        large = load(bodies.pop(_LARGE)).rows() if head else []
        entries = {name: Entry(load(body), len(body), body) for name, body in bodies.items()}
        for name, digest, size in large:
            known = self._entries.get(name)
            if known is None or known.digest != digest:
                keys = Entry(pl.DataFrame(), size, digest=digest).keys(name)
                body = b"".join(_get(values, key) for key in keys)
                known = Entry(load(body), size, digest=digest)
            entries[name] = known
        self._head, self._entries = head, entries
        return False

    def write(self, values: Values, frames: Mapping[str, pl.DataFrame]) -> None:
        """Let the store hold these frames. It holds what was read or written here last."""
        entries: dict[str, Entry] = {}
        gone = {key for name, entry in self._entries.items() for key in entry.keys(name)}
        for name, frame in frames.items():
            known = self._entries.get(name)
            if known is None or known.frame is not frame:
                body = dump(frame)
                if len(body) <= SMALL_BYTES:
                    known = Entry(frame, len(body), body)
                else:
                    digest = blake2b(body, digest_size=16).hexdigest()
                    changed = known is None or known.digest != digest
                    known = Entry(frame, len(body), digest=digest)
                    for key in known.keys(name) if changed else ():
                        at = key[1] * PIECE_BYTES
                        values.updateValue(key, (body[at : at + PIECE_BYTES],))
            entries[name] = known
            gone.difference_update(known.keys(name))
        for key in sorted(gone):
            values.removeKey(key)
        large = [(name, e.digest, e.size) for name, e in entries.items() if e.digest]
        schema = {"name": pl.String(), "digest": pl.String(), "size": pl.Int64()}
        bodies = {name: e.body for name, e in entries.items() if not e.digest}
        head = pack(bodies | {_LARGE: dump(pl.DataFrame(large, schema, orient="row"))})
        if head != self._head:
            values.updateValue(HEAD, (head,))
        self._head, self._entries = head, entries


def _get(values: Values, key: Key) -> bytes:
    found = values.getValue(key)
    return b"" if found is None else bytes(found[0])


T = TypeVar("T")


class Cache(Generic[T]):
    """The states that a process worked on last, and with each what it made of it.

    One is taken out to be worked on, and put back once the store has what became of it: should the work fail,
    nothing is left of it here.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self._held: OrderedDict[object, tuple[State, T]] = OrderedDict()

    def take(self, key: object) -> tuple[State, T | None]:
        """Take one out; a new state and nothing if it is not there."""
        return self._held.pop(key, None) or (State(), None)

    def put(self, key: object, state: State, made: T) -> None:
        """Put one in. Those that were put in first make room for it."""
        self._held[key] = state, made
        held = sum(state.size for state, _ in self._held.values())
        while held > self.limit:
            _, (state, _) = self._held.popitem(last=False)
            held -= state.size

    def __len__(self) -> int:
        return len(self._held)
