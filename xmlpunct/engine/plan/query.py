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

    ``rules`` are those that are on, of those that can be off; ``reads`` are the sources and other files that its
    statements name, each behind what it is, be it of use or not.
    """

    root: Node
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()

    @property
    def guards(self) -> dict[int, str]:
        """The numbers of the guards that say what they reject, each with the stream's declared name."""
        return {guard.number: guard.stream.declared for guard in self.root.find(Guard) if not guard.quiet}

    @property
    def ordered(self) -> bool:
        """Whether results come in an order that the query asks for: a sort, under nothing that would break it."""
        return self.root.ordered


def numbered(root: Node) -> Node:
    """A plan with its nodes numbered 1, 2, ... in the order of `Node.walk`."""
    numbers = count(1)

    def number(node: Node) -> Node:
        return replace(node.over([number(child) for child in node.inputs]), number=next(numbers))

    return number(root)
