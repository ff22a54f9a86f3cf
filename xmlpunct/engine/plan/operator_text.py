"""Text that describes the punctuations that close tuples."""

from __future__ import annotations

from collections.abc import Iterable

from xmlpunct.engine.plan.node import Binary, Node, StreamAttribute
from xmlpunct.engine.plan.schemes import Need
from xmlpunct.engine.plan.stream_nodes import Scan


def closing_attributes(node: Node, names: Iterable[str]) -> dict[str, list[StreamAttribute]]:
    """For each column that punctuations can constrain, the stream attributes of these punctuations."""
    return {name: attributes for name in names if (attributes := node.stream_attributes(name))}


def closed(node: Node, closing: dict[str, list[StreamAttribute]], how: str = "closed its {}") -> str:
    """The condition under which punctuations close values of columns; ``how`` describes the values."""
    if not closing:
        return f"{every_stream(node)} has ended: punctuations cannot constrain computed columns"
    named: dict[tuple[str, ...], list[str]] = {}
    for attributes_of in closing.values():
        subject = tuple(dict.fromkeys(stream for stream, _ in attributes_of))
        attributes = list(dict.fromkeys(attribute for _, attribute in attributes_of))
        has_single_name = len(attributes) == 1
        name = attributes[0] if has_single_name else " / ".join(f"{s}.{a}" for s, a in attributes_of)
        names = named.setdefault(subject, [])
        if name not in names:  # both ends of a window follow one timestamp
            names.append(name)
    ways = [f"{_all_of(subject)} has {how.format(' or '.join(names))}" for subject, names in named.items()]
    several = " (or several together)" if sum(map(len, named.values())) > 1 else ""
    below = [n for n in node.find(Binary) if n.number]
    condition = (
        f", and no matching tuple is left in {' and '.join(f'#{n.number}' for n in below)}" if below else ""
    )
    return f"{' or '.join(ways)}{several}, with * elsewhere{condition}"


def only_at_end(node: Node) -> str:
    """Text for an operator whose results no punctuation but the end of its inputs releases."""
    end = every_stream(node)
    return f"nothing is released before the end of {end}: punctuations cannot constrain computed columns"


def closes_tuple(node: Node) -> str:
    """The condition under which punctuations close a whole tuple of a node."""
    return closed(node, closing_attributes(node, node.schema.names), "closed it by {}")


def purging(node: Node) -> str:
    """When retained tuples are released or purged, by the needs of the node; empty if these do not determine it."""
    texts = []
    for need in node.awaits:
        other = node.inputs[need.port]
        if need.retained is not None:
            when = closes_tuple(other) if node.by_position else _closes_partners(other, need)
            texts.append(f"a tuple {which_side(node, need.retained)} is {need.effect} once {when}")
        elif need.nulls_until is not None:
            end = every_stream(node.inputs[need.nulls_until])
            texts.append(
                f"where {' or '.join(need.nulls)} is null, at the end of {end}, if that had no tuple"
            )
        elif need.effect:
            texts.append(f"a tuple is {need.effect} once {closes_tuple(node)}")
    return "; ".join(dict.fromkeys(texts))


def _closes_partners(node: Node, need: Need) -> str:
    """The condition under which punctuations of a node close all partners of a tuple."""
    bounded = {*need.prefixes, *need.within[len(need.pairs) :]}
    met = closing_attributes(node, [name for name in node.schema.names if name in bounded])
    equal = closing_attributes(node, [name for _, name in need.pairs])
    ways = [closed(node, equal)] if need.pairs else []
    ways += [closed(node, met, "closed every {} that it could meet")] if met else []
    return ", or once ".join(ways) or f"{every_stream(node)} has ended"


def completion_text(node: Node, names: Iterable[str]) -> str:
    """The condition under which punctuations close tuples with the same values in columns, up to an instant."""
    attributes_by_stream: dict[str, dict[str, None]] = {}
    for closing in closing_attributes(node, names).values():
        for stream, attribute in closing:
            attributes_by_stream.setdefault(stream, {})[attribute] = None
    parts: dict[str, None] = {}
    for scan in node.find(Scan):
        name, timestamp = scan.stream.name, scan.stream.timestamp
        names_of_stream = [a for a in attributes_by_stream.get(name, {}) if a != timestamp]
        if timestamp is not None:
            scope = f" for its {', '.join(names_of_stream)}" if names_of_stream else " for all tuples"
            parts[f"{name} has closed {timestamp} up to there{scope}"] = None
        else:
            when = f"closed its {' or '.join(names_of_stream)}" if names_of_stream else "ended"
            parts[f"{name} has {when}"] = None
    return " and ".join(parts)


def every_stream(node: Node) -> str:
    """The streams that a node reads, as the subject of a sentence."""
    return _all_of(streams(node))


def streams(node: Node) -> tuple[str, ...]:
    """The names of the streams that a node reads."""
    return tuple(dict.fromkeys(scan.stream.name for scan in node.find(Scan)))


def which_side(node: Node, side: int) -> str:
    """Text that names one of the two inputs."""
    read = [streams(below) for below in node.inputs]
    if set(read[0]) & set(read[1]):
        return ("on the left", "on the right")[side]
    return f"of {', '.join(read[side])}"


def _all_of(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"
