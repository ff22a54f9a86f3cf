"""``xmlpunct infer``."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.cli.progress import activity
from xmlpunct.cli.shared_options import namespace_option
from xmlpunct.cli.terminal import PLACE, TEXT, complete_files, put, put_line
from xmlpunct.connectors.contract import is_endless, open_source
from xmlpunct.engine.run.run_options import parse_size
from xmlpunct.firehose.infer.columns import Inferred
from xmlpunct.firehose.infer.document import MOST_SAMPLE_BYTES, Sample, infer, take_sample
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.firehose.spec import name_parts

_SHOWN_OTHERS = 5
"""The number of other repeated elements to list."""


@click.command("infer")
@click.argument("source", shell_complete=complete_files)
@click.option(
    "--element",
    type=TEXT,
    metavar="NAME",
    help="The element of the tuples: name (in any namespace) or {uri}name (default: the most likely one).",
)
@click.option(
    "--sample",
    metavar="SIZE",
    default="1MiB",
    show_default=True,
    help="The number of bytes of the source to read.",
)
@click.option(
    "--xsd", type=PLACE, metavar="FILE", help="An XML Schema that declares the columns of the element."
)
@namespace_option
def infer_command(
    source: str, element: str | None, sample: str, xsd: str | None, punct_namespace: str
) -> None:
    """Print a CREATE STREAM statement for SOURCE: its repeated element and the columns of this element.

    They are inferred from the beginning of SOURCE. The rest of SOURCE may differ, so check the statement.
    """
    size = parse_size(sample)
    if size > MOST_SAMPLE_BYTES:
        raise UsageError(
            f"--sample {sample} is too large: the sample is held in memory, and may have 64MiB at most"
        )
    lines, sampled = list[str](), None
    with activity(f"reading the beginning of {source}"):
        from xmlpunct.engine.run.overlap import refuse_read, source_place, standard_output_path
        from xmlpunct.engine.sql.planner.declaration import declaration

        refuse_read([standard_output_path()], source_place(source))
        if xsd is None or element is None:
            sampled, _ = take_sample(open_source(source), size, element)
    if xsd is None or element is None:
        assert sampled is not None
        inferred = infer(sampled, element, punct_namespace, any_namespace=True)
        element, lines = inferred.element, describe_inferred(inferred, sampled)
        if is_endless(source):
            lines += order_remark(inferred, sampled, punct_namespace)
    if xsd is not None:
        inferred = XsdFile(xsd).infer(read_element(element)[-1])
        lines = [f"From {xsd}.", *_remarks(inferred)]
    name = name_parts(read_element(element)[-1])[1]
    text = declaration(name, inferred.schema, source, element, lines, inferred.prefixes)
    if sys.stdout.isatty():
        put_line(text)
    else:  # SQL to be run: a password in its source is not hidden
        put(f"{text}\n".encode(errors="backslashreplace"))


def describe_inferred(inferred: Inferred, sample: Sample) -> list[str]:
    """Lines that describe the sample, and the content that is left out of the columns."""
    name = name_parts(read_element(inferred.element)[-1])[1]
    where = (
        f"{sample.size:,} bytes (the whole source)" if sample.is_whole else f"the first {sample.size:,} bytes"
    )
    lines = [f"From {inferred.tuples:,} elements <{name}> in {where}.", *_remarks(inferred)]
    if inferred.others:
        shown = ", ".join(f"{name} ({count:,})" for name, count in inferred.others[:_SHOWN_OTHERS])
        lines.append(f"also repeats: {shown}")
    return lines if inferred.error is None else [*lines, f"Reading stopped there: {inferred.error}."]


def order_remark(inferred: Inferred, sample: Sample, punct_namespace: str) -> list[str]:
    """A line with the columns that were in order in the sample, if there are any."""
    from xmlpunct import slices
    from xmlpunct.engine.sql.planner.declaration import identifier
    from xmlpunct.firehose.ordered_columns import OrderedColumns

    columns, document = OrderedColumns(inferred.schema), b"".join(sample.parts[0][1])
    parts = slices(document, inferred.schema, element=inferred.element, punct_namespace=punct_namespace)
    with suppress(SourceError):  # the sample may end inside the document
        for part in parts:
            columns.take(part.tuples)
    names = [identifier(name) for name in columns.names]
    return [f"In order so far: {', '.join(names)}; PUNCTUATE ORDER BY {names[0]} may apply."] if names else []


def _remarks(inferred: Inferred) -> list[str]:
    """A line for each kind of content that is no column, and for each column that is text because of a value."""
    return [
        *(f"Left out: {content}." for content in inferred.left_out),
        *(f"{misfit}." for misfit in inferred.misfits),
    ]
