"""A hook of mkdocs: adds samples, tests and sources that pages link to, to the site.

A page is read on the site and in the repository alike, where ``../samples/warehouse.sql`` is a file beside ``docs``.
On the site that file is in the folder ``files``. Links of pages there, as a README of samples, are followed in turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parent.parent
FILES = "files"
"""The folder of the site where files from outside docs are."""
LISTING = "listing.md"
"""The page that stands for a folder which has no README."""
LISTED = (".py", ".sql", ".xml", ".gz")
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
"""The address of a link that is no URL, without its fragment."""


def repository_path(page: str) -> PurePosixPath:
    """Path in the repository of a page of the site.

    >>> str(repository_path("windows.md")), str(repository_path("files/README.md"))
    ('docs/windows.md', 'README.md')
    """
    path = PurePosixPath(page)
    return path.relative_to(FILES) if path.parts[0] == FILES else PurePosixPath("docs") / path


def linked(page: str, link: str) -> str:
    """The page or file of the site that a link on a page leads to.

    >>> linked("windows.md", "../samples/warehouse.sql"), linked("files/README.md", "docs/why.md")
    ('files/samples/warehouse.sql', 'why.md')

    A folder is its README, or a page that lists it. Raises ValueError if the file does not exist.
    """
    path = PurePosixPath(os.path.normpath(repository_path(page).parent / link))
    if ".." in path.parts or not (ROOT / path).exists():
        raise ValueError(f"{page} links to {link}, and there is no such file")
    if (ROOT / path).is_dir():
        path /= "README.md" if (ROOT / path / "README.md").is_file() else LISTING
    return str(path.relative_to("docs") if path.parts[0] == "docs" else FILES / path)


def written(page: str) -> str:
    """Text of a page: its file, or the list of a folder's files."""
    path = ROOT / repository_path(page)
    if path.is_file() or path.name != LISTING:
        return path.read_text()
    names = sorted(p.name for p in path.parent.iterdir() if p.is_file() and p.suffix in LISTED)
    return "\n".join([f"# {repository_path(page).parent}\n", *(f"- [{name}]({name})" for name in names)])


def links(page: str) -> Iterator[str]:
    """Files that a page links to, outside blocks of code."""
    text = re.sub(r"^```.*?^```", "", written(page), flags=re.MULTILINE | re.DOTALL)
    yield from (linked(page, link) for link in LINK.findall(text))


def carried(pages: list[str]) -> set[str]:
    """Files outside docs that pages link to, directly or through linked pages."""
    files: set[str] = set()
    todo = pages
    while todo:
        outside = {file for page in todo for file in links(page) if file.startswith(f"{FILES}/")} - files
        files |= outside
        todo = [file for file in outside if file.endswith(".md")]
    return files


def on_files(files: Any, config: Any) -> Any:
    """Add the linked files to the site."""
    from mkdocs.structure.files import File, InclusionLevel

    for file in sorted(carried([file.src_uri for file in files.documentation_pages()])):
        if file.endswith(".md"):
            site_file = File.generated(
                config, file, content=written(file), inclusion=InclusionLevel.NOT_IN_NAV
            )
        else:
            site_file = File.generated(config, file, abs_src_path=str(ROOT / repository_path(file)))
        files.append(site_file)
    return files


COPIED = re.compile(r"<pre>(<span></span>)?<code>.*?</code></pre>", re.DOTALL)
"""A block of code on a built page."""


def typed(text: str) -> str:
    """What to copy of a block of code: without prompts, and without output if there are prompts.

    >>> typed("$ echo 1 \\\\\\n  2\\n1 2\\n$ date")
    'echo 1 \\\\\\n  2\\ndate'
    >>> typed(">>> for i in 1, 2:\\n...     print(i)\\n1\\n...")
    'for i in 1, 2:\\n    print(i)'
    >>> typed("SELECT 1")
    'SELECT 1'
    """
    lines: list[str] = []
    is_input = False
    for line in text.splitlines():
        prompt = re.match(r"\$ |>>> ?" + (r"|\.\.\.( |$)" if is_input else ""), line)
        is_continued = is_input and bool(lines) and lines[-1].endswith("\\")
        is_input = bool(prompt) or is_continued
        if is_input:
            lines.append(line[prompt.end() :] if prompt else line)
    return "\n".join(lines) or text


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Add what the button of a block copies, if it differs from the block."""

    def marked(block: re.Match[str]) -> str:
        text = unescape(re.sub(r"<[^>]+>", "", block[0]))
        if typed(text) == text:
            return block[0]
        return f'<pre data-copy="{escape(typed(text))}">{block[0].removeprefix("<pre>")}'

    return COPIED.sub(marked, html)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace the links of a page by paths on the site."""
    source = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        try:
            return os.path.relpath(linked(source, link[1]), PurePosixPath(source).parent)
        except ValueError:
            return link[1]  # in a block of code

    return LINK.sub(moved, markdown)
