"""A command imports only the modules that it and its query need."""

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
    """Names of the modules that a command has imported at its end."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.run(command, cwd=SAMPLES.parent, capture_output=True, text=True, check=True)
    return set(process.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["say", "--help"], ["why", "--help"]], ids=" ".join
)
def test_help_does_not_import_the_engine(arguments: list[str]) -> None:
    assert loaded(*arguments) & {"polars", "pyarrow", "numpy", "lxml", "sqlglot", "rich"} == set()


def test_importing_the_package_imports_no_large_library() -> None:
    """Public names are imported on first access, with their modules."""
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


def test_a_column_list_is_parsed_if_the_schema_is_imported_first() -> None:
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


@pytest.mark.parametrize(("variable", "threads"), [(None, max(1, cores() // 2)), ("7", 7)])
def test_polars_uses_half_of_the_cores(variable: str | None, threads: int) -> None:
    """In commands only, not in a process that imports the library. The environment variable overrides the default."""
    environment = {name: value for name, value in os.environ.items() if name != POLARS}
    environment |= {} if variable is None else {POLARS: variable}
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

    assert count("command") == threads
    assert count() == (cores() if variable is None else int(variable))


def test_every_command_is_in_the_module_of_its_name() -> None:
    context = cli.cli.make_context("xmlpunct", [], resilient_parsing=True)
    assert cli.cli.list_commands(context) == sorted(cli.COMMANDS)
    for name in cli.COMMANDS:
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.name == name
    assert cli.cli.get_command(context, "terminal") is None


def test_a_plain_query_imports_no_unused_module() -> None:
    modules = loaded("run", "samples/warehouse.sql", "--engine", "local")
    assert "xmlpunct.engine.run.local.local_run" in modules
    other_commands = {f"xmlpunct.cli.{name}" for name in cli.COMMANDS if name != "run"}
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
    assert modules & (other_commands | unused) == set()
