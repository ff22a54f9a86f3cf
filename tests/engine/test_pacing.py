"""How large slices are."""

from __future__ import annotations

import pytest

from xmlpunct.engine.inputs import pacing
from xmlpunct.engine.inputs.pacing import Pace


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sizes(self, pace: Pace, *slices: float | None, share: float = 0.0) -> list[int]:
        """What the slice after each of some slices may take: slices that take so long, or (None) a pause."""
        found = []
        for seconds in slices:
            if seconds is None:
                pace.pause()
            else:
                self.now += seconds
                pace.measure(share)
            found.append(pace.bytes)
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def test_slices_grow_with_the_backlog_up_to_a_limit(clock: Clock) -> None:
    pace = Pace(None, first=10, most=50, seconds=1)
    assert clock.sizes(pace, 0.1, 0.9, 0.9, 0.9, 0.9) == [10, 20, 40, 50, 50]
    pace = Pace(None, first=10, most=500, seconds=1)
    assert clock.sizes(pace, 0.1, 0.1, 0.4, 0.4) == [10, 40, 160, 500]


def test_a_slice_is_not_undone_for_having_grown(clock: Clock) -> None:
    pace = Pace(None, first=10, most=100, seconds=1)
    assert clock.sizes(pace, 0, 0.9, 1.8, 1.8, 2.1, 2.1, 2.1) == [10, 20, 20, 20, 10, 10, 10]
    assert clock.sizes(pace, 0.49, 1.96) == [40, 40]


def test_slices_shrink_while_there_is_nothing_to_read(clock: Clock) -> None:
    pace = Pace(None, first=10, most=100, seconds=1)
    assert clock.sizes(pace, 0, 0.1, 0.1, None, None, None) == [10, 40, 100, 50, 25, 12]
    assert clock.sizes(pace, 0.1, 0.9) == [12, 24], "what was waited for says nothing of how long it takes"


def test_a_slice_gives_no_more_than_it_should(clock: Clock) -> None:
    pace = Pace(None, first=10, most=500, seconds=1)
    assert clock.sizes(pace, 0, 0.1, share=0.2) == [10, 40]
    assert clock.sizes(pace, 0.1, share=0.5) == [80]
    assert clock.sizes(pace, 0.1, 0.1, 3, share=1.0) == [80, 80, 40]
    assert clock.sizes(pace, 0.1, 0.1, share=8.0) == [5, 1], "less than the first"
    assert clock.sizes(pace, 0.1, None, share=0.0) == [4, 2]
    assert clock.sizes(Pace(7), 0, 0.1, share=9.0) == [7, 7]


def test_a_fixed_size_stays(clock: Clock) -> None:
    assert clock.sizes(Pace(7), 0, 0.01, 9, None, 0.01, 0.01) == [7] * 6
