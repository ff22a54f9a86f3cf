"""Control characters in foreign text are escaped in messages, logs and pages."""

from __future__ import annotations

import io
import json
import logging
import re
import tarfile
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.harness import Cli
from tests.cli.screen import terminal_run
from tests.firehose.test_web import Site, serving
from tests.view.running import view_of_a_run
from xmlpunct.base.errors import PatternError, Reject, SourceError, SqlError, UsageError
from xmlpunct.base.printable import printable
from xmlpunct.base.unread import Notice
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.cli.watch import frame
from xmlpunct.engine.run.stats import Idle, InputStats, RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.view.server import ViewServer
from xmlpunct.engine.view.view import View

EVIL = "a\x1b[2Jb\x9b1mc\x7fd\u202ee\rf\nxmlpunct: all is well"
"""Clears the screen, sets colours, deletes, turns the text around, and forges a line."""
CONTROLS = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
]
OWN = {"\n", "\t"}


def is_clean(text: str, keep: set[str] = OWN) -> bool:
    return not any(chr(number) in text for number in CONTROLS if chr(number) not in keep)


def is_harmless(err: str) -> bool:
    """True if standard error has no control character and no forged line."""
    return is_clean(err) and not re.search("^xmlpunct: all is well", err, re.MULTILINE)


def test_every_control_character_is_escaped() -> None:
    text = "".join(map(chr, CONTROLS))
    assert is_clean(printable(text), set())
    assert json.loads(f'"{printable(text)}"') == text, "as JSON and Python escape"
    assert printable("grün, 雪 \U0001f600 \\u") == "grün, 雪 \U0001f600 \\u"
    assert printable("a\n\tb", keep="\n") == "a\n\\u0009b"


@pytest.mark.parametrize(
    "error",
    [
        UsageError(EVIL),
        SourceError(EVIL, EVIL, 1, 2),
        SqlError(EVIL, EVIL.replace("\n", " "), 3, 9),
        PatternError(EVIL, EVIL, 1, EVIL),
        Reject(EVIL, 1, 2, EVIL, ""),
        Notice(EVIL, "nested", (EVIL,)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_printed_without_control_characters(error: object) -> None:
    assert is_harmless(str(error))


def test_the_underlined_sql_stays_aligned() -> None:
    sql = "SELECT '\x1b', x FROM s"
    error = str(SqlError("no x", sql, sql.index("x F"), sql.index("x F") + 1)).splitlines()
    assert error[2].index("^") == error[1].index("x FROM")


def test_names_of_archive_members(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo(EVIL), io.BytesIO())
        info = tarfile.TarInfo(f"z{EVIL}")
        info.size = 14
        archive.addfile(info, io.BytesIO(b"<s><t><x>1</x>"))
    sql = f"CREATE STREAM s (x INT) WITH (source = '{path}', element = 't'); SELECT x FROM s"
    ended = cli("run", "--engine", "local", "-q", sql)
    assert ended.code == 1
    assert "\\u001b[2J" in ended.err
    assert is_harmless(ended.err)


def test_a_namespace(cli: Cli, tmp_path: Path) -> None:
    uri = EVIL.replace("\x1b", "&#x9b;").replace("\n", "&#10;").replace("\r", "&#13;")
    (tmp_path / "a.xml").write_text(f"<s><t><x>1</x></t><u:t xmlns:u='{uri}'/></s>")
    for command in ("check", "parse"):
        ended = cli(command, tmp_path / "a.xml", "--element", "t", "--schema", "x INT")
        assert "all is well" in ended.err
        assert is_harmless(ended.err)


def test_a_value_that_is_rejected(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<s><t><x>&#x9b;1m&#10;xmlpunct: all is well&#x202e;</x></t></s>")
    ended = cli("parse", tmp_path / "a.xml", "--element", "t", "--schema", "x INT")
    assert "not" in ended.err
    assert is_harmless(ended.err)


@pytest.mark.parametrize(
    ("format_", "escaped"), [("xml", "&#x9b;1mé"), ("jsonl", r"\u009b1mé"), ("csv", r"\u009b1mé")]
)
def test_results_on_a_terminal(cli: Cli, tmp_path: Path, format_: str, escaped: str) -> None:
    """C1 characters, which XML and JSON allow, are escaped on a terminal only."""
    (tmp_path / "a.xml").write_text("<s><t><x>&#x9b;1mé</x></t></s>")
    parse = ["parse", str(tmp_path / "a.xml"), "--element", "t", "--format", format_]
    sql = f"SELECT x FROM read_xml('{tmp_path}/a.xml', element => 't')"
    for command in (parse, ["run", "--engine", "local", "-q", sql, "--format", format_]):
        shown = terminal_run(*command)
        assert escaped in shown
        assert "\x9b" not in shown
        assert "\x9b1mé" in cli(*command).out


def test_a_reason_phrase(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Site, "answer", lambda site, handler: handler.send_response(404, EVIL.replace("\n", " "))
    )
    with serving(Site()) as url:
        ended = cli("check", f"{url}?{EVIL}", "--element", "t")
        assert is_harmless(ended.err)
        ended = cli("parse", url, "--element", "t")
    assert ended.code in (1, 2)
    assert is_harmless(ended.err)


def test_log_messages_are_printed_without_control_characters(
    cli: Cli, capfd: pytest.CaptureFixture[str]
) -> None:
    cli("--version")
    logging.getLogger("xmlpunct").warning("%s", EVIL)
    err = capfd.readouterr().err
    assert is_harmless(err)
    assert err.count("\n") == 1


def test_the_terminal_that_follows_a_run() -> None:
    evil = f"[red]{EVIL}[/nothing]"  # rich's markup, with a closing tag that was never opened
    with view_of_a_run() as (view, _):
        latest = view.latest
    boxes = tuple(replace(box, what=evil, sinks=(evil,)) for box in latest.boxes)
    inputs = tuple(replace(input_, name=evil) for input_ in latest.inputs)
    outputs = tuple(replace(output, name=evil) for output in latest.outputs * 2)
    state = replace(latest, boxes=boxes, inputs=inputs, outputs=outputs, idle=(Idle(evil, 1.0, 2),))
    out = io.StringIO()
    Console(file=out, width=400).print(frame(state))
    assert out.getvalue().count("[red]a\\u001b[2J") > 4
    assert is_harmless(out.getvalue())
    shown = ProgressLine("local", Console(file=out, force_terminal=True, width=400))
    with shown:
        shown.show(RunStats("local", inputs={"s": InputStats()}, idle=[Idle(evil, 3.0, 0)]))
        assert shown._status is not None
        assert is_harmless(str(shown._status.status))
        assert "[red]" in str(shown._status.status)


def test_a_control_character_in_the_sql_does_not_stop_the_page() -> None:
    """Characters that XML cannot contain are escaped in the page's events."""
    sql = "CREATE STREAM s (x STRING) WITH (element = 't'); SELECT x FROM s WHERE x = 'a{}b'"
    for character in ("\x01", "\x1b", "\x7f", "\x9b", "\ufffe", "\u202e"):
        view = View(plan(sql.format(character), {"s": "s.xml"}), "local")
        with (
            ViewServer(view, ("127.0.0.1", 0)) as server,
            urllib.request.urlopen(f"{server.url}events") as events,
        ):
            moment = json.loads(events.readline().removeprefix(b"data: "))
            view.finish(RunStats("local"), "ended")
        assert f"\\u{ord(character):04x}" in moment["picture"]
        assert is_clean(moment["picture"])
