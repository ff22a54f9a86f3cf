"""The framing of stored and transmitted data: named pieces of bytes, most of them data frames.

Slices, the state of operators, and the records of a checkpoint use it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import polars as pl

_LENGTH = 8
"""The size in bytes of the length in front of each name and each piece."""


def pack(pieces: Mapping[str, pl.DataFrame | bytes]) -> bytes:
    """Pack named pieces into one: a length in front of each name and each piece. A frame is an Arrow IPC stream.

    >>> unpack(pack({"a": pl.DataFrame({"n": [1, 2]})}))["a"].rows()
    [(1,), (2,)]
    """
    out = io.BytesIO()
    for name, piece in pieces.items():
        _put(out, name.encode())
        _put(out, piece)
    return out.getvalue()


def pieces(data: bytes) -> dict[str, bytes]:
    """The named pieces of packed data, as bytes.

    >>> pieces(pack({"a": b"one", "b": b""}))
    {'a': b'one', 'b': b''}
    """
    parts: list[bytes] = []
    offset = 0
    while offset < len(data):
        begin = offset + _LENGTH
        offset = begin + int.from_bytes(data[offset:begin], "big")
        parts.append(data[begin:offset])
    return {name.decode(): piece for name, piece in zip(parts[::2], parts[1::2], strict=True)}


def unpack(data: bytes) -> dict[str, pl.DataFrame]:
    """The named pieces of packed data, all of which must be frames."""
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
    """Write the length of a piece, then the piece. A frame, which may be large, is written without a copy."""
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
