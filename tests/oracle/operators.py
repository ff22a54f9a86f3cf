"""The cumulative invariants of each operator (the paper, Section 5, Tables 2 to 4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product, zip_longest
from typing import Any

from tests.oracle.aggregates import NotRepresentable, Order, aggregate, xml_agg
from tests.oracle.values import Row, same
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.pattern import Pattern


@dataclass
class Port:
    """All that has arrived on one port: the paper's ts and ps."""

    ts: list[Row] = field(default_factory=list)
    ps: list[Punctuation] = field(default_factory=list)


Ports = Sequence[Port]
Promise = Callable[[Row], bool]


@dataclass(frozen=True)
class Oracle:
    """The required state of an operator once ``ports`` have arrived, independent of the slices.

    - ``cpass``: the bag of tuples that it has emitted;
    - ``cprop``: its promises, as a predicate: whether the emitted punctuations match a tuple of the output schema.
      The operator chooses the punctuations;
    - ``ckeep``: for each port, the tuples that it may still retain;
    - ``owes``: the promises that it must have emitted, if fewer than ``cprop``.
    """

    cpass: Callable[[Ports], list[Row]]
    cprop: Callable[[Ports], Promise]
    ckeep: Callable[[Ports], list[list[Row]]]
    owes: Callable[[Ports], Promise] | None = None


def match(t: Row, p: Punctuation) -> bool:
    return all(pattern.matches(v) for v, pattern in zip(t, p.patterns, strict=True))


def set_match(t: Row, ps: Sequence[Punctuation]) -> bool:
    return any(match(t, p) for p in ps)


def closed(attribute: Attribute, pattern: Pattern) -> bool:
    """Whether the pattern matches every possible value of the attribute, like ``*``."""
    text = str(pattern)
    if text == "*" or attribute.nullable:
        return text == "*"
    if text == "(,)":
        return True
    if str(attribute.domain) == "*":
        return False
    type_ = attribute.type
    low, high = (type_.ordinal(getattr(attribute.domain, end)) for end in ("low", "high"))
    return all(pattern.matches(type_.at(i)) for i in range(low, high + 1))


def nothing(ports: Ports) -> list[list[Row]]:
    return [[] for _ in ports]


def distinct(ts: Sequence[Row]) -> list[Row]:
    """δ(ts): each tuple once."""
    return list({tuple(map(same, t)): t for t in reversed(ts)}.values())


# Operators


def select(predicate: Callable[[Row], Any], conceivable: Sequence[Row]) -> Oracle:
    """select: the tuples for which the predicate is true; all punctuations.

    Also the end marker once no tuple that satisfies the predicate can arrive; this one is optional.
    """
    selected = [t for t in conceivable if predicate(t) is True]

    def promised(ports: Ports) -> Promise:
        over = all(set_match(t, ports[0].ps) for t in selected)
        return lambda u: over or set_match(u, ports[0].ps)

    return Oracle(
        lambda ports: [t for t in ports[0].ts if predicate(t) is True],
        promised,
        nothing,
        lambda ports: lambda u: set_match(u, ports[0].ps),
    )


def lasting(
    ps: Sequence[Punctuation], positions: Sequence[int], conceivable: Sequence[Row]
) -> Callable[[Row], bool]:
    """Whether values of the attributes at ``positions`` are closed: no conceivable tuple with them can arrive.

    One or several punctuations may close the other attributes; only ``*`` closes null.
    """
    still_open = {tuple(same(t[i]) for i in positions) for t in conceivable if not set_match(t, ps)}
    return lambda key: tuple(map(same, key)) not in still_open


def project(
    schema: Schema,
    columns: Sequence[int | Callable[[Row], Any]],
    conceivable: Sequence[Row] | None = None,
) -> Oracle:
    """project: each column is the position of the attribute that it carries, or a function of the tuple.

    A punctuation is promised once for each choice of a carrying column per attribute that it constrains. If no
    column carries a constrained attribute, the punctuation must close it; otherwise it is dropped. With all
    ``conceivable`` tuples, several punctuations may close the attribute together.
    """
    positions = [
        i for i in range(len(schema)) if any(c is i or (isinstance(c, int) and c == i) for c in columns)
    ]

    def row(t: Row) -> Row:
        return tuple(t[c] if isinstance(c, int) else c(t) for c in columns)

    def excludes(p: Punctuation, u: Row) -> bool:
        for i, (attribute, pattern) in enumerate(zip(schema, p.patterns, strict=True)):
            carried = [u[k] for k, c in enumerate(columns) if c is i or (isinstance(c, int) and c == i)]
            if not closed(attribute, pattern) and not any(map(pattern.matches, carried)):
                return False
        return True

    def cprop(ports: Ports) -> Promise:
        if conceivable is None:
            return lambda u: any(excludes(p, u) for p in ports[0].ps)
        closes = lasting(ports[0].ps, positions, conceivable)
        carrying = [[k for k, c in enumerate(columns) if isinstance(c, int) and c == i] for i in positions]
        return lambda u: any(closes([u[k] for k in choice]) for choice in product(*carrying))

    return Oracle(cpass=lambda ports: [row(t) for t in ports[0].ts], cprop=cprop, ckeep=nothing)


