"""``xmlpunct check``."""

from __future__ import annotations

import click

from xmlpunct.cli.terminal import TEXT, put_line, say
from xmlpunct.engine.files import standard_output
from xmlpunct.firehose import PUNCT_NAMESPACE, open_source
from xmlpunct.firehose.check import Report, check
from xmlpunct.firehose.sniff import sniff
from xmlpunct.schema import Schema


@click.command("check")
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
    "--punct-namespace",
    type=TEXT,
    default=PUNCT_NAMESPACE,
    metavar="URI",
    help="The namespace of punctuations.",
)
def check_command(source: str, element: str, columns: str | None, punct_namespace: str) -> int:
    """Is SOURCE well formed and grammatical, and what do its punctuations say?

    A stream is grammatical if no tuple comes after a punctuation that matches it. The exit code is 0 if it is
    all that and every tuple fits the schema, else 1.
    """
    standard_output()  # before reading on for hours
    opened = open_source(source)
    if columns is not None:
        schema = Schema.parse(columns)
    else:
        schema, opened = sniff(opened, element, punct_namespace)
    report = check(opened, schema, element, punct_namespace, guessed=columns is None)
    for line in describe(source, report):
        put_line(line)
    for told in (*report.notices, *report.examples):
        say(str(told))
    if report.error is not None:
        say(str(report.error))
    return 0 if report.fine else 1


def describe(source: str, report: Report) -> list[str]:
    """A report for people to read."""
    formed = "well formed" if report.error is None else "broken"
    grammar = "grammatical" if report.grammatical else "not grammatical"
    lines = [
        f"{source}: {formed}, {grammar}",
        f"  {report.tuples:,} tuples, {report.late:,} of them late; {report.rejected:,} more rejected",
        f"  {report.punctuations:,} punctuations, {report.dropped:,} of them dropped for an undeclared attribute",
    ]
    for found, count in sorted(report.schemes.items(), key=lambda item: (-item[1], item[0])):
        said = ", ".join(f"{name} by {kind}" for name, kind in found) or "everything"
        lines.append(f"  {count:,} close {said}")
    return lines
