"""CONTRIBUTING's worked changes: each diff applies to the current tree, and its tests pass."""

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
"""(name of the addition, diff, command that tests it)."""
SLOW = {"connector": "not killed"}
"""Tests left out of a command, except in the long form."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree, with its compiled modules."""
    target = tmp_path / "xmlpunct"
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.o")
    for folder in ("xmlpunct", "tests", "samples", "docs", "benchmarks"):
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, target)
    return target


def run(command: list[str], folder: Path, stdin: str = "") -> None:
    settings = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        command, cwd=folder, env=settings, input=stdin, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(("name", "diff", "command"), CHANGES, ids=[name for name, _, _ in CHANGES])
def test_a_worked_change_works(name: str, diff: str, command: str, copy: Path) -> None:
    run(["git", "apply", "--recount", "-C1", "-"], copy, diff)
    tool, *arguments = shlex.split(command)
    assert tool == ".venv/bin/pytest"
    if not LONG and name in SLOW:
        arguments += ["-k", SLOW[name]]
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
    assert [name for name, _, _ in CHANGES] == ["function", "operator", "connector"]
