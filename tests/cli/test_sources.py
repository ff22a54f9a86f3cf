"""Sources of all kinds through every command that reads them."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.firehose.test_archives import tarred, zipped
from tests.firehose.test_compression import PACKS, Drops
from tests.firehose.test_web import Site, serving
from xmlpunct import query
from xmlpunct.base.xml_names import PUNCT_NAMESPACE

DOCUMENT = (
    f"<s xmlns:p='{PUNCT_NAMESPACE}'><t><a>1</a></t><t><a>2</a></t><p:t><a>[1,2]</a></p:t></s>"
).encode()
DECLARED = "CREATE STREAM t (a INT) WITH (source = '{}');"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, pack in PACKS.items():
        (tmp_path / f"{name}.packed").write_bytes(pack(DOCUMENT))
    (tmp_path / "x.zip").write_bytes(zipped({"a.xml": DOCUMENT}))
    (tmp_path / "x.tgz").write_bytes(gzip.compress(tarred({"a.xml": DOCUMENT})))
    return tmp_path


SOURCES = [*(f"{name}.packed" for name in PACKS), "x.zip", "x.tgz", "gz*.packed"]


@pytest.mark.parametrize("name", SOURCES)
def test_every_command(cli: Cli, folder: Path, name: str) -> None:
    os.chdir(folder)
    sql = DECLARED.format(name) + "SELECT a FROM t"
    declared = cli("run", "-q", sql, "--engine", "local", "--format", "csv")
    overridden = cli(
        "run", "-q", DECLARED.format("x") + "SELECT a FROM t", "-s", f"t={name}", "--engine", "local"
    )
    checkpointed = cli(
        "run", "-q", sql, "--engine", "local", "--format", "csv", "--checkpoint", "kept", "--stats", "s.json"
    )
    parsed = cli("parse", name, "--element", "t", "--format", "csv")
    checked = cli("check", name, "--element", "t", "--schema", "a INT")
    assert [ran.code for ran in (declared, overridden, checkpointed, parsed, checked)] == [0] * 5
    assert declared.out == checkpointed.out == parsed.out == "a\n1\n2\n"
    assert overridden.out.count("<result>") == 2
    assert "well formed, grammatical" in checked.out
    assert json.loads((folder / "s.json").read_text())["inputs"]["t"]["tuples"] == 2


def test_a_web_server(cli: Cli, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    with serving(Site(gzip.compress(DOCUMENT), cuts=[30, 30])) as url:
        sql = DECLARED.format(url) + "SELECT a FROM t"
        for checkpoint_options in ([], ["--checkpoint", "kept"]):
            ran = cli("run", "-q", sql, "--engine", "local", "--format", "csv", *checkpoint_options)
            assert (ran.code, ran.out) == (0, "a\n1\n2\n")
        assert cli("parse", url, "--element", "t", "--format", "csv").out == "a\n1\n2\n"


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("cut", 1, "cut: its gzip data is cut short at byte "),
        ("*.none", 1, "*.none: no file matches it"),
        ("empty.zip", 1, "empty.zip: the archive has no files to read"),
        ("tls://nowhere", 2, "tls://nowhere is no address: write tls://host:port"),
        ("http:///x", 2, "http:///x is no address"),
        ("unix:none", 1, "unix:none: cannot connect: No such file or directory"),
        ("klingon://x", 2, "klingon://x"),
    ],
)
def test_wrong_sources_are_reported(cli: Cli, tmp_path: Path, source: str, code: int, message: str) -> None:
    os.chdir(tmp_path)
    Path("cut").write_bytes(gzip.compress(DOCUMENT)[:-12])
    Path("empty.zip").write_bytes(zipped({}))
    sql = DECLARED.format(source) + "SELECT a FROM t"
    for words in (
        ("check", source, "--element", "t"),
        ("parse", source, "--element", "t", "--schema", "a INT"),
        ("run", "-q", sql, "--engine", "local"),
        ("run", "-q", sql, "--engine", "local", "--checkpoint", "kept", "-o", "out.xml"),
    ):
        ran = cli(*words)
        assert message in ran.err, words
        assert "Traceback" not in ran.err
        assert ran.code == code


def test_from_python(folder: Path) -> None:
    sql = "CREATE STREAM t (a INT); SELECT a FROM t"
    for pack in PACKS.values():
        data = pack(DOCUMENT)
        for source in (data, io.BytesIO(data), Drops(data, 7)):
            assert [row for row in query(sql, t=source) if isinstance(row, tuple)] == [(1,), (2,)]  # type: ignore[arg-type]
    for name in SOURCES:
        assert [row for row in query(sql, t=str(folder / name)) if isinstance(row, tuple)] == [(1,), (2,)]
