"""M[[Q]] of Arasu and Widom, *A Denotational Semantics for Continuous Queries over Streams and Relations*.

Figure 3 (`Meaning.m`, `m_r`, `m_s`) and Figure 5 (`m_s2r`, `m_r2r`, `Meaning.m_r2s`), lambda for lambda, with the
corrections of docs/relations.md named at each. Simple and slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.oracle import relational
from tests.oracle.aggregates import NotRepresentable, aggregate
from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Feed, Inputs, Time, judged, timestamp, tuples
from tests.oracle.cql.query import is_stream, is_transient, width
from tests.oracle.values import Row, same
from xmlpunct.types import DOUBLE, NAN

Bag = Counter[Row]
"""Sigma: a finite bag of tuples."""
Elements = Counter[tuple[Row, int]]
"""A bag of elements <e, t>, a stream; or the canonical changes of a relation: <e, at> -> diff."""


def up(x: int, slide: int, origin: int) -> int:
    """The first multiple at or after x."""
    return origin - (origin - x) // slide * slide


def down(x: int, slide: int, origin: int) -> int:
    """The last multiple at or before x."""
    return origin + (x - origin) // slide * slide


# M_S2R


def m_s2r(op: cql.Window | cql.Rows) -> Callable[[Elements, int], Bag]:
    """M_S2R[[op]] = lambda S. lambda tau. a bag.

    - Now: {e : <e,tau> in S}.
    - Range(T): {e : <e,t> in S, tau-T <= t <= tau}. Correction: not max(tau-T, 0), which loses negative timestamps.
    - Row(N): {e : <e,t> in S, t <= tau, N >= #{<e',u> in S : t <= u <= tau}}; with PARTITION BY K, e'.K = e.K.
    - SLIDE s (no operator of the paper): the window at d(tau) = o + s*floor((tau-o)/s).
    """
    if isinstance(op, cql.Rows):
        return lambda stream, tau: Counter(
            e
            for e, t in stream.elements()
            if t <= tau
            and op.n
            >= sum(
                n
                for (row, u), n in stream.items()
                if all(same(row[i]) == same(e[i]) for i in op.by) and t <= u <= tau
            )
        )

    def within(t: int, tau: int) -> bool:
        d = tau if op.slide is None else down(tau, op.slide, op.origin)
        return t <= d and (op.kind == "UNBOUNDED" or d - op.size <= t)

    return lambda stream, tau: Counter(e for e, t in stream.elements() if within(t, tau))


# M_R2R: "the SQL query over the bags of the instant"


def m_r2r(op: cql.Query, widths: Sequence[int] = ()) -> Callable[..., Bag]:
    """M_R2R[[op]]: a function from bags to a bag. Nulls are equal, except in the keys of a join.

    ``widths``: the number of columns of each bag, for the nulls of an outer join.
    """
    if isinstance(op, cql.Select):
        return lambda bag: Counter({e: n for e, n in bag.items() if op.predicate(e) is True})
    if isinstance(op, cql.Project):
        return lambda bag: Counter(tuple(c(e) for c in op.columns) for e in bag.elements())
    if isinstance(op, cql.Distinct):
        return lambda bag: Counter(set(bag))
    if isinstance(op, cql.GroupBy):
        return lambda bag: _group_by(op, bag)
    if isinstance(op, cql.UnionAll):
        return lambda left, right: left + right
    if isinstance(op, cql.SetOp):
        return _SET_OPERATIONS[op.kind]
    if isinstance(op, cql.NotIn):
        return lambda left, right: _not_in(op, left, right)
    assert isinstance(op, cql.Join)
    return lambda left, right: _join(op, widths, left, right)


_SET_OPERATIONS: dict[str, Callable[[Bag, Bag], Bag]] = {
    "UNION": lambda left, right: Counter(set(left) | set(right)),
    "INTERSECT": lambda left, right: Counter(set(left) & set(right)),
    "EXCEPT": lambda left, right: Counter(set(left) - set(right)),
    "INTERSECT ALL": lambda left, right: left & right,
    "EXCEPT ALL": lambda left, right: left - right,
}


def _join(op: cql.Join, widths: Sequence[int], left: Bag, right: Bag) -> Bag:
    def pairs(t: Row, u: Row) -> bool:
        keys_agree = relational.partners(t, u, op.keys)
        return keys_agree and (op.residual is None or op.residual((*t, *u)) is True)

    meets = {t: [u for u in right if pairs(t, u)] for t in left}
    if op.kind in ("semi", "anti"):
        return Counter({t: n for t, n in left.items() if bool(meets[t]) is (op.kind == "semi")})
    result: Bag = Counter()
    for t, n in left.items():
        for u in meets[t]:
            result[(*t, *u)] += n * right[u]
        if not meets[t] and op.kind != "inner":
            result[(*t, *[None] * widths[1])] += n
    if op.kind == "full":
        for u, n in right.items():
            if not any(u in partners for partners in meets.values()):
                result[(*[None] * widths[0], *u)] += n
    return result


def _not_in(op: cql.NotIn, left: Bag, right: Bag) -> Bag:
    """The left tuples whose x NOT IN (the y of the right tuples with equal keys) is true, in three-valued logic."""
    holds = relational.not_in(op.x, op.y)
    return Counter(
        {
            t: n
            for t, n in left.items()
            if holds([t], [u for u in right if relational.partners(t, u, op.keys)])
        }
    )


def _group_by(op: cql.GroupBy, bag: Bag) -> Bag:
    """A row per group; without GROUP BY always one row. A result that overflows its type rejects the row."""
    groups: dict[Row, list[Row]] = {} if op.keys else {(): []}
    for e in bag.elements():
        groups.setdefault(tuple(e[i] for i in op.keys), []).append(e)
    result: Bag = Counter()
    for g, rows in groups.items():
        try:
            row = (*g, *(_aggregate(a, rows) for a in op.aggregates))
        except NotRepresentable:
            continue
        if op.having is None or op.having(row) is True:
            result[row] += 1
    return result


def _aggregate(a: cql.Aggregate, rows: list[Row]) -> Any:
    if a.position is None:
        return len(rows)
    column = [row[a.position] for row in rows]
    if a.type is DOUBLE and a.function in ("SUM", "AVG"):
        return exact(a.function, set(column) if a.distinct else column)
    return aggregate(a.function, a.distinct, a.type, column)


def exact(function: str, values: Iterable[float | None]) -> float | None:
    """SUM and AVG over DOUBLE (relations 4.7): the exact sum of the finite values, rounded once."""
    numbers = [v for v in values if v is not None]
    special = {v for v in numbers if v - v != 0}
    if not numbers:
        return None
    if special:
        return next(iter(special)) if len(special) == 1 else NAN
    total = sum(map(Fraction, numbers)) / (len(numbers) if function == "AVG" else 1)
    try:
        return float(total) + 0.0
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


# Figure 3 and M_R2S


class Meaning:
    """M for lookups r and s. Results are cached."""

    def __init__(self, inputs: Inputs, feed: Feed, time: Time | None = None) -> None:
        self.inputs, self.time = inputs, time or Time.of(inputs.values())
        self._s, self._r = {}, {}
        for name, changes in tuples(inputs, feed).items():
            if inputs[name].is_stream:
                self._s[name] = Counter((e, t) for e, t, _ in changes)
            elif inputs[name].stamp is None:
                count = Counter(e for e, _, _ in changes)
                self._r[name] = {e: [(self.time.low, n)] for e, n in count.items()}
            else:
                self._r[name] = judged(changes)[0]
        self._bags: dict[tuple[cql.Query, int], Bag] = {}
        self._streams: dict[cql.Query, Elements] = {}
        self._instants: dict[cql.Query, list[int]] = {}

    def s(self, name: str) -> Elements:
        """The stream lookup."""
        return self._s[name]

    def r(self, name: str) -> Callable[[int], Bag]:
        """The relation lookup."""

        def at(tau: int) -> Bag:
            counts = {e: [n for t, n in steps if t <= tau] for e, steps in self._r[name].items()}
            return Counter({e: ns[-1] for e, ns in counts.items() if ns and ns[-1]})

        return at

    def m(self, q: cql.Query, tau: int) -> Bag | Elements:
        """M[[Q_R]] = M_R[[Q_R]](r,s,tau); M[[Q_S]] = {<e,t> : <e,t> in M_S[[Q_S]](r,s,tau), t = tau}."""
        if not is_stream(q):
            return self.m_r(q, tau)
        return Counter({(e, t): n for (e, t), n in self.m_s(q, tau).items() if t == tau})

    def m_r(self, q: cql.Query, tau: int) -> Bag:
        """M_R: the bag of a relation query at tau. Before LO it is empty."""
        if tau < self.time.low:
            return Counter()
        if (q, tau) not in self._bags:
            if isinstance(q, cql.Relation):
                bag = self.r(q.name)(tau)
            elif isinstance(q, cql.Window | cql.Rows):
                bag = m_s2r(q)(self.m_s(q.stream, tau), tau)
            else:
                widths = [width(below, self.inputs) for below in q.inputs]
                bag = m_r2r(q, widths)(*(self.m_r(below, tau) for below in q.inputs))
            self._bags[q, tau] = bag
        return self._bags[q, tau]

    def m_s(self, q: cql.Query, tau: int) -> Elements:
        """M_S: the elements of a stream query with timestamps <= tau."""
        return Counter({(e, t): n for (e, t), n in self.stream(q).items() if t <= tau})

    def stream(self, q: cql.Query) -> Elements:
        """A stream query's elements."""
        if q not in self._streams:
            if isinstance(q, cql.Stream):
                elements = self.s(q.name)
            elif isinstance(q, cql.Stamped):
                elements = Counter()
                for (e, t), n in self.s(q.stream.name).items():
                    elements[(*e, self._stamp(q.stream.name, t)), t] += n
            else:
                elements = self.m_r2s(q)
            self._streams[q] = elements
        return self._streams[q]

    def m_r2s(self, q: cql.Query) -> Elements:
        """M_R2S[[q]], with all elements.

        Correction: Figure 5 compares R(tau) with R(tau-1) for every t <= tau, which is wrong once nested, and with
        set membership, which loses a second copy. The corrected definition:

        - IStream: {<e,t> : e in R(t) - R(t-1)}, DStream: {<e,t> : e in R(t-1) - R(t)}, bag difference;
        - RStream: {<e,t> : e in R(t) [, (t-o) mod s = 0]}; finite: if R is not transient and T not declared on
          both sides, from the first to the last change of R only.

        Correction: t > LO, unless T is declared below; a constant relation has no inserts then.
        """
        (relation,) = q.inputs
        time = self.time
        result: Elements = Counter()
        changes = [(t, new, old) for t, new, old in self.changes(relation) if t >= time.before + 1]
        if isinstance(q, cql.RStream):
            return self._r_stream(q, [t for t, _, _ in changes])
        for t, new, old in changes:
            for e, n in ((new - old) if isinstance(q, cql.IStream) else (old - new)).items():
                result[e, t] += n
        return result

    def _r_stream(self, q: cql.RStream, changes: list[int]) -> Elements:
        time, every = self.time, q.every or 1
        result: Elements = Counter()
        endless = is_transient(q.relation) or (time.declared_low and time.declared_high)
        starts = sorted({*changes, time.before + 1} if endless else changes)
        end = time.high + 1 if endless else max(changes, default=time.low) + 1
        for start, stop in pairwise([*starts, end]):
            bag = self.m_r(q.relation, start)
            if bag:
                for t in range(up(start, every, q.origin), stop, every):
                    for e, n in bag.items():
                        result[e, t] += n
        return result

    def changes(self, q: cql.Query) -> list[tuple[int, Bag, Bag]]:
        """The instants at which a relation changes, each with R(t) and R(t-1)."""
        instants = [t for t in sorted({self.time.low, *self.instants(q)}) if t <= self.time.high]
        states = [(t, self.m_r(q, t), self.m_r(q, t - 1)) for t in instants]
        return [(t, new, old) for t, new, old in states if new != old]

    def instants(self, q: cql.Query) -> list[int]:
        """A superset of the instants at which a relation changes: an element arrives or leaves its window."""
        if q not in self._instants:
            candidates: set[int] = set()
            if isinstance(q, cql.Relation):
                candidates = {t for steps in self._r[q.name].values() for t, _ in steps}
            elif isinstance(q, cql.Window | cql.Rows):
                for _, t in self.stream(q.stream):
                    candidates |= {t} if isinstance(q, cql.Rows) else _comes_and_leaves(q, t)
            else:
                for below in q.inputs:
                    candidates.update(self.instants(below))
            self._instants[q] = sorted(t for t in candidates if self.time.low <= t <= self.time.high)
        return self._instants[q]

    def answer(self, q: cql.Query) -> Elements:
        """The complete answer: a stream's elements <e,t>, or a relation's canonical changes <e,at> -> diff."""
        if is_stream(q):
            return Counter(self.stream(q))
        result: Elements = Counter()
        for t, new, old in self.changes(q):
            for e in new.keys() | old.keys():
                if new[e] != old[e]:
                    result[e, t] = new[e] - old[e]
        return result

    def _stamp(self, name: str, t: int) -> Any:
        return timestamp(self.inputs[name].type, t)


def _comes_and_leaves(q: cql.Window, t: int) -> set[int]:
    """The instants at which an element at t enters a window and leaves it."""
    leaves = t + 1 + (q.size if q.kind == "RANGE" else 0)
    instants = {t} if q.kind == "UNBOUNDED" else {t, leaves}
    return instants if q.slide is None else {up(x, q.slide, q.origin) for x in instants}
