"""The one framing of what is written down or travels: named pieces of bytes, most of which are data frames.

Slices, the state of operators, and the records of a checkpoint are written so.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import polars as pl

_LENGTH = 8
"""How many bytes hold the length that stands before each name and each piece."""


def pack(named: Mapping[str, pl.DataFrame | bytes]) -> bytes:
    """Named pieces as one, each name and each piece behind its length. A frame is written as an Arrow IPC stream.

    >>> unpack(pack({"a": pl.DataFrame({"n": [1, 2]})}))["a"].rows()
    [(1,), (2,)]
    """
    out = io.BytesIO()
    for name, piece in named.items():
        _put(out, name.encode())
        _put(out, piece)
    return out.getvalue()


def pieces(data: bytes) -> dict[str, bytes]:
    """What was packed, as bytes.

    >>> pieces(pack({"a": b"one", "b": b""}))
    {'a': b'one', 'b': b''}
    """
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin], "big")
        parts.append(data[begin:at])
    return {name.decode(): piece for name, piece in zip(parts[::2], parts[1::2], strict=True)}


def unpack(data: bytes) -> dict[str, pl.DataFrame]:
    """What was packed, where all of it is frames."""
    return {name: load(piece) for name, piece in pieces(data).items()}


def dump(frame: pl.DataFrame) -> bytes:
    """The piece that holds a frame."""
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def load(piece: bytes) -> pl.DataFrame:
    """The inverse of `dump`."""
    return pl.read_ipc_stream(io.BytesIO(piece))


def _put(out: io.BytesIO, piece: pl.DataFrame | bytes) -> None:
    """Write a piece behind its length; a frame is written in place, since it may be large."""
    start = out.tell()
    out.write(bytes(_LENGTH))
    if isinstance(piece, pl.DataFrame):
        piece.write_ipc_stream(out)
    else:
        out.write(piece)
    end = out.tell()
    out.seek(start)
    out.write((end - start - _LENGTH).to_bytes(_LENGTH, "big"))
    out.seek(end)
