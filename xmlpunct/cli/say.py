"""``xmlpunct say``."""

from __future__ import annotations

import click

from xmlpunct.cli.shared_options import read_patterns
from xmlpunct.cli.terminal import TEXT


@click.command("say")
@click.argument("name", type=TEXT)
@click.argument("punctuation", type=TEXT, nargs=-1, required=True)
@click.option(
    "--http", "url", type=TEXT, required=True, metavar="URL", help="The address of the run's live view."
)
def say_command(name: str, punctuation: tuple[str, ...], url: str) -> None:
    """Send a punctuation of stream NAME to a running query, for example if the stream's sender has died.

    PUNCTUATION is a list of patterns (hour=17 sid=S1), XML as printed by `why --json`, or text as printed by `why`.
    The run inserts it at the current position of the stream and records it, so that a replay repeats it. The
    run needs the option --allow-say.
    """
    from xmlpunct.engine.why.remote_run import send

    is_whole = len(punctuation) == 1 and punctuation[0].lstrip().startswith("<")
    send(url, name, punctuation[0] if is_whole else read_patterns(punctuation))
