"""Trigonometric functions of DOUBLEs, with angles in radians. Undefined results are NaN, as in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from xmlpunct.expressions.expression import Doc, Expression, Function
from xmlpunct.expressions.functions.casts import literal
from xmlpunct.expressions.functions.powers import double_function
from xmlpunct.types import DOUBLE


def _type_pi(record: Function, args: tuple[Expression, ...]) -> Expression:
    return literal(DOUBLE, math.pi)


def _times(factor: float) -> Callable[[pl.Expr], pl.Expr]:
    return lambda x: x * factor


# fmt: off
PI = Function("PI", _type_pi, called=("PI",), arity=(0, 0), doc=Doc("PI()", "The number pi.", "PI()"))
RADIANS = double_function("RADIANS", _times(math.pi / 180), Doc("RADIANS(x)", "x degrees in radians.", "RADIANS(180)"))
DEGREES = double_function("DEGREES", _times(180 / math.pi), Doc("DEGREES(x)", "x radians in degrees.", "DEGREES(PI())"))
SIN = double_function("SIN", pl.Expr.sin, Doc("SIN(x)", "The sine; NaN of INF.", "SIN(0.5)"))
COS = double_function("COS", pl.Expr.cos, Doc("COS(x)", "The cosine; NaN of INF.", "COS(0.5)"))
TAN = double_function("TAN", pl.Expr.tan, Doc("TAN(x)", "The tangent; NaN of INF.", "TAN(0.5)"))
COT = double_function("COT", lambda x: 1 / x.tan(), Doc("COT(x)", "The cotangent; INF of 0.", "COT(0.5)"))
ASIN = double_function("ASIN", pl.Expr.arcsin, Doc("ASIN(x)", "The angle with the sine x; NaN beyond 1.", "ASIN(1)"))
ACOS = double_function("ACOS", pl.Expr.arccos, Doc("ACOS(x)", "The angle with the cosine x; NaN beyond 1.", "ACOS(1)"))
ATAN = double_function("ATAN", pl.Expr.arctan, Doc("ATAN(x)", "The angle with the tangent x.", "ATAN(1)"))
ATAN2 = double_function("ATAN2", pl.arctan2, Doc("ATAN2(y, x)", "The angle of the point (x, y).", "ATAN2(1, -1)"), 2)
SINH = double_function("SINH", pl.Expr.sinh, Doc("SINH(x)", "The hyperbolic sine.", "SINH(1)"))
COSH = double_function("COSH", pl.Expr.cosh, Doc("COSH(x)", "The hyperbolic cosine.", "COSH(1)"))
TANH = double_function("TANH", pl.Expr.tanh, Doc("TANH(x)", "The hyperbolic tangent.", "TANH(1)"))
ASINH = double_function("ASINH", pl.Expr.arcsinh, Doc("ASINH(x)", "The inverse of SINH.", "ASINH(1)"))
ACOSH = double_function("ACOSH", pl.Expr.arccosh, Doc("ACOSH(x)", "The inverse of COSH; NaN below 1.", "ACOSH(2)"))
ATANH = double_function("ATANH", pl.Expr.arctanh, Doc("ATANH(x)", "The inverse of TANH; NaN beyond 1.", "ATANH(0.5)"))
