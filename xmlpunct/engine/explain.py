"""What a plan will do, as text for people: its tree, and which punctuations unblock what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xmlpunct.engine.build import Receive
from xmlpunct.engine.partition.fragments import Fragments, cut
from xmlpunct.engine.plan import (
    Binary,
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Limit,
    Merge,
    Node,
    NotIn,
    PartialDupElim,
    PartialGroupBy,
    Project,
    Punctuate,
    Query,
    Scan,
    Select,
    SemiJoin,
    Sort,
    Union,
)
from xmlpunct.engine.rule_options import DROP_DUPELIMS, EDGE_AGGREGATION, EDGE_DUPELIM, SWITCHES, Rules
from xmlpunct.engine.rules.drop_ignored import ignored
from xmlpunct.expressions.expression import Column
from xmlpunct.operators import Aggregate
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.schema import Attribute


def explain(query: Query) -> str:
    """The plan, where its parts run, and what unblocks what.

    >>> from xmlpunct.engine.sql import plan
    >>> print(explain(plan('''
    ...     CREATE STREAM s (sid STRING, hour INT NOT NULL, temp INT) WITH (source = 's.xml');
    ...     SELECT hour, MAX(temp) AS top FROM s GROUP BY hour''')))
    plan
      #3 project hour = s.hour, top = MAX(s.temp)  (hour INT NOT NULL, top INT)
        #2 group-by s.hour: MAX(s.temp)  (s.hour INT NOT NULL, MAX(s.temp) INT)
          #1 scan s: hour, temp  (s.hour INT NOT NULL, s.temp INT)
    <BLANKLINE>
    fragments
      edge 1, reading s: #1 #4 (aggregates slice by slice) -> fragment 1, by s.hour
      fragment 1, on all shards: #2 #3 -> the result
    <BLANKLINE>
    what unblocks what
      #2 group-by: a group is released once s has closed its hour, with * elsewhere
    <BLANKLINE>
    rules that can be switched
      edge-aggregation is on, for edge 1: --rule edge-aggregation=off
    """
    waits = list(unblocking(query.root)) or ["nothing waits: every tuple goes through at once"]
    sections = {
        "plan": list(tree(query.root)),
        "fragments": list(parts(query)),
        "what unblocks what": waits,
        "rules that can be switched": list(switches(query)),
    }
    return "\n\n".join("\n".join([title, *_indent(lines)]) for title, lines in sections.items() if lines)


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
        shown = [c if n in (c, f"{node.stream.declared}.{c}") else f"{n} = {c}" for c, n in pairs]
        return f"scan {node.stream.name}: {', '.join(shown)}"
    if isinstance(node, Select):
        parameters = str(node.predicate)
    if isinstance(node, Project):
        parameters = ", ".join(name if str(e) == name else f"{name} = {e}" for name, e in node.columns)
        parameters += "".join(f"; {name} follows {e}" for name, e in node.derived)
    if isinstance(node, GroupBy):
        parameters = f"{', '.join(node.keys) or 'nothing'}: {', '.join(map(_aggregate, node.aggregates))}"
        parameters = parameters.removesuffix(": ")
    if isinstance(node, Join | SemiJoin):
        return _describe_join(node)
    if isinstance(node, Sort):
        parameters = f"by {', '.join(map(str, node.keys))}"
    if isinstance(node, Punctuate):
        parameters = f"by {node.order.attribute}, slack {node.order.slack:g}"
        parameters += f", each of {len(node.order.senders)} {node.order.by}" if node.order.by else ""
    if isinstance(node, Limit):
        parameters = str(node.count)
    if isinstance(node, NotIn):
        parameters = f"{node.left_column} NOT IN {node.right_column}"
    return f"{_name(node)} {parameters}".rstrip()


def _name(node: Node) -> str:
    return "antijoin" if isinstance(node, SemiJoin) and node.anti else node.operator().name


def _describe_join(node: Join | SemiJoin) -> str:
    keys = " AND ".join(f"{left} = {right}" for left, right in node.keys)
    residual = "" if node.residual is None else f"{' AND ' * bool(keys)}{node.residual}"
    kind = f"{node.kind} join" if isinstance(node, Join) else _name(node)
    return f"{kind} on {keys}{residual}" if keys or residual else f"{kind} of all pairs"


def parts(query: Query) -> Iterator[str]:
    """Where the plan's nodes run: edges inside the reader, fragments on shards, by what tuples go to them."""
    found = _cut(query, query.rules)
    targets = {
        (feed.from_edge, feed.source): f"fragment {i}{', by ' * bool(feed.keys)}{', '.join(feed.keys)}"
        for i, fragment in enumerate(found.fragments, 1)
        for feed in fragment.feeds
    }
    for i, edge in enumerate(found.edges):
        name = query.streams[edge.stream].name
        there = targets.get((True, i), "the result")
        yield f"edge {i + 1}, reading {name}: {_numbers(edge.root, query)} -> {there}"
    for i, fragment in enumerate(found.fragments):
        where = "one shard" if fragment.single else "all shards"
        there = targets.get((False, i), "the result")
        yield f"fragment {i + 1}, on {where}: {_numbers(fragment.root, query)} -> {there}"


