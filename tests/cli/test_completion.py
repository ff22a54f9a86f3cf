"""Completion in a shell: commands, options, values and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES
from tests.test_readme import PAGES, blocks


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("ru", "plain,run"),
        ("run --eng", "plain,--engine"),
        ("run --engine ", "plain,spark plain,local"),
        ("generate w", "plain,warehouse"),
        ("samples/w", "file,samples/w"),
        ("run samples/w", "file,samples/w"),
        ("infer samples/o", "file,samples/o"),
        ("run q.sql -o ou", "file,ou"),
        ("run q.sql --sql SEL", ""),
        ("samples/warehouse.sql --eng", "plain,--engine"),
    ],
)
def test_completions(words: str, completions: str) -> None:
    """What the command prints to the function that the shell calls."""
    line = f"xmlpunct {words}"
    settings = {"_XMLPUNCT_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    command = [sys.executable, "-c", "from xmlpunct.cli import main; main()"]
    ran = subprocess.run(
        command,
        cwd=SAMPLES.parent,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == completions.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_documented_line_defines_the_completion_of_bash() -> None:
    (block,) = (b for b in blocks("sh", PAGES["docs/running.md"]) if "_COMPLETE=bash_source" in b)
    line = block.splitlines()[0]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euc", f"{line}\ncomplete -p xmlpunct"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "-F _xmlpunct_completion xmlpunct" in ran.stdout, ran.stderr
