"""What README and that of the samples say is so: their examples run, and print what they show."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES
from xmlpunct.cli import cli as group
from xmlpunct.cli import invoke

ROOT = SAMPLES.parent
README = (ROOT / "README.md").read_text()
OF_FEEDS = (SAMPLES / "feeds" / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_python_examples_print_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(blocks("pycon"))
    examples = doctest.DocTestParser().get_doctest(text, {}, "README", None, None)
    assert len(examples.examples) > 5
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


@pytest.mark.parametrize("block", blocks("console") + blocks("console", OF_FEEDS))
def test_the_commands_print_what_is_shown(
    block: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for part in block.split("$ ")[1:]:
        command, _, expected = part.partition("\n")
        assert invoke(shlex.split(command)[1:]) == 0
        shown, _, _ = expected.partition("...\n")
        assert capfd.readouterr().out.startswith(shown)


def test_the_two_commands_are_there() -> None:
    commands = blocks("sh")
    assert ".venv/bin/xmlpunct run samples/warehouse.sql" in commands[0]
    assert commands[1].rstrip().endswith("pytest")


def test_every_command_is_mentioned() -> None:
    assert [name for name in group.commands if f"`xmlpunct {name}" not in README] == []


@pytest.mark.parametrize(("folder", "text"), [(ROOT, README), (SAMPLES / "feeds", OF_FEEDS)])
def test_links_lead_somewhere(folder: Path, text: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert targets
    assert [t for t in targets if not Path(folder, t).exists()] == []
