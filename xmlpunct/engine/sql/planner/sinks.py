"""CREATE SINK statements: their destinations and names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from xmlpunct.base.errors import SqlError, UsageError
from xmlpunct.engine.run.output_names import resolve_output
from xmlpunct.engine.run.run_options import OUTPUT_FORMATS, Destination, XmlForm
from xmlpunct.engine.sql.planner.catalog import flag, option_of, options_of
from xmlpunct.engine.sql.syntax.stream_syntax import CreateSink
from xmlpunct.schema.sql_errors import refuse


def destination(statement: CreateSink) -> Destination:
    """The destination of a sink. Raises `SqlError` for missing or wrong options in WITH (...)."""
    options = options_of(statement)
    if "output" not in options:
        refuse("a sink needs an output: WITH (output = '...')", statement.this)
    format_ = options.get("format")
    if format_ is not None and format_ not in OUTPUT_FORMATS:
        refuse(
            f"format must be one of {', '.join(OUTPUT_FORMATS)}", option_of(statement, "format") or statement
        )
    try:
        output, format_ = resolve_output(options["output"], format_, statement.this.name)
    except UsageError as error:
        refuse(str(error), option_of(statement, "output") or statement)
    pretty = flag(options, "pretty", statement)
    try:
        form = XmlForm.of(options.get("root"), options.get("row"), options.get("namespaces"), pretty)
    except UsageError as error:
        refuse(str(error).removeprefix("--"), option_of(statement, "namespaces") or statement)
    columns = tuple(map(str.strip, options["partition_by"].split(","))) if "partition_by" in options else ()
    return Destination(output, format_, form, columns)


def check_queries(queries: Sequence[exp.Expr]) -> frozenset[str]:
    """The names of the sinks among queries.

    Raises `SqlError` for two sinks with the same name, for a second query outside of sinks, and without any query.
    """
    names = set[str]()
    plain_queries = [query for query in queries if not isinstance(query, CreateSink)]
    if not queries:
        raise SqlError("there is no query: SELECT ... is missing")
    for sink in queries:
        if isinstance(sink, CreateSink) and sink.this.name in names:
            refuse(f"two sinks have the name {sink.this.name}", sink.this)
        if isinstance(sink, CreateSink):
            names.add(sink.this.name)
    if len(plain_queries) > 1:
        refuse(
            "a second query begins here. Give it an output: "
            "CREATE SINK name WITH (output = '...') AS SELECT ...",
            plain_queries[1],
        )
    return frozenset(names)
