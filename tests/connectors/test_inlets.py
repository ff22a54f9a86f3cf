"""Inlets: positions, spooled bytes and failures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from xmlpunct.base.errors import TransientError, UsageError, XmlPunctError
from xmlpunct.connectors.contract import Connector, connector_of
from xmlpunct.connectors.inlet import Inlet
from xmlpunct.connectors.source import ChangedError, Source
from xmlpunct.engine.run.inputs import segments, spool
from xmlpunct.engine.run.inputs.segments import end_of
from xmlpunct.engine.run.inputs.spool import Spool

ELEMENT = b"<t>%04d</t>"


@dataclass
class Numbers(Inlet):
    """Elements with the numbers up to ``end``; reading number ``fails`` fails; ``done`` has the calls."""

    end: int
    fails: int | None = None
    can_seek: bool = True
    wants_acknowledgement: bool = False
    first: int = 0
    done: list[tuple[str, Any]] = field(default_factory=list)

    def open(self, position: Any) -> None:
        self.done.append(("open", position))
        self.at = self.first if position is None else position[0]

    def read(self) -> tuple[bytes, Any] | None:
        if self.at == self.fails:
            raise OSError(111, "the peer is gone")
        if self.at == self.end:
            return None
        self.at += 1
        return ELEMENT % (self.at - 1), [self.at]

    def acknowledge(self, position: Any) -> None:
        self.done.append(("acknowledge", position))

    def close(self) -> None:
        self.done.append(("close", None))


class FixedInlets(Connector):
    """A connector with a fixed inlet for each sender."""

    def __init__(self, **inlets: Inlet) -> None:
        self._inlets = inlets

    def senders(self, spec: str) -> Sequence[str]:
        return [*self._inlets]

    def inlet(self, spec: str, sender: str) -> Inlet:
        return self._inlets[sender]


def source(inlet: Inlet) -> Source:
    return FixedInlets(x=inlet).source("numbers://x", "numbers://x")


def spooled(path: Path, *inlets: Inlet) -> list[Spool]:
    """Run one spool after the other on the same path, as after restarts."""
    spools = []
    for inlet in inlets:
        spools.append(Spool(source(inlet), 0, path))
        spools[-1].run()
    return spools


def spool_bytes(path: Path) -> bytes:
    with segments.open_at(path, 0) as file:
        return file.read()


def elements(end: int) -> bytes:
    return b"".join(ELEMENT % i for i in range(end))


def test_without_a_checkpoint_each_read_is_acknowledged() -> None:
    inlet = Numbers(3)
    with source(inlet).open() as reader:
        assert b"".join(iter(lambda: reader.read(4), b"")) == elements(3)
    acknowledgements = [("acknowledge", [i]) for i in (1, 2, 3)]
    assert inlet.done == [("open", None), *acknowledgements, ("close", None)]


def test_an_inlet_that_can_seek_continues_after_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    first, second = Numbers(9, fails=4, wants_acknowledgement=True), Numbers(9, wants_acknowledgement=True)
    failed_spool, ended_spool = spooled(path, first, second)
    with pytest.raises(TransientError, match="the peer is gone"):
        failed_spool.check()
    ended_spool.check()
    assert spool_bytes(path) == elements(9)
    assert end_of(path) == (None,)
    assert first.done == [("open", None), *(("acknowledge", [i]) for i in (1, 2, 3, 4)), ("close", None)]
    assert second.done[:2] == [("open", [4]), ("acknowledge", [5])]


def test_a_failure_of_an_inlet_that_cannot_seek_is_final(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    (failed_spool,) = spooled(path, Numbers(9, fails=4, can_seek=False))
    failed_spool.check()
    assert spool_bytes(path) == elements(4)
    assert "the peer is gone" in str(end_of(path))


@pytest.mark.parametrize("failure_at", [0, 3, 7, 12])
def test_elements_after_the_last_position_are_compared(tmp_path: Path, failure_at: int) -> None:
    """Positions are stored once a second, so the source sends most elements again after a kill."""
    path = tmp_path / "spool"
    (failed_spool,) = spooled(path, Numbers(20, fails=failure_at))
    with pytest.raises(TransientError):
        failed_spool.check()
    resumed_inlet = Numbers(20)
    (resumed_spool,) = spooled(path, resumed_inlet)
    resumed_spool.check()
    assert resumed_inlet.done[0] == ("open", [1] if failure_at else None)
    assert spool_bytes(path) == elements(20)
    assert len(spool_bytes(path)) == segments.extent(path)[0]


def test_other_bytes_after_the_last_position_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "spool"

    class ChangedNumbers(Numbers):
        def read(self) -> tuple[bytes, Any] | None:
            piece = super().read()
            return piece and (piece[0].replace(b"3", b"8"), piece[1])

    spooled(path, Numbers(20, fails=6))
    (resumed_spool,) = spooled(path, ChangedNumbers(20))
    with pytest.raises(ChangedError, match="content has changed"):
        resumed_spool.check()
    assert spool_bytes(path) == elements(6)
    assert end_of(path) is None


def test_segments_that_were_released_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 25)
    path = tmp_path / "spool"
    spooled(path, Numbers(20, fails=12))
    segments.release(path, 80)
    assert segments.segments(path)[0] == 3
    (resumed_spool,) = spooled(path, Numbers(20))
    resumed_spool.check()
    with segments.open_at(path, 75) as file:
        assert file.read() == elements(20)[75:]


def test_positions_are_stored_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(10.0, 0.3)
    monkeypatch.setattr(spool.time, "monotonic", lambda: next(clock))
    inlet = Numbers(10)
    spooled(tmp_path / "spool", inlet)
    positions = [position for call, position in inlet.done if call == "acknowledge"]
    assert positions == [[1], [5], [9], [10]], "and the last one"


def test_several_senders_have_their_own_inlets() -> None:
    source_ = FixedInlets(a=Numbers(1), b=Numbers(2)).source("numbers://x", "numbers://x")
    assert [s.name for s in source_.senders] == ["numbers://x#a", "numbers://x#b"]
    assert [s.open().read(100) for s in source_.senders] == [elements(1), ELEMENT % 0]


def test_reading_and_writing_need_connector_methods() -> None:
    with pytest.raises(UsageError, match="numbers:// is not a source"):
        Connector().source("numbers://x", "numbers://x").open()
    with pytest.raises(UsageError, match="tcp:// is not an output"):
        connector_of("tcp://h:1").outlet("tcp://h:1", "tcp://h:1")
    assert issubclass(ChangedError, XmlPunctError)
