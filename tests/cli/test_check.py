"""``xmlpunct check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, Cli

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
COLUMNS = "hour INT, min INT"


def write(path: Path, body: str) -> Path:
    path.write_text(f'<s xmlns:p="{NS}">\n{body}\n</s>')
    return path


def test_a_good_stream(cli: Cli) -> None:
    ran = cli("check", SAMPLES / "sensor1.xml", "--element", "tempdata", "--schema", COLUMNS)
    assert ran.code == 0
    assert "well formed, grammatical" in ran.out
    assert "36 tuples, 0 of them late" in ran.out
    assert "6 close hour by constant" in ran.out
    assert ran.err == ""


def test_schemes_are_counted_by_attributes_and_kinds(cli: Cli, tmp_path: Path) -> None:
    patterns = [
        "<hour>1</hour>",
        "<hour>2</hour>",
        "<hour>3</hour><min>[1,5]</min>",
        "<zone>3</zone>",
        "<hour>{}</hour>",
    ]
    source = write(tmp_path / "t.xml", "".join(f"<p:t>{pattern}</p:t>" for pattern in patterns))
    ran = cli("check", source, "--element", "t", "--schema", COLUMNS)
    assert ran.out.splitlines()[2:] == [
        "  5 punctuations, 1 of them dropped for an undeclared attribute",
        "  2 close hour by constant",
        "  1 close hour by constant, min by range",
    ]


def test_late_tuples_are_reported_with_line_and_byte(cli: Cli, tmp_path: Path) -> None:
    body = "<t><hour>1</hour></t>\n<p:t><hour>1</hour></p:t>\n<t><hour>2</hour></t>\n<t><hour>1</hour></t>"
    source = write(tmp_path / "t.xml", body)
    ran = cli("check", source, "--element", "t", "--schema", COLUMNS)
    assert ran.code == 1
    assert "well formed, not grammatical" in ran.out
    assert "1 of them late" in ran.out
    assert f"line 5, byte {source.read_text().rindex('<t>')}" in ran.err


def test_a_broken_stream(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "t.xml", "<t><hour>1</hour></t><t><hour>one</hour></t><t></u>")
    ran = cli("check", source, "--element", "t", "--schema", COLUMNS)
    assert ran.code == 1
    assert "broken, grammatical" in ran.out
    assert "1 tuples" in ran.out
    assert "mismatch" in ran.err
    assert "'one' is not of type INT" in ran.err


def test_the_punctuation_schemes_of_a_stream_are_printed(cli: Cli, tmp_path: Path) -> None:
    """Smallest attribute sets whose punctuations close the first half of the stream, except nulls."""
    body = """<t><hour>1</hour><min>1</min></t><t><hour>1</hour></t><p:t><hour>1</hour></p:t>
              <p:t><hour>2</hour><min>1</min></p:t>
              <t><hour>2</hour><min>2</min></t><t><hour>3</hour><min>3</min></t><p:t><min>(,1]</min></p:t>"""
    source = write(tmp_path / "t.xml", body)
    ran = cli("check", source, "--element", "t", "--schema", COLUMNS)
    assert ran.out.splitlines()[-1] == "  PUNCTUATED BY (hour), (min)"
    half = write(tmp_path / "u.xml", body.replace("<p:t><hour>1</hour></p:t>", ""))
    ran = cli("check", half, "--element", "t", "--schema", COLUMNS)
    assert ran.out.splitlines()[-1] == "  PUNCTUATED BY (min)"


def test_duplicates_of_a_key_are_late(cli: Cli, tmp_path: Path) -> None:
    body = "<t><hour>1</hour></t>\n<t><hour>2</hour></t>\n<t><hour>1</hour></t>"
    source = write(tmp_path / "t.xml", body)
    for columns in ("hour INT PRIMARY KEY", "hour INT, UNIQUE (hour)"):
        ran = cli("check", source, "--element", "t", "--schema", columns)
        assert ran.code == 1
        assert "3 tuples, 1 of them late" in ran.out
        assert "late: <1> was closed before it" in ran.err


@pytest.mark.parametrize("options", [[], ["--element", "Ntry"], ["--element", "Ntry", "--schema", "Amt INT"]])
def test_the_namespace_of_the_first_element(options: list[str], cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<d xmlns='urn:x'><Ntry><Amt>5</Amt></Ntry><Ntry><Amt>7</Amt></Ntry></d>")
    ran = cli("parse", source, *options, "--format", "jsonl")
    assert (ran.code, ran.out, ran.err) == (0, '{"Amt": 5}\n{"Amt": 7}\n', "")
    ran = cli("check", source, *options)
    assert (ran.code, ran.err) == (0, "")
    assert "2 tuples, 0 of them late" in ran.out
