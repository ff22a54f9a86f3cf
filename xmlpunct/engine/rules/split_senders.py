"""split_senders: replace a stream with several senders by a merge of one stream per sender."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.connectors.contract import senders_of
from xmlpunct.engine.plan import Key, Merge, Node, Project, Punctuate, Scan, Select
from xmlpunct.engine.rules.walk import rule


@rule
def split_senders(node: Node) -> Node:
    """Scan(s) -> Merge(Scan(s#1), ..., Scan(s#n)) if the source of s has n senders.

    Punctuate(Scan(s)) -> Merge(Punctuate(Scan(s#1)), ...), also with selects and projects between the two: the order
    holds per sender, and a slow sender's tuples are not late. A key belongs to the stream, not to a sender, so it stays
    above the merge. Applied once and first, so that other rules receive an ordinary merge.
    """
    match node:
        case Scan(stream) if not stream.sender and (count := senders_of(stream.source)) > 1:
            return Merge(tuple(replace(node, stream=stream.of_sender(1 + i)) for i in range(count)))
        case Punctuate(below) if sides := _sender_parts(below):
            return Merge(tuple(node.over([side]) for side in sides))
        case Punctuate(Key(Merge(sides)) as key):
            return key.over([Merge(tuple(node.over([side]) for side in sides))])
    return node


def _sender_parts(node: Node) -> tuple[Node, ...]:
    """The part above the scan of each sender; empty for a stream with one sender."""
    match node:
        case Merge(sides):
            return sides
        case Select(below) | Project(below):
            return tuple(node.over([side]) for side in _sender_parts(below))
    return ()
