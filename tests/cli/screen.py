"""The lines that a terminal shows after some output: an emulator of the control sequences that rich writes."""

from __future__ import annotations

import re

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
