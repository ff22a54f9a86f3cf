"""split_projects: the part of a project that remembers punctuations runs where it has state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xmlpunct.engine.plan import Node, Project, column, fresh, plain
from xmlpunct.engine.rules.walk import substitute
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.monotone import Monotone


def split_projects(root: Node) -> Node:
    """Project(x, h = f(a)) -> Project(Project(x, h = f(a), a), h), for monotone f; the upper half knows that h = f(a).

    The lower half is stateless: it computes h, and keeps a so that punctuations on it pass. The upper half fuses these
    punctuations, and drops a. An exchange between the two goes by h, so that all shards hear of all of a. Applied once
    and last, for other rules would merge the halves again.
    """
    return _split(root, None)


def _split(node: Node, wanted: Collection[str] | None) -> Node:
    """``wanted`` are the columns on which punctuations are of use above (None: all)."""
    inputs = [_split(*below) for below in zip(node.inputs, node.of_use(wanted), strict=True)]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    match node:
        case Project(derived=(), memory=True):
            return _halves(node, wanted)
    return node


def _halves(node: Project, wanted: Collection[str] | None) -> Node:
    """A project split in two, if a column of use follows another."""
    followed = {
        name: m
        for name, e in node.columns
        if (wanted is None or name in wanted)
        and (m := Monotone.of(e)) is not None
        and node.input.is_constrained(m.source)
    }
    if not followed:
        return node
    there = {source: name for name, source in node.copies.items()}
    sources = dict.fromkeys(m.source for m in followed.values() if m.source not in there)
    taken = {name for name, _ in node.columns}
    for source in sources:
        there[source] = fresh(source, taken)
        taken.add(there[source])
    kept = tuple((there[s], column(node.input, s)) for s in sources)
    lower = Project(node.input, (*node.columns, *kept), memory=False)
    renamed: dict[str, Expression] = {
        s: replace(column(node.input, s), name=there[s]) for s in {m.source for m in followed.values()}
    }
    derived = tuple((name, substitute(m.expression, renamed)) for name, m in followed.items())
    return Project(lower, plain(lower, [name for name, _ in node.columns]), derived)
