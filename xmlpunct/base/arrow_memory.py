"""Columns that share the memory of Arrow and numpy arrays, without copies.

For an array of pyarrow or numpy, polars first imports parts of both, which takes 50 ms and is not needed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Flags = npt.NDArray[np.bool_]
"""One flag per row: shape (n,)."""


class _Exported:
    """An array that exposes only the Arrow C data interface to polars."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_array__(requested_schema)


def from_arrow(name: str, array: pa.Array) -> pl.Series:
    """An Arrow array as a column that shares its memory.

    >>> from_arrow("hour", pa.array([5, None])).to_list()
    [5, None]
    """
    return pl.Series(_Exported(array)).alias(name)


def integers(name: str, values: npt.NDArray[np.int64], null: Flags | None = None) -> pl.Series:
    """Numbers, shape (n,), as a column that shares their memory; null where ``null`` is True.

    >>> integers("hour", np.array([5, 6]), np.array([False, True])).to_list()
    [5, None]
    """
    return _numbers(name, pa.int64(), values, null)


def floats(name: str, values: npt.NDArray[np.float64], null: Flags | None = None) -> pl.Series:
    """`integers` for DOUBLEs.

    >>> floats("speed", np.array([5.5, 0.0]), np.array([False, True])).to_list()
    [5.5, None]
    """
    return _numbers(name, pa.float64(), values, null)


def _numbers(name: str, type_: pa.DataType, values: npt.NDArray[Any], null: Flags | None) -> pl.Series:
    parts = [None if null is None else bitmap(~null), pa.py_buffer(np.ascontiguousarray(values))]
    return from_arrow(name, pa.Array.from_buffers(type_, len(values), parts))


def booleans(flags: Flags) -> pl.Series:
    """Flags as a column.

    >>> booleans(np.array([True, False])).to_list()
    [True, False]
    """
    return from_arrow("", pa.Array.from_buffers(pa.bool_(), len(flags), [None, bitmap(flags)]))


def bitmap(flags: Flags) -> pa.Buffer:
    """Flags as a bitmap in Arrow's layout."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
