"""join of relations, against the tuples at every instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import check_table, give
from tests.operators.relations.changes import (
    KEY,
    RESTARTS,
    TAU,
    Run,
    T,
    change_feeds,
    closed_up_to,
    count_at,
    runs,
)
from tests.oracle.values import same
from tests.strategies import REAL, SMALL, Element, Space, Stream, cuts
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call
from xmlpunct.operators.relations.change_join import ChangeJoin
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import DATE, INT

MOMENTS = (T.lo, *TAU.domain)

LEFT, RIGHT = Space.of(k=KEY, n=(SMALL, "[0,1]")), Space.of(j=KEY, m=(SMALL, "[0,1]"))
SPACES = {
    "nullable": (LEFT, RIGHT, [("k", "j")]),
    "not null": (Space.of(k=(KEY, "NOT NULL"), n=SMALL), Space.of(j=(KEY, "NOT NULL")), [("k", "j")]),
    "two attributes": (
        Space.of(k=KEY, n=(SMALL, "[0,1]")),
        Space.of(j=(KEY, "NOT NULL"), m=(SMALL, "[0,1]")),
        [("k", "j"), ("n", "m")],
    ),
    "doubles": (Space.of(x=REAL), Space.of(y=REAL, m=(SMALL, "[0,1]")), [("x", "y")]),
    "no attribute": (Space.of(k=KEY), Space.of(m=(SMALL, "[0,1]")), []),
}
"""Two inputs, and the equalities between them."""
LESS = call("<", Column(INT, True, "n"), Column(INT, True, "m"))


def key_of(space: Space, e: Tuple, names: list[str]) -> Tuple | None:
    """The values of a tuple's k; None if one is null."""
    values = tuple(e[space.schema.index(name)] for name in names)
    return None if None in values else same(values)


def pairs_of(spaces: tuple[Space, Space], keys: list[tuple[str, str]]) -> Iterator[tuple[Tuple, Tuple]]:
    """All pairs of tuples that agree on k."""
    for e in spaces[0].tuples():
        for f in spaces[1].tuples():
            k = key_of(spaces[0], e, [a for a, _ in keys])
            if k is not None and k == key_of(spaces[1], f, [b for _, b in keys]):
                yield e, f


def output(join: ChangeJoin, spaces: tuple[Space, Space], e: Tuple, f: Tuple) -> Tuple:
    """The tuple of a pair in a join's output."""
    values = dict(zip(spaces[1].schema.names, f, strict=True)) | dict(
        zip(spaces[0].schema.names, e, strict=True)
    )
    return tuple(values[name] for name in join.schema.names[:-2])


def check_sums(run: Run, e: Tuple, expected: list[int], bound: int) -> None:
    """Up to a bound, a tuple's emitted changes add up to its count at each instant, and punctuations close it."""
    for at, count in zip(MOMENTS, expected, strict=True):
        promised = run.promises((*e, at, 1))
        assert promised or at > bound, (e, at)
        if promised:
            assert count_at(run.tuples, e, at) == count, (e, at)
    assert run.promises((*e, T.last, 1)) or bound < T.last, e


def closed_key(space: Space, names: list[str], k: Tuple, punctuations: list[Punctuation]) -> int:
    """C(k): the last instant up to which all tuples of a key are closed."""
    bounds = [closed_up_to(e, punctuations) for e in space.tuples() if key_of(space, e, names) == k]
    return min(bounds)


def retained(space: Space, other: Space, names: list[list[str]], run: Run, side: int) -> int:
    """The number of canonical changes that a side must retain, from the first instant with possible partners on."""
    rows = 0
    for e in space.tuples():
        k = key_of(space, e, names[side])
        if k is None:
            continue
        closed = closed_key(other, names[1 - side], k, run.punctuations_in[1 - side])
        if closed == T.last:
            continue
        moments = sorted({closed + 1, *(at for at in MOMENTS if at > closed)})
        counts = [count_at(run.tuples_in[side], e, at) for at in moments]
        rows += sum(after != before for before, after in zip([0, *counts], counts, strict=False))
    return rows


