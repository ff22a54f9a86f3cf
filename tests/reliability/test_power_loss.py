"""Random crash states: see `tests.reliability.power_loss`; and a forgotten sync, which they find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.power_loss import KINDS, main, try_states
from xmlpunct.engine.run import durable_files
from xmlpunct.engine.run.local.ledger import Ledger

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds files by /proc")


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_crash_states(tmp_path: Path, first: int) -> None:
    ends = try_states(tmp_path, range(first, first + 50))
    assert sum(ends.values()) == 50
    assert {end for end in ends if end.endswith(": exact")} == {f"{kind}: exact" for kind in KINDS}


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["7", "9"]) == 0
    assert "2 crash states in " in capsys.readouterr().out


def _no_sync(*_: Any) -> None:
    pass


def _output_first(self: Ledger) -> None:
    self._sink.flush()
    _commit(self)


_commit = Ledger._commit
PLANTED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "an output that is not synced": (durable_files.Appender, "sync", _no_sync),
    "a directory that is not synced": (durable_files, "sync_folder", _no_sync),
    "results before their log record": (Ledger, "_commit", _output_first),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    owner, name, wrong = PLANTED[mistake]
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, OSError)):
        try_states(tmp_path, range(120))
