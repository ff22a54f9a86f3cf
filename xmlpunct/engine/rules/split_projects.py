"""split_projects: the part of a project that remembers punctuations runs where it has state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Project, column, fresh, plain
from xmlpunct.engine.rules.walk import substitute
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.operators.tuple.alternatives import coalesce_in


def split_projects(root: Node) -> Node:
    """Project(x, h = f(a)) -> Project(Project(x, h = f(a), a), h), for monotone f; the upper half knows that h = f(a).

    So it is for COALESCE(a, b), which follows both.

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
    """A project split in two, if a column of use follows others."""
    followed = {
        name: e
        for name, e in node.columns
        if (wanted is None or name in wanted)
        and not isinstance(e, Column)
        and _follows(e)
        and all(map(node.input.is_constrained, e.columns()))
    }
    if not followed:
        return node
    there = {source: name for name, source in node.copies.items()}
    read = dict.fromkeys(source for e in followed.values() for source in e.columns())
    sources = [source for source in read if source not in there]
    taken = {name for name, _ in node.columns}
    for source in sources:
        there[source] = fresh(source, taken)
        taken.add(there[source])
    kept = tuple((there[s], column(node.input, s)) for s in sources)
    lower = Project(node.input, (*node.columns, *kept), memory=False)
    renamed: dict[str, Expression] = {s: replace(column(node.input, s), name=there[s]) for s in read}
    derived = tuple((name, substitute(e, renamed)) for name, e in followed.items())
    return Project(
        lower, plain(lower, [name for name, _ in node.columns]), derived, together=_together(node, followed)
    )


def _follows(e: Expression) -> bool:
    """Whether punctuations on the columns that an expression reads say something of it."""
    merged = coalesce_in(e)
    if merged is None:
        return isinstance(e, Column) or Monotone.of(e) is not None
    return all(isinstance(a, Literal) or _follows(a) for a in merged.args)


def _together(node: Project, columns: Mapping[str, Expression]) -> tuple[tuple[str, ...], ...]:
    """The columns of USING in a full join: COALESCEs of its keys, the same side first."""
    groups = dict[tuple[int, bool], list[str]]()
    for name, e in columns.items():
        merged = coalesce_in(e)
        ends = [_key_of(node.input, a.name) for a in (merged.args if merged else ()) if isinstance(a, Column)]
        if merged is None or len(merged.args) != 2 or len(ends) != 2:
            continue
        first, second = ends
        if first is not None and second is not None and first[0] is second[0]:
            for swapped in (False, True):
                pair = (second[1], first[1]) if swapped else (first[1], second[1])
                if pair in first[0].keys:
                    groups.setdefault((id(first[0]), swapped), []).append(name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _key_of(node: Node, name: str) -> tuple[Join, str] | None:
    """The full join below, of whose tuples a column is copied, and its column there."""
    while not (isinstance(node, Join) and node.kind == "full"):
        carried = node.carries(name)
        if len(carried) != 1:
            return None
        ((port, name),) = carried
        node = node.inputs[port]
    return node, name