@pytest.mark.parametrize("residual", [False, True], ids=["equality", "residual"])
@pytest.mark.parametrize("case", SPACES)
@given(data=st.data())
def test_against_every_instant(case: str, residual: bool, data: st.DataObject) -> None:
    left, right, keys = SPACES[case]
    spaces, names = (left, right), [[pair[side] for pair in keys] for side in (0, 1)]
    if residual and ("n" not in left.schema or "m" not in right.schema):
        return
    feeds = [data.draw(change_feeds(space, 5)) for space in spaces]

    shards = data.draw(st.booleans())  # one of several shards emits more punctuations, all of them true

    def make() -> ChangeJoin:
        schemas = (changes(space.schema, INT) for space in spaces)
        join = ChangeJoin(*schemas, keys, T, LESS if residual else None)
        if shards:
            join.emit_implied([names[0]])
        return join

    pairs = list(pairs_of(spaces, keys))
    for run in runs(make, data.draw(cuts(feeds)), data.draw(RESTARTS)):
        for e, f in pairs:
            bounds = [closed_up_to(t, ps) for t, ps in zip((e, f), run.punctuations_in, strict=True)]
            passes = not residual or (e[-1] is not None and f[-1] is not None and e[-1] < f[-1])
            counts = [passes * count_at(feeds[0], e, at) * count_at(feeds[1], f, at) for at in MOMENTS]
            check_sums(run, output(run.operator, spaces, e, f), counts, min(bounds))
        sides = [retained(spaces[side], spaces[1 - side], names, run, side) for side in (0, 1)]
        assert run.operator.state.rows == sum(sides)
    assert shards or len(run.operator.state) == 0


@given(data=st.data())
def test_with_itself(data: st.DataObject) -> None:
    feed = data.draw(change_feeds(LEFT, 6))
    schemas = [changes(space.schema, INT) for space in (LEFT, RIGHT)]
    pieces = [
        (
            port,
            [Punctuation(schemas[port], e.patterns) if isinstance(e, Punctuation) else e for e in elements],
        )
        for _, elements in data.draw(cuts([feed]))
        for port in (0, 1)
    ]

    def make() -> ChangeJoin:
        return ChangeJoin(*schemas, [("k", "j")], T)

    for run in runs(make, pieces, data.draw(RESTARTS)):
        for e, f in pairs_of((LEFT, RIGHT), [("k", "j")]):
            bounds = [closed_up_to(t, ps) for t, ps in zip((e, f), run.punctuations_in, strict=True)]
            counts = [count_at(feed, e, at) * count_at(feed, f, at) for at in MOMENTS]
            check_sums(run, (*e, f[1]), counts, min(bounds))
    assert len(run.operator.state) == 0


def feeds_of_prefixes(space: Space) -> st.SearchStrategy[Stream]:
    """Changes whose only punctuations are prefixes of all tuples."""
    return change_feeds(space, 6).map(lambda feed: [e for e in feed if is_of_all(e)])


def is_of_all(e: Element) -> bool:
    return not isinstance(e, Punctuation) or set(e.constrained) <= {len(e.schema) - 2}


@given(data=st.data())
def test_the_emitted_bound_is_exact(data: st.DataObject) -> None:
    """min(max(b1 + 1, s2), max(b2 + 1, s1), max(b1, b2) + 1) - 1, for the least instants s retained."""
    feeds = [data.draw(feeds_of_prefixes(space)) for space in (LEFT, RIGHT)]

    def make() -> ChangeJoin:
        return ChangeJoin(*(changes(space.schema, INT) for space in (LEFT, RIGHT)), [("k", "j")], T)

    for run in runs(make, data.draw(cuts(feeds)), data.draw(RESTARTS)):
        b = [max(map(bound_of, ps), default=T.lo - 1) for ps in run.punctuations_in]
        s = [least_retained(space, run, side, b[1 - side]) for side, space in enumerate((LEFT, RIGHT))]
        emitted_bound = max(map(bound_of, run.punctuations), default=T.lo - 1)
        assert emitted_bound == max(min(b), min(b[0], s[0] - 1), min(b[1], s[1] - 1))
        assert emitted_bound == min(max(b[0] + 1, s[1]), max(b[1] + 1, s[0]), max(b) + 1) - 1


