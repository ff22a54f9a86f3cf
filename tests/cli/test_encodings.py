"""Encodings in parse, check, infer and run: declared, with a BOM, unknown or wrong; for both XML readers."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from xmlpunct.firehose import native

BODY = "<s><t><a>1</a><b>{}</b></t><t><a>2</a><b>x</b></t></s>"
KANJI, ACCENT, PLAIN = "日本", "é", "e"


def document(declared: str | None, encoding: str, value: str = ACCENT, mark: bytes = b"") -> bytes:
    head = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    return mark + (head + BODY.format(value)).encode(encoding)


READ: dict[str, tuple[bytes, str]] = {
    "UTF-16, marked": (document("UTF-16", "utf-16"), ACCENT),
    "UTF-16, without a mark": (document("UTF-16", "utf-16-le"), ACCENT),
    "UTF-16BE": (document("UTF-16BE", "utf-16-be"), ACCENT),
    "UTF-16, not declared": (document(None, "utf-16-be"), ACCENT),
    "UTF-16, declared as UTF-8": (document("UTF-8", "utf-16"), ACCENT),
    "UTF-32, marked": (document("UTF-32", "utf-32"), ACCENT),
    "UTF-32, without a mark": (document("UTF-32", "utf-32-be"), ACCENT),
    "UCS-4": (document("ISO-10646-UCS-4", "utf-32-be"), ACCENT),
    "UTF-8, marked": (document("utf-8", "utf-8", mark=codecs.BOM_UTF8), ACCENT),
    "UTF-8, marked, of a kind with marks": (document("utf-8-sig", "utf-8", mark=codecs.BOM_UTF8), ACCENT),
    "Latin-1": (document("ISO-8859-1", "latin-1"), ACCENT),
    "Windows": (document("windows-1252", "cp1252", "€é"), "€é"),
    "UTF-7": (
        document("utf-7", "utf-7").replace(b"+ADw-", b"<").replace(b"+AD4-", b">").replace(b"+AD0-", b"="),
        ACCENT,
    ),
    "Shift JIS": (document("Shift_JIS", "shift_jis", KANJI), KANJI),
    "GB 18030": (document("gb18030", "gb18030", KANJI), KANJI),
    "ISO-2022-JP": (document("iso-2022-jp", "iso2022_jp", KANJI), KANJI),
    "ASCII": (document("US-ASCII", "ascii", PLAIN), PLAIN),
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "ASCII with UTF-8 in it": (
        document("US-ASCII", "utf-8"),
        "line 1, byte 58: is not ascii: ordinal not in range(128)",
    ),
    "ASCII of another name, with Latin-1 in it": (
        document("ISO646-US", "latin-1"),
        "line 1, byte 59: is not ascii: ordinal not in range(128)",
    ),
    "EBCDIC": (document("cp037", "cp037", PLAIN), "line 1, byte 2: Start tag expected, '<' not found"),
    "unknown": (document("x-none", "utf-8"), "line 1, byte 0: the encoding x-none is not known"),
    "no text": (document("rot13", "utf-8"), "line 1, byte 0: the encoding rot13 is not known"),
    "UTF-16 declared in UTF-8": (
        document("UTF-16", "utf-8"),
        "line 1, byte 0: declares UTF-16 but is not encoded in it",
    ),
    "a mark of UTF-8, and Latin-1": (
        document("ISO-8859-1", "utf-8", mark=codecs.BOM_UTF8),
        "line 1, byte 0: has a UTF-8 byte order mark but declares ISO-8859-1",
    ),
    "a mark of UTF-8, and UTF-16": (
        document("UTF-16", "utf-8", mark=codecs.BOM_UTF8),
        "line 1, byte 0: has a UTF-8 byte order mark but declares UTF-16",
    ),
    "Latin-1 in UTF-8": (
        document("UTF-8", "latin-1"),
        "line 1, byte 55: Invalid bytes in character encoding",
    ),
    "surrogates in UTF-8": (
        document("UTF-8", "utf-8").replace(b"\xc3\xa9", b"\xed\xa0\xbd"),
        "line 1, byte 55: Invalid bytes in character encoding",
    ),
    "a declaration without an end": (
        document("ISO-8859-1", "latin-1").replace(b" encoding", b" " * 2000 + b"encoding"),
        "line 1, byte 0: its XML declaration is longer than 1,024 bytes",
    ),
}


@pytest.fixture(params=[True, False], ids=["native", "libxml2"])
def ask(
    request: pytest.FixtureRequest, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, bytes], tuple[int, str, str]]:
    """Function that runs a command on a document: exit code, output and errors."""
    monkeypatch.setattr(native, "COMPILED", request.param and native.COMPILED)
    path = tmp_path / "s.xml"
    sql = f"CREATE STREAM s (a INT, b STRING) WITH (source = '{path}', element = 't'); SELECT a, b FROM s"
    commands = {
        "parse": ["parse", path, "--element", "t", "--format", "csv"],
        "parse --schema": ["parse", path, "--element", "t", "--format", "csv", "--schema", "a INT, b STRING"],
        "check": ["check", path, "--element", "t"],
        "infer": ["infer", path],
        "run": ["run", "--engine", "local", "--format", "csv", "-q", f"SELECT a, b FROM '{path}'"],
        "run a stream": ["run", "--engine", "local", "--format", "csv", "-q", sql],
    }

    def ask(command: str, document: bytes) -> tuple[int, str, str]:
        path.write_bytes(document)
        ran = cli(*commands[command])
        return ran.code, ran.out, ran.err.replace(f"{path}, ", "").replace("xmlpunct: ", "")

    return ask


Ask = Callable[[str, bytes], tuple[int, str, str]]


@pytest.mark.parametrize("case", READ)
def test_encodings_are_read(case: str, ask: Ask) -> None:
    data, value = READ[case]
    for command in ("parse", "parse --schema", "run", "run a stream"):
        assert ask(command, data) == (0, f"a,b\n1,{value}\n2,x\n", ""), command
    code, out, err = ask("check", data)
    assert (code, err) == (0, "")
    assert "well formed, grammatical\n  2 tuples" in out
    code, out, err = ask("infer", data)
    assert (code, err) == (0, "")
    assert "a INT" in out


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("command", ["parse", "parse --schema", "check", "infer", "run", "run a stream"])
def test_a_wrong_encoding_is_refused(case: str, command: str, ask: Ask) -> None:
    data, reason = REFUSED[case]
    code, _, err = ask(command, data)
    assert code == 1
    assert reason in err
    assert "internal error" not in err


@pytest.mark.parametrize("encoding", ["us-ascii", "utf-16", "iso-8859-1", "utf-8"])
def test_tuples_before_a_wrong_byte_are_output(encoding: str, ask: Ask) -> None:
    wrong = {"us-ascii": b"\x80", "utf-16": b"\x00\xd8<\x00", "iso-8859-1": b"\x00", "utf-8": b"\xff"}[
        encoding
    ]
    head = f'<?xml version="1.0" encoding="{encoding}"?><s>'
    data = head.encode(encoding) + "".join(f"<t><a>{n}</a></t>" for n in range(5000)).encode(
        "utf-16-le" if encoding == "utf-16" else encoding
    )
    for command in ("parse", "run a stream"):
        code, out, err = ask(command, data + wrong)
        assert code == 1
        assert len(out.splitlines()) == 5001
        assert "line 1, byte " in err


def test_tuples_before_malformed_xml_are_output(ask: Ask) -> None:
    """The first tuple and the malformed tag are read in one piece."""
    code, out, err = ask("parse", b"<s><t><a>1</a><b>x</b></t><t><a>2</b></t></s>")
    assert (code, out) == (1, "a,b\n1,x\n")
    assert "line 1, byte 33" in err
