"""split_projects: split projects so that the part that remembers punctuations runs in a stateful fragment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Project, fresh, node_column, plain
from xmlpunct.engine.rules.walk import substitute
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.operators.tuple.alternatives import coalesce_in


def split_projects(root: Node) -> Node:
    """Project(x, h = f(a)) -> Project(Project(x, h = f(a), a), h), for monotone f, where h = f(a) is `derived`.

    The same holds for COALESCE(a, b), which is derived from both columns.

    The lower half is stateless: it computes h, and retains a so that punctuations on a propagate. The upper half
    combines these punctuations and drops a. The shard key of an exchange between the two is h, so every shard receives
    all punctuations on a. Applied once and last, because other rules would merge the halves again.
    """
    return _split(root, None)


def _split(node: Node, useful_columns: Collection[str] | None) -> Node:
    """``useful_columns``: the columns on which operators above can use punctuations (None: all)."""
    inputs = [_split(*below) for below in zip(node.inputs, node.of_use(useful_columns), strict=True)]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    match node:
        case Project(derived=(), memory=True):
            return _halves(node, useful_columns)
    return node


def _halves(node: Project, useful_columns: Collection[str] | None) -> Node:
    """A project split in two, if a useful column is derived from others."""
    followed = {
        name: e
        for name, e in node.columns
        if (useful_columns is None or name in useful_columns)
        and not isinstance(e, Column)
        and _determines_punctuations(e)
        and all(map(node.input.is_constrained, e.columns()))
    }
    if not followed:
        return node
    names_below = {source: name for name, source in node.copies.items()}
    read = dict.fromkeys(source for e in followed.values() for source in e.columns())
    sources = [source for source in read if source not in names_below]
    used_names = {name for name, _ in node.columns}
    for source in sources:
        names_below[source] = fresh(source, used_names)
        used_names.add(names_below[source])
    added_columns = tuple((names_below[s], node_column(node.input, s)) for s in sources)
    lower = Project(node.input, (*node.columns, *added_columns), memory=False)
    renamed: dict[str, Expression] = {
        s: replace(node_column(node.input, s), name=names_below[s]) for s in read
    }
    derived = tuple((name, substitute(e, renamed)) for name, e in followed.items())
    return Project(
        lower,
        plain(lower, [name for name, _ in node.columns]),
        derived,
        together=_using_columns(node, followed),
    )


def _determines_punctuations(e: Expression) -> bool:
    """Whether punctuations on an expression's columns imply punctuations on its value."""
    merged = coalesce_in(e)
    if merged is None:
        return isinstance(e, Column) or Monotone.of(e) is not None
    return all(isinstance(a, Literal) or _determines_punctuations(a) for a in merged.args)


def _using_columns(node: Project, columns: Mapping[str, Expression]) -> tuple[tuple[str, ...], ...]:
    """The groups of USING columns of full joins: COALESCEs of keys with the same side first."""
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
    """The full join from which a column is copied, and the column's name there; None without such a join."""
    while not (isinstance(node, Join) and node.kind == "full"):
        carried = node.carries(name)
        if len(carried) != 1:
            return None
        ((port, name),) = carried
        node = node.inputs[port]
    return node, name
