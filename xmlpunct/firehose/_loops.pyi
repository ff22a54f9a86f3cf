from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def walk(
    buffer: bytes,
    begin: int,
    stop: int,
    pieces: _Array,
    firsts: _Array,
    ends: _Array,
    literals: bytes,
    end: _Array,
    form: _Array,
    spoiled: _Array,
    values: tuple[_Array, ...],
    /,
) -> int: ...
def integers(buffer: bytes, start: _Array, size: _Array, values: _Array, wrong: _Array, /) -> None: ...
def views(buffer: bytes, start: _Array, size: _Array, views: _Array, rest: _Array, /) -> None: ...
def strings(buffer: bytes, start: _Array, size: _Array, /) -> list[str]: ...
def nesting(data: bytes | bytearray, begin: int, stop: int, name: bytes, /) -> int | None: ...
