"""``xmlpunct check``."""

from __future__ import annotations

import click

from xmlpunct.base.printable import printable
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.cli.shared_options import element_option, namespace_option, schema_option
from xmlpunct.cli.terminal import TEXT, complete_files, put_line, say
from xmlpunct.connectors.contract import open_source
from xmlpunct.engine.run.durable_files import standard_output
from xmlpunct.firehose.spec import ClosingMark
from xmlpunct.firehose.stream_check import Report, check
from xmlpunct.python.inferred_stream import stream_of


@click.command("check")
@click.argument("source", shell_complete=complete_files)
@element_option
@schema_option
@click.option(
    "--promise",
    "clauses",
    type=TEXT,
    metavar="CLAUSE",
    help="PUNCTUATE ON clauses as in CREATE STREAM: each mark counts as a punctuation.",
)
@namespace_option
def check_command(
    source: str, element: str | None, columns: str | None, clauses: str | None, punct_namespace: str
) -> int:
    """Check that SOURCE is well formed and grammatical, and count its punctuations.

    A stream is grammatical if no tuple comes after a punctuation that matches it. The report ends with clauses for
    CREATE STREAM: the columns that were in order, one of which PUNCTUATE ORDER BY can name, and PUNCTUATED BY with the
    attributes by which the punctuations closed the tuples. With --promise, SOURCE is grammatical if the sender kept the
    promise of its standard. The exit code is 0 if SOURCE is well formed and grammatical and every tuple fits the
    schema, else 1.
    """
    from xmlpunct.schema import Schema
    from xmlpunct.schema.column_attributes import columns_and_keys

    standard_output()  # fail before reading for hours
    attributes, keys = ((), ()) if columns is None else columns_and_keys(columns)
    declared = None if columns is None else Schema.of(attributes)
    marks: tuple[ClosingMark, ...] = ()
    with ProgressLine("local", sources=source) as progress:
        spec, opened = stream_of(open_source(source), declared, element, punct_namespace)
        if clauses is not None:
            from xmlpunct.engine.sql.planner.promises import marks_of

            marks = marks_of(clauses, columns, spec.schema)
        show = progress.show_reading
        report = check(opened, spec.schema, spec.element, punct_namespace, spec.guessed, keys, marks, show)
    if marks:
        report.offered = []  # PUNCTUATED BY would promise punctuations, not marks
    for line in describe(source, report):
        put_line(printable(line))
    for message in (*report.notices, *report.examples):
        say(str(message))
    if report.error is not None:
        say(str(report.error))
    return 0 if report.fine else 1


def describe(source: str, report: Report) -> list[str]:
    """The lines of a report."""
    from xmlpunct.engine.sql.planner.declaration import clause, identifier

    formed = "well formed" if report.error is None else "broken"
    grammar = "grammatical" if report.grammatical else "not grammatical"
    lines = [
        f"{source}: {formed}, {grammar}",
        f"  {report.tuples:,} tuples, {report.late:,} of them late; {report.rejected:,} more rejected",
        f"  {report.punctuations:,} punctuations, {report.dropped:,} of them dropped for an undeclared attribute",
    ]
    for scheme, count in sorted(report.schemes.items(), key=lambda item: (-item[1], item[0])):
        attributes = ", ".join(f"{name} by {kind}" for name, kind in scheme) or "everything"
        lines.append(f"  {count:,} close {attributes}")
    if report.in_order:
        lines.append(f"  in order: {', '.join(map(identifier, report.in_order))}, for PUNCTUATE ORDER BY")
    if report.offered:
        lines.append(f"  {clause(report.offered)}")
    return lines
