"""A run is refused before it writes, if an output is also an input or another output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.cli.harness import Cli

STREAM = "CREATE STREAM t (x INT, sid STRING NOT NULL) WITH (source = 'a.xml')"
QUERY = STREAM + " PUNCTUATE ORDER BY x FROM 'senders.txt' BY sid;\nSELECT x FROM t\n"
UNUSED = "CREATE STREAM u (x INT) WITH (source = 'unused.xml');\n"
ROW = "<t><x>1</x><sid>S1</sid></t>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs of all kinds, and links to them."""
    (tmp_path / "q.sql").write_text(UNUSED + QUERY)
    (tmp_path / "senders.txt").write_text("S1\n")
    for name in ("a.xml", "unused.xml", "in/1.xml", "in/deep/2.xml", "other/3.xml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<s>{ROW}</s>")
    (tmp_path / "linked.xml").symlink_to("a.xml")
    os.link(tmp_path / "a.xml", tmp_path / "hard.xml")
    (tmp_path / "alias").symlink_to("in", target_is_directory=True)
    (tmp_path / "in" / "also").symlink_to("../other", target_is_directory=True)
    (tmp_path / "dangling.xml").symlink_to("in/new.xml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def untouched(folder: Path) -> Callable[[], bool]:
    """Function that returns True if no file has been changed or created."""

    def state() -> dict[Path, bytes | None]:
        return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}

    initial = state()
    return lambda: state() == initial


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-o a.xml", "-o a.xml is read as the source of stream t a.xml"),
        ("-o ./in/../a.xml", "source of stream t"),
        ("-o linked.xml", "source of stream t"),
        ("-o hard.xml", "source of stream t"),
        ("-o {folder}/a.xml", "source of stream t"),
        ("-o hard.xml -s t=linked.xml", "source of stream t"),
        ("-o a.xml -s t=follow:hard.xml", "source of stream t"),
        ("-o unused.xml", "source of stream u"),
        ("-o q.sql", "the query q.sql"),
        ("-o senders.txt", "a list of senders"),
        ("--rejects a.xml", "--rejects a.xml is read"),
        ("--rejects q.sql", "--rejects q.sql is read"),
        ("--stats hard.xml", "--stats hard.xml is read"),
        ("--stats q.sql", "--stats q.sql is read"),
        ("--stats senders.txt", "--stats senders.txt is read"),
        ("-o new.xml -s t=new.xml", "source of stream t"),
        # The input is a directory.
        ("-s t=in -o in/1.xml", "source of stream t in"),
        ("-s t=in -o in/new.xml", "in the directory that is read"),
        ("-s t=in -o alias/new.xml", "in the directory that is read"),
        ("-s t=alias/ -o in/deep/new.xml", "in the directory that is read"),
        ("-s t=in -o other/new.xml", "in the directory that is read"),
        ("-s t=in -o other/3.xml", "source of stream t in"),
        ("-s t=in -o dangling.xml", "in the directory that is read"),
        ("-s t=in --rejects in/rejects", "--rejects in/rejects is in the directory that is read"),
        ("-s t=in --stats in/deep/stats", "--stats in/deep/stats is in the directory that is read"),
        ("-s t=in --checkpoint in/kept", "--checkpoint in/kept is in the directory that is read"),
        ("-s t=in --checkpoint alias", "--checkpoint alias keeps its own files in the directory where"),
        ("-s t=. -o new.xml", "in the directory that is read"),
        # Two outputs are the same file.
        ("-o new.xml --rejects new.xml", "--rejects new.xml is the same file as -o new.xml"),
        ("-o new.xml --stats ./new.xml", "--stats ./new.xml is the same file as -o new.xml"),
        (
            "-o x --rejects in/new.xml --stats dangling.xml",
            "--stats dangling.xml is the same file as --rejects",
        ),
        # Patterns.
        ("-s t=in/*.xml -o in/1.xml", "-o in/1.xml is read as the source of stream t in/1.xml"),
        ("-s t=i?/** -o linked.xml -o in/deep/2.xml", "-o in/deep/2.xml is read"),
        (
            "-s t=in/*.xml -o in/new.xml",
            "-o in/new.xml matches the source of stream t in/*.xml",
        ),
        ("-s t=**/*.xml -o in/deep/new.xml", "-o in/deep/new.xml matches the source"),
        ("-s t=i? -o in/deep/new.xml", "is in the directory that is read as the source of stream t in"),
        # A file in the checkpoint directory.
        ("--checkpoint kept -o kept/commit", "-o kept/commit is in the checkpoint kept"),
        ("--checkpoint kept --rejects kept/deep/er", "is in the checkpoint kept"),
        ("--checkpoint kept --stats kept/stats", "is in the checkpoint kept"),
        ("--checkpoint in -o alias/out.xml", "is in the checkpoint in"),
        ("--checkpoint a.xml", "--checkpoint a.xml keeps its own files in the directory where"),
        (
            "--checkpoint kept -s t=kept/spool/0-0.xml",
            "--checkpoint kept keeps its own files in the directory where",
        ),
        # A dataset.
        ("-s t=in -o in/", "-o in/ contains files that are read as"),
        ("-s t=in -o alias/", "-o alias/ contains files that are read as"),
        ("-s t=in/deep/2.xml -o in/", "-o in/ contains files that are read as"),
        ("-s t=in -o in/new/er/", "in the directory that is read"),
        ("-s t=in -o ./", "-o ./ contains files that are read as"),
        ("-o data/ --rejects data/rejects", "--rejects data/rejects is in the dataset"),
        ("-o data/ --stats data/stats", "--stats data/stats is in the dataset"),
        ("-o data/ --checkpoint data/kept", "--checkpoint data/kept is in the dataset"),
        ("-o data/ --checkpoint data", "-o data/ is in the checkpoint data"),
        ("-o kept/data/ --checkpoint kept", "-o kept/data/ is in the checkpoint kept"),
    ],
)
def test_overlapping_files_are_refused(
    cli: Cli, folder: Path, untouched: Callable[[], bool], engine: str, options: str, message: str
) -> None:
    os.chdir(folder)  # the fixture `cli` changes the directory
    words = options.format(folder=folder).split()
    if "-o" not in words:
        words += ["-o", "out.xml"]
    ran = cli("run", "q.sql", "--engine", engine, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert untouched()


@contextmanager
def redirected(number: int, file: BinaryIO) -> Iterator[None]:
    """Redirect a descriptor to a file, as the shell does."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(before, number)
        os.close(before)


@pytest.mark.parametrize(
    "options",
    [
        "-o /dev/null --rejects /dev/null --stats /dev/null",
        "-o /dev/stdout --rejects /dev/null",
        "-o - --rejects /dev/stderr",
        "-s t=in -o in/_out.xml --checkpoint in/.kept --rejects in/_rejects",
        "-s t=in/1.xml -o /dev/null --checkpoint .",
        "-s t=in/1.xml -o in/.out.crc",
        "-s t=/dev/stdin -o new.xml --rejects rejects --stats stats --checkpoint kept/here",
    ],
)
def test_special_files_and_hidden_files_are_allowed(cli: Cli, folder: Path, options: str) -> None:
    os.chdir(folder)
    with open(folder / "a.xml", "rb") as stdin, redirected(0, stdin):
        ran = cli("run", "q.sql", "--engine", "local", *options.split())
    assert ran.code == 0, ran.err
    assert (folder / "a.xml").read_text() == f"<s>{ROW}</s>"
    if "/dev/stdout" in options or "-o -" in options:
        assert "<x>1</x>" in ran.out


def test_a_pipe_may_be_named_twice(cli: Cli, folder: Path) -> None:
    os.chdir(folder)
    read, write = os.pipe()
    with open(read, "rb") as out, open(write, "wb") as into:
        with redirected(1, into):
            ran = cli("run", "q.sql", "--engine", "local", "-o", "/dev/stdout", "--rejects", "/dev/stdout")
        into.close()
        assert (ran.code, b"<x>1</x>" in out.read()) == (0, True)


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        ("run q.sql --engine local", ""),
        ("run q.sql --engine local -s t=-", "hard.xml"),
        ("run q.sql --engine local -s t=/dev/stdin", "a.xml"),
        ("run q.sql --engine local -o /dev/stdout", ""),
        ("run q.sql --engine local -o - -s t=.", ""),
        ("run q.sql --engine spark", ""),
        ("parse a.xml --element t", ""),
        ("parse - --element t", "linked.xml"),
        ("parse . --element t", ""),
        ("parse follow:a.xml --element t", ""),
    ],
)
def test_standard_output_onto_an_input(
    cli: Cli, folder: Path, untouched: Callable[[], bool], command: str, stdin: str
) -> None:
    """The input would grow for ever while it is read."""
    os.chdir(folder)
    with ExitStack() as shell:
        shell.enter_context(redirected(0, shell.enter_context(open(stdin or os.devnull, "rb"))))
        shell.enter_context(redirected(1, shell.enter_context(open("a.xml", "ab"))))
        ran = cli(*command.split())
    assert ran.code == 2, ran.err
    assert "would be overwritten" in ran.err
    assert untouched()


def test_rejects_into_the_output_of_the_shell(cli: Cli, folder: Path) -> None:
    os.chdir(folder)
    for extra in (["--rejects", "out.xml"], ["--stats", "out.xml"], ["--rejects", "-"]):
        with open("out.xml", "wb") as out, redirected(1, out):
            ran = cli("run", "q.sql", "--engine", "local", *extra)
        assert ran.code == 2, extra
        assert "is the same file as standard output" in ran.err
        assert (folder / "out.xml").read_bytes() == b""
