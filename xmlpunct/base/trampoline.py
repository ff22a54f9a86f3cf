"""Recursion for trees that are deeper than Python's own stack."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar, cast

N = TypeVar("N")
R = TypeVar("R")


def unrolled(visit: Callable[[N], Generator[N, R, R]], root: N) -> R:
    """The result of ``visit`` for the root of a tree. ``visit`` yields a child node, and is sent the child's result.

    >>> def depth(node: list) -> Generator[list, int, int]:
    ...     deepest = 0
    ...     for child in node:
    ...         deepest = max(deepest, (yield child))
    ...     return deepest + 1
    >>> unrolled(depth, [[], [[]]])
    3
    """
    visits, sent = [visit(root)], cast(R, None)
    while visits:
        try:
            visits.append(visit(visits[-1].send(sent)))
            sent = cast(R, None)
        except StopIteration as done:
            visits.pop()
            sent = done.value
    return sent
