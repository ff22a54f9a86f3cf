"""SESSION: a session is released once no tuple can join it; punctuations emitted before that are true."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import restart
from tests.operators.windows import feeds
from xmlpunct.operators.time.windows.session import Session
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.types.pattern import WILDCARD

Group = list[Tuple]
"""The tuples of a session."""


@given(seed=st.integers(0, 2**32))
def test_against_brute_force(seed: int) -> None:
    random = Random(seed)
    feed = feeds.feed(random)
    gap, keys = random.randint(1, 5), random.choice([["k"], ["k"], [], ["k", "v"], ["v"]])
    key_positions = [feed.schema.index(name) for name in keys]

    def make() -> Session:
        return Session(feed.schema, "ts", gap, keys, "start", "end")

    operator = make()
    received: list[Punctuation] = []
    tuples: list[Tuple] = []
    out: list[Tuple] = []
    emitted = operator.opening()
    rejected = 0
    for elements in feed.slices:
        rows, punctuations = feeds.step(operator, elements)
        rejected += len(operator.rejects)
        operator.rejects.clear()
        assert not [(t, str(p)) for t in rows for p in emitted if match(t, p)]
        out += rows
        emitted += punctuations
        received += (e for e in elements if isinstance(e, Punctuation))
        tuples += (e for e in elements if not isinstance(e, Punctuation))
        sessions = _sessions(feed, tuples, gap, key_positions)
        closed = [s for s in sessions if _is_closed(feed, received, s, gap, key_positions)]
        expected = Counter(row for s in closed for row in _rows(feed, s, gap))
        assert Counter(out) == expected
        assert rejected == sum(map(len, closed)) - expected.total()
        assert operator.state.rows == len(tuples) - sum(map(len, closed))
        retained = [t for s in sessions if s not in closed for t in s]
        assert not [
            (t, str(p))
            for s in sessions
            if s not in closed
            for t in _rows(feed, s, gap)
            for p in emitted
            if match(t, p)
        ]
        _check_promises(feed, received, emitted, retained, key_positions)
        if random.random() < 0.3:
            operator = restart(make, operator)
    assert len(operator.state) == 0


def _sessions(feed: feeds.Feed, tuples: list[Tuple], gap: int, key_positions: list[int]) -> list[Group]:
    keyed: dict[Tuple, Group] = {}
    for t in tuples:
        keyed.setdefault(tuple(t[i] for i in key_positions), []).append(t)
    sessions: list[Group] = []
    for group in keyed.values():
        last = None
        for t in sorted(group, key=feed.ordinal):
            if last is None or feed.ordinal(t) - last >= gap:
                sessions.append([])
            sessions[-1].append(t)
            last = feed.ordinal(t)
    return sessions


def _is_closed(
    feed: feeds.Feed, received: list[Punctuation], session: Group, gap: int, key_positions: list[int]
) -> bool:
    """True if no later tuple, with any values in the other columns, can join the session."""
    first, last = feed.ordinal(session[0]), feed.ordinal(session[-1])
    around = [at for at in range(first - gap + 1, last + gap) if feeds.has_ordinal(feed.type, at)]
    return not any(
        feeds.is_open(feed, received, k, v, at) for k, v in _alike(session[0], key_positions) for at in around
    )


def _alike(t: Tuple, key_positions: list[int]) -> list[tuple[Any, Any]]:
    """Values of k and v with the same key as a tuple, also values that no punctuation names."""
    return [
        kv
        for kv in [*feeds.values_of_k_and_v(), *((k, None) for k in (1, 2, 3, feeds.OTHER, None))]
        if all(kv[i] == t[i] for i in key_positions)
    ]


def _rows(feed: feeds.Feed, session: Group, gap: int) -> list[Tuple]:
    end = feed.ordinal(session[-1]) + gap
    if not feeds.has_ordinal(feed.type, end):
        return []
    return [(*t, session[0][2], feed.type.at(end)) for t in session]


def _check_promises(
    feed: feeds.Feed,
    received: list[Punctuation],
    emitted: list[Punctuation],
    retained: list[Tuple],
    key_positions: list[int],
) -> None:
    """If all instants up to a bound are closed, so are sessions that end by then or at the next instant."""
    around = [
        at for at in range(feed.base - 8, feed.base + feeds.WIDTH + 8) if feeds.has_ordinal(feed.type, at)
    ]
    instants = [feed.type.ordinal(feed.type.lowest), *around]
    for k, v in feeds.values_of_k_and_v():
        alike = _alike((k, v), key_positions)
        open_instants = [
            at for at in instants if any(feeds.is_open(feed, received, a, b, at) for a, b in alike)
        ]
        if not open_instants or open_instants[0] == instants[0]:
            continue
        bound = open_instants[0] - 1
        ts = feed.type.at(feed.instants[0])
        for w in around:
            if w <= bound + 1:
                t = (k, v, ts, None, feed.type.at(w))
                ended = [p for p in emitted if p.patterns[3] is WILDCARD and p.patterns[2] is WILDCARD]
                assert any(match(t, p) for p in ended), ("end", str(t), [str(p) for p in emitted])
    open_instants = [
        at
        for at in instants
        if any(feeds.is_open(feed, received, k, v, at) for k, v in feeds.values_of_k_and_v())
    ]
    until = min([*open_instants, *map(feed.ordinal, retained)], default=around[-1])
    began = [p for p in emitted if p.patterns[4] is WILDCARD and p.patterns[2] is WILDCARD]
    for w in around:
        if instants[0] < until and w < until:
            for k, v in feeds.values_of_k_and_v():
                t = (k, v, feed.type.at(w), feed.type.at(w), None)
                assert any(match(t, p) for p in began), ("start", str(t), [str(p) for p in emitted])
