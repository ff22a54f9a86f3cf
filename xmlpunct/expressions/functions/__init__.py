"""SQL's functions: one `Function` record for each.

`call` applies a function by its SQL name. It raises ValueError with the reason if the function does not take the types
of the arguments. Explicit CASTs in the tree promote numbers, so evaluation receives operands of one type. Only
comparisons of INT with DOUBLE and DECIMAL stay mixed, because they are exact. A NULL literal takes the type of the
other arguments.
"""

from __future__ import annotations

from xmlpunct.expressions.expression import FUNCTIONS, Expression
from xmlpunct.expressions.functions import (
    arithmetic,
    conditions,
    interval_arithmetic,
    json_text,
    lists,
    matching,
    moment_functions,
    powers,
    regex,
    rounding,
    text_functions,
    time_buckets,
    time_formats,
    trigonometry,
    xml,
)
from xmlpunct.expressions.functions.casts import NULL, cast, common_type, literal, number, of_type, try_cast
from xmlpunct.expressions.functions.moment_functions import UNITS

__all__ = [
    "NULL", "UNITS", "arithmetic", "call", "cast", "common_type", "conditions", "interval_arithmetic", "json_text",
    "lists", "literal", "matching", "moment_functions", "number", "of_type", "powers", "regex", "rounding",
    "text_functions", "time_buckets", "time_formats", "trigonometry", "try_cast", "xml",
]  # fmt: skip


def call(function: str, *args: Expression) -> Expression:
    """``function`` applied to ``args``. Raises ValueError if it does not take their types.

    >>> x = number("7")
    >>> print(call("+", x, number("1.5")), call("+", x, number("1.5")).type)
    7 + 1.5 DECIMAL(21,1)
    """
    if function not in FUNCTIONS:
        raise ValueError(f"there is no function {function}")
    return FUNCTIONS[function](*args)
