"""What a command loads: itself, and what its query needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from xmlpunct import cli

PROGRAM = """
import sys
from xmlpunct.cli import invoke
code = invoke(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
SAMPLES = Path(__file__).parents[2] / "samples"


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded in the end."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=SAMPLES.parent, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_every_command_is_in_the_module_of_its_name() -> None:
    context = cli.cli.make_context("xmlpunct", [], resilient_parsing=True)
    assert cli.cli.list_commands(context) == sorted(cli.COMMANDS)
    for name in cli.COMMANDS:
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.name == name
    assert cli.cli.get_command(context, "terminal") is None


def test_a_plain_query_loads_nothing_of_what_it_does_not_use() -> None:
    found = loaded("run", "samples/warehouse.sql", "--engine", "local")
    assert "xmlpunct.engine.local.run" in found
    others = {f"xmlpunct.cli.{name}" for name in cli.COMMANDS if name != "run"}
    unused = {"xmlpunct.operators.windowed", "xmlpunct.engine.verdicts", "xmlpunct.engine.why.tracing"}
    unused |= {
        "xmlpunct.engine.view",
        "xmlpunct.firehose.infer",
        "xmlpunct.engine.local.provisional",
        "xml.etree.ElementTree",
        "pyspark",
    }
    assert found & (others | unused) == set()
