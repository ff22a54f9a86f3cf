"""Parts shared by several commands: options, the query, and the schema of one stream."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.cli.terminal import PLACE, TEXT
from xmlpunct.engine.rule_options import RULE_OPTIONS

query_argument = click.argument("query", type=PLACE, required=False, metavar="[QUERY.sql|SQL]")
sql_option = click.option(
    "-q",
    "--sql",
    type=TEXT,
    metavar="SQL",
    help="The text of the query. With a file, it is appended to the file's text.",
)
param_option = click.option(
    "--param",
    "params",
    type=TEXT,
    multiple=True,
    metavar="NAME=VALUE",
    help="The value of :NAME in the query: an SQL literal (5, 'a', TRUE, DATE '2026-01-01') or any text.",
)
rule_option = click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME=on|off",
    help="Switch an optimizer rule. Rules change no results: "
    + ", ".join(f"{name} (default: {'on' if on else 'off'})" for name, on in RULE_OPTIONS.items())
    + ".",
)
format_option = click.option(
    "--format", "format_", type=click.Choice(["xml", "jsonl", "csv"]), default="xml", show_default=True
)
namespace_option = click.option(
    "--punct-namespace",
    type=TEXT,
    default=PUNCT_NAMESPACE,
    metavar="URI",
    help="The namespace of punctuations.",
)
element_option = click.option(
    "--element",
    type=TEXT,
    metavar="NAME",
    help="The element of the tuples: name (in any namespace), {uri}name or parent/name (default: the most likely one).",
)
schema_option = click.option(
    "--schema",
    "columns",
    type=TEXT,
    metavar="COLUMNS",
    help="A column list (default: inferred from the beginning of the source).",
)


def is_sql(query: str) -> bool:
    """True if the argument of a command is the text of a query, not the name of its file.

    >>> is_sql("SELECT a FROM 'b.xml'"), is_sql("first query.sql"), is_sql("query")
    (True, False, False)
    """
    return bool(re.search(r"[\s(;]", query)) and not query.endswith(".sql") and not os.path.exists(query)


def file_and_text(query: str | None, sql: str | None) -> tuple[str | None, str]:
    """The file of the query, if it has one, and its text: from the argument, from ``-q``, or from both.

    ``-`` is standard input. Raises `UsageError`.
    """
    if query is None and sql is None:
        raise UsageError("no query: name a file, or write the query in quotes")
    if query == "-" and sql == "-":
        raise UsageError("the query is on standard input once: leave out -q -")
    sql = _read_text(sql) if sql == "-" else sql
    if query is not None and is_sql(query):
        file, texts = None, [TEXT.convert(query, None, None)]
    else:
        file, texts = None if query == "-" else query, [] if query is None else [_read_text(query)]
    return file, "\n".join([*texts, *([] if sql is None else [sql])])


def _read_text(path: str) -> str:
    """The text of a query's file, or of standard input. Raises `UsageError`."""
    example = f"""xmlpunct "SELECT * FROM '{path}'\""""
    try:
        text = (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        hint = f"; to query a document, write {example}" if ".xml" in path else ""
        raise UsageError(f"cannot read {path}: it is not UTF-8{hint}") from None
    if text.lstrip().startswith("<"):
        raise UsageError(f"{path} is a document, not a query: write {example}")
    return text


def read_params(arguments: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` arguments as literals of SQL. Raises `UsageError`."""
    from xmlpunct.engine.sql.syntax.parameters import of_texts

    return of_texts(_by_name(arguments, "NAME=VALUE", "--param "))


def _by_name(arguments: tuple[str, ...], form: str, option: str = "") -> dict[str, str]:
    """``NAME=TEXT`` arguments as a mapping. Raises `UsageError`."""
    texts: dict[str, str] = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{option}{text}: write {form}, as in hour=17")
        if name in texts:
            raise UsageError(f"{option}{text}: {name} is given twice")
        texts[name] = value
    return texts


def read_patterns(arguments: tuple[str, ...]) -> dict[str, str]:
    """``COLUMN=PATTERN`` arguments as a mapping. Raises `UsageError`."""
    return _by_name(arguments, "COLUMN=PATTERN")
