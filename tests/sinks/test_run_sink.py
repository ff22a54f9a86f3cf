"""Groups of a run's outputs: a killed run leaves at most one group that is not in its checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from xmlpunct.connectors.last_group import LastGroup
from xmlpunct.connectors.outlet import Results
from xmlpunct.engine.run.channel import Channel
from xmlpunct.engine.run.checkpoint.commit import Written
from xmlpunct.engine.run.sink import RunSink
from xmlpunct.engine.run.stats import RunStats


class MemoryOutlet:
    """Records the groups that it receives."""

    def __init__(self) -> None:
        self.last_group, self.groups = LastGroup("memory"), list[tuple[int, bool]]()

    def write(self, results: Results, *, again: bool = False) -> None:
        self.groups.append((results.number, results.last))
        if not self.last_group.holds(results):
            self.last_group = LastGroup("memory", results.number, results.digest)

    def check_last(self, last: int) -> None:
        self.last_group.check(last)

    def commit(self) -> Any:
        return len(self.groups)

    def break_off(self) -> None: ...


def sink_on(outlet: Any, written: Written) -> tuple[RunSink, Channel]:
    channel = Channel(outlet, written)
    return RunSink([], channel, RunStats("spark")), channel


@pytest.mark.parametrize("rejects", [b"", b"reject\n"])
def test_a_run_that_is_killed_before_its_last_commit_continues(rejects: bytes) -> None:
    outlet = MemoryOutlet()
    sink, channel = sink_on(outlet, Written())
    sink.flush(write_empty=True)
    committed = channel.commit()
    channel.put(rejects)
    sink.over(write_empty=True)
    assert outlet.groups == [(0, False), (1, True)], "one group for each micro-batch"
    restarted, channel = sink_on(outlet, committed)
    restarted.check_last(pending=1)
    channel.put(rejects)
    restarted.over(write_empty=True)
    restarted.check_last()
