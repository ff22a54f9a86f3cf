"""``xmlpunct parse``."""

from __future__ import annotations

import click

from xmlpunct.base.printable import printable_output
from xmlpunct.base.reject_log import RejectLog
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.cli.shared_options import (
    element_option,
    format_option,
    namespace_option,
    schema_option,
)
from xmlpunct.cli.terminal import complete_files, put
from xmlpunct.connectors.contract import open_source
from xmlpunct.engine.run.durable_files import standard_output
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import name_parts
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.python.stream_elements import read_slices
from xmlpunct.schema import Schema


@click.command("parse")
@click.argument("source", shell_complete=complete_files)
@element_option
@schema_option
@format_option
@namespace_option
def parse_command(
    source: str, element: str | None, columns: str | None, format_: str, punct_namespace: str
) -> None:
    """Parse SOURCE (a file, a directory, or - for standard input) and write its tuples and punctuations.

    Without --element and --schema, the tuples' element and its columns are inferred from the beginning of SOURCE.
    """
    declared = None if columns is None else Schema.parse(columns)
    is_terminal, tuples = standard_output().isatty(), 0
    with ProgressLine("local", sources=source) as progress:
        from xmlpunct.engine.run.output import Output
        from xmlpunct.engine.run.overlap import refuse_read, source_place, standard_output_path

        refuse_read([standard_output_path()], source_place(source))
        spec, opened = stream_of(open_source(source), declared, element, punct_namespace, has_remedy=True)
        schema, name = spec.schema, name_parts(spec.tag)[1]
        reader = SliceReader(opened, [spec], punct_namespace)
        root = "stream" if name != "stream" else "streams"  # the root must not look like a tuple
        writer = writer_for(format_, schema, root=root, element=name, punct_namespace=punct_namespace)
        output, log = Output(schema, writer, ordered=True), RejectLog()
        put(writer.start())
        try:
            for part in read_slices(reader):
                tuples += part.tuples.height
                progress.show_reading(reader, tuples)
                written, rejects = output.fitting(part)
                for reject in rejects:
                    log.add(reject)
                data = writer.body(written)
                put(printable_output(data, format_) if is_terminal else data)
        finally:
            log.end()
        put(writer.end())
