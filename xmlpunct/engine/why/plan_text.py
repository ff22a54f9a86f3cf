"""The plan as text for people: its tree, its fragments, and the punctuations that unblock each operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xmlpunct.engine.partition.fragments import Fragments, cut_plan
from xmlpunct.engine.plan import Node, PartialDupElim, PartialGroupBy, Project, Query, Receive
from xmlpunct.engine.plan.operator_text import purging
from xmlpunct.engine.rule_options import DROP_DUPELIMS, EDGE_AGGREGATION, EDGE_DUPELIM, RULE_OPTIONS, Rules
from xmlpunct.engine.rules.drop_ignored import ignored
from xmlpunct.engine.verdicts import mending, verdicts
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.pattern import WILDCARD


def explain(query: Query) -> str:
    """The plan, its fragments, the punctuations that unblock each operator, and whether the streams promise them.

    >>> from xmlpunct.engine.sql import plan
    >>> print(explain(plan('''
    ...     CREATE STREAM s (sid STRING, hour INT NOT NULL, temp INT) WITH (source = 's.xml');
    ...     SELECT hour, COUNT(*) AS n FROM s GROUP BY hour''')))
    plan
      #3 project hour = s.hour, n = COUNT(*)  (hour INT NOT NULL, n INT NOT NULL)
        #2 group-by s.hour: COUNT(*)  (s.hour INT NOT NULL, COUNT(*) INT NOT NULL)
          #1 scan s: hour  (s.hour INT NOT NULL)
    <BLANKLINE>
    fragments
      edge 1, reading s: #1 #4 (aggregates slice by slice) -> fragment 1, by s.hour
      fragment 1, on all shards: #2 #3 -> the result
    <BLANKLINE>
    what unblocks what
      #2 group-by: a group is released once s has closed its hour, with * elsewhere
    <BLANKLINE>
    will it unblock, will it stay bounded
      #1 scan: fine
      #2 group-by: fine (s ends)
      #3 project: fine
    <BLANKLINE>
    rules that can be switched
      edge-aggregation is on, for edge 1: --rule edge-aggregation=off
    """
    waits = list(unblocking(query.walk())) or ["no operator waits: every tuple is emitted at once"]
    printed_numbers = set[int]()
    sections = {
        **{f"plan of {a}" if a.name else "plan": list(tree(a.root, printed_numbers)) for a in query.answers},
        "fragments": list(parts(query)),
        "what unblocks what": waits,
        "will it unblock, will it stay bounded": [
            f"#{n.number} {n.name}: {verdict}" for n, verdict in verdicts(query)
        ],
        "what would fix it": list(mending(query).lines()),
        "rules that can be switched": list(rule_options(query)),
    }
    return "\n\n".join("\n".join([title, *_indent(lines)]) for title, lines in sections.items() if lines)


def tree(node: Node, shown: set[int]) -> Iterator[str]:
    """A line for each node: number, operator, parameters, output. Inputs follow, indented.

    For a node that is in ``shown``, printed for another plan already, the line has only its name.
    """
    if node.number in shown:
        yield f"#{node.number} {node.name}: as above"
        return
    yield f"#{node.number} {node.describe()}  ({', '.join(map(_attribute, node.schema))})"
    for below in node.inputs:
        yield from _indent(tree(below, shown))
    shown.add(node.number)


def parts(query: Query) -> Iterator[str]:
    """The nodes of each edge (inside the reader) and fragment (on shards), and the shard keys of their consumers."""
    cut, last = _fragments_of(query, query.rules), query.last
    targets: dict[tuple[bool, int], list[str]] = {}
    for i, fragment in enumerate(cut.fragments, 1):
        for feed in fragment.feeds:
            destination = f"fragment {i}{', by ' * bool(feed.keys)}{', '.join(feed.keys)}"
            targets.setdefault((feed.from_edge, feed.source), []).append(destination)
    for answer, feed in zip(query.answers, cut.answers, strict=True):
        targets.setdefault((feed.from_edge, feed.source), []).append(str(answer))
    for i, edge in enumerate(cut.edges):
        name = query.streams[edge.stream].name
        destinations = "; ".join(targets[True, i])
        yield f"edge {i + 1}, reading {name}: {_node_list(edge.root, last)} -> {destinations}"
    for i, fragment in enumerate(cut.fragments):
        where = "one shard" if fragment.single else "all shards"
        destinations = "; ".join(targets[False, i])
        yield f"fragment {i + 1}, on {where}: {_node_list(fragment.root, last)} -> {destinations}"


def _node_list(root: Node, last: int) -> str:
    """The nodes of an edge or a fragment.

    A node with a number above ``last`` is not in the plan: it does work early, or drops columns that were retained for
    joint covers.
    """
    numbers = []
    for node in root.walk():
        if isinstance(node, Receive):
            continue
        role = node.before_exchange
        if not role and node.number > last:
            dropped_columns = [n for below in node.inputs for n in below.schema.names if n not in node.schema]
            role = (
                f"joins over {', '.join(dropped_columns)}"
                if isinstance(node, Project) and dropped_columns
                else f"{node.name} again"
            )
        numbers.append(f"#{node.number} ({role})" if role else f"#{node.number}")
    return " ".join(numbers)


def _fragments_of(query: Query, rules: Rules) -> Fragments:
    return cut_plan(query.roots, [stream.name for stream in query.streams], rules)


def rule_options(query: Query) -> Iterator[str]:
    """For each optional rule that affects this query: whether it is on, and the option that changes it."""
    edges = list(enumerate(_fragments_of(query, frozenset(RULE_OPTIONS)).edges, 1))

    def at_edges(kind: type[Node]) -> list[str]:
        return [f"edge {i}" for i, edge in edges if isinstance(edge.root, kind)]

    needless = ", ".join(f"#{node.number} {node.name}" for node in needless_in(query))
    if DROP_DUPELIMS in query.rules:
        yield f"{DROP_DUPELIMS} is on: --rule {DROP_DUPELIMS}=off"
    elif needless:
        yield f"{DROP_DUPELIMS} is off, and would drop {needless}: --rule {DROP_DUPELIMS}=on"
    for rule, kind in ((EDGE_AGGREGATION, PartialGroupBy), (EDGE_DUPELIM, PartialDupElim)):
        state, other_state = ("on", "off") if rule in query.rules else ("off", "on")
        if edge_names := at_edges(kind):
            yield f"{rule} is {state}, for {', '.join(edge_names)}: --rule {rule}={other_state}"


def needless_in(query: Query) -> list[Node]:
    """The redundant duplicate eliminations of a query."""
    by_number = {node.number: node for root in query.roots for node in ignored(root)}
    return list(by_number.values())


def unblocking(nodes: Iterable[Node]) -> Iterator[str]:
    """For each stateful node: the punctuations that release its results or purge its state."""
    for node in nodes:
        if text := node.unblocked_by or purging(node):
            yield f"#{node.number} {node.name}: {text}"


def _attribute(attribute: Attribute) -> str:
    domain = "" if attribute.domain is WILDCARD else f" in {attribute.domain}"
    return f"{attribute.name} {attribute.type}{'' if attribute.nullable else ' NOT NULL'}{domain}"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in lines)
