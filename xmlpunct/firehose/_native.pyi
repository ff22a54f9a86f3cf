from typing import Any

import numpy as np
import numpy.typing as npt

class Tree:
    """The paths of some streams: see `tree.grown`, which lays them out in numbers."""

    def __new__(
        cls,
        nodes: npt.NDArray[np.int32],
        tables: npt.NDArray[np.int32],
        entries: npt.NDArray[np.int32],
        targets: npt.NDArray[np.int32],
        below: npt.NDArray[np.int32],
        widths: npt.NDArray[np.int32],
        spaces: npt.NDArray[np.int32],
        names: bytes,
        limits: tuple[int, int, int, int, int, int, int, int],
        /,
    ) -> Tree: ...
    def walk(
        self, data: bytes, opened: bytes, part: bool, /
    ) -> (
        tuple[
            int,
            int,
            int,
            bool,
            list[tuple[int, int]],
            list[tuple[bytes, bytes]],
            bytes,
            list[tuple[int, int, int, str | None]],
            list[int],
            list[int],
            list[tuple[int, int, str, int]],
        ]
        | None
    ): ...

_Texts = tuple[bytes, bytes, npt.NDArray[np.int32], npt.NDArray[np.int32]]

def strings(texts: _Texts, none: str, /) -> list[str]: ...
def views(texts: _Texts, views: npt.NDArray[Any], rest: npt.NDArray[Any], /) -> None: ...
def numbers(
    texts: _Texts, type_: str, scale: int, whole: int, values: npt.NDArray[Any], left: npt.NDArray[Any], /
) -> None: ...
