"""Which punctuations close something, in words."""

from __future__ import annotations

from collections.abc import Iterable

from xmlpunct.engine.plan.node import Binary, Node, Place
from xmlpunct.engine.plan.stream_nodes import Scan


def places(node: Node, names: Iterable[str]) -> dict[str, list[Place]]:
    """For each of these columns that punctuations speak about, the attributes of streams by which they do."""
    return {name: found for name in names if (found := node.places(name))}


def closed(node: Node, by: dict[str, list[Place]], how: str = "closed its {}") -> str:
    """The condition under which punctuations close values of some columns of a node; ``how`` says which."""
    if not by:
        return f"{every_stream(node)} has ended: no punctuation speaks about what is computed"
    named: dict[tuple[str, ...], list[str]] = {}
    for attributes_of in by.values():
        of = tuple(dict.fromkeys(stream for stream, _ in attributes_of))
        attributes = list(dict.fromkeys(attribute for _, attribute in attributes_of))
        one = len(attributes) == 1
        name = attributes[0] if one else " / ".join(f"{s}.{a}" for s, a in attributes_of)
        names = named.setdefault(of, [])
        if name not in names:  # both ends of a window follow one timestamp
            names.append(name)
    ways = [f"{_each(of)} has {how.format(' or '.join(names))}" for of, names in named.items()]
    several = " (or several together)" if sum(map(len, named.values())) > 1 else ""
    below = [n for n in node.find(Binary) if n.number]
    held = f", and none such is left in {' and '.join(f'#{n.number}' for n in below)}" if below else ""
    return f"{' or '.join(ways)}{several}, with * elsewhere{held}"


def closes_tuple(node: Node) -> str:
    """The condition under which punctuations close a whole tuple of a node."""
    return closed(node, places(node, node.schema.names), "closed it by {}")


def complete(node: Node, names: Iterable[str]) -> str:
    """The condition under which punctuations close what has certain values in some columns, up to an instant."""
    by: dict[str, dict[str, None]] = {}
    for found in places(node, names).values():
        for stream, attribute in found:
            by.setdefault(stream, {})[attribute] = None
    parts: dict[str, None] = {}
    for scan in node.find(Scan):
        name, timestamp = scan.stream.name, scan.stream.timestamp
        own = [a for a in by.get(name, {}) if a != timestamp]
        if timestamp is not None:
            of = f" for its {', '.join(own)}" if own else " for all tuples"
            parts[f"{name} has closed {timestamp} up to there{of}"] = None
        else:
            when = f"closed its {' or '.join(own)}" if own else "ended"
            parts[f"{name} has {when}"] = None
    return " and ".join(parts)


def every_stream(node: Node) -> str:
    """The streams that a node reads, as the subject of a sentence."""
    return _each(streams(node))


def streams(node: Node) -> tuple[str, ...]:
    """The names of the streams that a node reads."""
    return tuple(dict.fromkeys(scan.stream.name for scan in node.find(Scan)))


def which_side(node: Binary, side: int) -> str:
    """One of the two inputs."""
    read = [streams(below) for below in node.inputs]
    if set(read[0]) & set(read[1]):
        return ("on the left", "on the right")[side]
    return f"of {', '.join(read[side])}"


def _each(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"every one of {', '.join(names)}"
