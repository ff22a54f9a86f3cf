"""Commands on a terminal, and the lines that it shows: an emulator of the control sequences that rich writes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import Any

from tests.cli.harness import SAMPLES

_PIECE = re.compile(r"\x1b\[\??(?P<number>\d*)[\d;]*(?P<command>[A-Za-z])|(?P<character>.)", re.DOTALL)


def screen(output: str) -> list[str]:
    """The lines of a screen without its styles and without blank lines at the end.

    >>> screen("starting\\r\\x1b[2Ka  b\\r\\n\\x1b[1m1\\x1b[0m  2\\n")
    ['a  b', '1  2']
    """
    lines, row, column = [""], 0, 0
    for piece in _PIECE.finditer(output):
        count = int(piece["number"] or 1)
        if piece["command"] == "A":
            row = max(0, row - count)
        elif piece["command"] == "K":
            lines[row] = "" if piece["number"] == "2" else lines[row][:column]
        elif piece["character"] == "\r":
            column = 0
        elif piece["character"] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif character := piece["character"]:
            lines[row] = f"{lines[row][:column]:{column}}{character}{lines[row][column + 1 :]}"
            column += 1
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


def _begun(arguments: tuple[str, ...], variables: dict[str, str], **streams: int) -> tuple[Any, int]:
    """The process of a command on a terminal of 80 columns, and the terminal's other end."""
    main, terminal = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {
        "COLUMNS": "80",
        "TERM": "xterm",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "xmlpunct", *arguments],
        env=environment | variables,
        cwd=SAMPLES.parent,
        **({"stdin": subprocess.DEVNULL, "stdout": terminal, "stderr": terminal} | streams),
    )
    os.close(terminal)
    return process, main


def wait_for_message(message: str, *arguments: str) -> None:
    """Begin a command, wait until it shows a message while standard input is silent, and stop the command."""
    process, main = _begun(arguments, {}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with process:
        shown = ""
        while message not in shown:
            shown += os.read(main, 4096).decode(errors="replace")
        process.kill()
    os.close(main)


def terminal_run(*arguments: str, has_results: bool = True, **variables: str) -> str:
    """The output of a command on a terminal of 80 columns; only its messages, without ``has_results``."""
    process, main = _begun(arguments, variables, **({} if has_results else {"stdout": subprocess.DEVNULL}))
    chunks = []
    try:
        while chunk := os.read(main, 65536):
            chunks.append(chunk)
    except OSError:  # the other end is closed
        pass
    os.close(main)
    assert process.wait(60) == 0, b"".join(chunks)
    return b"".join(chunks).decode()
