"""DESCRIBE, SUMMARIZE and SHOW STREAMS, as queries with the columns that DuckDB gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from xmlpunct.connectors.source import without_password
from xmlpunct.engine.plan import is_changing
from xmlpunct.engine.sql.planner.declaration import string_literal
from xmlpunct.engine.sql.planner.from_clause import Context, Named
from xmlpunct.engine.sql.planner.query_planner import plan_query
from xmlpunct.engine.sql.planner.scope import PlannedRelation
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.engine.sql.syntax.stream_syntax import Description
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.sql_errors import refuse
from xmlpunct.types import DATE, TIMESTAMP

_INPUT = "described input"
"""The name of the described query in the query that describes it."""


def written_out(query: exp.Expr, context: Context) -> tuple[exp.Expr, Context]:
    """The query that a statement stands for, and its context; any other query as it is."""
    if not isinstance(query, Description):
        return query, context
    if query.args["kind"] == "SHOW":
        rows = [(s.name, s.element, without_password(s.source or "")) for s in context.streams.values()]
        return _constant(("name", "element", "source"), rows), context
    relation = plan_query(query.this, context)
    columns = _columns(relation)
    if query.args["kind"] == "DESCRIBE":
        rows = [(name, str(a.type), "YES" if a.nullable else "NO") for name, a in columns]
        return _constant(("column_name", "column_type", "null"), rows), context
    if is_changing(relation.node):
        refuse("SUMMARIZE reads a stream, not a relation", query)
    repeated = {name for name, count in Counter(name for name, _ in columns).items() if count > 1}
    if repeated:
        refuse(f"two columns have the name {min(repeated)}: give one an alias", query)
    parts = (_summary(number, name, attribute) for number, (name, attribute) in enumerate(columns))
    names = (
        "column_name, column_type, min, max, distinct_count, avg, std, q25, q50, q75, count, null_percentage"
    )
    text = f"SELECT {names} FROM ({' UNION ALL '.join(parts)}) AS summary ORDER BY position"
    named = context.named.extended(_INPUT, Named(query.this, (), context))
    return parse_statements(text)[0], replace(context, named=named)


def _columns(relation: PlannedRelation) -> list[tuple[str, Attribute]]:
    return [(field.name, relation.node.schema[field.column]) for field in relation.listed()]


def _constant(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> exp.Expr:
    """A query whose results are these rows, in this order."""
    texts = [", ".join([str(number), *map(string_literal, row)]) for number, row in enumerate(rows)]
    empty = ", ".join(["-1", *("''" for _ in names)])
    quoted = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(f"({text})" for text in [empty, *texts])
    text = (
        f"SELECT {quoted} FROM (VALUES {values}) AS described (position, {quoted}) WHERE position >= 0 "
        "ORDER BY position"
    )
    return parse_statements(text)[0]


def _summary(number: int, name: str, attribute: Attribute) -> str:
    """The query for the summary of one column."""
    type_, column = attribute.type, '"' + name.replace('"', '""') + '"'
    lowest, highest, values, mean, deviation = "NULL", "NULL", "NULL", "NULL", "NULL"
    quantiles = dict.fromkeys((25, 50, 75), "NULL")
    if type_.comparable:
        lowest, highest, values = f"MIN({column})", f"MAX({column})", f"COUNT(DISTINCT {column})"
    if type_.numeric:
        mean, deviation = f"AVG({column})", f"STDDEV({column})"
    if type_.numeric or type_ in (DATE, TIMESTAMP):
        quantiles = {percent: f"QUANTILE_DISC({column}, {percent / 100})" for percent in quantiles}
    quantile_columns = ", ".join(
        f"CAST({value} AS STRING) AS q{percent}" for percent, value in quantiles.items()
    )
    share = f"100 * CAST(COUNT(*) - COUNT({column}) AS DOUBLE) / NULLIF(COUNT(*), 0)"
    return (
        f"SELECT {number} AS position, {string_literal(name)} AS column_name, "
        f"{string_literal(str(type_))} AS column_type, CAST({lowest} AS STRING) AS min, "
        f"CAST({highest} AS STRING) AS max, CAST({values} AS INT) AS distinct_count, CAST({mean} AS DOUBLE) AS avg, "
        f"CAST({deviation} AS DOUBLE) AS std, {quantile_columns}, "
        f'COUNT(*) AS count, ROUND({share}, 2) AS null_percentage FROM "{_INPUT}"'
    )
