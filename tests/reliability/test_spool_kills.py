"""A spool that dies between any two system calls while it starts a new segment, and is restarted."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.reliability.faults import Death
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.spool import Spool

DATA = b"<s>" + b"".join(b"<t>%d</t>" % n for n in range(24)) + b"</s>"
SEGMENT = 64


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small segments, and skip slow syncs."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", SEGMENT)
    monkeypatch.setattr(segments, "MOST_BYTES", 2**20)
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Chunks(io.RawIOBase):
    """A peer: its bytes come a few at a time, and cannot be read again."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step) if size >= 0 else self._step)


def spool(path: Path, data: bytes, step: int = 16) -> None:
    """Spool the bytes of a peer, continuing an earlier spool."""
    source = Source("peer", (("peer", None),), lambda _: (Chunks(data, step), False))  # type: ignore[return-value]
    spooling = Spool(source, 0, path)
    spooling.run()
    spooling.check()


def spooled_bytes(path: Path, begin: int) -> bytes:
    with segments.open_at(path, begin) as file:
        return file.read()


@pytest.mark.parametrize("released", [False, True], ids=["all kept", "what was read is released"])
def test_every_step_of_rolling_over(tmp_path: Path, released: bool) -> None:
    """After every death, a peer that repeats the same bytes is accepted, and its input is complete."""
    deaths = [Death(0)]
    for number, death in enumerate(deaths):
        path = tmp_path / f"{number}.xml"
        with death.awaited():
            spool(path, DATA)
        if not death.came:
            break
        begin = 0
        if released and path.exists():
            begin = segments.extent(path)[0] // SEGMENT * SEGMENT
            segments.release(path, begin)
        spool(path, DATA)
        assert segments.end_of(path) == segments.End(None), death
        assert spooled_bytes(path, begin) == DATA[begin:], death
        deaths.append(death.next())
    assert len(deaths) > 60


def test_dying_again_and_again(tmp_path: Path) -> None:
    """Restarts are killed as well."""
    path, lives = tmp_path / "0.xml", 0
    while True:
        with (death := Death(5 + lives, torn=bool(lives % 2))).awaited():
            spool(path, DATA, step=9 + lives)
        if not death.came:
            break
        lives += 1
    assert lives > 3
    assert spooled_bytes(path, 0) == DATA


def test_another_peer_is_refused_at_every_step(tmp_path: Path) -> None:
    deaths = [Death(0)]
    refusals = 0
    for number, death in enumerate(deaths):
        path = tmp_path / f"{number}.xml"
        with death.awaited():
            spool(path, DATA)
        if not death.came:
            break
        deaths.append(Death(death.number + 1))
        if not path.exists() or segments.end_of(path) or not segments.extent(path)[0]:
            continue
        spool(path, DATA.replace(b"<t>0", b"<t>9", 1) if path.stat().st_size > 6 else b"<x>" + DATA)
        refusals += segments.end_of(path) != segments.End(None)
        assert refusals, death
    assert refusals > 30
