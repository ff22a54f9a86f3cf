"""``xmlpunct run --help``: the options in groups, and examples."""

from __future__ import annotations

import click

GROUPS = {
    "Input": "sql params sources punct_namespace slice_size",
    "Output": "output format_ partition_by root row namespaces pretty partial",
    "Recovery and errors": "checkpoint verify replace rejects max_rejects strict safe",
    "Watching": "watch http allow_say stats",
    "Engine": "engine threads rules",
    "Spark": "master",
}
"""The parameters of the options in each group; --help is in none."""

EXAMPLES = """Examples:

\b
  xmlpunct "SELECT title FROM 'books.xml' WHERE year > 2000"
  xmlpunct query.sql -o results.parquet
  xmlpunct query.sql -s books=more.xml --checkpoint progress -o results.jsonl
"""


class RunCommand(click.Command):
    """A command whose help shows the options by `GROUPS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = {param.name: param for param in self.params}
        for title, names in GROUPS.items():
            records = [options[name].get_help_record(ctx) for name in names.split()]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record is not None])
        with formatter.section("Help"):
            formatter.write_dl([("-h, --help", "Show this message and exit.")])
