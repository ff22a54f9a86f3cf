"""What README, docs and the READMEs of the samples say is so: their examples run, and print what they show."""

from __future__ import annotations

import doctest
import gzip
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES
from tests.firehose.test_web import Site, serving
from xmlpunct.cli import COMMANDS, invoke

ROOT = SAMPLES.parent
README = (ROOT / "README.md").read_text()
OUTPUT = (ROOT / "docs" / "output.md").read_text()
PROMISES = (ROOT / "docs" / "promises.md").read_text()
WINDOWS = (ROOT / "docs" / "windows.md").read_text()
WHY = (ROOT / "docs" / "why.md").read_text()
OF_FEEDS = (SAMPLES / "feeds" / "README.md").read_text()
OF_WINDOWS = (SAMPLES / "windows" / "README.md").read_text()
TEXTS = [
    (ROOT, README),
    (ROOT / "docs", OUTPUT),
    (ROOT / "docs", PROMISES),
    (ROOT / "docs", WINDOWS),
    (ROOT / "docs", WHY),
    (SAMPLES / "feeds", OF_FEEDS),
    (SAMPLES / "windows", OF_WINDOWS),
]
"""Each page, with the folder that its links start from."""


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_python_examples_print_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(blocks("pycon"))
    examples = doctest.DocTestParser().get_doctest(text, {}, "README", None, None)
    assert len(examples.examples) > 5
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


WEB = "https://example.com/"
"""Where README says that something is on the web."""
ORDERS = """<o:orders xmlns:o="urn:orders" xmlns:t="urn:tax">
  <o:order id="1">
    <o:customer><o:city>Oslo</o:city></o:customer>
    <o:line sku="a7"><o:qty>2</o:qty></o:line>
    <o:line sku="b1"><o:qty>1</o:qty></o:line>
    <t:vat>12.5</t:vat>
  </o:order>
  <!-- the same customer as last year -->
  <o:order id="2">
    <o:customer><o:city>Turin</o:city></o:customer>
    <o:line sku="a7"><o:qty>5</o:qty></o:line>
  </o:order>
</o:orders>
"""


@pytest.mark.parametrize("block", [b for _, text in TEXTS for b in blocks("console", text)])
def test_the_commands_print_what_is_shown(
    block: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with serving(Site(gzip.compress(ORDERS.encode()))) as url:
        web = url.removesuffix(url.rpartition("/")[2])
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            assert invoke(shlex.split(command.replace(WEB, web))[1:]) == 0
            first, *rest = expected.split("...\n")
            out = capfd.readouterr().out.replace(web, WEB)
            assert out.startswith(first)
            assert all(piece in out for piece in rest)


@pytest.mark.parametrize("text", [README, WHY], ids=["README", "why"])
def test_the_session_of_a_cut_feed_is_what_is_shown(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (session,) = blocks("shell-session", text)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples").symlink_to(SAMPLES)
    cut, *commands = [part.split("\n", 1) for part in session.split("$ ")[1:]]
    size, source, target = re.fullmatch(r"head -c (\d+) (\S+) > (\S+)", cut[0]).groups()  # type: ignore[union-attr]
    Path(target).write_bytes(Path(source).read_bytes()[: int(size)])
    for command, shown in commands:
        invoke(shlex.split(command)[1:])
        printed = capfd.readouterr()
        assert re.sub(r"\d+ s ", "5 s ", printed.out + printed.err) == shown


def test_the_sample_is_what_is_shown() -> None:
    (shown,) = blocks("sql", OUTPUT)
    assert shown in (SAMPLES / "orders.sql").read_text()


def test_the_two_commands_are_there() -> None:
    commands = blocks("sh")
    assert ".venv/bin/xmlpunct run samples/warehouse.sql" in commands[0]
    assert commands[1].rstrip().endswith("pytest")


def test_every_command_is_mentioned() -> None:
    assert [name for name in COMMANDS if f"`xmlpunct {name}" not in README] == []


def test_the_streams_of_windows_are_those_of_the_sample() -> None:
    assert blocks("sql", WINDOWS)[0] in (SAMPLES / "windows" / "streams.sql").read_text()


@pytest.mark.parametrize(("folder", "text"), TEXTS)
def test_links_lead_somewhere(folder: Path, text: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert targets
    assert [t for t in targets if not Path(folder, t).exists()] == []
