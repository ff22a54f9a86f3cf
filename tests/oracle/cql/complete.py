"""Which instants are complete: for each tuple, how far it is closed through the plan (relations 3.2, 4 and 9).

`Closed.bound(q, e)` is the *least* that must be closed of e in q, by the rules alone: the greatest b such that
everything of e at (,b] is final, -oo..oo. More may be known (relations 4 has rules that go beyond, 9 some that are
given up): an engine may release and promise more if it is true, which the checker judges by continuations.

A null, and the value `OTHER`, are closed by ``*`` alone: the bound is the minimum over the column.
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
    """A value that no pattern but ``*`` matches: it stands for all values of a column."""

    def __repr__(self) -> str:
        return "OTHER"


OTHER: Any = _Other()


class Closed:
    """What a prefix of a feed closes."""

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
        """How far e is closed in q; oo: for ever."""
        e = tuple(OTHER if v is None else v for v in e)
        if (q, e) not in self._bounds:
            self._bounds[q, e] = self.time.bound(self._bound(q, e))
        return self._bounds[q, e]

    def everything(self, q: cql.Query) -> float:
        """How far all tuples are closed in q."""
        return self.bound(q, (OTHER,) * width(q, self.inputs))

    def _bound(self, q: cql.Query, e: Row) -> float:
        if isinstance(q, cql.Stream | cql.Relation):
            return self._leaves[q.name].bound(e)
        if isinstance(q, cql.Stamped):
            # <ts=P> is said of both copies: an instant that is closed for e closes the tuples that carry it
            *rest, t0 = e
            leaf = self._leaves[q.stream.name]
            is_closed = t0 is not OTHER and leaf.has_closed(tuple(rest), instant(leaf.input.type, t0))
            return math.inf if is_closed else leaf.bound(tuple(rest))
        if isinstance(q, cql.Window):
            b = self.bound(q.stream, e)
            return b if q.slide is None or b == math.inf else up(int(b) + 1, q.slide, q.origin) - 1
        if isinstance(q, cql.Rows):
            return self._by(q.stream, {i: e[i] for i in q.by})
        if isinstance(q, cql.Project):
            return self._project(q, e)
        if isinstance(q, cql.GroupBy):
            return self._by(q.relation, {place: e[j] for j, place in enumerate(q.keys)})
        if isinstance(q, cql.Join | cql.NotIn):
            return self._join(q, e)
        if isinstance(q, cql.RStream) and not self._is_prompt(q):
            return self._last_change_said(q)
        return min(self.bound(below, e) for below in q.inputs)

    def _by(self, q: cql.Query, values: dict[int, Any]) -> float:
        """C(g): everything in q that has these values at these places is closed jointly so far."""
        return self.bound(q, tuple(values.get(i, OTHER) for i in range(width(q, self.inputs))))

    def _project(self, q: cql.Project, e: Row) -> float:
        """Each column of e says which values it comes from; those that no column carries are all."""
        values: dict[int, Any] = {}
        for column, v in zip(q.columns, e, strict=True):
            if isinstance(column, cql.Constant) or v is OTHER:
                continue
            v = v - column.n if isinstance(column, cql.Plus) else v
            assert isinstance(column, cql.Column | cql.Plus)
            if _differ(values.setdefault(column.place, v), v):
                return math.inf  # no tuple gives that
        return self._by(q.relation, values)

    def _join(self, q: cql.Join | cql.NotIn, e: Row) -> float:
        """Both sides' closed prefix: of an inner pair the two tuples', else k's, since an operator per k may do it."""
        wide = width(q.left, self.inputs)
        left, right = e[:wide], e[wide:] or (OTHER,) * width(q.right, self.inputs)
        sides: list[dict[int, Any]] = [dict(enumerate(left)), dict(enumerate(right))]
        keys: list[dict[int, Any]] = [{}, {}]
        for i, j in q.keys:
            k = right[j] if left[i] is OTHER else left[i]
            if right[j] is not OTHER and _differ(right[j], k):
                return math.inf  # no tuple has that
            sides[0][i] = sides[1][j] = keys[0][i] = keys[1][j] = k
        given = sides if isinstance(q, cql.Join) and q.kind == "inner" else keys
        return min(self._by(q.left, given[0]), self._by(q.right, given[1]))

    def _is_prompt(self, q: cql.RStream) -> bool:
        return is_transient(q.relation) or (self.time.declared_low and self.time.declared_high)

    def _last_change_said(self, q: cql.RStream) -> float:
        """A state that may last is repeated only up to the last change that is complete."""
        b = self.everything(q.relation)
        said = [t for t, _, _ in self.meaning.changes(q.relation) if self.time.before < t <= b]
        return b if b == math.inf or not said else said[-1]

    def released(self, q: cql.Query) -> Elements:
        """What must be out: M's answer for the instants that are complete, elements or canonical changes."""
        return self.of(q, self.meaning.answer(q))

    def of(self, q: cql.Query, answer: Elements) -> Elements:
        """Of an answer what is complete."""
        return Counter({(e, t): n for (e, t), n in answer.items() if t <= self.bound(q, e)})

    def is_over(self, q: cql.Query) -> bool:
        """Whether all inputs have ended."""
        return all(self._leaves[name].is_over for name in names(q))


