"""man/xmlpunct.1, generated from the options of the commands: ``python -m tests.cli_page`` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from xmlpunct import __version__
from xmlpunct.cli import cli
from xmlpunct.cli.run_help import GROUPS, RunCommand

FILE = Path(__file__).parent.parent / "man" / "xmlpunct.1"


def roff(text: str) -> str:
    """Text as roff shows it. A line may not begin with a dot or an apostrophe: these begin a request.

    >>> print(roff("--slice SIZE\\n.5"))
    \\-\\-slice SIZE
    \\&.5
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    """Lines of roff for the help text of a command. A paragraph that follows ``\\b`` keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            yield f".PP\n.nf\n{roff(paragraph.removeprefix(chr(8)).strip(chr(10)))}\n.fi"
        else:
            yield f".PP\n{roff(' '.join(paragraph.split()))}"


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Lines of roff for the options of a command, those of `run` in their groups."""
    groups = GROUPS if isinstance(command, RunCommand) else {}
    titles = {name: title for title, names in groups.items() for name in names.split()}
    last = None
    for param in sorted(command.params, key=lambda p: [*titles].index(p.name) if p.name in titles else -1):
        record = param.get_help_record(context)
        if record is None or isinstance(param, click.Argument):
            continue
        if (title := titles.get(param.name or "")) != last:
            last = title
            yield f".PP\n{title}:"
        yield f".TP\n.B {roff(record[0])}\n{roff(' '.join(record[1].split()))}"


def section(command: click.Command, context: click.Context) -> Iterator[str]:
    """Lines of roff for a command and its subcommands."""
    yield f".SS {roff(context.command_path)}"
    yield f".B {roff(context.command_path)}\n{roff(' '.join(command.collect_usage_pieces(context)))}"
    yield from paragraphs(command.help or "")
    yield from options(command, context)
    if isinstance(command, click.Group):
        yield from sections(command, context)


def sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from section(command, click.Context(command, info_name=name, parent=context))


def man_page() -> str:
    """Text of the page."""
    context = click.Context(cli, info_name="xmlpunct")
    assert cli.help is not None
    lines = [
        '.\\" Made by python -m tests.cli_page.',
        f'.TH XMLPUNCT 1 "" "xmlpunct {__version__}" "User Commands"',
        ".SH NAME\nxmlpunct \\- SQL over XML streams that never end",
        ".SH SYNOPSIS\n.B xmlpunct\nCOMMAND [ARGS]...\n.br\n.B xmlpunct\n[QUERY.sql|SQL] [OPTIONS]...",
        ".SH DESCRIPTION",
        *paragraphs(cli.help),
        ".SH COMMANDS",
        *sections(cli, context),
        ".SH ENVIRONMENT",
        ".TP\n.B XMLPUNCT_ENGINE\nThe engine of a run without \\-\\-engine: spark or local.",
        ".TP\n.B NO_COLOR\nIf it is set, results on a terminal have no colours.",
        ".TP\n.B XMLPUNCT_DEBUG\nIf it is set, an internal error prints its traceback.",
    ]
    return "\n".join(lines) + "\n"
