"""Advice for unsupported syntax: the reason, and the supported form to write."""

from __future__ import annotations

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.sql.syntax.window_syntax import StreamOf
from xmlpunct.engine.sql.syntax.xml_syntax import XmlAttributes
from xmlpunct.expressions.expression import FUNCTIONS as SCALARS
from xmlpunct.operators.group.aggregate import FUNCTIONS as AGGREGATES

OVER_ONLY: tuple[type[exp.Expr], ...] = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.CumeDist, exp.PercentRank, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
"""Functions that make no sense without OVER."""

SUBQUERY = (
    "IN (SELECT ...) and EXISTS (SELECT ...) are allowed in WHERE, combined by AND; elsewhere write "
    "(SELECT COUNT(*) FROM ... WHERE ...) > 0"
)
PARAMETER = "a parameter is written :name, and set by --param name=value or params={...}"

_SHIFT = "t + INTERVAL '1' DAY"
_GAP = "DATE_DIFF('day', a, b)"
_CLOCK = "a result does not depend on the clock; pass the time as a parameter, :now"
_CHANCE = "a result does not depend on chance"
_BITS = "bit operators are not supported"

FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(("DATE_SUB", "DATESUB", "AGE", "TIMESTAMPDIFF", "TIMESTAMP_DIFF"), f"write {_GAP}, or {_SHIFT}"),
    **dict.fromkeys(("DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "TO_DAYS", "TO_HOURS"), f"write {_SHIFT}"),
    "DATETRUNC": "write DATE_TRUNC('hour', t)",
    **dict.fromkeys(("NOW", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "TODAY", "GETDATE"), _CLOCK),
    **dict.fromkeys(("LOCALTIME", "LOCALTIMESTAMP", "CURRENT_LOCALTIMESTAMP", "GET_CURRENT_TIMESTAMP"), _CLOCK),
    **dict.fromkeys(("RANDOM", "RAND", "UUID", "GEN_RANDOM_UUID"), _CHANCE),
    **dict.fromkeys(("FIRST", "ARBITRARY"), "write ARG_MIN(x, y), the x of the least y, or ANY_VALUE(x)"),
    "LAST": "write ARG_MAX(x, y), the x of the greatest y",
    **dict.fromkeys(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT"), "write COUNT(DISTINCT x), which is exact"),
    "APPROX_QUANTILE": "write QUANTILE_CONT(x, 0.5), which is exact",
    "FSUM": "write SUM(x)",
    "ISNAN": "write x = 'NaN'::DOUBLE",
    "XOR": _BITS, "BIT_AND": _BITS, "BIT_OR": _BITS, "BIT_XOR": _BITS,
    "CHAR_LENGTH": "write LENGTH(s)",
    "STRLEN": "write LENGTH(s)",
    "FORMAT": "write CONCAT(a, b, ...), or STRFTIME(t, format)",
    "PRINTF": "write CONCAT(a, b, ...), or STRFTIME(t, format)",
    "INITCAP": "write CONCAT(UPPER(LEFT(s, 1)), LOWER(SUBSTRING(s, 2)))",
    "UNNEST": "write FROM s CROSS JOIN UNNEST(array)",
    "COLUMNS": "name the columns, or write * EXCLUDE (a, b)",
    "TYPEOF": "xmlpunct explain shows the types of the columns",
}  # fmt: skip
"""Advice by the name of an unsupported function."""

NODES: dict[type[exp.Expr], str] = {
    exp.Glob: "GLOB is not supported: write LIKE, or REGEXP_LIKE(s, pattern)",
    exp.Bracket: "[...] is not supported here: write SUBSTRING(s, 1, 1), SPLIT_PART, or CROSS JOIN UNNEST(array)",
    exp.Array: "an array cannot be part of an expression: write SPLIT(s, ','), or ARRAY_AGG(x)",
    exp.Struct: "structs are not supported: list the columns, or write XMLELEMENT or XMLFOREST",
    exp.Interval: f"an INTERVAL can only be added to a DATE or TIMESTAMP: {_SHIFT}",
    exp.AtTimeZone: "a TIMESTAMP is in UTC: write t + INTERVAL '1' HOUR",
    exp.Collate: "texts are compared by their characters: write LOWER(s)",
    exp.Placeholder: PARAMETER,
    exp.BitwiseAnd: _BITS, exp.BitwiseOr: _BITS, exp.BitwiseNot: _BITS, exp.BitwiseXor: _BITS,
    exp.BitwiseLeftShift: _BITS, exp.BitwiseRightShift: _BITS,
    exp.Dot: "a function is written before its arguments: LENGTH(s)",
    exp.Tuple: "a row is only allowed in (a, b) IN (SELECT ...): write a = 1 AND b = 2",
    exp.Any: "x = ANY (SELECT ...) is allowed in WHERE; for x > ANY write x > (SELECT MIN(...) ...), for values "
    "IN (1, 2)",
    exp.All: "x <> ALL (SELECT ...) is allowed in WHERE; for x > ALL write x > (SELECT MAX(...) ...)",
    exp.Values: "VALUES is allowed in FROM, or as a query: write IN (1, 2)",
    XmlAttributes: "XMLATTRIBUTES is allowed in XMLELEMENT only",
}  # fmt: skip
"""Advice by the node of syntax that is not supported in expressions."""


def instead(node: exp.Expr) -> str:
    """The reason why an expression is refused, with the supported form to write."""
    if type(node) in NODES:
        return NODES[type(node)]
    if isinstance(node, StreamOf):
        return f"{node.args['kind']}(...) must be the complete query, the complete list of SELECT, or in FROM"
    if isinstance(node, OVER_ONLY):
        return f"{node.sql().partition('(')[0]} needs OVER (... ORDER BY ...)"
    if isinstance(node, exp.Query | exp.Exists | exp.SubqueryPredicate):
        return SUBQUERY
    if isinstance(node, exp.Anonymous):
        advice = FUNCTIONS.get(str(node.name).upper())
        names = [name for name, f in SCALARS.items() for name in (name, *f.called)]
        names += [name for name, f in AGGREGATES.items() for name in (name, *f.called)]
        hint = f": {advice}" if advice else did_you_mean(str(node.name), names)
        return f"there is no function {node.name}{hint}"
    if isinstance(node, exp.Func):
        name = str(node.meta.get("name") or node.sql_name())
        advice = FUNCTIONS.get(name.upper())
        return f"the function {name} is not supported{f': {advice}' if advice else ''}"
    return f"{' '.join(node.sql().split())[:40]} is not supported here"
