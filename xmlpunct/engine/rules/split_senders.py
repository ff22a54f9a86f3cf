"""split_senders: a stream that several senders feed is the merge of theirs."""

from __future__ import annotations

from xmlpunct.engine.plan import Merge, Node, Punctuate, Scan
from xmlpunct.engine.rules.walk import everywhere
from xmlpunct.firehose.sources import senders_of


def split_senders(root: Node) -> Node:
    """Scan(s) -> Merge(Scan(s#1), ..., Scan(s#n)) where the source of s has n senders.

    Punctuate(Scan(s)) -> Merge(Punctuate(Scan(s#1)), ...): who is in order is each sender by itself, and one that
    lags behind the others is not late. Applied once and first, so that all else treats them as it does any merge.
    """
    return everywhere(root, _split)


def _split(node: Node) -> Node:
    if isinstance(node, Scan) and not node.stream.sender:
        count = senders_of(node.stream.source)
        streams = [node.stream.of_sender(number) for number in range(1, count + 1)]
        return Merge(tuple(Scan(s, node.columns, node.names) for s in streams)) if count > 1 else node
    if isinstance(node, Punctuate) and isinstance(node.input, Merge):
        return Merge(tuple(node.over([side]) for side in node.input.sides))
    return node
