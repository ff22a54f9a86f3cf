"""Streams and relations that CREATE statements declare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote, urlencode

from sqlglot import exp

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_condition, read_element
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.connectors.contract import FOLDER_OPTIONS, FOLLOW, THEN, WATCH, columns_named, halves, paths_of
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.engine.inference import Inference, sample_size
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.sql.planner.file_tables import ColumnsRemedy
from xmlpunct.engine.sql.planner.promises import access_order, declared_marks, promised_schemes
from xmlpunct.engine.sql.planner.window_lengths import TIMES, length_of
from xmlpunct.engine.sql.syntax.promise_syntax import MarkOf, OrderOf
from xmlpunct.firehose.libxml.doctype import entities_of
from xmlpunct.firehose.libxml.xsd_validator import validity_of
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.drop_overlap import Overlap
from xmlpunct.schema import Schema
from xmlpunct.schema.column_attributes import attributes_of, keys_of, namespaces_of
from xmlpunct.schema.provenance import ORIGIN, with_origin
from xmlpunct.schema.sql_errors import at, check_comparable, refuse
from xmlpunct.types import INT, STRING, TIMESTAMP

ORIGIN_NAMES = {a.name for a in ORIGIN}


def declared(
    statements: Iterable[exp.Expr],
    sources: Mapping[str, str],
    inference: Inference | None = None,
    placed: bool = False,
    tables: Mapping[str, Table] | None = None,
    undeclared: Collection[str] = (),
) -> dict[str, Stream]:
    """The declared streams by name; ``sources`` overrides WITH (source = ...).

    Undeclared columns are inferred; of the ``undeclared`` streams, named in small letters, also the elements.
    ``placed``: tuples have columns with their source positions. ``tables`` also override sources; an undeclared table
    becomes a stream with its own columns.
    Raises `SqlError` for a wrong declaration, `UsageError` for a source of a stream that is not declared.
    """
    streams: dict[str, Stream] = {}
    tables = tables or {}
    for statement in statements:
        name = statement.this.this.name
        if name in streams:
            refuse(f"two streams or relations have the name {name}", statement.this.this)
        if "#" in name:
            refuse(f"{name} cannot name a stream: # separates a stream from its senders", statement.this.this)
        options = options_of(statement)
        namespaces = namespaces_of(statement.this.expressions)
        with at(option_of(statement, "element") or statement.this.this):
            element = "/".join(read_element(options.get("element", name), namespaces))
        condition = option_of(statement, "where")
        with at(condition or statement):
            where = read_condition(options["where"], namespaces) if condition else None
        nested = flag(options, "nested", statement)
        table = tables.get(name)
        source = _source(options, sources.get(name, name if table else None), statement)
        guessed = not any(isinstance(c, exp.ColumnDef) for c in statement.this.expressions)
        remedy, dtd = None, ""
        if "dtd" in options:
            with at(option_of(statement, "dtd") or statement):
                dtd = entities_of(options["dtd"])
                if guessed and ("xsd" not in options or "element" not in options):
                    raise UsageError(
                        "columns are inferred without a DTD: declare them, as in (name TYPE, ...)"
                    )
        if "sample" in options and (not guessed or table is not None):
            refuse(
                "sample is for columns that are inferred: leave it out",
                option_of(statement, "sample") or statement,
            )
        if not guessed:
            schema = Schema.of(attributes_of(statement))
        elif table is not None:
            schema = table.schema
        elif source is None:
            refuse(f"stream {name} has no columns, and no source to infer them from", statement.this.this)
        else:
            element_option, xsd = element if "element" in options else None, options.get("xsd")
            size = options.get("sample")
            with at(option_of(statement, "sample") or statement):
                sample_size(size)
            inferred = (inference or Inference())(name, source, element_option, xsd, where, nested, size)
            element, schema = inferred.element, inferred.schema
            remedy = None if xsd else ColumnsRemedy(name)
        if any(a.name in ORIGIN_NAMES for a in schema):
            refuse(
                "$source, $line and $byte are the position of a tuple, and cannot name a column", statement
            )
        if table is None:
            _check_file_names(source, schema, statement)
        elif (xml_option := next(filter(options.__contains__, ("where", "xsd", "dtd")), None)) is not None:
            refuse(
                f"{xml_option} applies to XML elements, but {name} is a table",
                option_of(statement, xml_option) or statement,
            )
        elif (mark := next(statement.find_all(MarkOf), None)) is not None:
            refuse(f"PUNCTUATE ON applies to XML elements, but {name} is a table", mark)
        timestamp, change = _time(statement, options, schema)
        if timestamp is not None and change is not None:  # without an instant, a change holds from the start
            schema = Schema.of(a.defaulting() if a.name == timestamp else a for a in schema)
        order = access_order(statement, schema)
        keys = keys_of(statement, schema)
        if keys and change is not None:
            refuse(
                "a relation with changes can repeat a key: leave out the key, or the change column",
                statement.this.this,
            )
        overlap = _overlap(options, source, statement, schema, order, keys)
        schema = with_origin(schema) if (placed or overlap) and table is None else schema
        validity = validity_of(options["xsd"], read_element(element)[-1]) if "xsd" in options else None
        streams[name] = Stream(
            name,
            schema,
            element,
            source,
            order,
            where=where,
            nested=nested,
            guessed=guessed,
            validity=validity,
            timestamp=timestamp,
            relation=statement.args["kind"] == "RELATION",
            change=change,
            keys=keys,
            promised=promised_schemes(statement, schema),
            marks=declared_marks(statement, schema, namespaces),
            dtd=dtd,
            remedy=remedy,
            overlap=overlap,
        )
    for name, source in sources.items():
        if name in streams:
            continue
        if inference is None or name.lower() not in undeclared:
            names, hint = ", ".join(streams) or "none", did_you_mean(name, streams)
            raise UsageError(f"a source for stream {name}, which is not declared: there are {names}{hint}")
        inferred = inference(name, source, None, any_namespace=True, fallback=name)
        schema = with_origin(inferred.schema) if placed else inferred.schema
        remedy = ColumnsRemedy(name, inferred.element)
        streams[name] = Stream(name, schema, inferred.element, source, guessed=True, remedy=remedy)
    constant = {name: table for name, table in tables.items() if name not in streams}
    return streams | {name: Stream(name, table.schema, name, name) for name, table in constant.items()}


def files_named(statements: Iterable[exp.Expr], streams: Mapping[str, Stream]) -> Iterator[tuple[str, str]]:
    """The files that statements and options name: pairs of a role and a name."""
    for stream in streams.values():
        for source in halves(stream.source or ""):
            if source:
                yield f"the source of stream {stream.name}", source
    for statement in statements:
        for order in statement.find_all(OrderOf):
            if (file := order.args["file"]) is not None:
                yield "a list of senders", file.name
        for option in statement.args["properties"].expressions if isinstance(statement, exp.Create) else ():
            if option.name in ("xsd", "dtd"):
                yield "a DTD" if option.name == "dtd" else "an XML Schema", option.args["value"].name


def _check_file_names(source: str | None, schema: Schema, statement: exp.Expr) -> None:
    """Refuse file name patterns with unknown columns, or columns that are not comparable."""
    try:
        names = columns_named(source)
    except UsageError as error:
        refuse(str(error), statement)
    for name in names:
        if name not in schema:
            names_of_columns = ", ".join(schema.names)
            refuse(f"{{{name}}} in the source names no column: there are {names_of_columns}", statement)
        check_comparable(schema[name].type, "the name of a file", statement)


def _source(options: Mapping[str, str], override: str | None, statement: exp.Expr) -> str | None:
    """The source of a stream. ``connections``, ``follow`` and the options of folders apply to the declared source."""
    source = options.get("source", override)
    if (count := options.get("connections")) is not None:
        if source is None or not source.startswith("tcp-listen://") or "?" in source:
            refuse("connections = N needs a source tcp-listen://host:port", statement)
        source = f"{source}?connections={count}"
        try:
            SocketAddress.parse(source)
        except UsageError as error:
            refuse(str(error), statement)
    if flag(options, "follow", statement):
        if source is None or source == "-" or not paths_of(source):
            refuse("follow = true needs a source that is the path of a file", statement)
        source = FOLLOW + source.removeprefix(FOLLOW)
    source = _watched(source, options, statement)
    return source if override is None or "source" not in options else override


def _watched(source: str | None, options: Mapping[str, str], statement: exp.Expr) -> str | None:
    """A source with the options of a watched folder."""
    given = {name: options[name] for name in FOLDER_OPTIONS if name in options}
    if given and (source is None or not source.startswith(WATCH)):
        name = next(iter(given))
        refuse(
            f"{name} is for a watched folder: source = 'watch:inbox/*.xml'",
            option_of(statement, name) or statement,
        )
    if source is None or not source.startswith(WATCH):
        return source
    if (settle := option_of(statement, "settle")) is not None:
        with at(settle):
            given["settle"] = f"{length_of(TIMESTAMP, settle.args['value'], 'settle') / 10**6:g}"
    from xmlpunct.connectors.watched_folders import WatchedFolder

    source += f"?{urlencode(given, quote_via=quote, safe='/:')}" if given else ""
    try:
        WatchedFolder.parse(source)
    except UsageError as error:
        refuse(str(error), statement)
    return source


def _overlap(
    options: Mapping[str, str],
    source: str | None,
    statement: exp.Expr,
    schema: Schema,
    order: AccessOrder | None,
    keys: tuple[tuple[str, ...], ...],
) -> Overlap | None:
    """How the rows that an archive and its live source share are found; None if they share none."""
    by, option = options.get("overlap"), option_of(statement, "overlap") or statement
    if source is None or not source.startswith(THEN):
        if by is not None:
            refuse(
                "overlap is for an archive and a live source: source = 'old/*.xml' THEN 'tcp://...'", option
            )
        return None
    declared_source = option_of(statement, "source")
    is_contiguous = (
        declared_source is None or declared_source.meta["contiguous"] or options["source"] != source
    )
    if by is None:
        if not is_contiguous:
            refuse(
                "THEN needs overlap = 'key' or a column in order, by which rows are removed that are in both sources; "
                "or, if there are none and nothing is missing, CONTIGUOUS behind the live source",
                declared_source or statement,
            )
        return None
    from xmlpunct.connectors.archive_then_live import live_prefix

    live = live_prefix(source)
    if by == "key":
        if not keys:
            refuse("overlap = 'key' needs a PRIMARY KEY", option)
        return Overlap(live, None, key=keys[0], proven=not is_contiguous)
    if by == "position":
        refuse(
            "the files of an archive do not have the positions of the live source: write overlap = 'key', or a column "
            "in order",
            option,
        )
    if by not in schema:
        refuse(f"no column {by} here: there are {', '.join(schema.names)}", option)
    if order is None or order.attribute != by or order.sender_column is not None:
        refuse(f"overlap = '{by}' needs the order of the stream: PUNCTUATE ORDER BY {by}", option)
    if schema[by].nullable or schema[by].type is STRING:
        refuse(
            f"overlap needs a column of numbers or times that is NOT NULL: {by} is {schema[by].type}", option
        )
    return Overlap(live, by, order.slack, proven=not is_contiguous)


def flag(options: Mapping[str, str], name: str, statement: exp.Expr) -> bool:
    """The value of a boolean option."""
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        refuse(f"{name} is true or false", option_of(statement, name) or statement)
    return text == "true"


def _time(statement: exp.Expr, options: Mapping[str, str], schema: Schema) -> tuple[str | None, str | None]:
    """The columns of a tuple's instant, and of the number of inserted copies."""
    columns: list[str | None] = []
    is_relation = statement.args["kind"] == "RELATION"
    for name, types in (("timestamp", TIMES), ("change", (INT, STRING))):
        column = options.get(name)
        if column is not None:
            option = option_of(statement, name) or statement
            if column not in schema:
                refuse(f"no column {column} here: there are {', '.join(schema.names)}", option)
            attribute = schema[column]
            if attribute.type not in types:
                type_names = " or ".join(", ".join(map(str, types)).rsplit(", ", 1))
                refuse(f"{name} needs a column of {type_names}, but {column} is {attribute.type}", option)
            if name == "timestamp" and attribute.nullable and not is_relation:
                refuse(f"each tuple has a timestamp: declare {column} NOT NULL", option)
        columns.append(column)
    timestamp, change = columns
    if change is not None and not is_relation:
        refuse("a stream has no changes: write CREATE RELATION", option_of(statement, "change") or statement)
    if is_relation and (timestamp is None) != (change is None):
        present_option = "timestamp" if change is None else "change"
        refuse(
            "a changing relation needs both timestamp and change; a constant relation has neither",
            option_of(statement, present_option) or statement,
        )
    if timestamp is not None and timestamp == change:
        refuse("timestamp and change must be different columns", option_of(statement, "change") or statement)
    if is_relation and len(schema) == (change is not None) * 2:
        refuse("a relation needs a column besides timestamp and change", statement.this.this)
    return timestamp, change


def option_of(statement: exp.Expr, name: str) -> exp.Expr | None:
    """The syntax of an option in WITH (...), or None."""
    return next((o for o in statement.args["properties"].expressions if o.name == name), None)


def options_of(statement: exp.Expr) -> dict[str, str]:
    options: dict[str, str] = {}
    for option in statement.args["properties"].expressions:
        if option.name in options:
            refuse(f"{option.name} is given twice", option)
        options[option.name] = option.args["value"].name
    return options