def _numbers(root: Node, query: Query) -> str:
    """The nodes of a part; one that is not in the plan works ahead, or drops what was kept for joint covers."""
    found = []
    for node in root.walk():
        if not isinstance(node, Receive):
            found.append(f"#{node.number}")
        if isinstance(node, PartialGroupBy):
            found[-1] += " (aggregates slice by slice)"
        elif isinstance(node, PartialDupElim):
            found[-1] += " (each tuple once a slice)"
        elif node.number > query.root.number:
            lost = [n for below in node.inputs for n in below.schema.names if n not in node.schema]
            found[-1] += f" (joins over {', '.join(lost)})"
    return " ".join(found)


def _cut(query: Query, rules: Rules) -> Fragments:
    return cut(query.root, [stream.name for stream in query.streams], rules)


def switches(query: Query) -> Iterator[str]:
    """For each rule that can be switched and is, or would be, of use here: how it stands, and how to switch it."""
    edges = list(enumerate(_cut(query, frozenset(SWITCHES)).edges, 1))

    def at_edges(kind: type[Node]) -> list[str]:
        return [f"edge {i}" for i, edge in edges if isinstance(edge.root, kind)]

    needless = ", ".join(f"#{node.number} {_name(node)}" for node in ignored(query.root))
    if DROP_DUPELIMS in query.rules:
        yield f"{DROP_DUPELIMS} is on: --rule {DROP_DUPELIMS}=off"
    elif needless:
        yield f"{DROP_DUPELIMS} is off, and would drop {needless}: --rule {DROP_DUPELIMS}=on"
    for rule, kind in ((EDGE_AGGREGATION, PartialGroupBy), (EDGE_DUPELIM, PartialDupElim)):
        now, other = ("on", "off") if rule in query.rules else ("off", "on")
        if found := at_edges(kind):
            yield f"{rule} is {now}, for {', '.join(found)}: --rule {rule}={other}"


def unblocking(root: Node) -> Iterator[str]:
    """For each node that waits or remembers: which punctuations release its results or its state."""
    for node in root.walk():
        text = ""
        if isinstance(node, GroupBy):
            text = _group(node)
        elif isinstance(node, Project) and node.derived:
            text = _derived(node)
        elif isinstance(node, DupElim | Union):
            text = f"a tuple is forgotten once {_closes_tuple(node)}"
        elif isinstance(node, Merge):
            text = "tuples go through at once; a punctuation once every input has one that overlaps it"
        elif isinstance(node, Intersect | Difference):
            text = _compared(node)
        elif isinstance(node, Join | SemiJoin):
            text = _join(node)
        elif isinstance(node, Sort):
            text = _sort(node)
        elif isinstance(node, Limit):
            text = f"after {node.count} {'tuple' if node.count == 1 else 'tuples'} nothing more is read"
        elif isinstance(node, NotIn):
            end = _all(_streams(node.right))
            text = f"nothing is released before the end of {end}, on one shard; a null there leaves nothing"
        if text:
            yield f"#{node.number} {_name(node)}: {text}"


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
        if not isinstance(expression, Column):
            return None
        source = dict(node.derived).get(expression.name)
        return trace(node.input, next(source.columns()) if source is not None else expression.name)
    if isinstance(node, GroupBy):
        return trace(node.input, name) if name in node.keys else None
    if isinstance(node, Binary) and not isinstance(node, Intersect | Difference):
        return _trace_side(node, name)
    position = node.schema.index(name)
    found: dict[Place, None] = {}
    for below in node.inputs:
        places = trace(below, below.schema.names[position])
        if places is None:
            return None
        found.update(dict.fromkeys(places))
    return list(found)


def _trace_side(node: Binary, name: str) -> list[Place] | None:
    """The same, of a join: of the side that has the column. A key of an inner join belongs to both."""
    if isinstance(node, Join) and node.kind == "inner":
        for left, right in node.keys:
            if name == left:
                found = [*(trace(node.left, left) or ()), *(trace(node.right, right) or ())]
                return list(dict.fromkeys(found)) or None
    return trace(node.left if name in node.left.schema else node.right, name)