def bound_of(p: Punctuation) -> int:
    return T.bound(p.patterns[-2])


def least_retained(space: Space, run: Run, side: int, closed: int) -> int:
    """The least instant that a side must retain, for the bound of the other side; T.last + 1 if none."""
    instants = [T.last + 1]
    for e in space.tuples() if closed < T.last else ():
        if e[0] is not None:
            counts = {at: count_at(run.tuples_in[side], e, at) for at in (max(closed + 1, T.lo), *TAU.domain)}
            moments = sorted(at for at in counts if at > closed)
            before = [0, *(counts[at] for at in moments)]
            instants += [at for at, n in zip(moments, before, strict=False) if counts[at] != n]
    return min(instants)


def test_days_between_declared_bounds() -> None:
    """A key that is closed up to the end of T is closed for ever, and purged."""
    days = Instants(DATE, DATE.ordinal(date(2026, 3, 1)), DATE.ordinal(date(2026, 3, 5)))
    operator = ChangeJoin(
        *(changes(Schema.parse(columns), DATE) for columns in ("k INT, n INT", "j INT")), [("k", "j")], days
    )
    check_table(
        operator,
        """
        1: 7 1 2026-03-01 1; 7 1 2026-03-05 -1 ->
        1: P(*, *, (,2026-02-28], *)           ->
        2: 7 2026-03-03 1                      -> 7 1 2026-03-03 1; 7 1 2026-03-05 -1
        2: P(7, (,2026-03-03], *)              -> P(7, *, (,2026-03-02], *)
        1: P(*, *, (,2026-03-03], *)           -> P(*, *, (,2026-03-03], *)
        2: P(7, *, *)                          ->
        """,
    )
    assert operator.state.rows == 1
    check_table(operator, "1: P(*, *, *, *) -> P(*, *, *, *)")
    assert operator.state.rows == 0


def test_prefixes_of_keys_are_overtaken() -> None:
    """A prefix of a key that is ahead is retained only until all keys are closed as far."""
    left, right = (changes(space.schema, INT) for space in (LEFT, RIGHT))
    operator, sizes = ChangeJoin(left, right, [("k", "j")], T), list[int]()
    for at in range(300):
        for port, schema in enumerate((left, right)):
            texts = (f"<*, *, (,{at}], *>", f"<{100 + at % 50}, *, (,{at + 2}], *>")
            elements = [(1, 0, at, 1), (1, 0, at + 3, -1), *(Punctuation.parse(schema, p) for p in texts)]
            give(operator, port, elements)
        sizes.append(operator.state.held)
    assert max(sizes) < 200
    assert operator.state.rows < 10


def test_on_several_shards_owned_punctuations_are_emitted_though_implied() -> None:
    """Other shards may not emit the implying punctuation, and only this one closes its own tuples."""
    table = """
        1: P(*, *, (,5], *) -> P(*, *, *, (,5], *)
        1: P(1, *, (,5], *) -> P(1, *, *, (,5], *)
        2: P(1, *, (,4], *) -> P(1, *, *, (,4], *)
        2: P(*, *, (,3], *) -> P(1, *, *, (,3], *)
        2: P(2, *, (,3], *) -> P(2, *, *, (,3], *)
        """
    operator = ChangeJoin(*(changes(space.schema, INT) for space in (LEFT, RIGHT)), [("k", "j")], T)
    operator.emit_implied([("k",)])
    check_table(operator, table)
