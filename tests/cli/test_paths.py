"""Invalid paths and element names are refused by every command that reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmlpunct
from tests.cli.harness import Cli
from xmlpunct import Schema, UsageError

ELEMENTS = [
    "a/",
    "a//b",
    "a/@b",
    "../a",
    "*",
    "",
    "n:a",
    "a b",
    "{u}",
    "{u}a/{v}",
    "{}a",
    "{u}n:a",
    "{u}{v}a",
    "u}a",
    "{ua",
    "@a",
    ".",
    "t[1]",
]
WHAT = "http://www.cse.ogi.edu/dot/niagara/punct"


@pytest.mark.parametrize("element", [*ELEMENTS, f"{{{WHAT}}}t"])
def test_an_invalid_element(element: str, cli: Cli, tmp_path: Path) -> None:
    schema = Schema.parse("x INT")
    with pytest.raises(UsageError):
        list(xmlpunct.parse(b"<s/>", schema, element=element))
    source = tmp_path / "s.xml"
    source.write_text("<s><t><x>1</x></t></s>")
    for command in ("parse", "check"):
        for schema_options in ([], ["--schema", "x INT"]):
            ran = cli(command, source, "--element", element, *schema_options)
            assert (ran.code, ran.out) == (2, ""), ran.err
    declared = f"CREATE STREAM t (x INT) WITH (source = '{source}', element = '{element}');"
    ran = cli("run", "--engine", "local", "-q", f"{declared} SELECT x FROM t")
    assert (ran.code, ran.out) == (2, "")
    if WHAT not in element:
        assert "^^^" in ran.err


def test_an_element_in_a_namespace(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<s xmlns='urn:x'><t><x>1</x></t></s>")
    assert list(xmlpunct.parse(source, Schema.parse("x INT"), element="{urn:x}t")) == [(1,)]
    for schema_options in ([], ["--schema", "x INT"]):
        ran = cli("parse", source, "--element", "{urn:x}t", *schema_options)
        assert (ran.code, ran.err) == (0, "")
        assert list(xmlpunct.parse(ran.out.encode(), Schema.parse("x INT"), element="t")) == [(1,)]


def test_an_element_inside_others(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<s><t><x>1</x></t><u><t><y>2</y></t></u></s>")
    for schema_options in ([], ["--schema", "y INT"]):
        ran = cli("parse", source, "--element", "u/t", "--format", "jsonl", *schema_options)
        assert (ran.code, ran.out) == (0, '{"y": 2}\n')


@pytest.mark.parametrize(
    "arguments", [["parse", "--schema", "x INT PATH '..'"], ["check", "--schema", '"a b" INT']]
)
def test_from_the_command_line(arguments: list[str], cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<s><t><x>1</x></t></s>")
    ran = cli(arguments[0], source, "--element", "t", *arguments[1:])
    assert (ran.code, ran.out) == (2, "")
    assert "^^^" in ran.err


@pytest.mark.parametrize("namespace", ["", "{u}"])
def test_an_invalid_namespace_of_punctuations(namespace: str, cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<s><t><x>1</x></t></s>")
    query = f"CREATE STREAM t (x INT) WITH (source = '{source}'); SELECT x FROM t"
    calls = [
        ["run", "--engine", "local", "-q", query],
        ["parse", source, "--element", "t", "--schema", "x INT"],
    ]
    for call in [*calls, ["check", source, "--element", "t"]]:
        ran = cli(*call, "--punct-namespace", namespace)
        assert (ran.code, ran.out) == (2, "")
        assert "namespace" in ran.err
