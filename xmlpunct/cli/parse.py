"""``xmlpunct parse``."""

from __future__ import annotations

import click

from xmlpunct.cli.terminal import TEXT, put
from xmlpunct.firehose import PUNCT_NAMESPACE, open_source, slices, writer_for
from xmlpunct.firehose.sniff import sniff
from xmlpunct.firehose.spec import expanded
from xmlpunct.paths import read_element
from xmlpunct.schema import Schema


@click.command("parse")
@click.argument("source")
@click.option(
    "--element",
    type=TEXT,
    required=True,
    metavar="NAME",
    help="The tuples' element: name, {uri}name or parent/name.",
)
@click.option(
    "--schema",
    "columns",
    type=TEXT,
    metavar="COLUMNS",
    help="A column list (default: children as STRINGs).",
)
@click.option(
    "--format", "format_", type=click.Choice(["xml", "jsonl", "csv"]), default="xml", show_default=True
)
@click.option(
    "--punct-namespace",
    type=TEXT,
    default=PUNCT_NAMESPACE,
    metavar="URI",
    help="The namespace of punctuations.",
)
def parse_command(source: str, element: str, columns: str | None, format_: str, punct_namespace: str) -> None:
    """Parse SOURCE (a file, a directory, or - for standard input) and write its tuples and punctuations.

    Without --schema the children of the first tuple are the columns, as STRINGs.
    """
    from xmlpunct.engine.overlap import refuse_read, source_place, standard_output

    refuse_read([standard_output()], source_place(source))
    opened = open_source(source)
    if columns is not None:
        schema = Schema.parse(columns)
    else:
        schema, opened = sniff(opened, element, punct_namespace)
    guessed = columns is None
    parts = slices(opened, schema, element=element, punct_namespace=punct_namespace, guessed=guessed)
    name = expanded(read_element(element)[-1])[1]
    writer = writer_for(format_, schema, punct_namespace=punct_namespace, element=name)
    put(writer.start())
    for part in parts:
        put(writer.body(part))
    put(writer.end())
