"""``xmlpunct checkpoint``."""

from __future__ import annotations

from pathlib import Path

import click

from xmlpunct.base.printable import printable
from xmlpunct.cli.terminal import PLACE, put_line

_folder_argument = click.argument("folder", type=PLACE, metavar="DIR")


@click.group("checkpoint")
def checkpoint_command() -> None:
    """Show, verify or copy the checkpoint DIR of a run, which may be running."""


@checkpoint_command.command("show")
@_folder_argument
def show_command(folder: str) -> None:
    """Print the query, the version, the sources and their positions, the outputs, the sizes and the last commit."""
    from xmlpunct.engine.run.checkpoint.inspection import describe_checkpoint

    for label, text in describe_checkpoint(Path(folder)):
        first, *others = text.split("\n")
        for line in (f"{label}: {first}", *(f"  {line}" for line in others)):
            put_line(printable(line))


@checkpoint_command.command("verify")
@_folder_argument
def verify_command(folder: str) -> None:
    """Compare every record, spooled byte and file of Spark's with its checksum.

    The exit code is 1 if a byte has changed; the message names the file.
    """
    from xmlpunct.engine.run.checkpoint.inspection import verify_checkpoint

    count = verify_checkpoint(Path(folder))
    put_line(printable(f"{folder} is intact: {count:,} file{'s' if count > 1 else ''}"))


@checkpoint_command.command("copy")
@_folder_argument
@click.argument("target", type=PLACE, metavar="NEW")
def copy_command(folder: str, target: str) -> None:
    """Copy it to the new directory NEW.

    The copy is independent. Copy the outputs as well: a checkpoint and its outputs belong together. A run of the local
    engine may go on meanwhile; a run on Spark must be stopped.
    """
    from xmlpunct.engine.run.checkpoint.inspection import copy_checkpoint

    copy_checkpoint(Path(folder), Path(target))
