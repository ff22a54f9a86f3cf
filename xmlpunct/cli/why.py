"""``xmlpunct why``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from xmlpunct.base.errors import UsageError
from xmlpunct.base.printable import printable
from xmlpunct.cli.shared_options import read_patterns
from xmlpunct.cli.terminal import PLACE, TEXT, put_line


@click.command("why")
@click.argument("patterns", type=TEXT, nargs=-1, metavar="[COLUMN=PATTERN]...")
@click.option("--checkpoint", type=PLACE, metavar="DIR", help="The checkpoint of a stopped run.")
@click.option("--http", "url", type=TEXT, metavar="URL", help="The live view of a running query.")
@click.option("--json", "as_json", is_flag=True, help="Write a list of objects, with punctuations as XML.")
@click.pass_context
def why_command(
    context: click.Context, patterns: tuple[str, ...], checkpoint: str | None, url: str | None, as_json: bool
) -> None:
    """List the punctuations that results wait for: of which input, since when, and for which operator.

    Patterns select results: hour=17, 'hour=[17,20)'. Without patterns, all results are selected. The exit code is 0
    if results wait, 1 if none do.
    """
    from xmlpunct.engine.why.remote_run import ask
    from xmlpunct.engine.why.stopped import why_stopped

    if (checkpoint is None) == (url is None):
        raise UsageError("name a run: --checkpoint DIR or --http URL")
    conditions = read_patterns(patterns)
    if url is not None:
        waits = ask(url, conditions)
        lines = [wait_line(wait) for wait in waits]
    else:
        stopped = why_stopped(Path(str(checkpoint)), conditions)
        waits, lines = [wait.as_dict() for wait in stopped], [str(wait) for wait in stopped]
    if as_json:
        put_line(json.dumps(waits, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            put_line(printable(line))
    context.exit(0 if waits else 1)


def wait_line(wait: dict[str, Any]) -> str:
    """One wait as a line of text."""
    element = ElementTree.fromstring(wait["punctuation"])
    patterns = [
        text for e in element.iter() for text in (*e.attrib.values(), *([] if len(e) else [e.text or ""]))
    ]
    punctuation = f"{wait['input']}: <{', '.join(patterns)}>"
    return f"{wait.get('sink', '')} waits for {punctuation}, since {wait['since']:,.0f} s ({wait['operator']})".lstrip()
