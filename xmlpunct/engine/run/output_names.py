"""The format or the database that the name of an output implies."""

from __future__ import annotations

import re
from pathlib import PurePath
from urllib.parse import parse_qsl, quote, urlsplit

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import OWN, url_scheme

_FORMATS = {suffix: suffix[1:] for suffix in (".xml", ".jsonl", ".csv", ".parquet", ".arrow")}
_DATABASES = {".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip"}
_DATABASE_FILE = re.compile(r"(sqlite|duckdb):(?!//)([^?]*)(.*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{2,}:")

USUAL_TABLE = "result"
"""The table of a query that has no file."""


def resolve_output(output: str, format_: str | None, table: str) -> tuple[str, str]:
    """The output with the URL of its database, if it is one, and the format of the results.

    ``format_`` is None unless the user chose it; ``table`` is the table of a database whose URL names none. Raises
    `UsageError` if the name and the format contradict each other, and for a name without a meaning.

    >>> resolve_output("out.csv", None, "result")
    ('out.csv', 'csv')
    >>> resolve_output("sums.duckdb", None, "result")
    ('duckdb:///sums.duckdb?table=result', 'xml')
    """
    url = _database_url(output, table)
    if url is not None:
        if format_ is not None:
            raise UsageError(f"{output} is a database, which has no format: leave out format {format_}")
        return url, "xml"
    if output.endswith("/") or url_scheme(output):
        return output, format_ or "xml"
    suffix = PurePath(output).suffix.lower()
    implied = _FORMATS.get(suffix)
    if implied is None:
        _refuse_name(output, suffix, format_)
    if implied is not None and format_ not in (None, implied):
        raise UsageError(
            f"{output} is a name for {implied}, not for {format_}: rename it, or leave out the format"
        )
    return output, format_ or implied or "xml"


def is_xml(output: str, format_: str) -> bool:
    """True if a resolved output is XML, whose columns are elements: neither another format nor a database.

    >>> is_xml("-", "xml"), is_xml("duckdb:///sums.duckdb?table=result", "xml")
    (True, False)
    """
    return format_ == "xml" and not OWN.get(url_scheme(output), "").startswith("databases:")


def table_of(query_file: str | None) -> str:
    """The name of a table after the file of the query.

    >>> table_of("queries/max-temp.sql"), table_of(None)
    ('max_temp', 'result')
    """
    return USUAL_TABLE if query_file is None else re.sub(r"\W", "_", PurePath(query_file).stem) or USUAL_TABLE


def _database_url(output: str, table: str) -> str | None:
    """The URL of a database table, or None for another output."""
    if short := _DATABASE_FILE.fullmatch(output):
        scheme, path, options = short.groups()
    elif OWN.get(url_scheme(output), "").startswith("databases:"):
        scheme, (path, _, options) = "", output.partition("?")
        options = options and f"?{options}"
    else:
        path, mark, options = output.partition("?")
        scheme, options = _DATABASES.get(PurePath(path).suffix.lower(), ""), mark + options
        if not scheme or url_scheme(output):
            return None
    url = (f"{scheme}:///{quote(path)}" if scheme else path) + options
    if "table" in dict(parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if options else '?'}table={quote(table)}"


def _refuse_name(output: str, suffix: str, format_: str | None) -> None:
    """Raise `UsageError` for a name that cannot be meant as a file of results."""
    if word := _WORD.match(output):
        raise UsageError(
            f"{output}: {word[0]} is no known kind of output; for a file of this name, write ./{output}"
        )
    if suffix in _COMPRESSED:
        raise UsageError(
            f"{output}: results are not compressed: name {output[: -len(suffix)]}, and compress it later"
        )
    if suffix == ".db":
        raise UsageError(f"{output}: which database? Write sqlite:{output} or duckdb:{output}")
    if suffix == ".json" and format_ is None:
        raise UsageError(
            f"{output}: JSON results are one object per line: name {output}l, or add format jsonl"
        )
