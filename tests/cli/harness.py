"""Running the command line in this process, as the console script does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from xmlpunct.cli import invoke

SAMPLES = Path(__file__).parents[2] / "samples"
WAREHOUSE = SAMPLES / "warehouse.sql"


@dataclass
class Ran:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Cli:
    """Runs commands; by default in the repository, where the samples are."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd = capfd

    def __call__(self, *arguments: object) -> Ran:
        self.capfd.readouterr()
        code = invoke([str(a) for a in arguments])
        captured = self.capfd.readouterr()
        return Ran(code, captured.out, captured.err)
