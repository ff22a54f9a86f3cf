from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int32]

class Flag:
    """Flags of a node, which are actions of the native reader at an element; `native.h` declares and explains them."""

    ROW: ClassVar[int]
    VALUE: ClassVar[int]
    TEXT: ClassVar[int]
    MARKS: ClassVar[int]
    INTO: ClassVar[int]
    NESTED: ClassVar[int]
    UNDECLARED: ClassVar[int]
    GUESSED: ClassVar[int]
    SAYS: ClassVar[int]
    BLANK: ClassVar[int]
    OPEN: ClassVar[int]
    WRONG: ClassVar[int]
    LEAF: ClassVar[int]
    ITEM: ClassVar[int]
    CHOICE: ClassVar[int]
    OUTSIDE: ClassVar[int]
    KEPT: ClassVar[int]
    SAID: ClassVar[int]
    RAW: ClassVar[int]
    COUNTS: ClassVar[int]

class Tree:
    """The paths of some streams in flat tables; see `automaton_tables.grown`, which lays them out."""

    def __new__(
        cls,
        names: bytes,
        nodes: _Numbers,
        tables: _Numbers,
        entries: _Numbers,
        targets: _Numbers,
        below: _Numbers,
        widths: _Numbers,
        spaces: _Numbers,
        conditions: _Numbers,
        ups: _Numbers,
        says: _Numbers,
        several: _Numbers,
        more: _Numbers,
        unread: _Numbers,
        counts: tuple[int, int],
        limits: tuple[int, int, int, int, int, int, int, int],
        /,
    ) -> Tree: ...
    def walk(
        self, data: bytes, opened: bytes, part: bool, said: _Numbers, texts: bytes, /
    ) -> (
        tuple[
            int,
            int,
            int,
            int,
            bool,
            list[tuple[int, int]],
            list[tuple[bytes, bytes]],
            bytes,
            list[tuple[int, int, int]],
            list[int],
            list[int],
            list[tuple[int, bool, str, int]],
            list[tuple[int, int, int, int]],
            list[tuple[int, int, int, int, int, int, int, int]],
        ]
        | None
    ): ...

_Texts = tuple[bytes, bytes, _Numbers, _Numbers]

def strings(texts: _Texts, none: str, /) -> list[str]: ...
def views(texts: _Texts, /) -> tuple[bytes, bytes, bool]: ...
def are_plain(texts: _Texts, /) -> bool: ...
def numbers(
    texts: _Texts, type_: str, scale: int, whole: int, values: npt.NDArray[Any], left: npt.NDArray[Any], /
) -> None: ...
def newlines(data: bytes, /) -> int: ...
def skip(data: bytes, names: bytes, enough: int, /) -> int: ...
def tokens(data: bytes, /) -> tuple[bytes, bytes, bytes, bytes, int, int]: ...
