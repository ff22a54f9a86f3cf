"""split_senders: a stream that several senders feed is the merge of theirs."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.connectors.open_source import senders_of
from xmlpunct.engine.plan import Key, Merge, Node, Project, Punctuate, Scan, Select
from xmlpunct.engine.rules.walk import rule


@rule
def split_senders(node: Node) -> Node:
    """Scan(s) -> Merge(Scan(s#1), ..., Scan(s#n)) where the source of s has n senders.

    Punctuate(Scan(s)) -> Merge(Punctuate(Scan(s#1)), ...), also with selects and projects between the two: each sender
    is in order by itself, and one that lags behind the others is not late. A key is the stream's, not a sender's, so it
    stays above the merge. Applied once and first, so that other rules see an ordinary merge.
    """
    match node:
        case Scan(stream) if not stream.sender and (count := senders_of(stream.source)) > 1:
            return Merge(tuple(replace(node, stream=stream.of_sender(1 + i)) for i in range(count)))
        case Punctuate(below) if sides := _of_each(below):
            return Merge(tuple(node.over([side]) for side in sides))
        case Punctuate(Key(Merge(sides)) as key):
            return key.over([Merge(tuple(node.over([side]) for side in sides))])
    return node


def _of_each(node: Node) -> tuple[Node, ...]:
    """For each sender what is above its scan; none where there is but one."""
    match node:
        case Merge(sides):
            return sides
        case Select(below) | Project(below):
            return tuple(node.over([side]) for side in _of_each(below))
    return ()
