"""What a plan means, by DuckDB: the plan printed as SQL, run over the whole input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import polars as pl

from tests.oracle.values import Row
from xmlpunct.engine import plan
from xmlpunct.operators import Aggregate
from xmlpunct.operators.expression import Call, Expression


def answer(root: plan.Node, tables: Mapping[str, pl.DataFrame]) -> list[Row]:
    """The rows of a plan over whole tables."""
    with duckdb.connect() as connection:
        for name, frame in tables.items():
            connection.register(name, frame.to_arrow())
        return connection.execute(sql(root)).fetchall()


def quoted(name: str) -> str:
    return f'"{name}"'


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def scalar(e: Expression) -> str:
    """An expression; division of whole numbers truncates."""
    if not isinstance(e, Call):
        return f"CAST(NULL AS {e.type})" if str(e) == "NULL" else str(e)
    args = [scalar(a) for a in e.args]
    if e.function == "IS NULL":
        return f"({args[0]} IS NULL)"
    if e.function in ("NOT", "NEG"):
        return f"({'NOT' if e.function == 'NOT' else '-'} {args[0]})"
    if e.function == "CASE":
        whens = "".join(f" WHEN {w} THEN {t}" for w, t in zip(args[::2], args[1::2], strict=False))
        return f"(CASE{whens} ELSE {args[-1]} END)"
    if (len(args) == 2 and not e.function.isalpha()) or e.function in ("AND", "OR"):
        return f"({args[0]} {'//' if e.function == '/' else e.function} {args[1]})"
    return f"{e.function}({', '.join(args)})"


def aggregate(a: Aggregate) -> str:
    argument = "*" if a.argument is None else ("DISTINCT " if a.distinct else "") + quoted(a.argument)
    return f"{a.function}({argument}) AS {quoted(a.name)}"


def condition(keys: plan.Keys, residual: Expression | None) -> str:
    tests = [f"l.{quoted(a)} = r.{quoted(b)}" for a, b in keys]
    return " AND ".join([*tests, *([] if residual is None else [scalar(residual)])]) or "TRUE"


def sql(node: plan.Node) -> str:
    """A plan as a query."""
    below = [sql(child) for child in node.inputs]
    if isinstance(node, plan.Scan):
        named = zip(node.columns, node.names, strict=True)
        picked = ", ".join(f"{quoted(c)} AS {quoted(n)}" for c, n in named)
        return f"SELECT {picked} FROM {node.stream.name}"
    if isinstance(node, plan.Select):
        return f"SELECT * FROM ({below[0]}) WHERE {scalar(node.predicate)}"
    if isinstance(node, plan.Project):
        return f"SELECT {', '.join(f'{scalar(e)} AS {quoted(n)}' for n, e in node.columns)} FROM ({below[0]})"
    if isinstance(node, plan.DupElim):
        return f"SELECT DISTINCT * FROM ({below[0]})"
    if isinstance(node, plan.GroupBy):
        columns = ", ".join([*map(quoted, node.keys), *map(aggregate, node.aggregates)])
        return f"SELECT {columns} FROM ({below[0]})" + (f" GROUP BY {listed(node.keys)}" if node.keys else "")
    if isinstance(node, plan.Join):
        kind, on = node.kind.upper(), condition(node.keys, node.residual)
        return f"SELECT {listed(node.schema.names)} FROM ({below[0]}) l {kind} JOIN ({below[1]}) r ON {on}"
    if isinstance(node, plan.SemiJoin):
        exists = f"EXISTS (SELECT 1 FROM ({below[1]}) r WHERE {condition(node.keys, node.residual)})"
        return f"SELECT * FROM ({below[0]}) l WHERE {'NOT ' if node.anti else ''}{exists}"
    if isinstance(node, plan.NotIn):
        values = f"SELECT {quoted(node.right_column)} FROM ({below[1]})"
        return f"SELECT * FROM ({below[0]}) WHERE {quoted(node.left_column)} NOT IN ({values})"
    words = {plan.Merge: "UNION ALL", plan.Union: "UNION"}
    words |= {plan.Intersect: "INTERSECT", plan.Difference: "EXCEPT"}  # type: ignore[dict-item]
    return f" {words[type(node)]} ".join(f"(SELECT * FROM ({part}))" for part in below)  # type: ignore[index]
