"""``xmlpunct say``."""

from __future__ import annotations

import click

from xmlpunct.cli.shared_options import read_patterns
from xmlpunct.cli.terminal import TEXT


@click.command("say")
@click.argument("name", type=TEXT)
@click.argument("punctuation", type=TEXT, nargs=-1, required=True)
@click.option("--http", "url", type=TEXT, required=True, metavar="URL", help="The run's live view.")
def say_command(name: str, punctuation: tuple[str, ...], url: str) -> None:
    """Say a punctuation to a running query in the place of stream NAME: of a sender that died, say.

    PUNCTUATION is patterns (hour=17 sid=S1), XML as `why --json` gives it, or text as `why` does. The run takes
    it where it stands in that stream, and puts it down, so that a replay repeats it. It has to allow that.
    """
    from xmlpunct.engine.why.remote_run import send

    is_whole = len(punctuation) == 1 and punctuation[0].lstrip().startswith("<")
    send(url, name, punctuation[0] if is_whole else read_patterns(punctuation))
