"""A whole query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.streams import Guard, Stream
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.firehose.sources import Source, open_source


class Opened(dict[str, Source]):
    """Sources that were opened while the query was planned, by what names them. They stay in this process."""

    def take(self, spec: str) -> Source:
        """The source that a text names: one that was opened, or it is opened now, for each run anew.

        What can be read once only stays, and refuses to be read again. Raises `SourceError`.
        """
        source = self.pop(spec, None) or open_source(spec)
        if source.once:
            self[spec] = source
        return source

    def __reduce__(self) -> tuple[type[Opened], tuple[()]]:
        return Opened, ()


@dataclass(frozen=True)
class Query:
    """A whole query: its plan, whose nodes are numbered, and the streams it reads, in order of first use.

    ``rules`` are the optional rules that are on. ``reads`` are the sources and other files that its statements name,
    used or not: pairs of what it is, and its name. ``inferred`` is what was inferred of some streams, as a checkpoint
    keeps it; ``opened`` are the sources of which that took the beginning and that can be read once only.
    """

    root: Node
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()
    inferred: Mapping[str, list[Any]] = field(default_factory=dict, compare=False, repr=False)
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)

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
