"""The site: its generated page is current, and all of its links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

import tests.site
from tests import man_page
from tests.cli_page import PAGE, page
from tests.pictures import FOLDER, PICTURES
from tests.site import ROOT, carried, linked
from xmlpunct.cli.run import run_command

PAGES = sorted(str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md"))


def test_the_command_line_page_is_current() -> None:
    assert PAGE.read_text() == page(), "python -m tests.cli_page writes it"


def test_the_man_page_is_current() -> None:
    assert man_page.FILE.read_text() == man_page.man_page(), "python -m tests.cli_page writes it"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_shows_every_option() -> None:
    """groff formats it without a warning, and each option of `run` begins a line."""
    command = ["groff", "-man", "-Tascii", "-ww", "-P-cbou", str(man_page.FILE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    for param in run_command.params:
        if isinstance(param, click.Option):
            assert re.search(rf"^ +(-\w, )?{param.opts[-1]}\b", ran.stdout, re.MULTILINE), param.opts


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_drawn(name: str) -> None:
    drawn = (FOLDER / f"{name}.svg").read_text()
    assert drawn == PICTURES[name]().svg(), "python -m tests.pictures draws it"
    ElementTree.fromstring(drawn)


def test_each_picture_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert {f"{name}.svg" for name in PICTURES} == {path.name for path in FOLDER.iterdir()}
    assert [name for name in PICTURES if f"(pictures/{name}.svg)" not in text] == []


def test_every_page_and_file_that_is_linked_is_there() -> None:
    assert "files/samples/warehouse.sql" in carried(PAGES)


def test_a_link_to_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"why\.md links to \.\./nothing, and there is no such file"):
        linked("why.md", "../nothing")
    with pytest.raises(ValueError, match="no such file"):
        linked("why.md", "../../outside.md")


@pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material is not installed: --group docs")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "site" / "files" / "samples" / "warehouse.sql").is_file()
    check_copied_text(tmp_path / "site")


def check_copied_text(site: Path) -> None:
    """The theme's button copies `data-copy`, and each block with prompts has commands alone there."""
    (script,) = (site / "assets" / "javascripts").glob("bundle.*.min.js")
    assert '.closest("[data-copy]")' in script.read_text()
    copied = re.findall(r'<pre data-copy="([^"]*)">', (site / "get-started" / "index.html").read_text())
    assert [unescape(text) for text in copied] == [
        """xmlpunct "SELECT id, lat, lon FROM 'samples/feeds/osm.xml.gz' WHERE id < 103\"""",
        "xmlpunct run samples/warehouse.sql --engine local --format jsonl",
    ]
    for built in site.rglob("index.html"):
        html = built.read_text()
        for block in re.findall(r"<pre>.*?</pre>", html, re.DOTALL):
            assert not re.search(r"^(\$|>>>) ", unescape(re.sub(r"<[^>]+>", "", block)), re.MULTILINE), built
        assert not re.search(r'data-copy="(\$|&gt;&gt;&gt;) ', html), built


def test_examples_of_the_hooks() -> None:
    results = doctest.testmod(tests.site)
    assert results.attempted == 5
    assert not results.failed
