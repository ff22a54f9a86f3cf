"""SQL: from text to an optimised plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from xmlpunct.base.errors import SqlError
from xmlpunct.engine.inference import Inference
from xmlpunct.engine.plan import Answer, Node, Query, Scan, numbered_together
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.engine.rules import optimize
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.run.output_names import is_xml
from xmlpunct.engine.sql.planner.catalog import ORIGIN_NAMES, declared, files_named
from xmlpunct.engine.sql.planner.describing import written_out
from xmlpunct.engine.sql.planner.file_tables import FileTables
from xmlpunct.engine.sql.planner.query_planner import Context, plan_outermost, with_views
from xmlpunct.engine.sql.planner.relation_planner import instants_read, streams_read
from xmlpunct.engine.sql.planner.scope import Namespace, PlannedRelation
from xmlpunct.engine.sql.planner.sinks import check_queries, destination
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.engine.sql.syntax.parameters import bound
from xmlpunct.engine.sql.syntax.stream_syntax import CreateSink, CreateView
from xmlpunct.firehose.result_elements import is_column_path
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.schema.sql_errors import about, refuse

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
    has_labels: bool = False,
) -> Query:
    """Plan a query.

    ``sql`` has CREATE statements and one SELECT, or none where there are sinks. ``sources`` maps names of streams to
    sources that replace the declared ones. ``rules`` are the optional rules that are on. ``inference`` finds the
    columns that nobody declared. ``tables`` are streams of their names, declared or not. ``parameters`` are the
    literals that stand for each ``:name``. ``has_labels``: unnamed columns of the SELECT have the names that DuckDB
    gives them, which are no names of XML elements. Raises `SqlError`, with the place, for what cannot be read or
    cannot run, and `UsageError` for a source of an undeclared stream.

    >>> query = plan("CREATE STREAM s (a INT, b INT) WITH (source = 's.xml'); SELECT b FROM s WHERE b > 0")
    >>> query.root.schema.names, query.streams[0].source
    (('b',), 's.xml')
    """
    sql, inference = bound(sql, parameters or {}), inference or Inference()
    try:
        with about(sql):
            return _plan(sql, sources or {}, rules, inference, tables or {}, has_labels)
    except SqlError as error:
        raise inference.explained(error) from None
    except RecursionError:
        raise SqlError("this query is nested too deeply") from None


def _plan(
    sql: str,
    sources: Mapping[str, str],
    rules: Rules,
    inference: Inference,
    tables: Mapping[str, Table],
    has_labels: bool,
) -> Query:
    statements = parse_statements(sql)
    views = [s for s in statements if isinstance(s, CreateView)]
    queries = [s for s in statements if not isinstance(s, exp.Create | CreateView)]
    placed = any(c.name in ORIGIN_NAMES for query in (*views, *queries) for c in query.find_all(exp.Column))
    creates = [s for s in statements if isinstance(s, exp.Create)]
    undeclared = _tables_named(statements) if inference.declares else set[str]()
    streams = Namespace(declared(creates, sources, inference, placed, tables, undeclared))
    names = check_queries(queries)
    files, roots, answers = FileTables(inference), list[Node](), list[Answer]()
    read_by_views, contexts = streams_read(views, streams), dict[Instants, Context]()
    for query in queries:
        instants = instants_read(streams_read([query], streams, read_by_views), streams)
        if instants not in contexts:
            context = Context(streams, Namespace(), files=files, instants=instants, sinks=names)
            contexts[instants] = with_views(views, context)
        asked, name, target, labelled = query, "", None, has_labels
        if isinstance(query, CreateSink):
            asked, name, target = query.expression, query.this.name, destination(query)
            labelled = not is_xml(target.output, target.format)
        relation = plan_outermost(*written_out(asked, contexts[instants]), labelled)
        _check_output(relation, labelled)
        roots.append(optimize(relation.node, rules))
        answers.append(Answer(roots[-1], name, target))
    planned = Query(
        tuple(answers), (), sql, rules, (), inference.records, inference.opened, has_labels=has_labels
    ).over(numbered_together(roots))
    for root in planned.roots:
        _check_depth(root)
    used = dict.fromkeys(node.stream for node in planned.walk() if isinstance(node, Scan))
    return replace(
        planned, streams=tuple(used), reads=tuple(files_named(statements, streams | files.streams))
    )


def _tables_named(statements: Iterable[exp.Expr]) -> set[str]:
    """The names of the tables in statements, in small letters."""
    return {table.name.lower() for statement in statements for table in statement.find_all(exp.Table)}


def streams_named(sql: str) -> list[str]:
    """The names of the declared streams; without a declaration, of the tables that are no views or subqueries."""
    statements = parse_statements(sql)
    if created := [s.this.this.name for s in statements if isinstance(s, exp.Create)]:
        return created
    defined = {s.name for s in statements if isinstance(s, CreateView)}
    defined |= {cte.alias for statement in statements for cte in statement.find_all(exp.CTE)}
    return sorted(_tables_named(statements) - {name.lower() for name in defined})


def _check_depth(root: Node) -> None:
    """Refuse a plan that later steps could not walk within Python's stack."""
    depth: dict[int, int] = {}
    for node in root.walk():
        depth[id(node)] = 1 + max((depth[id(below)] for below in node.inputs), default=0)
    if depth[id(root)] > DEEPEST:
        raise SqlError(f"this query is too long: at most {DEEPEST} steps can follow each other")


def _check_output(relation: PlannedRelation, has_labels: bool) -> None:
    """Refuse output columns that cannot be elements of a result, unless they have labels, and repeated names."""
    seen = set()
    for field in relation.fields:
        if field.name in seen:
            refuse(f"two output columns have the name {field.name}: give one an alias", field.origin)
        if not has_labels and not is_column_path(field.name):
            refuse(f"{field.name!r} cannot name an XML element: give the column another alias", field.origin)
        seen.add(field.name)
