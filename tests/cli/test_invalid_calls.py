"""Closed or full standard streams and invalid options cause a clear message, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, WAREHOUSE, Cli

STREAM = "CREATE STREAM t (x INT) WITH (source = 'samples/sensor1.xml', element = 'tempdata');"
QUERY = STREAM + "SELECT x FROM t"
RUN = ["run", str(WAREHOUSE), "--engine", "local"]
PARSE = ["parse", "samples/sensor1.xml", "--element", "tempdata"]
CHECK = ["check", *PARSE[1:]]
CLOSED_INPUT = "xmlpunct: -: cannot be read: standard input is closed\n"
CLOSED_OUTPUT = "xmlpunct: cannot write standard output: it is closed\n"


@pytest.mark.parametrize(
    "command",
    [
        [*RUN, "-s", "sensor1=-"],
        ["run", str(WAREHOUSE), "--engine", "spark", "-s", "sensor1=-", "-s", "sensor2=-"],
        ["parse", "-", "--element", "t"],
        ["check", "-", "--element", "t", "--schema", "x INT"],
        ["replay", "-", "--listen", "127.0.0.1:0"],
    ],
)
def test_closed_input(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("sys.stdin", None)
    ran = cli(*command)
    assert (ran.code, ran.out, ran.err) == (1, "", CLOSED_INPUT)


@pytest.mark.parametrize(
    "command", [RUN, [*RUN, "-o", "-"], ["run", str(WAREHOUSE)], PARSE, CHECK, ["explain", str(WAREHOUSE)]]
)
def test_closed_output(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("sys.stdout", None)
    ran = cli(*command)
    assert (ran.code, ran.err) == (2, CLOSED_OUTPUT)


def closed(command: list[str], *numbers: int) -> subprocess.CompletedProcess[bytes]:
    """Run a command with some descriptors closed, as the shell's ``<&-`` does."""

    def close() -> None:
        for number in numbers:
            os.close(number)

    words = [sys.executable, "-m", "xmlpunct", *command]
    return subprocess.run(words, capture_output=True, preexec_fn=close, timeout=60, cwd=SAMPLES.parent)


def test_a_file_does_not_become_standard_output(tmp_path: Path) -> None:
    """With descriptors 0 to 2 closed, opened files must not become standard output or error."""
    out = tmp_path / "out.xml"
    ran = closed([*RUN, "-o", str(out), "--rejects", str(tmp_path / "rejects")], 0, 1, 2)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert out.read_text().endswith("</stream>\n")


def test_closed_descriptors_of_a_process() -> None:
    ran = closed([*RUN, "-s", "sensor1=-"], 0)
    assert (ran.returncode, ran.stderr.decode()) == (1, CLOSED_INPUT)
    ran = closed(RUN, 1)
    assert (ran.returncode, ran.stderr.decode()) == (2, CLOSED_OUTPUT)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full does not exist")
