"""TUMBLE and HOP: the rows of each tuple, and punctuations for exactly the closed windows."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import restart
from tests.operators.windows import feeds
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.operators.time.windows.hop import Hop, WindowPromises
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.types.pattern import WILDCARD


@given(seed=st.integers(0, 2**32))
def test_against_brute_force(seed: int) -> None:
    random = Random(seed)
    feed = feeds.feed(random)
    slide, size = random.randint(1, 6), random.randint(1, 6)
    frame = HoppingWindows(feed.type, slide, size, random.randint(-7, 7))
    keeps = random.random() < 0.5
    starts = {
        w: [at for at in range(w, w + size) if feeds.has_ordinal(feed.type, at)]
        for w in range(feed.base - 6, feed.base + feeds.WIDTH)
        if (w - frame.origin) % slide == 0
    }
    hop = Hop(feed.schema, "ts", frame, "start", "end")

    def make() -> WindowPromises:
        return WindowPromises(hop.schema, "ts", frame, "start", "end", keeps)

    promises = make()
    received: list[Punctuation] = []
    emitted = promises.opening()
    for elements in feed.slices:
        tuples, forwarded = feeds.step(hop, elements)
        expected, misfits = _rows(feed, elements, starts, size)
        assert Counter(tuples) == expected
        assert len(hop.rejects) == misfits
        hop.rejects.clear()
        received += (e for e in elements if isinstance(e, Punctuation))
        rows, punctuations = feeds.step(promises, [*tuples, *forwarded])
        assert Counter(rows) == Counter(t if keeps else (*t[:2], *t[3:]) for t in tuples)
        emitted += punctuations
        _check_promises(feed, keeps, received, emitted, starts, size)
        if random.random() < 0.3:
            promises = restart(make, promises)
    assert len(promises.state) == 0


def _rows(
    feed: feeds.Feed, elements: list[Tuple | Punctuation], starts: dict[int, list[int]], size: int
) -> tuple[Counter[Tuple], int]:
    expected: Counter[Tuple] = Counter()
    misfits = 0
    for t in elements:
        if isinstance(t, Punctuation):
            continue
        for w, within in starts.items():
            if feed.ordinal(t) in within:
                if feeds.has_ordinal(feed.type, w) and feeds.has_ordinal(feed.type, w + size):
                    expected[*t, feed.type.at(w), feed.type.at(w + size)] += 1
                else:
                    misfits += 1
    return expected, misfits


def _check_promises(
    feed: feeds.Feed,
    keeps: bool,
    received: list[Punctuation],
    emitted: list[Punctuation],
    starts: dict[int, list[int]],
    size: int,
) -> None:
    """A window is closed, by its start and by its end, if and only if it contains no open instant."""
    for k, v in feeds.values_of_k_and_v():
        around = range(feed.base - 12, feed.base + feeds.WIDTH + 12)
        open_instants = {
            at
            for at in around
            if feeds.has_ordinal(feed.type, at) and feeds.is_open(feed, received, k, v, at)
        }
        for w, within in starts.items():
            if not (feeds.has_ordinal(feed.type, w) and feeds.has_ordinal(feed.type, w + size)):
                continue
            closed = open_instants.isdisjoint(within)
            instant: tuple[Any, ...] = (feed.type.at(feed.instants[0]),) if keeps else ()
            t = (k, v, *instant, feed.type.at(w), feed.type.at(w + size))
            for other in (-1, -2):
                one_sided = [p for p in emitted if p.patterns[other] is WILDCARD]
                one_sided = [p for p in one_sided if not keeps or p.patterns[2] is WILDCARD]
                assert any(match(t, p) for p in one_sided) == closed, (
                    str(t),
                    closed,
                    [str(p) for p in emitted],
                )
