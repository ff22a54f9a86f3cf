"""SESSION: each session goes out whole, once nothing can join it; and what is promised meanwhile is true."""

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
    gap, by = random.randint(1, 5), random.choice([["k"], ["k"], [], ["k", "v"], ["v"]])
    places = [feed.schema.index(name) for name in by]

    def make() -> Session:
        return Session(feed.schema, "ts", gap, by, "start", "end")

    operator = make()
    seen: list[Punctuation] = []
    tuples: list[Tuple] = []
    out: list[Tuple] = []
    said = operator.opening()
    rejected = 0
    for elements in feed.slices:
        rows, more = feeds.step(operator, elements)
        rejected += len(operator.rejects)
        operator.rejects.clear()
        assert not [(t, str(p)) for t in rows for p in said if match(t, p)]
        out += rows
        said += more
        seen += (e for e in elements if isinstance(e, Punctuation))
        tuples += (e for e in elements if not isinstance(e, Punctuation))
        sessions = _sessions(feed, tuples, gap, places)
        closed = [s for s in sessions if _is_closed(feed, seen, s, gap, places)]
        expected = Counter(row for s in closed for row in _rows(feed, s, gap))
        assert Counter(out) == expected
        assert rejected == sum(map(len, closed)) - expected.total()
        assert operator.state.rows == len(tuples) - sum(map(len, closed))
        kept = [t for s in sessions if s not in closed for t in s]
        assert not [
            (t, str(p))
            for s in sessions
            if s not in closed
            for t in _rows(feed, s, gap)
            for p in said
            if match(t, p)
        ]
        _check_promises(feed, seen, said, kept, places)
        if random.random() < 0.3:
            operator = restart(make, operator)
    assert len(operator.state) == 0


def _sessions(feed: feeds.Feed, tuples: list[Tuple], gap: int, places: list[int]) -> list[Group]:
    keyed: dict[Tuple, Group] = {}
    for t in tuples:
        keyed.setdefault(tuple(t[i] for i in places), []).append(t)
    found: list[Group] = []
    for group in keyed.values():
        last = None
        for t in sorted(group, key=feed.ordinal):
            if last is None or feed.ordinal(t) - last >= gap:
                found.append([])
            found[-1].append(t)
            last = feed.ordinal(t)
    return found


def _is_closed(
    feed: feeds.Feed, seen: list[Punctuation], session: Group, gap: int, places: list[int]
) -> bool:
    """Whether no tuple can come that would join a session. It may have any value in the other columns."""
    first, last = feed.ordinal(session[0]), feed.ordinal(session[-1])
    around = [at for at in range(first - gap + 1, last + gap) if feeds.known(feed.type, at)]
    return not any(
        feeds.is_open(feed, seen, k, v, at) for k, v in _alike(session[0], places) for at in around
    )


def _alike(t: Tuple, places: list[int]) -> list[tuple[Any, Any]]:
    """Values of k and v of which a key's tuples can be; also some that no punctuation names."""
    return [
        kv
        for kv in [*feeds.values_of_k_and_v(), *((k, None) for k in (1, 2, 3, feeds.OTHER, None))]
        if all(kv[i] == t[i] for i in places)
    ]


def _rows(feed: feeds.Feed, session: Group, gap: int) -> list[Tuple]:
    end = feed.ordinal(session[-1]) + gap
    if not feeds.known(feed.type, end):
        return []
    return [(*t, session[0][2], feed.type.at(end)) for t in session]


def _check_promises(
    feed: feeds.Feed, seen: list[Punctuation], said: list[Punctuation], kept: list[Tuple], places: list[int]
) -> None:
    """Once all tuples up to an instant are closed, all sessions that end before or just behind it are."""
    around = [at for at in range(feed.base - 8, feed.base + feeds.WIDTH + 8) if feeds.known(feed.type, at)]
    everywhere = [feed.type.ordinal(feed.type.lowest), *around]
    for k, v in feeds.values_of_k_and_v():
        alike = _alike((k, v), places)
        still = [at for at in everywhere if any(feeds.is_open(feed, seen, a, b, at) for a, b in alike)]
        if not still or still[0] == everywhere[0]:
            continue
        bound = still[0] - 1
        ts = feed.type.at(feed.instants[0])
        for w in around:
            if w <= bound + 1:
                t = (k, v, ts, None, feed.type.at(w))
                ended = [p for p in said if p.patterns[3] is WILDCARD and p.patterns[2] is WILDCARD]
                assert any(match(t, p) for p in ended), ("end", str(t), [str(p) for p in said])
    still = [
        at
        for at in everywhere
        if any(feeds.is_open(feed, seen, k, v, at) for k, v in feeds.values_of_k_and_v())
    ]
    until = min([*still, *map(feed.ordinal, kept)], default=around[-1])
    began = [p for p in said if p.patterns[4] is WILDCARD and p.patterns[2] is WILDCARD]
    for w in around:
        if everywhere[0] < until and w < until:
            for k, v in feeds.values_of_k_and_v():
                t = (k, v, feed.type.at(w), feed.type.at(w), None)
                assert any(match(t, p) for p in began), ("start", str(t), [str(p) for p in said])
