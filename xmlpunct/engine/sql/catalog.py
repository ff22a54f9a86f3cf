"""The streams that a query's CREATE STREAM statements declare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from xmlpunct.ddl import refuse, schema_of
from xmlpunct.engine.plan import Stream
from xmlpunct.errors import UsageError
from xmlpunct.firehose import is_xml_name
from xmlpunct.firehose.sources import FOLLOW
from xmlpunct.firehose.tcp import Address


def declared(statements: Iterable[exp.Expr], sources: Mapping[str, str]) -> dict[str, Stream]:
    """The declared streams by name; ``sources`` replaces what WITH (source = ...) says.

    Raises `SqlError` for a wrong declaration, `UsageError` for a source of a stream that is not declared.
    """
    streams: dict[str, Stream] = {}
    for statement in statements:
        name = statement.this.this.name
        if name in streams:
            refuse(f"two streams are named {name}", statement.this.this)
        options = _options(statement)
        element = options.get("element", name)
        if not is_xml_name(re.sub(r"^\{[^{}]*\}", "", element)):
            refuse(f"{element} is no name of an XML element: name or {{uri}}name", statement)
        source = _source(options, sources.get(name), statement)
        streams[name] = Stream(name, schema_of(statement), element, source)
    for name in sources:
        if name not in streams:
            there = ", ".join(streams) or "none"
            raise UsageError(f"a source is given for stream {name}, which is not declared: there are {there}")
    return streams


def _source(options: Mapping[str, str], given: str | None, statement: exp.Expr) -> str | None:
    """Where a stream comes from; ``connections`` and ``follow`` go with the source that they stand beside."""
    source = options.get("source", given)
    if (count := options.get("connections")) is not None:
        if source is None or not source.startswith("tcp-listen://") or "?" in source:
            refuse("connections = N goes with a source tcp-listen://host:port", statement)
        source = f"{source}?connections={count}"
        try:
            Address.parse(source)
        except UsageError as error:
            refuse(str(error), statement)
    follow = options.get("follow", "false").lower()
    if follow not in ("true", "false"):
        refuse("follow is true or false", statement)
    if follow == "true":
        if source is None or source == "-" or source.startswith(("tcp://", "tcp-listen://")):
            refuse("follow = true goes with a source that is the path of a file", statement)
        source = FOLLOW + source.removeprefix(FOLLOW)
    return source if given is None or "source" not in options else given


def _options(statement: exp.Expr) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in statement.args["properties"].expressions:
        if option.name in found:
            refuse(f"{option.name} is given twice", option)
        found[option.name] = option.args["value"].name
    return found
