"""The site: its generated page is current, and all of its links lead somewhere."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli_page import PAGE, page
from tests.pictures import FOLDER, PICTURES
from tests.site import ROOT, carried, linked

PAGES = sorted(str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md"))


def test_the_command_line_page_is_current() -> None:
    assert PAGE.read_text() == page(), "python -m tests.cli_page writes it"


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
