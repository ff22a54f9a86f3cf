"""What a plan will do, as text for people: its tree, and which punctuations unblock what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Project, Query, Scan, Select, Union
from xmlpunct.operators import Aggregate
from xmlpunct.operators.expression import Column
from xmlpunct.patterns import WILDCARD
from xmlpunct.schema import Attribute


def explain(query: Query) -> str:
    """The plan, and what unblocks what.

    >>> from xmlpunct.engine.sql import plan
    >>> print(explain(plan('''
    ...     CREATE STREAM s (sid STRING, hour INT NOT NULL, temp INT) WITH (source = 's.xml');
    ...     SELECT hour, MAX(temp) AS top FROM s GROUP BY hour''')))
    plan
      #3 project hour = s.hour, top = MAX(s.temp)  (hour INT NOT NULL, top INT)
        #2 group-by s.hour: MAX(s.temp)  (s.hour INT NOT NULL, MAX(s.temp) INT)
          #1 scan s: hour, temp  (s.hour INT NOT NULL, s.temp INT)
    <BLANKLINE>
    what unblocks what
      #2 group-by: a group is released once s has closed its hour, with * elsewhere
    """
    waits = list(unblocking(query.root)) or ["nothing waits: every tuple goes through at once"]
    return "\n".join(["plan", *_indent(tree(query.root)), "", "what unblocks what", *_indent(waits)])


def tree(node: Node) -> Iterator[str]:
    """A line for each node: number, operator, parameters, output. Inputs stand below, indented."""
    yield f"#{node.number} {describe(node)}  ({', '.join(map(_attribute, node.schema))})"
    for below in node.inputs:
        yield from _indent(tree(below))


def describe(node: Node) -> str:
    """An operator and its parameters."""
    parameters = ""
    if isinstance(node, Scan):
        pairs = zip(node.columns, node.names, strict=True)
        shown = [c if n in (c, f"{node.stream.name}.{c}") else f"{n} = {c}" for c, n in pairs]
        return f"scan {node.stream.name}: {', '.join(shown)}"
    if isinstance(node, Select):
        parameters = str(node.predicate)
    if isinstance(node, Project):
        parameters = ", ".join(name if str(e) == name else f"{name} = {e}" for name, e in node.columns)
    if isinstance(node, GroupBy):
        parameters = f"{', '.join(node.keys) or 'nothing'}: {', '.join(map(_aggregate, node.aggregates))}"
        parameters = parameters.removesuffix(": ")
    return f"{node.operator().name} {parameters}".rstrip()


def unblocking(root: Node) -> Iterator[str]:
    """For each node that waits or remembers: which punctuations release its results or its state."""
    for node in root.walk():
        head = f"#{node.number} {node.operator().name}: "
        if isinstance(node, GroupBy):
            yield head + _group(node)
        elif isinstance(node, DupElim | Union):
            places = {name: found for name in node.schema.names if (found := trace(node, name))}
            yield head + f"a tuple is forgotten once {_closed(node, places, 'it')}"
        elif isinstance(node, Merge):
            yield head + "tuples go through at once; a punctuation once every input has one that overlaps it"


Place = tuple[str, str]
"""A stream and one of its attributes."""


def trace(node: Node, name: str) -> list[Place] | None:
    """The attributes of streams that a column of a node's output comes from, one per scan below.

    None if it is computed, so that no punctuation speaks about it.
    """
    if isinstance(node, Scan):
        return [(node.stream.name, node.columns[node.names.index(name)])]
    if isinstance(node, Project):
        expression = dict(node.columns)[name]
        return trace(node.input, expression.name) if isinstance(expression, Column) else None
    if isinstance(node, GroupBy) and name not in node.keys:
        return None
    position = node.schema.index(name)
    found: dict[Place, None] = {}
    for below in node.inputs:
        inner = name if isinstance(node, GroupBy) else below.schema.names[position]
        places = trace(below, inner)
        if places is None:
            return None
        found.update(dict.fromkeys(places))
    return list(found)


def _group(node: GroupBy) -> str:
    if not node.keys:
        return f"its one result is released at the end of {_all(_streams(node))}"
    places = {key: found for key in node.keys if (found := trace(node.input, key))}
    text = f"a group is released once {_closed(node, places, 'its')}"
    computed = [key for key in node.keys if key not in places]
    if computed and places:
        text += f"; no punctuation speaks about {', '.join(computed)}, which is computed"
    nulls = [key for key in places if node.schema[key].nullable]
    if nulls:
        text += f"; where {' or '.join(nulls)} is null, at the end of {_all(_streams(node))}"
    return text


def _closed(node: Node, places: dict[str, list[Place]], whose: str) -> str:
    """The condition under which punctuations close values of some columns."""
    streams = _streams(node)
    if not places:
        return f"{_all(streams)} ended: no punctuation speaks about what is computed"
    names = []
    for found in places.values():
        attributes = list(dict.fromkeys(attribute for _, attribute in found))
        one = len(attributes) == 1
        names.append(attributes[0] if one else " / ".join(f"{s}.{a}" for s, a in found))
    verb = f"closed {whose} {' or '.join(names)}" if whose == "its" else f"closed it by {' or '.join(names)}"
    together = " (or several together)" if len(names) > 1 else ""
    subject = f"{streams[0]} has" if len(streams) == 1 else f"every one of {', '.join(streams)} has"
    return f"{subject} {verb}{together}, with * elsewhere"


def _all(streams: list[str]) -> str:
    return streams[0] if len(streams) == 1 else f"every one of {', '.join(streams)}"


def _streams(node: Node) -> list[str]:
    return list(dict.fromkeys(n.stream.name for n in node.walk() if isinstance(n, Scan)))


def _attribute(attribute: Attribute) -> str:
    domain = "" if attribute.domain is WILDCARD else f" in {attribute.domain}"
    return f"{attribute.name} {attribute.type}{'' if attribute.nullable else ' NOT NULL'}{domain}"


def _aggregate(a: Aggregate) -> str:
    text = f"{a.function}({'DISTINCT ' * a.distinct}{'*' if a.argument is None else a.argument})"
    return text if a.name == text else a.name


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in lines)
