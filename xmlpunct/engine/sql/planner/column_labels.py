"""Names of output columns that the query does not name: those of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from xmlpunct.engine.sql.syntax.dialect import AggregateCall

_BETWEEN_OPERANDS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%", exp.DPipe: "||",
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.And: "AND", exp.Or: "OR", exp.Like: "~~", exp.ILike: "~~*", exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}  # fmt: skip
_QUOTED = {
    "century", "day", "decade", "hour", "if", "left", "microsecond", "millennium", "millisecond", "minute", "month",
    "nullif", "quarter", "replace", "right", "second", "substring", "trim", "week", "year",
}  # fmt: skip
"""Functions whose names are keywords of DuckDB, which it writes in quotes."""


def label(item: exp.Expr) -> str:
    """The name that DuckDB gives to an item of SELECT without an alias.

    >>> from xmlpunct.engine.sql.syntax.dialect import parse_statements
    >>> [label(item) for item in parse_statements("SELECT COUNT(*), max(a), a+1, -t.a, 'x' FROM t")[0].expressions]
    ['count_star()', 'max(a)', '(a + 1)', '(-(t.a))', "'x'"]
    """
    if isinstance(item, exp.Paren):
        return label(item.this)
    if isinstance(item, exp.Column | exp.Identifier):
        return ".".join(part.name for part in item.parts) if isinstance(item, exp.Column) else item.name
    if type(item) in _BETWEEN_OPERANDS:
        operator = _BETWEEN_OPERANDS[type(item)]
        operands = item.flatten() if isinstance(item, exp.Connector) else (item.this, item.expression)
        return f"({f' {operator} '.join(map(label, operands))})"
    if isinstance(item, exp.Neg):
        return f"-{label(item.this)}" if isinstance(item.this, exp.Literal) else f"(-({label(item.this)}))"
    if isinstance(item, exp.Not):
        tested = item.this
        if isinstance(tested, exp.Is) and isinstance(tested.expression, exp.Null):
            return f"({label(tested.this)} IS NOT NULL)"
        return f"(NOT {label(tested)})"
    if isinstance(item, exp.Is) and isinstance(item.expression, exp.Null):
        return f"({label(item.this)} IS NULL)"
    if isinstance(item, exp.Between):
        low, high = item.args["low"], item.args["high"]
        return f"({label(item.this)} BETWEEN {label(low)} AND {label(high)})"
    if isinstance(item, exp.In) and item.expressions:
        return f"({label(item.this)} IN ({_listed(item.expressions)}))"
    if isinstance(item, exp.Count) and (item.this is None or isinstance(item.this, exp.Star)):
        return "count_star()"
    if isinstance(item, AggregateCall):
        return f"{item.name.lower()}({_listed(item.expressions)})"
    if isinstance(item, exp.Filter):
        return f"{label(item.this)} FILTER (WHERE {label(item.expression.this)})"
    if isinstance(item, exp.Boolean):
        return str(item.this).lower()
    if isinstance(item, exp.Case):
        return _case(item)
    if isinstance(item, exp.Distinct):
        return f"DISTINCT {_listed(item.expressions)}"
    if isinstance(item, exp.Coalesce):
        return f"COALESCE({_listed([item.this, *item.expressions])})"
    name = str(item.meta.get("name") or (item.sql_name() if isinstance(item, exp.AggFunc) else ""))
    if isinstance(item, exp.Func) and name and not isinstance(item, exp.Cast):
        name = f'"{name}"' if (name := name.lower()) in _QUOTED else name
        return f"{name}({_listed(_arguments(item))})"
    return " ".join(item.sql().split())


def _case(case: exp.Case) -> str:
    branches = []
    for branch in case.args["ifs"]:
        condition = label(branch.this)
        if case.this is not None:
            condition = f"({label(case.this)} = {condition})"
        branches.append(f"WHEN ({condition}) THEN ({label(branch.args['true'])})")
    default = case.args.get("default")
    return f"CASE  {' '.join(branches)} ELSE {'NULL' if default is None else label(default)} END"


def _listed(items: Iterable[exp.Expr]) -> str:
    return ", ".join(map(label, items))


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function, in order."""
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    arguments: list[exp.Expr] = []
    for name in call.arg_types:
        value = call.args.get(name)
        arguments += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    return arguments


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names, with ``_1``, ``_2``... behind names that are repeated.

    >>> distinct_names(["a", "b", "a", "a", "a_1"])
    ['a', 'b', 'a_1', 'a_2', 'a_1_1']
    """
    used, unused = set[str](), list[str]()
    for name in names:
        number, candidate = 0, name
        while candidate in used:
            number += 1
            candidate = f"{name}_{number}"
        used.add(candidate)
        unused.append(candidate)
    return unused
