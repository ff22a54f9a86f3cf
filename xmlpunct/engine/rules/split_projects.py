"""split_projects: what a project remembers of punctuations is kept where it can be remembered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xmlpunct.engine.plan import (
    Binary,
    Difference,
    GroupBy,
    Intersect,
    Merge,
    Node,
    PartialGroupBy,
    Project,
    Scan,
    Select,
)
from xmlpunct.engine.rules.walk import column, fresh, plain, substitute
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.monotone import Monotone


def split_projects(root: Node) -> Node:
    """Project(x, h = f(a)) -> Project(Project(x, h = f(a), a), h), which knows that h = f(a), for monotone f.

    The lower half is stateless: it computes, and keeps the sources, on which punctuations pass. The upper half
    fuses these, and drops them. An exchange between the two goes by h, so that all shards hear of all of a.
    Applied once and last, for other rules would put the halves together again.
    """
    return _split(root, None)


def _split(node: Node, wanted: Collection[str] | None) -> Node:
    """``wanted`` are the columns on which punctuations are of use above (None: all)."""
    inputs = [_split(below, _wanted(node, below, wanted)) for below in node.inputs]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    if not isinstance(node, Project) or node.derived or not node.memory:
        return node
    found = {name: m for name, e in node.columns if (m := Monotone.of(e)) is not None}
    found = {
        name: m
        for name, m in found.items()
        if (wanted is None or name in wanted) and is_constrained(node.input, m.source)
    }
    if not found:
        return node
    there = {e.name: name for name, e in node.columns if isinstance(e, Column)}
    sources = dict.fromkeys(m.source for m in found.values() if m.source not in there)
    taken = {name for name, _ in node.columns}
    for source in sources:
        there[source] = fresh(source, taken)
        taken.add(there[source])
    kept = tuple((there[s], column(node.input, s)) for s in sources)
    lower = Project(node.input, (*node.columns, *kept), memory=False)
    renamed: dict[str, Expression] = {
        s: replace(column(node.input, s), name=there[s]) for s in {m.source for m in found.values()}
    }
    derived = tuple((name, substitute(m.expression, renamed)) for name, m in found.items())
    return Project(lower, plain(lower, [name for name, _ in node.columns]), derived)


def _wanted(node: Node, below: Node, wanted: Collection[str] | None) -> Collection[str] | None:
    """On which columns of an input punctuations are of use."""
    if isinstance(node, GroupBy):
        return node.keys
    if isinstance(node, Select):
        return wanted
    if type(node) is Merge and wanted is not None:
        return [below.schema.names[node.schema.index(name)] for name in wanted]
    return None


def is_constrained(node: Node, name: str) -> bool:
    """Whether a punctuation can speak about a column of a node's output: no aggregate's, nothing else computed."""
    if isinstance(node, Scan):
        return True
    if isinstance(node, GroupBy):
        return name in node.keys and is_constrained(node.input, name)
    if isinstance(node, PartialGroupBy):
        return name in (*node.keys, *node.kept) and is_constrained(node.input, name)
    if isinstance(node, Project):
        e = dict(node.columns)[name]
        if isinstance(e, Column):
            source = dict(node.derived).get(e.name)
            return is_constrained(node.input, e.name if source is None else next(source.columns()))
        return False
    if isinstance(node, Binary) and not isinstance(node, Intersect | Difference):
        return is_constrained(node.left if name in node.left.schema else node.right, name)
    place = node.schema.index(name)
    return all(is_constrained(below, below.schema.names[place]) for below in node.inputs)
