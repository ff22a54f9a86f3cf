"""CONTRIBUTING's worked changes: each diff applies to the tree as it is, and its own tests pass there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.support import LONG
from tests.site import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
CHANGES = re.findall(r"^## (?:A|An) (\w+)\n.*?^```diff\n(.*?)^```\n\n```sh\n(.*?)^```", TEXT, re.M | re.S)
"""What is added, the diff, and the command that tests it."""
SLOW = {"connector": "not killed"}
"""What is left out of a command but in the long form."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree: what is compiled, too."""
    made = tmp_path / "xmlpunct"
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.o")
    for folder in ("xmlpunct", "tests", "samples", "docs", "benchmarks"):
        shutil.copytree(ROOT / folder, made / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, made)
    return made


def run(command: list[str], folder: Path, given: str = "") -> None:
    settings = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        command, cwd=folder, env=settings, input=given, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
@pytest.mark.parametrize(("what", "diff", "command"), CHANGES, ids=[what for what, _, _ in CHANGES])
def test_a_worked_change_works(what: str, diff: str, command: str, copy: Path) -> None:
    run(["git", "apply", "--recount", "-C1", "-"], copy, diff)
    tool, *arguments = shlex.split(command)
    assert tool == ".venv/bin/pytest"
    if not LONG and what in SLOW:
        arguments += ["-k", SLOW[what]]
    run([sys.executable, "-m", "pytest", *arguments], copy)
    if LONG:
        run(
            [
                sys.executable,
                "-m",
                "pytest",
                "tests/test_project.py",
                "-k",
                "floor or circle or module or docstrings",
            ],
            copy,
        )


def test_all_three_are_there() -> None:
    assert [what for what, _, _ in CHANGES] == ["function", "operator", "connector"]
