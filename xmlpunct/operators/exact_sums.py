"""Exact sums of DOUBLEs and of their squares, rounded once.

A finite DOUBLE, and its square, is a multiple of `UNIT`. A sum is an integer in this unit, so it does not depend on the
order of its terms. Its *digits* are numbers times powers of 2^28. Values that are not finite are counted.

A column of sums has lists of 64-bit integers. The low 8 bits are a position, the high 56 bits a number at it, times
2^(56 * position). Positions with 0 are left out, so an empty list is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import Flags, booleans, from_arrow

SUM_DTYPE = pl.List(pl.Int64())
"""The dtype of columns of sums."""
BLOCK_ROWS = 2**14
"""The number of sums that have all their digits in memory at once."""
UNIT = -2148
"""The exponent of the square of the least DOUBLE."""
DigitRows = NDArray[np.int64]
"""Shape (height, n), the lowest digit first; values may exceed 28 bits until they are carried."""
Positions = NDArray[np.int64]
"""Positions of digits or of sums; shape (n,)."""

_BITS = 28
_MASK = 2**_BITS - 1
_SMALL = 2**10
"""Digits times smaller weights are summed without a carry."""
_NAN, _ABOVE, _BELOW = 253, 254, 255
"""The positions of the numbers of NaN, of infinity and of -infinity."""


class Terms(NamedTuple):
    """Terms of sums, in three arrays of shape (n,): the number of its sum, the position of its digit, and the digit."""

    owners: Positions
    positions: Positions
    digits: NDArray[np.int64]

    @classmethod
    def of_values(cls, column: pl.Series, owners: Positions) -> Terms:
        """The terms of DOUBLEs, without nulls.

        >>> terms = Terms.of_values(pl.Series([0.5, np.inf, -0.5]), np.array([0, 1, 0]))
        >>> ExactSums.of(terms, 2).rounded().tolist()
        [0.0, inf]
        """
        values = column.to_numpy()
        is_finite = np.isfinite(values)
        if is_finite.all():
            return _finite_terms(values, owners)
        terms = _finite_terms(values[is_finite], owners[is_finite])
        special_values, owners = values[~is_finite], owners[~is_finite]
        kinds = np.where(np.isnan(special_values), _NAN, np.where(special_values > 0, _ABOVE, _BELOW))
        return cls.concat([terms, cls(owners, 2 * kinds, np.ones_like(owners))])

    @classmethod
    def of_squares(cls, column: pl.Series, owners: Positions) -> Terms:
        """The terms of the squares of the finite DOUBLEs of a column.

        >>> ExactSums.of(Terms.of_squares(pl.Series([1.5, -2.0]), np.array([0, 0])), 1).rounded().tolist()
        [6.25]
        """
        values = column.to_numpy()
        is_finite = np.isfinite(values)
        mantissas, exponents = _parts(np.abs(values[is_finite]))
        high, low = mantissas >> _BITS, mantissas & _MASK
        products = ((high * high, 2 * _BITS), (2 * high * low, _BITS), (low * low, 0))
        terms = [_shifted(m, 2 * exponents + shift, owners[is_finite]) for m, shift in products]
        return cls.concat(terms)

    @classmethod
    def of_column(cls, sums: pl.Series, owners: Positions | None = None) -> Terms:
        """The terms of a column of sums; ``owners`` are the numbers of its rows, by default 0, 1, 2... Null is 0."""
        lengths = sums.list.len().fill_null(0).to_numpy()
        owners = np.repeat(np.arange(len(sums)) if owners is None else owners, lengths)
        items = sums.explode(empty_as_null=False, keep_nulls=False).to_numpy()
        positions, numbers = 2 * (items & 255), items >> 8
        return cls(
            np.concatenate((owners, owners)),
            np.concatenate((positions, positions + 1)),
            np.concatenate((numbers & _MASK, numbers >> _BITS)),
        )

    def times(self, weights: Positions) -> Terms:
        """The terms times the weights of their owners; ``weights`` has shape (owners,).

        >>> terms = Terms.of_values(pl.Series([0.5, 2.0]), np.array([0, 1])).times(np.array([-3, 2**60]))
        >>> ExactSums.of(terms, 2).rounded().tolist() == [-1.5, 2.0**61]
        True
        """
        owners, positions, digits = self
        factors = weights[owners]
        is_special = positions >= 2 * _NAN
        if np.all(is_special | ((factors > -_SMALL) & (factors < _SMALL))):
            return Terms(owners, positions, digits * factors)
        parts = [Terms(*(part[is_special] for part in (owners, positions, digits * factors)))]
        owners, positions, digits, factors = (
            part[~is_special] for part in (owners, positions, digits, factors)
        )
        for i, factor in enumerate((factors & _MASK, factors >> _BITS & _MASK, factors >> 2 * _BITS)):
            products = digits * factor
            parts.append(Terms(owners, positions + i, products & _MASK))
            parts.append(Terms(owners, positions + i + 1, products >> _BITS))
        owners, positions, digits = Terms.concat(parts)
        used = np.flatnonzero(digits)
        return Terms(owners[used], positions[used], digits[used])

    @classmethod
    def concat(cls, parts: Iterable[Terms]) -> Terms:
        """All terms of some parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


