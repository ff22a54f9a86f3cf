"""Standard output and standard error, even if full or closed; and the types of text options."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide
from xmlpunct.engine.run.durable_files import standard_output, writing

LAYOUT = "\n\t"
"""The control characters allowed in messages. Foreign text in a message is `printable` and has none."""


def put(data: bytes) -> None:
    """Write to standard output, at once. Raises `XmlPunctError`."""
    out = standard_output()
    with writing("standard output"):
        out.write(data)
        out.flush()


def put_line(line: str) -> None:
    """Write a line to standard output, without secrets and control characters. Raises `XmlPunctError`."""
    put(f"{printable(hide(line), LAYOUT)}\n".encode())


def say(message: str) -> None:
    """Write a message to standard error. A failure is ignored: the exit code still reports the outcome."""
    with suppress(OSError):
        click.echo(f"xmlpunct: {printable(hide(message), LAYOUT)}", err=True)


def hold_places() -> None:
    """Occupy the descriptors of closed standard streams, so that no opened file becomes standard output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end


def complete_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


class _Text(click.types.StringParamType):
    """A text of at least one character. A ``readable`` one must be valid UTF-8, for XML or SQL."""

    def __init__(self, readable: bool = True) -> None:
        self._readable = readable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text:
            self.fail("the text is empty", param, ctx)
        if self._readable:
            try:
                text.encode()
            except UnicodeEncodeError:
                self.fail("the text is not UTF-8", param, ctx)
        if "\0" in text:
            self.fail("the text has a NUL character", param, ctx)
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [] if self._readable else complete_files(ctx, param, incomplete)


TEXT, PLACE = _Text(), _Text(readable=False)
"""`PLACE`: a file, directory or URL. File names may be any bytes."""
