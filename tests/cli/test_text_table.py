"""Results on a terminal: an aligned table, beside the line of progress."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.harness import Cli
from tests.cli.screen import screen, terminal_run
from xmlpunct.cli import progress
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.engine.run.stats import InputStats, RunStats
from xmlpunct.firehose.text_table import TextTableWriter
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

WAREHOUSE = ["samples/warehouse.sql", "--engine", "local"]
MAXIMA = ["maxtemp  hour", "───────  ────", "     81    17", "     76    18", "     73    19"]


def table(writer: TextTableWriter, *slices: list[tuple[object, ...]]) -> list[str]:
    parts = [
        writer.start(),
        *(writer.body(Slice(writer.schema.frame(rows))) for rows in slices),
        writer.end(),
    ]
    return b"".join(parts).decode().splitlines()


def test_results_on_a_terminal_are_a_table() -> None:
    shown = terminal_run(*WAREHOUSE)
    assert screen(shown)[:5] == MAXIMA
    assert screen(shown)[-1] == "6 rows"
    assert "\x1b[1mmaxtemp\x1b[0m" in shown


def test_no_color_and_a_dumb_terminal() -> None:
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown = terminal_run(*WAREHOUSE, **variables)
        assert "\r\n".join(["     81    17", "     76    18", ""]) in shown
        assert "[1mmaxtemp" not in shown


@pytest.mark.parametrize("options", [("--pretty",), ("--root", "maxima"), ("--format", "xml")], ids=str)
def test_a_chosen_format_is_written_on_a_terminal(options: tuple[str, ...]) -> None:
    assert "<maxtemp>81</maxtemp>" in terminal_run(*WAREHOUSE, *options)


def test_the_format_without_a_terminal_stays_xml(cli: Cli) -> None:
    assert "<maxtemp>81</maxtemp>" in cli("run", *WAREHOUSE).out
    assert cli("run", *WAREHOUSE, "--format", "table").out.splitlines()[:5] == MAXIMA


def test_texts_are_shortened_and_numbers_are_not() -> None:
    writer = TextTableWriter(Schema.parse("name STRING, n INT, text STRING"), width=40)
    lines = table(
        writer,
        [("a" * 50, 1, "short"), (None, 22, "b" * 50)],
        [("c" * 14, 123456789, "d" * 22), ("e", -1, None)],
    )
    names = ["a" * 16 + "…", "NULL", "c" * 14, "e"]
    texts = ["short", "b" * 16 + "…", "d" * 16 + "…", "NULL"]
    rows = zip(names, ["1", "22", "123456789", "-1"], texts, strict=True)
    assert [tuple(line.split()) for line in lines[2:-1]] == [*rows]
    assert [len(line) for line in lines[1:4]] == [40, 28, 40]
    assert lines[-1] == "4 rows; 3 values were shortened to fit: --format jsonl writes them whole"


def test_later_rows_have_the_widths_of_the_first() -> None:
    lines = table(
        TextTableWriter(Schema.parse("a INT, b STRING, c INT"), width=80), [(1, "x", 1)], [(2, "yy", 3)]
    )
    assert lines == [
        "a  b             c",
        "─  ────────────  ─",
        "1  x             1",
        "2  yy            3",
        "2 rows",
    ]


def test_without_a_terminal_nothing_is_shortened() -> None:
    lines = table(TextTableWriter(Schema.parse("a STRING, b INT")), [("x" * 500, 1)], [("y", 2)])
    assert lines[2] == f"{'x' * 500}  1"
    assert lines[3] == f"y{' ' * 59}  2"
    assert lines[-1] == "2 rows"


def test_wide_characters_and_control_characters() -> None:
    lines = table(
        TextTableWriter(Schema.parse("a STRING, b INT"), width=80), [("日本", 1), ("\x1b[2Jx\n", 2)]
    )
    assert lines[2] == f"日本{' ' * 14}1"  # 4 cells and 12 blanks, and the gap
    assert lines[3] == "\\u001b[2Jx\\u000a  2"


def test_an_empty_result_has_its_header() -> None:
    assert table(TextTableWriter(Schema.parse("a STRING, b INT"))) == ["a  b", "─  ─", "0 rows"]
    assert table(TextTableWriter(Schema.parse("b INT")), [(7,)])[-1] == "1 row"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.txt"], "--format table is for standard output: out.txt can be csv or jsonl"),
        (["-o", "out.csv"], "out.csv is a name for csv, not for table"),
        (["--checkpoint", "c"], "--format table has no checkpoint: write csv or jsonl"),
        (["--partial", "1s"], "which table cannot: write xml or jsonl"),
        (["--root", "r"], "apply to XML, not to table"),
    ],
)
def test_contradictions_are_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    query = str(Path(WAREHOUSE[0]).absolute())
    monkeypatch.chdir(tmp_path)
    ran = cli("run", query, "--engine", "local", "--format", "table", *options)
    assert (ran.code, message in ran.err) == (2, True), ran.err
    assert [*tmp_path.iterdir()] == []


class Terminal(StringIO):
    """A terminal as standard output, which takes bytes as well."""

    def isatty(self) -> bool:
        return True

    @property
    def buffer(self) -> Terminal:
        return self

    def write(self, data: str | bytes) -> int:  # type: ignore[override]
        return super().write(data if isinstance(data, str) else data.decode())


def test_the_line_of_progress_leaves_the_results_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, seconds = Terminal(), [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(sys, "stdout", terminal)
    stats = RunStats("local", inputs={"bids": InputStats(tuples=7)})

    def wait_and_show(wait: float) -> list[str]:
        seconds[0] += wait
        line.show(stats)
        assert line._status is None or line._status._live.refresh() is None
        return screen(terminal.getvalue())

    with ProgressLine("local", Console(file=terminal, force_terminal=True, width=60)) as line:
        assert "7 tuples" in wait_and_show(1)[0]
        sys.stdout.buffer.write(b"a  b\n")
        assert screen(terminal.getvalue()) == ["a  b"]
        assert wait_and_show(0.5) == ["a  b"]
        first, shown = wait_and_show(1)
        assert (first, "7 tuples" in shown) == ("a  b", True)
        sys.stdout.buffer.write(b"1  2\n3  4\n")
        assert screen(terminal.getvalue()) == ["a  b", "1  2", "3  4"]
        assert len(wait_and_show(2)) == 4
    assert screen(terminal.getvalue()) == ["a  b", "1  2", "3  4"]
    assert sys.stdout is terminal
