"""Exact sums of DOUBLEs, and averages: integers in units of 2^-1074, rounded once.

An integer is a column of *digits*, the lowest first: its value is the sum of ``digit * 2^(32 * position)``. An array of
n integers has shape (digits, n).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags

Digits = NDArray[np.int64]
UNIT = -1074
"""The exponent of the least DOUBLE."""
_BITS = 32
_MASK = np.int64(2**_BITS - 1)


def digits_of(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], Digits]:
    """Finite DOUBLEs in units of 2^-1074: the position of the lowest digit, shape (n,), and three digits, shape (3, n).

    >>> position, digits = digits_of(np.array([-1.0]))
    >>> sum(int(d) << 32 * (int(position[0]) + i) for i, d in enumerate(digits[:, 0])) == -(2**1074)
    True
    """
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53 - UNIT
    mantissa >>= np.maximum(-shift, 0)  # drops only zeros, of subnormal numbers
    shift = np.maximum(shift, 0)
    position, shift = shift // _BITS, shift % _BITS
    low = (mantissa & _MASK) << shift
    high = ((mantissa >> _BITS) << shift) + (low >> _BITS)
    return position, np.stack((low & _MASK, high & _MASK, high >> _BITS))


def spread(wide: pl.Series) -> Digits:
    """The four digits of 128-bit integers, shape (4, n), the last with the sign.

    >>> spread(pl.Series([-1, 2**40], dtype=pl.Int128)).tolist()
    [[4294967295, 0], [4294967295, 256], [4294967295, 0], [-1, 0]]
    """
    digits = []
    base = pl.lit(2**_BITS, dtype=pl.Int128)
    for _ in range(3):
        low = pl.select(wide % base).to_series()
        low = pl.select(pl.when(low < 0).then(low + base).otherwise(low)).to_series()
        digits.append(low.cast(pl.Int64()).to_numpy())
        wide = pl.select((wide - low) // base).to_series()
    return np.stack((*digits, wide.cast(pl.Int64()).to_numpy()))


def rounded(numbers: Digits, unit: int, counts: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Integers in units of ``2^unit`` as DOUBLEs, divided by positive ``counts``. Rounds half to even.

    >>> place, digits = digits_of(np.array([0.1]))
    >>> rounded(digits, 32 * int(place[0]) + UNIT, np.array([3])).tolist() == [0.1 / 3]
    True
    """
    size = numbers.shape[1]
    below = 0 if counts is None else 3  # so that a quotient has 64 bits at least
    zeros = np.zeros((1, size), np.int64)
    digits = np.concatenate((*[zeros] * below, numbers, zeros, zeros))
    _carry(digits)
    is_negative = digits[-1] < 0
    digits[:, is_negative] *= -1
    _carry(digits)
    words = digits.view(np.uint64)
    has_remainder = np.zeros(size, np.bool_) if counts is None else _divide(words, counts)
    result, last = _round(words, has_remainder, unit - _BITS * below)
    if counts is not None:  # rare: large counts, or subnormal results
        for i in np.flatnonzero((counts >= 2**31) | (last < UNIT)).tolist():
            result[i] = abs(_quotient(numbers[:, i].tolist(), int(counts[i]), unit))
    return np.where(is_negative, -result, result) + 0.0


def _carry(digits: Digits) -> None:
    """Bring all digits but the last into their range."""
    for low, high in pairwise(digits):
        high += low >> _BITS
        low &= _MASK


def _divide(words: NDArray[np.uint64], counts: NDArray[np.int64]) -> Flags:
    """Divide by counts below 2^31, in place; return whether each has a remainder."""
    divisor = np.where(counts < 2**31, counts, 1).astype(np.uint64)
    remainder = np.zeros(words.shape[1], np.uint64)
    for digit in words[::-1]:
        digit |= remainder << np.uint64(_BITS)
        np.divmod(digit, divisor, out=(digit, remainder))
    return remainder > 0


def _round(
    words: NDArray[np.uint64], has_remainder: Flags, unit: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Digits rounded to 53 bits, and the exponent of the last bit. ``has_remainder``: the value exceeds the digits."""
    present = words != 0
    top = len(words) - 1 - np.argmax(present[::-1], axis=0)
    columns = np.arange(words.shape[1])

    def digit(below: int) -> NDArray[np.uint64]:
        position = top - below
        return np.where(position >= 0, words[np.maximum(position, 0), columns], np.uint64(0))

    first, third = digit(0), digit(2)
    bits = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    width = np.uint64(_BITS)
    word = (first << (np.uint64(64) - np.maximum(bits, 1))) | (digit(1) << (width - bits)) | (third >> bits)
    is_inexact = (
        has_remainder
        | (third & ((np.uint64(1) << bits) - np.uint64(1)) > 0)
        | (np.argmax(present, axis=0) < top - 2)
    )
    cut = word & np.uint64(2**11 - 1)
    word >>= np.uint64(11)
    half = np.uint64(2**10)
    word += (cut > half) | ((cut == half) & (is_inexact | (word & np.uint64(1) > 0)))
    last = unit + _BITS * top + bits.astype(np.int64) - 64 + 11
    with np.errstate(over="ignore"):
        return np.ldexp(word.astype(np.float64), last), last


def _quotient(digits: list[int], count: int, unit: int) -> float:
    """A single quotient, by exact fractions."""
    total = Fraction(sum(digit << _BITS * i for i, digit in enumerate(digits))) * Fraction(2) ** unit
    try:
        return float(total / count)
    except OverflowError:
        return float("inf")