ColumnTerms = Callable[[pl.Series, Positions], Terms]
"""The terms of a column without nulls, by the numbers of the sums that its rows belong to."""


@dataclass(frozen=True)
class ExactSums:
    """n sums: their digits from position ``lowest`` (even) on, and the numbers of values that are not finite.

    ``specials`` has a row for NaN, infinity and -infinity, shape (3, n); None if there are none.
    """

    lowest: int
    digits: DigitRows
    specials: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, terms: Terms, size: int) -> ExactSums:
        """The sums of terms, for ``size`` owners."""
        owners, positions, digits = terms
        specials = None
        is_special = positions >= 2 * _NAN
        if is_special.any():
            kinds = positions[is_special] - 2 * _NAN
            counts = digits[is_special] << _BITS * (kinds & 1)
            specials = _scattered(kinds >> 1, owners[is_special], counts, (3, size))
            owners, positions, digits = (part[~is_special] for part in terms)
        if not len(positions):
            return cls(0, np.zeros((0, size), np.int64), specials)
        lowest = int(positions.min()) & ~1
        height = int(positions.max()) + 1 - lowest
        return cls(lowest, _scattered(positions - lowest, owners, digits, (height, size)), specials)

    @classmethod
    def of_column(cls, sums: pl.Series) -> ExactSums:
        """The sums in a column."""
        return cls.of(Terms.of_column(sums), len(sums))

    def __len__(self) -> int:
        return int(self.digits.shape[1])

    def take(self, columns: Positions) -> ExactSums:
        """The sums at positions."""
        specials = None if self.specials is None else self.specials[:, columns]
        return ExactSums(self.lowest, self.digits[:, columns], specials)

    def __add__(self, other: ExactSums) -> ExactSums:
        return self._plus(other, 1)

    def __sub__(self, other: ExactSums) -> ExactSums:
        return self._plus(other, -1)

    def _plus(self, other: ExactSums, sign: int) -> ExactSums:
        digit_rows = [part for part in (self, other) if len(part.digits)]
        lowest = min((part.lowest for part in digit_rows), default=0)
        height = max((part.lowest + len(part.digits) for part in digit_rows), default=0) - lowest
        digits, specials = np.zeros((height, len(self)), np.int64), np.zeros((3, len(self)), np.int64)
        for part, factor in ((self, 1), (other, sign)):
            if len(part.digits):
                at = part.lowest - lowest
                digits[at : at + len(part.digits)] += factor * part.digits
            if part.specials is not None:
                specials += factor * part.specials
        return ExactSums(lowest, digits, specials)

    def running(self) -> ExactSums:
        """The sums of the first 0, 1, 2... n sums."""
        digits, specials = (
            None if rows is None else np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))
            for rows in (self.digits, self.specials)
        )
        assert digits is not None
        return ExactSums(self.lowest, digits, specials)

    def column(self, name: str) -> pl.Series:
        """The sums as a column."""
        height = len(self.digits)
        digits = np.zeros((height + 4 + height % 2, len(self)), np.int64)
        digits[:height] = self.digits
        for i in range(len(digits) - 1):
            carry = digits[i] + (i % 2) * 2 ** (_BITS - 1) >> _BITS  # odd digits stay in [-2^27, 2^27)
            digits[i] -= carry << _BITS
            digits[i + 1] += carry
        items = digits[::2] + (digits[1::2] << _BITS)
        positions = np.arange(len(items)) + self.lowest // 2
        if self.specials is not None:
            items = np.concatenate((items, self.specials))
            positions = np.append(positions, (_NAN, _ABOVE, _BELOW))
        is_item = items.T != 0
        flat = np.ascontiguousarray(((items << 8) | positions[:, None]).T[is_item])
        offsets = np.append(0, np.cumsum(np.count_nonzero(is_item, axis=1)))
        values = pa.Array.from_buffers(pa.int64(), len(flat), [None, pa.py_buffer(flat)])
        lists = pa.Array.from_buffers(
            pa.large_list(pa.int64()), len(self), [None, pa.py_buffer(offsets)], children=[values]
        )
        return from_arrow(name, lists)

    def rounded(self, counts: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The sums as DOUBLEs, divided by positive ``counts`` if there are any. Rounds once, half to even.

        >>> tenth = ExactSums.of(Terms.of_values(pl.Series([0.1]), np.array([0])), 1)
        >>> tenth.rounded(np.array([3])).tolist() == [0.1 / 3]
        True
        """
        values = _rounded(self.digits, self.lowest, counts)
        if self.specials is None:
            return values
        nan, above, below = self.specials > 0
        values = np.where(above, np.inf, np.where(below, -np.inf, values))
        return np.where(nan | (above & below), np.nan, values)

    @property
    def unit(self) -> int:
        """The exponent of the lowest digit."""
        return UNIT + _BITS * self.lowest

    def integers(self) -> list[int]:
        """The sums of the finite values as integers in the unit 2^`unit`."""
        return [_integer(column) for column in self.digits.T.tolist()]

    @property
    def is_finite(self) -> Flags:
        """Whether all terms of each sum are finite; shape (n,)."""
        if self.specials is None:
            return np.ones(len(self), np.bool_)
        return np.asarray(~self.specials.any(axis=0))


def blocks(size: int) -> Iterator[tuple[int, int]]:
    """The starts and ends of blocks of `BLOCK_ROWS` sums; one empty block if there are none."""
    for low in range(0, max(size, 1), BLOCK_ROWS):
        yield low, min(low + BLOCK_ROWS, size)


def summed(name: str, dtype: pl.DataType) -> pl.Expr:
    """An expression in ``agg``: the sum of a column of numbers or of exact sums in each group."""
    total = by_group(pl.col(name), Terms.of_column) if dtype == SUM_DTYPE else pl.col(name).sum()
    return total.alias(name)


def is_nonzero(name: str, dtype: pl.DataType) -> pl.Expr:
    """An expression: whether a number or an exact sum is not 0."""
    return pl.col(name).list.len() > 0 if dtype == SUM_DTYPE else pl.col(name) != 0


def by_group(column: pl.Expr, terms: ColumnTerms) -> pl.Expr:
    """An expression in ``agg``: the sum of a column in each group; null if all its values are null."""

    def sums(groups: pl.Series) -> pl.Series:
        counts = groups.list.len().to_numpy()
        owners = np.repeat(np.arange(len(groups)), counts)
        result = by_owner(groups.explode(empty_as_null=False), owners, len(groups), terms)
        return result if counts.all() else result.zip_with(booleans(counts > 0), result.clear(1))

    return column.drop_nulls().implode().map_batches(sums, SUM_DTYPE, is_elementwise=True)


def by_owner(
    column: pl.Series, owners: Positions, size: int, terms: ColumnTerms = Terms.of_column
) -> pl.Series:
    """The sums of a column without nulls, for ``size`` owners. ``owners`` ascend.

    >>> sums = by_owner(pl.Series([0.5, 0.25, 4.0]), np.array([0, 0, 2]), 3, Terms.of_values)
    >>> ExactSums.of_column(sums).rounded().tolist()
    [0.75, 0.0, 4.0]
    """
    parts = []
    for low, high in blocks(size):
        rows = slice(*np.searchsorted(owners, (low, high)).tolist())
        parts.append(ExactSums.of(terms(column[rows], owners[rows] - low), high - low).column(column.name))
    return pl.concat(parts)


def weighted_terms(value: pl.Expr, weight: pl.Expr, terms: ColumnTerms) -> pl.Expr:
    """An expression: the term of each row times its weight, as an exact sum. A null is 0."""

    def sums(rows: pl.Series) -> pl.Series:
        values, weights = rows.struct.field("value"), rows.struct.field("weight").to_numpy()
        is_present = values.is_not_null()
        parts = []
        for low, high in blocks(len(rows)):
            owners = np.flatnonzero(is_present[low:high].to_numpy())
            block = terms(values[low:high].drop_nulls(), owners).times(weights[low:high])
            parts.append(ExactSums.of(block, high - low).column(rows.name))
        return pl.concat(parts)

    pairs = pl.struct(value.alias("value"), weight.alias("weight"))
    return pairs.map_batches(sums, SUM_DTYPE, is_elementwise=True)


def _parts(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mantissas and exponents of finite DOUBLEs: each value is its mantissa times 2^exponent, exactly."""
    exponents = np.maximum(np.frexp(values)[1].astype(np.int64) - 53, UNIT // 2)
    return np.ldexp(values, -exponents).astype(np.int64), exponents


def _finite_terms(values: NDArray[np.float64], owners: Positions) -> Terms:
    return _shifted(*_parts(values), owners)


def _shifted(mantissas: NDArray[np.int64], exponents: NDArray[np.int64], owners: Positions) -> Terms:
    """The terms of mantissas below 2^57 times 2^exponents."""
    positions, shifts = np.divmod(exponents - UNIT, _BITS)
    low = (mantissas & _MASK) << shifts
    high = ((mantissas >> _BITS) << shifts) + (low >> _BITS)
    digits = np.concatenate((low & _MASK, high & _MASK, high >> _BITS))
    positions = np.concatenate((positions, positions + 1, positions + 2))
    used = np.flatnonzero(digits)
    return Terms(np.concatenate((owners, owners, owners))[used], positions[used], digits[used])


def _scattered(
    rows: Positions, columns: Positions, numbers: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """The sums of numbers by row and column."""
    sums = np.zeros(shape[0] * shape[1], np.int64)
    np.add.at(sums, rows * shape[1] + columns, numbers)
    return sums.reshape(shape)


def _carry(digits: DigitRows) -> None:
    """Bring all digits but the last into the range from 0 to 2^28 - 1."""
    for low, high in pairwise(digits):
        high += low >> _BITS
        low &= _MASK


def _rounded(digits: DigitRows, lowest: int, counts: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Integers as DOUBLEs, divided by ``counts``."""
    size = digits.shape[1]
    below = 0 if counts is None else 4  # so that a quotient has 81 bits at least
    padded = np.zeros((below + len(digits) + 3, size), np.int64)
    padded[below:-3] = digits
    _carry(padded)
    is_negative = padded[-1] < 0
    padded[:, is_negative] *= -1
    _carry(padded)
    has_remainder = np.zeros(size, np.bool_) if counts is None else _divide(padded, counts)
    exponent = UNIT + _BITS * (lowest - below)
    results, last = _round(padded, has_remainder, exponent)
    if counts is not None:  # rare: large counts, or subnormal results
        for i in np.flatnonzero((counts >= 2**31) | (last < UNIT // 2)).tolist():
            results[i] = quotient(abs(_integer(digits[:, i].tolist())), int(counts[i]), UNIT + _BITS * lowest)
    return np.where(is_negative, -results, results) + 0.0


def _divide(digits: DigitRows, counts: NDArray[np.int64]) -> Flags:
    """Divide by counts below 2^31, in place; return whether each has a remainder."""
    divisors = np.where(counts < 2**31, counts, 1)
    remainders = np.zeros(digits.shape[1], np.int64)
    for digit in digits[::-1]:
        digit |= remainders << _BITS
        np.divmod(digit, divisors, out=(digit, remainders))
    return remainders > 0


def _round(
    digits: DigitRows, has_remainder: Flags, exponent: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Digits rounded to 53 bits, and the exponent of the last bit. ``has_remainder``: the value exceeds the digits."""
    is_present = digits != 0
    top = len(digits) - 1 - np.argmax(is_present[::-1], axis=0)
    columns = np.arange(digits.shape[1])
    first, second, third = (np.where(top >= i, digits[np.maximum(top - i, 0), columns], 0) for i in range(3))
    bits = np.maximum(np.frexp(first.astype(np.float64))[1].astype(np.int64), 1)
    word = (first << (57 - bits)) | (second << (29 - bits)) | (third >> (bits - 1))
    is_inexact = (
        has_remainder | (third & ((1 << (bits - 1)) - 1) > 0) | (np.argmax(is_present, axis=0) < top - 2)
    )
    cut = word & 15
    word >>= 4
    word += (cut > 8) | ((cut == 8) & (is_inexact | (word & 1 > 0)))
    last = exponent + _BITS * top + bits - 53
    with np.errstate(over="ignore"):
        return np.ldexp(word.astype(np.float64), last), last


def _integer(digits: Sequence[int]) -> int:
    """The integer with these digits."""
    number = 0
    for digit in reversed(digits):
        number = (number << _BITS) + digit
    return number


def quotient(numerator: int, denominator: int, exponent: int) -> float:
    """The DOUBLE nearest to a quotient of integers times 2^exponent; infinity if that is too large."""
    try:
        return (numerator << max(exponent, 0)) / (denominator << max(-exponent, 0))
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")
