"""docs/cli.md, generated from the ``--help`` texts: ``python -m tests.cli_page`` writes it and the man page."""

from __future__ import annotations

from pathlib import Path

import click

from tests import man_page
from xmlpunct.cli import COMMANDS, cli

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
WIDTH = 100


def page() -> str:
    """Text of the page: the help of the command and of its subcommands."""
    parts = ["<!-- Made by python -m tests.cli_page from --help. -->\n# Command line\n"]
    names = ["-h", "--help"]
    top = click.Context(
        cli, info_name="xmlpunct", max_content_width=WIDTH, terminal_width=WIDTH, help_option_names=names
    )
    parts.append(f"```text\n{cli.get_help(top)}\n```\n")
    for name in COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(
            command, info_name=name, parent=top, terminal_width=WIDTH, max_content_width=WIDTH
        )
        parts.append(f"## xmlpunct {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    man_page.FILE.write_text(man_page.man_page())
