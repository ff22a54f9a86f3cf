"""Roots, powers and logarithms: functions of DOUBLEs. Undefined results are NaN or INF, as in DuckDB.

No function is declared monotone: NaN is the greatest value, and the last bit of a logarithm is not proved to rise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import floats
from xmlpunct.base.doubles import canonical, divided
from xmlpunct.expressions.expression import Doc, Expression, Function, FunctionResult, Syntax
from xmlpunct.expressions.functions.arithmetic import of_number
from xmlpunct.expressions.functions.casts import cast
from xmlpunct.types import DOUBLE


def _typing(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(DOUBLE, *(cast(of_number(record.name, a), DOUBLE) for a in args))


def _of_array(
    compute: Callable[..., np.ndarray[tuple[int], np.dtype[np.float64]]],
) -> Callable[[pl.Expr], pl.Expr]:
    """A numpy function as a function of polars expressions."""

    def run(column: pl.Series) -> pl.Series:
        with np.errstate(all="ignore"):
            values = compute(column.to_numpy())
        return floats(column.name, values, column.is_null().to_numpy() if column.null_count() else None)

    return lambda value: value.map_batches(run, pl.Float64(), is_elementwise=True)


_log10, _log2 = _of_array(np.log10), _of_array(np.log2)  # polars' log10(1000) is 2.9999999999999996


def double_function(name: str, compute: Callable[..., pl.Expr], doc: Doc, arguments: int = 1) -> Function:
    """A function of DOUBLEs."""
    return Function(
        name,
        _typing,
        lambda call, *values: FunctionResult(canonical(compute(*values))),
        called=(name,),
        arity=(arguments, arguments),
        doc=doc,
    )


def _type_log(record: Function, args: tuple[Expression, ...]) -> Expression:
    return _typing(record, args) if len(args) > 1 else LOG10(*args)


# fmt: off
SQRT = double_function(
    "SQRT", pl.Expr.sqrt, Doc("SQRT(x)", "The square root; NaN of a negative number.", "SQRT(2)"))
EXP = double_function("EXP", pl.Expr.exp, Doc("EXP(x)", "e to the power of x.", "EXP(1)"))
LN = double_function(
    "LN", pl.Expr.log, Doc("LN(x)", "The natural logarithm; -INF of 0, NaN of a negative number.", "LN(2)"))
LOG10 = double_function("LOG10", _log10, Doc("LOG10(x)", "The logarithm to base 10.", "LOG10(1000)"))
LOG2 = double_function("LOG2", _log2, Doc("LOG2(x)", "The logarithm to base 2.", "LOG2(8)"))
LOG = Function(
    "LOG", _type_log, lambda call, base, x: FunctionResult(canonical(divided(_log2(x), _log2(base)))),
    called=("LOG",), arity=(1, 2),
    doc=Doc("LOG([base,] x)", "The logarithm of x to the base. The default base is 10.", "LOG(2, 8)"))
POWER = Function(
    "POWER", _typing, lambda call, x, y: FunctionResult(canonical(x.pow(y))), Syntax("Pow", "this expression"),
    called=("POWER", "POW"),
    doc=Doc("POWER(x, y), x ^ y, x ** y", "x to the power of y, as a DOUBLE.", "POWER(2, 10)"))
