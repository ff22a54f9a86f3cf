"""Standard output and standard error, even full or closed; and the texts that options take."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide
from xmlpunct.engine.run.durable_files import standard_output, writing

LAYOUT = "\n\t"
"""The control characters in our own text. Foreign text in it has been made `printable` without any."""


def put(data: bytes) -> None:
    """Write to standard output, at once. Raises `XmlPunctError`."""
    out = standard_output()
    with writing("standard output"):
        out.write(data)
        out.flush()


def put_line(line: str) -> None:
    """Write a line for people to standard output. Raises `XmlPunctError`."""
    put(f"{printable(hide(line), LAYOUT)}\n".encode())


def say(message: str) -> None:
    """Say something on standard error. If that fails, the exit code still tells."""
    with suppress(OSError):
        click.echo(f"xmlpunct: {printable(hide(message), LAYOUT)}", err=True)


def hold_places() -> None:
    """Occupy the numbers of closed standard streams, so that no file that is opened becomes standard output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end


class _Text(click.types.StringParamType):
    """A text of at least one character; ``readable`` if it has to be one that XML or SQL can hold."""

    def __init__(self, readable: bool = True) -> None:
        self._readable = readable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text:
            self.fail("it is empty", param, ctx)
        if self._readable:
            try:
                text.encode()
            except UnicodeEncodeError:
                self.fail("it is not UTF-8", param, ctx)
        if "\0" in text:
            self.fail("it has a character that no file has", param, ctx)
        return text


TEXT, PLACE = _Text(), _Text(readable=False)
"""A place is a file or directory, whose name may be any bytes."""
