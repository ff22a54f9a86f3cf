"""SQL: from text to an optimised plan."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from xmlpunct.engine.inference import Inference
from xmlpunct.engine.inputs.tables import Table
from xmlpunct.engine.plan import Node, Query, Scan, numbered
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.sql.catalog import ORIGIN_NAMES, declared, named
from xmlpunct.engine.sql.dialect import about, parse_statements, refuse
from xmlpunct.engine.sql.files import Files
from xmlpunct.engine.sql.parameters import bound
from xmlpunct.engine.sql.queries import Context, plan_outermost, with_views
from xmlpunct.engine.sql.relations import instants_read
from xmlpunct.engine.sql.scope import Relation
from xmlpunct.engine.sql.stream_syntax import View
from xmlpunct.errors import SqlError
from xmlpunct.firehose.outline import is_column_path

__all__ = ["plan"]

DEEPEST = 150
"""How many operators can follow each other. Plans are walked by recursion, and Python's stack ends at 1,000 calls."""


def plan(
    sql: str,
    sources: Mapping[str, str] | None = None,
    rules: Rules = USUAL,
    inference: Inference | None = None,
    tables: Mapping[str, Table] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Query:
    """Plan a query.

    ``sql`` has CREATE statements and exactly one query. ``sources`` maps names of streams to sources that
    replace the declared ones. ``rules`` are the optional rules that are on. ``inference`` finds the columns
    that nobody declared. ``tables`` are streams of their names, declared or not. ``parameters`` are the literals that
    stand for each ``:name``.
    Raises `SqlError`, with the place, for
    what cannot be read or cannot run, and `UsageError` for a source of an undeclared stream.

    >>> query = plan("CREATE STREAM s (a INT, b INT) WITH (source = 's.xml'); SELECT b FROM s WHERE b > 0")
    >>> query.root.schema.names, query.streams[0].source
    (('b',), 's.xml')
    """
    sql = bound(sql, parameters or {})
    try:
        with about(sql):
            return _plan(sql, sources or {}, rules, inference or Inference(), tables or {})
    except RecursionError:
        raise SqlError("this query is nested too deeply") from None


def _plan(
    sql: str, sources: Mapping[str, str], rules: Rules, inference: Inference, tables: Mapping[str, Table]
) -> Query:
    statements = parse_statements(sql)
    views = [s for s in statements if isinstance(s, View)]
    queries = [s for s in statements if not isinstance(s, exp.Create | View)]
    placed = any(c.name in ORIGIN_NAMES for query in (*views, *queries) for c in query.find_all(exp.Column))
    creates = [s for s in statements if isinstance(s, exp.Create)]
    streams = declared(creates, sources, inference, placed, tables)
    if len(queries) != 1:
        if queries:
            refuse("more than one query: a second one begins here", queries[1])
        raise SqlError("there is no query: SELECT ... is missing")
    files = Files(inference)
    instants = instants_read([*views, *queries], streams)
    context = with_views(views, Context(streams, {}, files=files, instants=instants))
    relation = plan_outermost(queries[0], context)
    _check_output(relation)
    root = numbered(optimize(relation.node, rules))
    _check_depth(root)
    used = dict.fromkeys(scan.stream for scan in root.find(Scan))
    reads = tuple(named(statements, streams | files.streams))
    return Query(root, tuple(used), sql, rules, reads, inference.records, inference.opened)


def _check_depth(root: Node) -> None:
    """Refuse a plan that later steps could not walk within Python's stack."""
    depth: dict[int, int] = {}
    for node in root.walk():
        depth[id(node)] = 1 + max((depth[id(below)] for below in node.inputs), default=0)
    if depth[id(root)] > DEEPEST:
        raise SqlError(f"this query is nested too deeply: at most {DEEPEST} steps can follow each other")


def _check_output(relation: Relation) -> None:
    """Refuse output columns that cannot be elements of a result."""
    seen = set()
    for field in relation.fields:
        if field.name in seen:
            refuse(f"two output columns are named {field.name}: give one an alias", field.origin)
        if not is_column_path(field.name):
            refuse(f"{field.name!r} cannot name an XML element: give the column another alias", field.origin)
        seen.add(field.name)
