"""A whole query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.streams import Guard, Stream
from xmlpunct.engine.rule_options import USUAL, Rules


@dataclass(frozen=True)
class Query:
    """A whole query: its plan, whose nodes are numbered, and the streams it reads, in order of first use.

    ``rules`` are the optional rules that are on. ``reads`` are the sources and other files that its statements name,
    used or not: pairs of what it is, and its name.
    """

    root: Node
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()

    @property
    def guards(self) -> dict[int, str]:
        """The numbers of the guards that report what they reject, each with the stream's declared name."""
        return {guard.number: guard.stream.declared for guard in self.root.find(Guard) if not guard.quiet}

    @property
    def ordered(self) -> bool:
        """Whether results come in an order that the query asks for: no operator above its sort breaks it."""
        return self.root.ordered


def numbered(root: Node) -> Node:
    """A plan with its nodes numbered 1, 2, ... in the order of `Node.walk`."""
    numbers = count(1)

    def number(node: Node) -> Node:
        return replace(node.over([number(child) for child in node.inputs]), number=next(numbers))

    return number(root)