def dupelim() -> Oracle:
    """dupelim: each tuple once; all punctuations; retains the tuples that no punctuation matches."""
    return Oracle(
        cpass=lambda ports: distinct(ports[0].ts),
        cprop=lambda ports: lambda u: set_match(u, ports[0].ps),
        ckeep=lambda ports: [[t for t in distinct(ports[0].ts) if not set_match(t, ports[0].ps)]],
    )


def merge(conceivable: Sequence[Sequence[Row]] = ()) -> Oracle:
    """merge: everything; what *every* input has promised (all combinations match no more and no less).

    ``conceivable``: the tuples that each input can have, if these differ.
    """
    return Oracle(
        cpass=lambda ports: [t for port in ports for t in port.ts],
        cprop=lambda ports: (
            lambda u: all(
                has_closed(port.ps, u, rows) for port, rows in zip_longest(ports, conceivable, fillvalue=())
            )
        ),
        ckeep=nothing,
    )


def has_closed(ps: Sequence[Punctuation], u: Row, conceivable: Sequence[Row]) -> bool:
    """Whether an input has closed ``u``, or ``u`` with any value in columns where its own value never occurs."""
    if set_match(u, ps):
        return True
    never, rows = never_at(u, conceivable), in_place_of(u, conceivable)
    for size in range(1, len(never) + 1):
        for columns in combinations(sorted(never), size):
            instead = [tuple(r[i] if i in columns else v for i, v in enumerate(u)) for r in rows]
            if instead and all(set_match(r, ps) for r in instead):
                return True
    return False


def never_at(u: Row, conceivable: Sequence[Row]) -> set[int]:
    """The columns in which no conceivable tuple has the value of ``u``."""
    return {i for i, v in enumerate(u) if all(same(r[i]) != same(v) for r in conceivable)}


def in_place_of(u: Row, conceivable: Sequence[Row]) -> list[Row]:
    """The conceivable tuples that agree with ``u``, with any value where the value of ``u`` never occurs."""
    never = never_at(u, conceivable)
    return [r for r in conceivable if all(same(r[i]) == same(v) for i, v in enumerate(u) if i not in never)]


def union() -> Oracle:
    """union: merge, then dupelim, which retains the tuples that an input has not closed."""
    merged = merge()

    def ckeep(ports: Ports) -> list[list[Row]]:
        promised = merged.cprop(ports)
        return [[t for t in distinct(merged.cpass(ports)) if not promised(t)]]

    return Oracle(lambda ports: distinct(merged.cpass(ports)), merged.cprop, ckeep)


