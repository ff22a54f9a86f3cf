"""The command line, run in this process, as in tests/cli."""

from tests.cli.conftest import cli

__all__ = ["cli"]
