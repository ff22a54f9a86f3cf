"""Complete instants: for each tuple, the prefix of instants closed in each node (relations 3.2, 4 and 9).

`Closed.bound(q, e)` is the *minimal* closed prefix of e in q, by the rules alone: the greatest b such that all copies
of e at (,b] are final, -oo..oo. An engine may release and promise more (relations 4 has additional rules, and 9 omits
some); the checker judges by continuations whether that is correct.

Only ``*`` closes a null or the value `OTHER`: the bound is the minimum over the column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import product
from typing import Any

from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Element, Feed, Input, Inputs, Spans, Time, instant, prefix, spans
from tests.oracle.cql.meaning import Elements, Meaning, up
from tests.oracle.cql.query import is_transient, names, width
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import Pattern


class _Other:
    """A value that only ``*`` matches; it represents all values of a column."""

    def __repr__(self) -> str:
        return "OTHER"


OTHER: Any = _Other()


class Closed:
    """The instants that a prefix of a feed closes."""

    def __init__(self, inputs: Inputs, feed: Feed, time: Time | None = None) -> None:
        self.inputs, self.feed, self.time = inputs, feed, time or Time.of(inputs.values())
        self._leaves = {
            name: Leaf(i, [e for n, e in feed if n == name], self.time) for name, i in inputs.items()
        }
        self._bounds: dict[tuple[cql.Query, Row], float] = {}

    @cached_property
    def meaning(self) -> Meaning:
        return Meaning(self.inputs, self.feed, self.time)

    def bound(self, q: cql.Query, e: Row) -> float:
        """The closed prefix of e in q; oo: all instants."""
        e = tuple(OTHER if v is None else v for v in e)
        if (q, e) not in self._bounds:
            self._bounds[q, e] = self.time.bound(self._bound(q, e))
        return self._bounds[q, e]

    def bound_of_all(self, q: cql.Query) -> float:
        """The closed prefix of all tuples in q."""
        return self.bound(q, (OTHER,) * width(q, self.inputs))

    def _bound(self, q: cql.Query, e: Row) -> float:
        if isinstance(q, cql.Stream | cql.Relation):
            return self._leaves[q.name].bound(e)
        if isinstance(q, cql.Stamped):
            # <ts=P> constrains both copies: an instant that is closed for e closes the tuples that carry it
            *columns, t0 = e
            leaf = self._leaves[q.stream.name]
            is_closed = t0 is not OTHER and leaf.has_closed(tuple(columns), instant(leaf.input.type, t0))
            return math.inf if is_closed else leaf.bound(tuple(columns))
        if isinstance(q, cql.Window):
            b = self.bound(q.stream, e)
            return b if q.slide is None or b == math.inf else up(int(b) + 1, q.slide, q.origin) - 1
        if isinstance(q, cql.Rows):
            return self._by(q.stream, {i: e[i] for i in q.by})
        if isinstance(q, cql.Project):
            return self._project(q, e)
        if isinstance(q, cql.GroupBy):
            return self._by(q.relation, {position: e[j] for j, position in enumerate(q.keys)})
        if isinstance(q, cql.Join | cql.NotIn):
            return self._join(q, e)
        if isinstance(q, cql.RStream) and not self._is_prompt(q):
            return self._last_complete_change(q)
        return min(self.bound(below, e) for below in q.inputs)

    def _by(self, q: cql.Query, values: dict[int, Any]) -> float:
        """C(g): the joint closed prefix of all tuples in q with these values at these positions."""
        return self.bound(q, tuple(values.get(i, OTHER) for i in range(width(q, self.inputs))))

    def _project(self, q: cql.Project, e: Row) -> float:
        """Each column of e determines its source value; a source column without one can have any value."""
        values: dict[int, Any] = {}
        for column, v in zip(q.columns, e, strict=True):
            if isinstance(column, cql.Constant) or v is OTHER:
                continue
            v = v - column.n if isinstance(column, cql.Plus) else v
            assert isinstance(column, cql.Column | cql.Plus)
            if _differ(values.setdefault(column.position, v), v):
                return math.inf  # no tuple projects to e
        return self._by(q.relation, values)

    def _join(self, q: cql.Join | cql.NotIn, e: Row) -> float:
        """The closed prefix of both sides: of the two tuples for an inner join, else of the key k."""
        left_width = width(q.left, self.inputs)
        left, right = e[:left_width], e[left_width:] or (OTHER,) * width(q.right, self.inputs)
        sides: list[dict[int, Any]] = [dict(enumerate(left)), dict(enumerate(right))]
        keys: list[dict[int, Any]] = [{}, {}]
        for i, j in q.keys:
            k = right[j] if left[i] is OTHER else left[i]
            if right[j] is not OTHER and _differ(right[j], k):
                return math.inf  # no pair of tuples gives e
            sides[0][i] = sides[1][j] = keys[0][i] = keys[1][j] = k
        values = sides if isinstance(q, cql.Join) and q.kind == "inner" else keys
        return min(self._by(q.left, values[0]), self._by(q.right, values[1]))

    def _is_prompt(self, q: cql.RStream) -> bool:
        return is_transient(q.relation) or (self.time.declared_low and self.time.declared_high)

    def _last_complete_change(self, q: cql.RStream) -> float:
        """A non-transient state is repeated only up to its last complete change."""
        b = self.bound_of_all(q.relation)
        instants = [t for t, _, _ in self.meaning.changes(q.relation) if self.time.before < t <= b]
        return b if b == math.inf or not instants else instants[-1]

    def released(self, q: cql.Query) -> Elements:
        """The required output: M's answer for the complete instants, as elements or canonical changes."""
        return self.complete_part(q, self.meaning.answer(q))

    def complete_part(self, q: cql.Query, answer: Elements) -> Elements:
        """The complete part of an answer."""
        return Counter({(e, t): n for (e, t), n in answer.items() if t <= self.bound(q, e)})

    def is_over(self, q: cql.Query) -> bool:
        """Whether all inputs have ended."""
        return all(self._leaves[name].is_over for name in names(q))


