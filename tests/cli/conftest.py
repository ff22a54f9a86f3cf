from __future__ import annotations

import pytest

from tests.cli.harness import SAMPLES, Cli


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(SAMPLES.parent)
    return Cli(capfd)
