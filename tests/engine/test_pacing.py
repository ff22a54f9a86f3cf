"""The choice of the next input, and the sizes of slices."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs import pacing
from xmlpunct.engine.run.inputs.pacing import PATIENCE, Pace, starved
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan


class Clock:
    """A clock that is set by hand."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sizes(self, pace: Pace, *slices: float | None, share: float = 0.0) -> list[int]:
        """The size in bytes after each slice, given their durations; None is a pause."""
        sizes = []
        for duration in slices:
            if duration is None:
                pace.pause()
            else:
                self.seconds += duration
                pace.measure(share)
            sizes.append(pace.bytes)
        return sizes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def test_slices_grow_with_the_backlog_up_to_a_limit(clock: Clock) -> None:
    pace = Pace(None, first=10, largest=50, seconds=1)
    assert clock.sizes(pace, 0.1, 0.9, 0.9, 0.9, 0.9) == [10, 20, 40, 50, 50]
    pace = Pace(None, first=10, largest=500, seconds=1)
    assert clock.sizes(pace, 0.1, 0.1, 0.4, 0.4) == [10, 40, 160, 500]


def test_slices_shrink_only_beyond_twice_their_time(clock: Clock) -> None:
    pace = Pace(None, first=10, largest=100, seconds=1)
    assert clock.sizes(pace, 0, 0.9, 1.8, 1.8, 2.1, 2.1, 2.1) == [10, 20, 20, 20, 10, 10, 10]
    assert clock.sizes(pace, 0.49, 1.96) == [40, 40]


def test_slices_shrink_while_no_input_is_available(clock: Clock) -> None:
    pace = Pace(None, first=10, largest=100, seconds=1)
    assert clock.sizes(pace, 0, 0.1, 0.1, None, None, None) == [10, 40, 100, 50, 25, 12]
    assert clock.sizes(pace, 0.1, 0.9) == [12, 24], "a pause is not a measured duration"


def test_slices_shrink_if_they_give_too_many_results(clock: Clock) -> None:
    pace = Pace(None, first=10, largest=500, seconds=1)
    assert clock.sizes(pace, 0, 0.1, share=0.2) == [10, 40]
    assert clock.sizes(pace, 0.1, share=0.5) == [80]
    assert clock.sizes(pace, 0.1, 0.1, 3, share=1.0) == [80, 80, 40]
    assert clock.sizes(pace, 0.1, 0.1, share=8.0) == [5, 1], "below the initial size"
    assert clock.sizes(pace, 0.1, None, share=0.0) == [4, 2]
    assert clock.sizes(Pace(7), 0, 0.1, share=9.0) == [7, 7]


def test_a_fixed_size_stays(clock: Clock) -> None:
    assert clock.sizes(Pace(7), 0, 0.01, 9, None, 0.01, 0.01) == [7] * 6


@dataclass
class Progress:
    """The progress of an input that always has data available."""

    bytes_total: int | None
    remaining: int | None = None


@pytest.mark.parametrize("size", [None, 100])
def test_inputs_that_always_come_first_do_not_starve_the_rest(size: int | None) -> None:
    """Endless inputs leave turns for the third; finite inputs may be finished first."""
    inputs = [Progress(size, size) for _ in range(3)]
    turns, waits, chosen = [0, 0, 0], [5, 4, 0], []
    for n in range(1, 200):
        index = starved(range(3), inputs.__getitem__, waits.__getitem__, turns.__getitem__)
        turns[index] = n
        chosen.append(index)
        waits[:2] = waits[1::-1]
    assert chosen.count(2) <= 199 / (3 * PATIENCE)
    assert min(chosen.count(0), chosen.count(1)) > 199 / 3
    assert (2 in chosen) == (size is None)


def test_a_query_is_not_starved_by_a_join_that_always_waits() -> None:
    """The input of c is read although the join always waits for its inputs."""

    def document(name: str, first: int) -> Source:
        rows = "".join(
            f"<{name}><k>{k}</k></{name}><p:{name}><k>{k}</k></p:{name}>" for k in range(first, first + 400)
        )
        source = Source.of(f"<s xmlns:p='{PUNCT_NAMESPACE}'>{rows}</s>".encode(), name)
        return replace(source, parts=((name, None),))  # of unknown size, as for a socket

    streams = "".join(
        f"CREATE STREAM {x} (k INT NOT NULL) WITH (source = '{x}', element = '{x}'); " for x in "abc"
    )
    query = plan(
        f"{streams} CREATE SINK j WITH (output = 'j.xml') AS SELECT a.k FROM a JOIN b ON a.k = b.k; "
        "CREATE SINK c WITH (output = 'c.xml') AS SELECT k FROM c"
    )
    stats = RunStats("local")
    sources = {"a": document("a", 0), "b": document("b", 60), "c": document("c", 0)}
    with closing(LocalRun(query, sources, 400, stats, PUNCT_NAMESPACE)) as run:
        while stats.inputs["a"].tuples < 300:
            portion = run.read()
            assert portion is not None
            run.process(portion)
        assert stats.inputs["c"].tuples
