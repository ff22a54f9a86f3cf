"""Runs the terminal sessions shown on pages, each in a new folder, and compares their output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.harness import SAMPLES, Cli

PATIENCE = 60.0
"""Seconds until a command must print the shown output during a background run."""


class Session:
    """Runs the commands of one session. A command that ends in ``&`` runs on, until ``kill -9 %1`` ends it.

    The shell runs commands other than xmlpunct. During a background run, a command is repeated until it prints the
    shown output.
    """

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        self.code = 0
        self.background: subprocess.Popen[bytes] | None = None
        (folder / "samples").symlink_to(SAMPLES)

    def play(self, text: str) -> None:
        """Assert that each command behind a ``$`` prints the lines below it."""
        try:
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                self._expect(command, shown)
        finally:
            self._kill()

    def _expect(self, command: str, shown: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (printed := self._run(command)) != shown and self.background and time.monotonic() < deadline:
            assert self.background.poll() is None, (self.folder / "stderr").read_text()
            time.sleep(0.05)
        assert printed == shown, command

    def _run(self, command: str) -> str:
        if command == "echo $?":
            return f"{self.code}\n"
        if command == "kill -9 %1":
            return self._kill()
        words = shlex.split(command)
        if words[0] != "xmlpunct":
            ran = subprocess.run(
                ["sh", "-c", command], cwd=self.folder, capture_output=True, text=True, check=False
            )
            return ran.stdout + ran.stderr
        if words[-1] == "&":
            arguments = [sys.executable, "-m", "xmlpunct", *words[1:-1]]
            settings = {**os.environ, "TMPDIR": str(self.folder)}  # a killed run leaves its temporary files
            with open(self.folder / "stderr", "wb") as errors:
                self.background = subprocess.Popen(arguments, cwd=self.folder, stderr=errors, env=settings)
            return ""
        ended = self.cli(*words[1:])
        self.code = ended.code
        return re.sub(r"\bsince \d+ s ", "since 5 s ", ended.out + ended.err)

    def _kill(self) -> str:
        if self.background:
            self.background.kill()
            self.background.wait()
            self.background = None
        return ""