@pytest.mark.parametrize("command", [PARSE, CHECK, ["explain", str(WAREHOUSE)], ["--help"]])
def test_full_output(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        ran = cli(*command)
    assert ran.code == 1
    assert ran.err.endswith("No space left on device\n")
    assert "internal" not in ran.err


@pytest.mark.parametrize("size", ["999999999999GiB", "1025MiB", "0", "0KiB", "-1", "1e400", "KiB", "", "nan"])
def test_invalid_slice_sizes(cli: Cli, size: str) -> None:
    ran = cli(*RUN, "--slice", size)
    assert (ran.code, ran.out) == (2, "")
    assert ("size" in ran.err) or ("at most 1GiB" in ran.err)
    assert "internal" not in ran.err


def test_the_largest_slice(cli: Cli) -> None:
    assert cli(*RUN, "--slice", "1GiB").out.endswith("</stream>\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", ""], "empty"),
        (["run", "-q", ""], "empty"),
        ([*RUN, "-o", ""], "empty"),
        ([*RUN, "--checkpoint", ""], "empty"),
        ([*RUN, "--rejects", ""], "empty"),
        ([*RUN, "--stats", ""], "empty"),
        ([*RUN, "--punct-namespace", ""], "empty"),
        ([*RUN, "-s", "sensor1="], "NAME=SOURCE"),
        (["run", "-q", QUERY + " WHERE x = '\udcff'", "--engine", "local"], "not UTF-8"),
        (["run", "samples", "--engine", "local"], "cannot read samples: Is a directory"),
        (["explain", "samples"], "cannot read samples: Is a directory"),
        (["run", "-q", STREAM.replace("samples/", "a\0b") + "SELECT x FROM t", "--engine", "local"], "NUL"),
        (["parse", "", "--element", "t"], "'' names no source"),
        (["parse", "samples/sensor1.xml", "--element", ""], "empty"),
        (["parse", "samples/sensor1.xml", "--element", "\udcff"], "not UTF-8"),
        ([*PARSE, "--schema", ""], "empty"),
        ([*PARSE, "--punct-namespace", "\udcff"], "not UTF-8"),
        (["parse", "tcp://127.0.0.1:70000", "--element", "t"], "no address"),
        (["parse", f"tcp://{'a' * 70}:7", "--element", "t"], "no address"),
        (["parse", "tcp-listen://a..b:7", "--element", "t"], "no address"),
        (["replay", "samples/sensor1.xml", "--listen", "127.0.0.1:65536"], "HOST:PORT"),
        (["replay", "samples/sensor1.xml", "--listen", "127.0.0.1:-1"], "HOST:PORT"),
        (["replay", "samples/sensor1.xml", "--listen", f"{'a' * 70}:7"], "HOST:PORT"),
        (["replay", "samples/sensor1.xml", "--listen", "127.0.0.1:0", "--rate", "nan"], "nan"),
        (["replay", "samples/sensor1.xml", "--listen", "127.0.0.1:0", "--rate", "inf"], "inf"),
        (["replay", "samples/sensor1.xml", "--listen", "127.0.0.1:0", "--rate", "0"], "0"),
        (["generate", "auction", "-o", ""], "empty"),
        (["generate", "auction", "-o", "x", "--items", "0"], "0"),
        (["generate", "auction", "-o", "samples/sensor1.xml"], "cannot write samples/sensor1.xml"),
        (["explain", str(WAREHOUSE), "--rule", "x=on"], "no rule x"),
    ],
)
def test_options_that_make_no_sense(cli: Cli, command: list[str], message: str) -> None:
    ran = cli(*command)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "internal" not in ran.err


def test_query_files_that_are_not_utf_8(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    for data in (
        bytes(range(256)),
        QUERY.encode("utf-16"),
        QUERY.replace("x FROM", "é FROM").encode("latin-1"),
    ):
        path.write_bytes(data)
        ran = cli("run", path, "--engine", "local")
        assert (ran.code, ran.err) == (2, f"xmlpunct: cannot read {path}: it is not UTF-8\n")


def test_a_byte_order_mark_is_no_part_of_the_query(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_bytes(b"\xef\xbb\xbf" + WAREHOUSE.read_bytes())
    assert cli("run", path, "--engine", "local").out == cli(*RUN).out
    (tmp_path / "senders").write_bytes(b"\xef\xbb\xbfS01\nS02\n")
    sql = f"""CREATE STREAM s (sid STRING, hour INT) WITH (source = 'samples/sensor1.xml', element = 'tempdata')
      PUNCTUATE ORDER BY hour FROM '{tmp_path}/senders' BY sid; SELECT sid, hour FROM s"""
    ran = cli("run", "-q", sql, "--engine", "local")
    assert (ran.code, ran.err) == (0, "")


def test_a_name_that_is_not_utf_8(cli: Cli, tmp_path: Path) -> None:
    """A file's name may be any bytes; messages escape it."""
    folder = os.fsencode(tmp_path)
    path = os.fsdecode(folder + b"/\xff.xml")
    Path(path).write_text("<s><t><x>one</x></t><t><x>2</x></t></s>")
    query = "CREATE STREAM t (x INT) WITH (source = 'unset'); SELECT x FROM t"
    options = ["--engine", "local", "--rejects", tmp_path / "rejects", "--stats", tmp_path / "stats"]
    checkpoint = ["--checkpoint", os.fsdecode(folder + b"/\xfd"), "-o", os.fsdecode(folder + b"/\xfe.xml")]
    for extra_options in ([], checkpoint):
        ran = cli("run", "-q", query, "-s", f"t={path}", *options, *extra_options)
        assert (ran.code, "1 tuple rejected" in ran.err) == (0, True), ran.err
        assert r"\\xff.xml" in (tmp_path / "rejects").read_text()
    ran = cli("run", "-q", query, "-s", f"t={path}2", *options)
    assert (ran.code, ".xml2: cannot be opened" in ran.err) == (1, True)
