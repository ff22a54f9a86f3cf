"""The oracle of TUMBLE, HOP and SESSION: no released row changes, and the promises are exact."""

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
def test_hop_promises_the_closed_windows(limits: tuple[int, int]) -> None:
    """A window is promised, by start and by end, iff it is closed; also near both ends of the type."""
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


def test_hop_starts_are_the_windows_of_an_instant() -> None:
    rng = random.Random(2)
    for _ in range(500):
        hop, ts = hops(rng), rng.randint(-20, 20)
        around = range(-40, 41)
        expected = [w for w in around if (w - hop.origin) % hop.slide == 0 and w <= ts < w + hop.size]
        assert hop.starts(ts) == expected


def test_a_window_outside_the_type_rejects_only_its_row() -> None:
    input_ = Input("s", Schema.parse("ts INT NOT NULL"), "ts")
    low, high = ends(INT)
    rows = Hop(2, 4).rows(input_, [(low,), (high,), (high - 2,)])
    assert set(rows) == {(low, low, low + 4), (high - 2, high - 5, high - 1)}


def cases(count: int = 150) -> Iterator[tuple[random.Random, Input, Time, Feed]]:
    """Random feeds of one stream."""
    for seed in range(count):
        case = Case(seed, INT)
        name = case.rng.choice(["s0", "s1"])
        input_ = case.declared[name]
        time = Time.of([input_])
        feed = Feeder(case.rng, {name: input_}, time, case.base, 1).feed()
        yield case.rng, input_, time, feed


def test_released_sessions_are_final() -> None:
    early = 0
    for rng, input_, time, feed in cases(50):
        op = Session(rng.randint(1, 4), rng.choice([(), (0,), (0,), (1,)]))
        for position in range(len(feed) + 1):
            before = feed[:position]
            out = released(op, input_, before)
            early += bool(out) and position < len(feed)
            after = [*before, *continuation(rng, {input_.name: input_}, before, time)]
            for final_feed in (after, feed):
                tuples = [t for _, t in final_feed if not isinstance(t, Punctuation)]
                final = op.rows(input_, tuples)
                assert out <= final
                for e in [input_.element(t)[0] for t in tuples]:
                    k = tuple(e[i] for i in op.by)
                    starts, stops = session_promises(op, input_, before, k)
                    for row, n in (final - out).items():
                        same = tuple(input_.element(row[:-2])[0][i] for i in op.by) == k
                        assert not same or (starts < row[-2] and stops < row[-1]), (row, n)
    assert early


def test_retained_sessions_can_still_change() -> None:
    """A session is closed iff no tuple at an open instant can extend it: the rule is exact."""
    for _, input_, _, feed in cases(60):
        op = Session(3)
        closes, tuples = leaf(input_, feed)
        closed, limits = closes.spans(tuple([OTHER] * len(input_.places))), ends(INT)
        for _, session in op.sessions(input_, tuples):
            joining = range(max(limits[0], session[0][0] - 2), min(limits[1], session[-1][0] + 2) + 1)
            is_open = [at for at in joining if not any(a <= at <= b for a, b in closed)]
            assert bool(is_open) is not op.is_closed(session, closed, limits)
