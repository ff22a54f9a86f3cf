"""Examples in README, docs and the READMEs of the samples run and print the shown output."""

from __future__ import annotations

import doctest
import gzip
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, Cli
from tests.firehose.test_web import Site, serving
from tests.sessions import Session
from xmlpunct.cli import COMMANDS, invoke

ROOT = SAMPLES.parent
TROUBLESHOOTING = sorted(
    f"docs/troubleshooting/{p.name}" for p in (ROOT / "docs" / "troubleshooting").glob("[a-z]*.md")
)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "SECURITY.md",
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs" / "feeds").glob("*.md"),
            *(ROOT / "docs" / "notebooks").glob("*.md"),
            *(ROOT / "docs" / "troubleshooting").glob("*.md"),
        ]
    )
    + [ROOT / "samples" / folder / "README.md" for folder in ("feeds", "windows")]
}
"""Pages by path."""
README, OUTPUT, WINDOWS = (PAGES[page] for page in ("README.md", "docs/output.md", "docs/windows.md"))


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if blocks("pycon", text)])
def test_the_python_examples_print_what_is_shown(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(blocks("pycon", PAGES[page]))
    examples = doctest.DocTestParser().get_doctest(text, {}, page, None, None)
    assert len(examples.examples) > 5
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


WEB = "https://example.com/"
"""The web address in README that a test server replaces."""
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


@pytest.mark.parametrize(
    "block", [b for text in PAGES.values() for b in blocks("console", text) if b.startswith("$ xmlpunct")]
)
def test_the_commands_print_what_is_shown(
    block: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with serving(Site(gzip.compress(ORDERS.encode()))) as url:
        web = url.removesuffix(url.rpartition("/")[2])
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            assert invoke(shlex.split(command.replace(WEB, web))[1:]) == 0
            first, *pieces = expected.split("...\n")
            out = capfd.readouterr().out.replace(web, WEB)
            assert out.startswith(first)
            assert all(piece in out for piece in pieces)


@pytest.mark.parametrize(
    ("page", "block"), [(p, b) for p, text in PAGES.items() for b in blocks("shell-session", text)]
)
def test_the_sessions_go_as_shown(
    page: str, block: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Session(Cli(capfd), tmp_path).play(block)


@pytest.mark.parametrize("page", TROUBLESHOOTING)
def test_pages_of_troubleshooting(page: str) -> None:
    """Each page has a session, cites its source, is in the index, and quotes files exactly."""
    text = PAGES[page]
    assert blocks("shell-session", text)
    assert re.search(r"\]\(https://", text)
    assert f"({Path(page).name})" in PAGES["docs/troubleshooting/README.md"]
    samples = [
        ROOT / "docs" / "troubleshooting" / link
        for link in re.findall(r"\]\((\.\.[^)]+\.(?:xml|sql))\)", text)
    ]
    for language in ("xml", "sql"):
        for block in blocks(language, text):
            assert any(block in sample.read_text() for sample in samples)


def test_there_are_ten_problems() -> None:
    assert len(TROUBLESHOOTING) == 10


def test_the_shown_query_is_in_the_sample() -> None:
    (shown,) = blocks("sql", OUTPUT)
    assert shown in (SAMPLES / "orders.sql").read_text()


def test_the_two_commands_are_there() -> None:
    _, command, tests = [
        block.rstrip() for block in blocks("sh") if block.startswith("python3 -m venv .venv")
    ]
    assert command.endswith(".venv/bin/xmlpunct run samples/warehouse.sql")
    assert tests.endswith(".venv/bin/pytest -m 'spark and not long'")
    assert len(README.encode()) < 9 * 1024


def test_every_command_is_mentioned() -> None:
    assert [name for name in COMMANDS if f"`xmlpunct {name}" not in README] == []


def test_the_streams_of_windows_are_those_of_the_sample() -> None:
    assert blocks("sql", WINDOWS)[0] in (SAMPLES / "windows" / "streams.sql").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", PAGES[page])
    assert [t for t in targets if not Path(ROOT / page).parent.joinpath(t).exists()] == []
