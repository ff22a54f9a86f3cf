"""TUMBLE and HOP: the rows of tuples, and exactly the windows that closed instants close."""

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
        w: [at for at in range(w, w + size) if feeds.known(feed.type, at)]
        for w in range(feed.base - 6, feed.base + feeds.WIDTH)
        if (w - frame.origin) % slide == 0
    }
    hop = Hop(feed.schema, "ts", frame, "start", "end")

    def make() -> WindowPromises:
        return WindowPromises(hop.schema, "ts", frame, "start", "end", keeps)

    promises = make()
    seen: list[Punctuation] = []
    said = promises.opening()
    for elements in feed.slices:
        tuples, passed = feeds.step(hop, elements)
        expected, misfits = _rows(feed, elements, starts, size)
        assert Counter(tuples) == expected
        assert len(hop.rejects) == misfits
        hop.rejects.clear()
        seen += (e for e in elements if isinstance(e, Punctuation))
        rows, more = feeds.step(promises, [*tuples, *passed])
        assert Counter(rows) == Counter(t if keeps else (*t[:2], *t[3:]) for t in tuples)
        said += more
        _check_promises(feed, keeps, seen, said, starts, size)
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
                if feeds.known(feed.type, w) and feeds.known(feed.type, w + size):
                    expected[*t, feed.type.at(w), feed.type.at(w + size)] += 1
                else:
                    misfits += 1
    return expected, misfits


def _check_promises(
    feed: feeds.Feed,
    keeps: bool,
    seen: list[Punctuation],
    said: list[Punctuation],
    starts: dict[int, list[int]],
    size: int,
) -> None:
    """A window is said to be closed, by its start and by its end, if and only if no open instant is in it."""
    for k, v in feeds.values_of_k_and_v():
        around = range(feed.base - 12, feed.base + feeds.WIDTH + 12)
        still = {at for at in around if feeds.known(feed.type, at) and feeds.is_open(feed, seen, k, v, at)}
        for w, within in starts.items():
            if not (feeds.known(feed.type, w) and feeds.known(feed.type, w + size)):
                continue
            closed = still.isdisjoint(within)
            instant: tuple[Any, ...] = (feed.type.at(feed.instants[0]),) if keeps else ()
            t = (k, v, *instant, feed.type.at(w), feed.type.at(w + size))
            for other in (-1, -2):
                of_one = [p for p in said if p.patterns[other] is WILDCARD]
                of_one = [p for p in of_one if not keeps or p.patterns[2] is WILDCARD]
                assert any(match(t, p) for p in of_one) == closed, (str(t), closed, [str(p) for p in said])