def group_by(
    schema: Schema,
    keys: Sequence[str],
    aggregates: Sequence[tuple[str, str | None, bool]],
    conceivable: Sequence[Row] | None = None,
    orders: Sequence[Sequence[Order]] | None = None,
) -> Oracle:
    """group-by: an aggregate is (function, argument or None for COUNT(*), distinct), XMLAGG with one of ``orders``.

    groupPs are the punctuations that close every attribute outside the key. Only they close groups. Promised are
    groupPs and the groups that no tuple can change any more. A null key matches ``*`` alone, so the null group ends
    last. A group whose result does not fit its type is rejected and not in cpass. Without keys there is one group,
    even without tuples. With all ``conceivable`` tuples, several punctuations may close a group together.
    """
    positions = [schema.index(k) for k in keys]
    arguments = [None if a is None else schema.index(a) for _, a, _ in aggregates]
    early = all(
        i is not None and f != "XMLAGG" and (i not in positions or d or f in ("MIN", "MAX"))
        for (f, _, d), i in zip(aggregates, arguments, strict=True)
    )

    def is_final(ts: list[Row], may_come: Sequence[Row]) -> bool:
        """Whether no tuple that can still arrive changes an aggregate of the group."""
        for (f, _, d), i in zip(aggregates, arguments, strict=True):
            assert i is not None
            type_, values = schema.attributes[i].type, [t[i] for t in ts if t[i] is not None]
            counted = {same(v) for v in values}
            for v in (u[i] for u in may_come if u[i] is not None):
                if d and same(v) in counted:
                    continue
                if f not in ("MIN", "MAX") or not values:
                    return False
                if same(aggregate(f, False, type_, [*values, v])) != same(aggregate(f, False, type_, values)):
                    return False
        return True

    def releases(port: Port) -> Callable[[Row], bool]:
        """Whether the group of a key is closed, or final; with keys, a final group has a tuple."""
        closes = closer(port)
        groups: dict[tuple[Hashable, ...], list[Row]] = {} if keys or not early else {(): []}
        may_come: dict[tuple[Hashable, ...], list[Row]] = {}
        if early and conceivable is not None:
            for t in port.ts:
                groups.setdefault(tuple(same(t[i]) for i in positions), []).append(t)
            for u in conceivable:
                if not set_match(u, port.ps):
                    may_come.setdefault(tuple(same(u[i]) for i in positions), []).append(u)
        left = {k for k, ts in groups.items() if is_final(ts, may_come.get(k, []))}
        return lambda key: tuple(map(same, key)) in left or closes(key)

    def group_ps(port: Port) -> list[list[Pattern]]:
        return [
            [p.patterns[i] for i in positions]
            for p in port.ps
            if all(
                closed(a, x)
                for i, (a, x) in enumerate(zip(schema, p.patterns, strict=True))
                if i not in positions
            )
        ]

    def closer(port: Port) -> Callable[[Row], bool]:
        if conceivable is not None:
            return lasting(port.ps, positions, conceivable)
        patterns = group_ps(port)
        return lambda key: any(all(x.matches(v) for v, x in zip(key, row, strict=True)) for row in patterns)

    def result(key: Row, ts: list[Row]) -> Row:
        results = [
            xml_agg(i, order, ts)
            if f == "XMLAGG" and i is not None
            else aggregate(
                f, d, None if i is None else schema.attributes[i].type, [t if i is None else t[i] for t in ts]
            )
            for (f, _, d), i, order in zip(
                aggregates, arguments, orders or [()] * len(arguments), strict=True
            )
        ]
        return (*key, *results)

    def cpass(ports: Ports) -> list[Row]:
        groups: dict[tuple[Hashable, ...], list[Row]] = {} if keys else {(): []}
        for t in ports[0].ts:
            groups.setdefault(tuple(same(t[i]) for i in positions), []).append(t)
        is_closed, rows = releases(ports[0]), []
        for ts in groups.values():
            key = tuple(ts[0][i] for i in positions) if ts else ()
            if is_closed(key):
                try:
                    rows.append(result(key, ts))
                except NotRepresentable:
                    continue
        return rows

    def cprop(ports: Ports) -> Promise:
        """A null key can be promised only once it is closed."""
        closes, leaves = closer(ports[0]), releases(ports[0])
        return lambda u: (leaves if None not in u[: len(positions)] else closes)(u[: len(positions)])

    def ckeep(ports: Ports) -> list[list[Row]]:
        is_closed = closer(ports[0])
        return [[t for t in ports[0].ts if not is_closed(tuple(t[i] for i in positions))]]

    return Oracle(cpass, cprop, ckeep)


def unnest(
    schema: Schema,
    array: str,
    fields: Sequence[str],
    numbered: bool = False,
    outer: bool = False,
    keeps: bool = True,
) -> Oracle:
    """unnest: a tuple per array item: the tuple's columns, the item's fields and optionally the item's number.

    With ``outer``, an empty array gives one row with a null item. All punctuations, which never constrain items.
    """
    at = schema.index(array)
    columns = [i for i in range(len(schema)) if keeps or i != at]
    width = len(fields) + numbered

    def rows(t: Row) -> list[Row]:
        prefix = tuple(t[i] for i in columns)
        items = [
            (*(item[field] for field in fields), *[n] * numbered) for n, item in enumerate(t[at] or [], 1)
        ]
        return [(*prefix, *item) for item in items or [(None,) * width] * outer]

    def cprop(ports: Ports) -> Promise:
        pattern_lists = [[p.patterns[i] for i in columns] for p in ports[0].ps]
        return lambda u: any(
            all(x.matches(v) for v, x in zip(u, patterns, strict=False)) for patterns in pattern_lists
        )

    return Oracle(lambda ports: [row for t in ports[0].ts for row in rows(t)], cprop, nothing)
