"""Citations of the reference pages: each names a section that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CITATION = re.compile(r"\b(semantics|relations) ([1-9]\d*(?:\.\d+)?)(?![\d.]*\d)", re.IGNORECASE)
FOLDERS = ("xmlpunct", "tests", "docs")


def sections(page: str) -> set[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE))


def citations() -> list[tuple[str, str, str]]:
    files = [p for folder in FOLDERS for suffix in ("py", "md") for p in (ROOT / folder).rglob(f"*.{suffix}")]
    return [
        (str(path.relative_to(ROOT)), page.lower(), section)
        for path in files
        if path != Path(__file__)
        for page, section in CITATION.findall(path.read_text())
    ]


@pytest.mark.parametrize("page", ["semantics", "relations"])
def test_every_citation_names_a_section(page: str) -> None:
    cited = [(path, section) for path, cited_page, section in citations() if cited_page == page]
    assert len({path for path, _ in cited}) > 5
    numbers = sections(page)
    assert [(path, section) for path, section in cited if section not in numbers] == []


def test_sections_are_numbered_in_order() -> None:
    for page in ("semantics", "relations"):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        numbers = [int(n) for n in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))
