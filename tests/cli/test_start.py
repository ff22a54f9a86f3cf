"""What a command loads: itself, and what its query needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmlpunct import cli
from xmlpunct.base.cores import cores

PROGRAM = """
import sys
from xmlpunct.cli import invoke
code = invoke(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
POLARS = "POLARS_MAX_THREADS"
SAMPLES = Path(__file__).parents[2] / "samples"


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded in the end."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=SAMPLES.parent, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["say", "--help"], ["why", "--help"]], ids=" ".join
)
def test_who_asks_for_help_does_not_wait_for_the_engine(arguments: list[str]) -> None:
    assert loaded(*arguments) & {"polars", "pyarrow", "numpy", "lxml", "sqlglot", "rich"} == set()


def test_the_package_imports_next_to_nothing() -> None:
    """Its names, with all that they need, are there when they are asked for."""
    program = """if True:
        import pickle, sys
        import xmlpunct
        assert {"polars", "pyarrow", "numpy", "lxml", "sqlglot"} & set(sys.modules) == set()
        assert set(dir(xmlpunct)) >= set(xmlpunct.__all__)
        assert xmlpunct.Schema is pickle.loads(pickle.dumps(xmlpunct.Schema))
        assert "sqlglot" not in sys.modules
        from xmlpunct import *
        assert [name for name in xmlpunct.__all__ if name not in globals()] == []
        """
    subprocess.run([sys.executable, "-c", program], check=True)


def test_column_lists_are_read_whatever_is_imported_first() -> None:
    program = "from xmlpunct.schema import Schema; print(Schema.parse('a INT, b STRING').names)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "('a', 'b')\n"


def test_a_column_list_is_read_without_the_engine() -> None:
    program = """if True:
        import sys
        from xmlpunct.schema import Schema
        assert "sqlglot" not in sys.modules
        Schema.parse("a INT, b STRING")
        print([name for name in sys.modules if name.startswith(("xmlpunct.engine", "xmlpunct.operators"))])
        """
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(("before", "after"), [(None, max(1, cores() // 2)), ("7", 7)])
def test_polars_leaves_half_of_the_cores_to_others(before: str | None, after: int) -> None:
    """In a command; not in a process that has the library. Who has said something else gets that."""
    environment = {name: value for name, value in os.environ.items() if name != POLARS}
    environment |= {} if before is None else {POLARS: before}
    program = """if True:
        import sys, xmlpunct, xmlpunct.cli
        sys.exit = lambda code: None
        if sys.argv[1:]:
            xmlpunct.cli.main(["run", "samples/warehouse.sql", "--engine", "local", "-o", "/dev/null"])
        xmlpunct.Schema
        import polars
        print(polars.thread_pool_size())
        """

    def count(*arguments: str) -> int:
        command = [sys.executable, "-c", program, *arguments]
        ran = subprocess.run(
            command, cwd=SAMPLES.parent, env=environment, check=True, capture_output=True, text=True
        )
        return int(ran.stdout)

    assert count("command") == after
    assert count() == (cores() if before is None else int(before))


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
    assert "xmlpunct.engine.run.local.local_run" in found
    others = {f"xmlpunct.cli.{name}" for name in cli.COMMANDS if name != "run"}
    unused = {"xmlpunct.operators.windowed", "xmlpunct.engine.verdicts", "xmlpunct.engine.why.tracing"}
    unused |= {
        "xmlpunct.engine.view",
        "xmlpunct.firehose.infer.document",
        "xmlpunct.engine.run.local.provisional",
        "xml.etree.ElementTree",
        "urllib.request",
        "rich.console",
        "pyspark",
    }
    assert found & (others | unused) == set()
