"""The oracle of TUMBLE, HOP and SESSION: what is out never changes, and what is promised is exact."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.oracle.cql.complete import OTHER, merged
from tests.oracle.cql.feeds import Feed, Input, Spans, Time
from tests.oracle.cql.futures import continuation
from tests.oracle.cql.generate import Case, Feeder
from tests.oracle.windows import Hop, Session, ends, inside, leaf, released, session_promises
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import INT

LIMITS = ((-12, 12), (-(2**63), 2**63 - 1))


def hops(rng: random.Random) -> Hop:
    slide = rng.randint(1, 4)
    return Hop(slide, rng.randint(1, 9), rng.randint(-3, 3))


@pytest.mark.parametrize("limits", LIMITS, ids=["small", "int"])
def test_hop_promises_what_no_open_instant_has(limits: tuple[int, int]) -> None:
    """For each window that can occur, by its start and by its end; also at both ends of the type."""
    rng = random.Random(1)
    for _ in range(3000):
        hop = hops(rng)
        low, high = limits
        anchor = rng.choice([low, low, 0, 0, high - 24, high - 24])
        anchor = max(low, min(anchor, high - 24))
        parts: Spans = []
        for _ in range(rng.randint(0, 3)):
            first = anchor + rng.randint(0, 20)
            parts.append((first, min(high, first + rng.randint(0, 12))))
        parts += [(low, anchor + rng.randint(0, 9))] if rng.random() < 0.3 else []
        parts += [(anchor + rng.randint(9, 24), high)] if rng.random() < 0.3 else []
        closed = merged(parts)
        promised = hop.promised(closed, limits)
        for ts in range(anchor, anchor + 25):
            for w in hop.starts(ts):
                if low <= w and w + hop.size <= high:
                    right = hop.is_closed(w, closed, limits)
                    assert any(inside(w, start) for start, _ in promised) is right
                    assert any(inside(w + hop.size, end) for _, end in promised) is right


def test_hop_has_a_row_per_window() -> None:
    rng = random.Random(2)
    for _ in range(500):
        hop, ts = hops(rng), rng.randint(-20, 20)
        around = range(-40, 41)
        wanted = [w for w in around if (w - hop.origin) % hop.slide == 0 and w <= ts < w + hop.size]
        assert hop.starts(ts) == wanted


def test_a_window_that_does_not_fit_its_type_rejects_its_row_alone() -> None:
    given = Input("s", Schema.parse("ts INT NOT NULL"), "ts")
    low, high = ends(INT)
    found = Hop(2, 4).rows(given, [(low,), (high,), (high - 2,)])
    assert set(found) == {(low, low, low + 4), (high - 2, high - 5, high - 1)}


def cases(count: int = 150) -> Iterator[tuple[random.Random, Input, Time, Feed]]:
    """Feeds of a single stream."""
    for seed in range(count):
        case = Case(seed, INT)
        name = case.rng.choice(["s0", "s1"])
        given = case.declared[name]
        time = Time.of([given])
        feed = Feeder(case.rng, {name: given}, time, case.base, 1).feed()
        yield case.rng, given, time, feed


def test_a_session_that_is_out_is_whole_and_final() -> None:
    early = 0
    for rng, given, time, feed in cases(50):
        op = Session(rng.randint(1, 4), rng.choice([(), (0,), (0,), (1,)]))
        for position in range(len(feed) + 1):
            before = feed[:position]
            out = released(op, given, before)
            early += bool(out) and position < len(feed)
            after = [*before, *continuation(rng, {given.name: given}, before, time)]
            for whole in (after, feed):
                tuples = [t for _, t in whole if not isinstance(t, Punctuation)]
                final = op.rows(given, tuples)
                assert out <= final
                for e in [given.element(t)[0] for t in tuples]:
                    k = tuple(e[i] for i in op.by)
                    starts, stops = session_promises(op, given, before, k)
                    for row, n in (final - out).items():
                        same = tuple(given.element(row[:-2])[0][i] for i in op.by) == k
                        assert not same or (starts < row[-2] and stops < row[-1]), (row, n)
    assert early


def test_a_session_that_is_not_out_can_still_change() -> None:
    """One more tuple at an open instant near it joins it: the rule is exact."""
    for _, given, _, feed in cases(60):
        op = Session(3)
        closes, tuples = leaf(given, feed)
        closed, limits = closes.spans(tuple([OTHER] * len(given.places))), ends(INT)
        for _, session in op.sessions(given, tuples):
            near = range(max(limits[0], session[0][0] - 2), min(limits[1], session[-1][0] + 2) + 1)
            is_open = [at for at in near if not any(a <= at <= b for a, b in closed)]
            assert bool(is_open) is not op.is_closed(session, closed, limits)
