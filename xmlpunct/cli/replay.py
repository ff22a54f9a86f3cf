"""``xmlpunct replay``."""

from __future__ import annotations

import click

from xmlpunct.errors import UsageError
from xmlpunct.firehose import PUNCT_NAMESPACE, open_source
from xmlpunct.firehose.replay import Replay
from xmlpunct.firehose.tcp import Address


@click.command("replay")
@click.argument("file")
@click.option("--listen", "where", required=True, metavar="HOST:PORT", help="Where to wait for a peer.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Tuples a second (default: as fast as they are taken).",
)
@click.option(
    "--punct-namespace", default=PUNCT_NAMESPACE, metavar="URI", help="The namespace of punctuations."
)
def replay_command(file: str, where: str, rate: float | None, punct_namespace: str) -> None:
    """Serve FILE as a live firehose to the first peer that connects, and exit when it has all.

    The children of the root are its tuples. Port 0 is any free port; standard error says which. A peer may
    leave when it has had enough.
    """
    try:
        address = Address.parse(f"tcp-listen://{where}")
    except UsageError:
        address = None
    if address is None or "?" in where:
        raise UsageError(f"--listen {where}: write HOST:PORT")
    with Replay(open_source(file), address, rate, punct_namespace) as replay:
        click.echo(f"xmlpunct: listening on {replay.address}", err=True)
        if not replay.run():
            sent = f" after {replay.tuples:,} tuples" if rate is not None else ""
            click.echo(f"xmlpunct: the peer left{sent}", err=True)
