"""What to write instead of what is not supported."""

from __future__ import annotations

from sqlglot import exp

from xmlpunct.engine.sql.syntax.window_syntax import StreamOf
from xmlpunct.engine.sql.syntax.xml_syntax import XmlAttributes

OVER_ONLY: tuple[type[exp.Expr], ...] = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.CumeDist, exp.PercentRank, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
"""Functions that make no sense without OVER."""

SUBQUERY = (
    "IN (SELECT ...) and EXISTS (SELECT ...) stand in WHERE, joined to the rest of it by AND; elsewhere say "
    "(SELECT COUNT(*) FROM ... WHERE ...) > 0"
)
PARAMETER = "a parameter is written :name, and given with --param name=value or params={...}"

_SHIFT = "t + INTERVAL '1' DAY"
_GAP = "DATE_DIFF('day', a, b)"
_CLOCK = "no clock decides a result; give the moment as a parameter, :now"
_CHANCE = "a result does not depend on chance"
_BITS = "there are no operators on bits"

FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(("DATE_SUB", "DATESUB", "AGE", "TIMESTAMPDIFF", "TIMESTAMP_DIFF"), f"say {_GAP}, or {_SHIFT}"),
    **dict.fromkeys(("DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "TO_DAYS", "TO_HOURS"), f"say {_SHIFT}"),
    "DATETRUNC": "say DATE_TRUNC('hour', t)",
    **dict.fromkeys(("NOW", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "TODAY", "GETDATE"), _CLOCK),
    **dict.fromkeys(("LOCALTIME", "LOCALTIMESTAMP", "CURRENT_LOCALTIMESTAMP", "GET_CURRENT_TIMESTAMP"), _CLOCK),
    **dict.fromkeys(("RANDOM", "RAND", "UUID", "GEN_RANDOM_UUID"), _CHANCE),
    **dict.fromkeys(("FIRST", "ARBITRARY"), "say ARG_MIN(x, y), the x beside the least y, or ANY_VALUE(x)"),
    "LAST": "say ARG_MAX(x, y), the x beside the greatest y",
    **dict.fromkeys(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT"), "say COUNT(DISTINCT x), which is exact"),
    "APPROX_QUANTILE": "say QUANTILE_CONT(x, 0.5), which is exact",
    "FSUM": "say SUM(x)",
    "ISNAN": "say x = 'NaN'::DOUBLE",
    "XOR": _BITS, "BIT_AND": _BITS, "BIT_OR": _BITS, "BIT_XOR": _BITS,
    "CHAR_LENGTH": "say LENGTH(s)",
    "STRLEN": "say LENGTH(s)",
    "FORMAT": "say CONCAT(a, b, ...), or STRFTIME(t, format)",
    "PRINTF": "say CONCAT(a, b, ...), or STRFTIME(t, format)",
    "INITCAP": "say CONCAT(UPPER(LEFT(s, 1)), LOWER(SUBSTRING(s, 2)))",
    "UNNEST": "say FROM s CROSS JOIN UNNEST(array)",
    "COLUMNS": "name the columns, or say * EXCLUDE (a, b)",
    "TYPEOF": "xmlpunct explain says which types the columns have",
}  # fmt: skip
"""By the names of functions that are not supported."""

NODES: dict[type[exp.Expr], str] = {
    exp.Glob: "GLOB is not supported: say LIKE, or REGEXP_LIKE(s, pattern)",
    exp.Bracket: "[...] is not supported here: say SUBSTRING(s, 1, 1), SPLIT_PART, or CROSS JOIN UNNEST(array)",
    exp.Array: "an array stands in no expression: say SPLIT(s, ','), or ARRAY_AGG(x)",
    exp.Struct: "there are no structs: list the columns, or say XMLELEMENT or XMLFOREST",
    exp.Interval: f"an INTERVAL is added to a moment: {_SHIFT}",
    exp.AtTimeZone: "a TIMESTAMP is in UTC: say t + INTERVAL '1' HOUR",
    exp.Collate: "texts are compared by their characters: say LOWER(s)",
    exp.Placeholder: PARAMETER,
    exp.BitwiseAnd: _BITS, exp.BitwiseOr: _BITS, exp.BitwiseNot: _BITS, exp.BitwiseXor: _BITS,
    exp.BitwiseLeftShift: _BITS, exp.BitwiseRightShift: _BITS,
    exp.Dot: "a function is written before its arguments: LENGTH(s)",
    exp.Tuple: "a row stands in (a, b) IN (SELECT ...) alone: else say a = 1 AND b = 2",
    exp.Any: "x = ANY (SELECT ...) stands in WHERE; x > ANY is x > (SELECT MIN(...) ...), and of values say IN (1, 2)",
    exp.All: "x <> ALL (SELECT ...) stands in WHERE; x > ALL is x > (SELECT MAX(...) ...)",
    exp.Values: "VALUES stands in FROM, or is a whole query: say IN (1, 2)",
    XmlAttributes: "XMLATTRIBUTES stands in XMLELEMENT",
}  # fmt: skip
"""By the nodes of syntax that is not supported in expressions."""


def instead(node: exp.Expr) -> str:
    """Why an expression is refused, and what to write instead."""
    if type(node) in NODES:
        return NODES[type(node)]
    if isinstance(node, StreamOf):
        return f"{node.args['kind']}(...) is a whole query, or stands in FROM"
    if isinstance(node, OVER_ONLY):
        return f"{node.sql().partition('(')[0]} goes with OVER (... ORDER BY ...)"
    if isinstance(node, exp.Query | exp.Exists | exp.SubqueryPredicate):
        return SUBQUERY
    if isinstance(node, exp.Anonymous):
        known = FUNCTIONS.get(str(node.name).upper())
        return f"there is no function {node.name}{f': {known}' if known else ''}"
    if isinstance(node, exp.Func):
        name = str(node.meta.get("name") or node.sql_name())
        known = FUNCTIONS.get(name.upper())
        return f"the function {name} is not supported{f': {known}' if known else ''}"
    return f"{' '.join(node.sql().split())[:40]} is not supported here"