def _group(node: GroupBy) -> str:
    if not node.keys:
        return f"its one result is released at the end of {_all(_streams(node))}"
    places = _places(node.input, node.keys)
    text = f"a group is released once {_closed(node.input, places, 'its')}"
    computed = [key for key in node.keys if key not in places]
    if computed and places:
        text += f"; no punctuation speaks about {', '.join(computed)}, which is computed"
    nulls = [key for key in places if node.schema[key].nullable]
    if nulls:
        text += f"; where {' or '.join(nulls)} is null, at the end of {_all(_streams(node))}"
    return text


def _derived(node: Project) -> str:
    """Which columns punctuations speak about by way of others."""
    texts = []
    for name, e in node.derived:
        places = _places(node.input, e.columns())
        if places:
            texts.append(
                f"a value of {name} is closed once {_closed(node.input, places, 'its')}, by fused ranges"
            )
    return "; ".join(texts)


def _sort(node: Sort) -> str:
    """What closes a prefix of the order: its first key, from the first value on."""
    key = node.keys[0]
    end = _all(_streams(node))
    if key.nulls_first and node.schema[key.column].nullable:
        return f"nulls come first, so nothing is released before the end of {end}, on one shard"
    places = _places(node.input, [key.column])
    if not places:
        return f"nothing is released before the end of {end}: no punctuation speaks about what is computed"
    first = "highest" if key.descending else "lowest"
    text = f"a tuple is released once {_closed(node.input, places, 'its')}, from the {first} value on"
    nulls = f"; nulls, at the end of {end}" if node.schema[key.column].nullable else ""
    return f"{text}; on one shard{nulls}"


def _join(node: Join | SemiJoin) -> str:
    """Each side's tuples are forgotten once the other side has closed their keys."""
    preserved = node.preserved if isinstance(node, Join) else ()
    texts = []
    for side in (0, 1):
        other = node.inputs[1 - side]
        then = "forgotten"
        if isinstance(node, SemiJoin) and side == 0:
            then = f"{'released' if node.anti else 'dropped'}, if it has no partner,"
        elif side in preserved:
            then = "forgotten, and released with nulls if it had no partner,"
        keys = [pair[1 - side] for pair in node.keys]
        when = _closed(other, _places(other, keys), "its") if keys else f"{_all(_streams(other))} has ended"
        texts.append(f"a tuple {_of(node, side)} is {then} once {when}")
    if not node.keys:
        texts.append("without an equality it runs on one shard and compares everything with everything")
    return "; ".join(texts)


def _compared(node: Intersect | Difference) -> str:
    """Each side's tuples are forgotten once the other side has closed them."""
    texts = []
    for side in (0, 1):
        released = isinstance(node, Difference) and side == 0
        then = "released, if the right side did not have it," if released else "forgotten"
        texts.append(f"a tuple {_of(node, side)} is {then} once {_closes_tuple(node.inputs[1 - side])}")
    return "; ".join(texts)


def _of(node: Binary, side: int) -> str:
    """Which of the two inputs, as words."""
    streams = [_streams(below) for below in node.inputs]
    if set(streams[0]) & set(streams[1]):
        return ("on the left", "on the right")[side]
    return f"of {', '.join(streams[side])}"


def _places(node: Node, names: Iterable[str]) -> dict[str, list[Place]]:
    return {name: found for name in names if (found := trace(node, name))}


def _closes_tuple(node: Node) -> str:
    return _closed(node, _places(node, node.schema.names), "it")


def _closed(node: Node, places: dict[str, list[Place]], whose: str) -> str:
    """The condition under which punctuations close values of some columns of a node."""
    if not places:
        return f"{_all(_streams(node))} has ended: no punctuation speaks about what is computed"
    named: dict[tuple[str, ...], list[str]] = {}
    for found in places.values():
        streams = tuple(dict.fromkeys(stream for stream, _ in found))
        attributes = list(dict.fromkeys(attribute for _, attribute in found))
        one = len(attributes) == 1
        name = attributes[0] if one else " / ".join(f"{s}.{a}" for s, a in found)
        named.setdefault(streams, []).append(name)
    how = "closed its {}" if whose == "its" else "closed it by {}"
    ways = [f"{_each(streams)} has {how.format(' or '.join(names))}" for streams, names in named.items()]
    together = " (or several together)" if len(places) > 1 else ""
    below = [n for n in node.walk() if isinstance(n, Binary) and n.number]
    held = f", and none such is left in {' and '.join(f'#{n.number}' for n in below)}" if below else ""
    return f"{' or '.join(ways)}{together}, with * elsewhere{held}"


def _each(streams: tuple[str, ...]) -> str:
    return streams[0] if len(streams) == 1 else f"every one of {', '.join(streams)}"


def _all(streams: list[str]) -> str:
    return _each(tuple(streams))


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