class Leaf:
    """The punctuations of an input: the patterns on the columns (q), and the closed instants."""

    def __init__(self, input_: Input, elements: Iterable[Element], time: Time) -> None:
        self.input, self.time = input_, time
        self.closings: list[tuple[list[Pattern], Spans]] = []
        self.is_over = False
        schema = input_.schema
        self.attributes = [schema.attributes[i] for i in input_.places]
        for p in elements:
            if not isinstance(p, Punctuation):
                continue
            self.is_over |= p.is_everything
            if input_.change is not None and not schema[input_.change].closed_by(
                p.patterns[schema.index(input_.change)]
            ):
                continue  # a punctuation of only inserts or only deletes closes no instant
            when = [(time.low, time.high)]
            if input_.stamp is not None and str(p.patterns[schema.index(input_.stamp)]) != "*":
                when = spans(input_.type, p.patterns[schema.index(input_.stamp)])
            self.closings.append(([p.patterns[i] for i in input_.places], when))

    def bound(self, e: Row) -> float:
        """The closed prefix of e. OTHER is every value of a declared domain; without one, only ``*`` matches it."""
        spread = [
            [v] if v is not OTHER else _listed(a) or [OTHER] for a, v in zip(self.attributes, e, strict=True)
        ]
        return min((self._bound(choice) for choice in product(*spread)), default=math.inf)

    def spans(self, e: Row) -> Spans:
        """The closed instants of e as maximal intervals; instants outside a declared domain are closed."""
        spread = [
            [v] if v is not OTHER else _listed(a) or [OTHER] for a, v in zip(self.attributes, e, strict=True)
        ]
        fused = [
            merged(
                [s for q, when in self.closings if self._matches(q, choice) for s in when] + self._outside()
            )
            for choice in product(*spread)
        ]
        closed = fused[0]
        for spans_of_choice in fused[1:]:
            closed = [
                (max(a, c), min(b, d))
                for a, b in closed
                for c, d in spans_of_choice
                if max(a, c) <= min(b, d)
            ]
        return closed

    def _outside(self) -> Spans:
        """The instants that a CHECK excludes."""
        low, high = (None, None) if self.input.stamp is None else self.input.declared
        excluded = [] if low is None else [(instant(self.input.type, self.input.type.lowest), low - 1)]
        end = instant(self.input.type, self.input.type.highest)
        return excluded + ([] if high is None else [(high + 1, end)])

    def has_closed(self, e: Row, at: int) -> bool:
        """Whether one punctuation closes e at an instant."""
        return any(self._matches(q, e) and any(a <= at <= b for a, b in when) for q, when in self.closings)

    def _bound(self, e: Row) -> float:
        """The fused ts-parts of all punctuations that cover q, for the best received q that matches e."""
        matching = [(q, when) for q, when in self.closings if self._matches(q, e)]
        start = self.time.before if self.input.is_stream else self.time.low - 1
        outside = self._outside()
        if self.input.stamp is None:
            return math.inf if matching else start
        bound: float = start
        for q, _ in matching:
            fused = [span for p, when in matching if all(map(pt.covers, p, q)) for span in when]
            bound = max(bound, self.time.bound(prefix(start, fused + outside)))
        return bound

    def _matches(self, q: list[Pattern], e: Row) -> bool:
        return all(
            a.closed_by(p) if v is OTHER else p.matches(v)
            for a, p, v in zip(self.attributes, q, e, strict=True)
        )


def merged(parts: Spans) -> Spans:
    """Merge intervals into maximal ones, in order."""
    result: Spans = []
    for first, last in sorted(parts):
        if result and first <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(last, result[-1][1])
        else:
            result.append((first, last))
    return result


def _differ(a: Any, b: Any) -> bool:
    """Whether two values differ; NaN is one object."""
    return a is not b and bool(a != b)


def _listed(a: Attribute) -> list[Any] | None:
    """The values of a declared domain, if they are few."""
    members = None if str(a.domain) == "*" else pt.enumerate_values(a.domain, 50)
    return None if members is None else list(members)