class Leaf:
    """An input's punctuations: the patterns on the columns (q), and the instants they close."""

    def __init__(self, given: Input, elements: Iterable[Element], time: Time) -> None:
        self.input, self.time = given, time
        self.said: list[tuple[list[Pattern], Spans]] = []
        self.is_over = False
        schema = given.schema
        self.attributes = [schema.attributes[i] for i in given.places]
        for p in elements:
            if not isinstance(p, Punctuation):
                continue
            self.is_over |= p.is_everything
            if given.change is not None and not schema[given.change].closed_by(
                p.patterns[schema.index(given.change)]
            ):
                continue  # inserts alone, or deletes: that closes no instant
            when = [(time.low, time.high)]
            if given.stamp is not None and str(p.patterns[schema.index(given.stamp)]) != "*":
                when = spans(given.type, p.patterns[schema.index(given.stamp)])
            self.said.append(([p.patterns[i] for i in given.places], when))

    def bound(self, e: Row) -> float:
        """How far e is closed. OTHER is every value: of a declared domain these, else only ``*`` matches it."""
        spread = [
            [v] if v is not OTHER else _listed(a) or [OTHER] for a, v in zip(self.attributes, e, strict=True)
        ]
        return min((self._bound(choice) for choice in product(*spread)), default=math.inf)

    def spans(self, e: Row) -> Spans:
        """All instants that are closed for e, those outside a declared domain among them, as maximal intervals."""
        spread = [
            [v] if v is not OTHER else _listed(a) or [OTHER] for a, v in zip(self.attributes, e, strict=True)
        ]
        fused = [
            merged([s for q, when in self.said if self._matches(q, choice) for s in when] + self._outside())
            for choice in product(*spread)
        ]
        found = fused[0]
        for other in fused[1:]:
            found = [(max(a, c), min(b, d)) for a, b in found for c, d in other if max(a, c) <= min(b, d)]
        return found

    def _outside(self) -> Spans:
        """What a CHECK closes."""
        low, high = (None, None) if self.input.stamp is None else self.input.declared
        found = [] if low is None else [(instant(self.input.type, self.input.type.lowest), low - 1)]
        end = instant(self.input.type, self.input.type.highest)
        return found + ([] if high is None else [(high + 1, end)])

    def has_closed(self, e: Row, at: int) -> bool:
        """Whether one punctuation says that e does not come at an instant."""
        return any(self._matches(q, e) and any(a <= at <= b for a, b in when) for q, when in self.said)

    def _bound(self, e: Row) -> float:
        """The ts-parts of all punctuations that cover q, fused, for the best q that was said and matches e."""
        matching = [(q, when) for q, when in self.said if self._matches(q, e)]
        start = self.time.before if self.input.is_stream else self.time.low - 1
        outside = self._outside()
        if self.input.stamp is None:
            return math.inf if matching else start
        found: float = start
        for q, _ in matching:
            fused = [span for p, when in matching if all(map(pt.covers, p, q)) for span in when]
            found = max(found, self.time.bound(prefix(start, fused + outside)))
        return found

    def _matches(self, q: list[Pattern], e: Row) -> bool:
        return all(
            a.closed_by(p) if v is OTHER else p.matches(v)
            for a, p, v in zip(self.attributes, q, e, strict=True)
        )


def merged(parts: Spans) -> Spans:
    """Intervals as maximal ones, in order."""
    found: Spans = []
    for first, last in sorted(parts):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _differ(a: Any, b: Any) -> bool:
    """Whether two values differ; there is one NaN."""
    return a is not b and bool(a != b)


def _listed(a: Attribute) -> list[Any] | None:
    """The values of a declared domain, if they are few."""
    members = None if str(a.domain) == "*" else pt.enumerate_values(a.domain, 50)
    return None if members is None else list(members)
