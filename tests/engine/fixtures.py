"""Fixtures of SQL and what becomes of it.

A file has blocks, separated by blank lines; a block has parts, separated by lines of ``--``.
"""

from __future__ import annotations

from pathlib import Path

from xmlpunct.engine.explain import describe
from xmlpunct.engine.plan import Node

FOLDER = Path(__file__).parent.parent / "fixtures" / "sql"
STREAMS = (FOLDER / "streams.sql").read_text()


def blocks(name: str) -> list[list[str]]:
    """The blocks of a fixture, each as its parts between lines of ``--``."""
    text = (FOLDER / name).read_text().strip()
    return [[part.strip("\n") for part in block.split("\n--\n")] for block in text.split("\n\n")]


def outline(node: Node, depth: int = 0) -> str:
    """A plan as an indented list of its operators."""
    lines = [f"{'  ' * depth}{describe(node)}", *(outline(below, depth + 1) for below in node.inputs)]
    return "\n".join(lines)
