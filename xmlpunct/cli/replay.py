"""``xmlpunct replay``."""

from __future__ import annotations

import math

import click

from xmlpunct.base.errors import UsageError
from xmlpunct.cli.shared_options import namespace_option
from xmlpunct.cli.terminal import say
from xmlpunct.connectors.open_source import open_source
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.firehose.replay_server import Replay


@click.command("replay")
@click.argument("file")
@click.option("--listen", "where", required=True, metavar="HOST:PORT", help="Where to wait for a peer.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Tuples a second (default: as fast as they are taken).",
)
@namespace_option
def replay_command(file: str, where: str, rate: float | None, punct_namespace: str) -> None:
    """Serve FILE as a live firehose to the first peer that connects, and exit when it has all.

    The children of the root are its tuples. Port 0 is any free port; standard error says which. A peer may
    leave when it has had enough.
    """
    try:
        address = SocketAddress.parse(f"tcp-listen://{where}")
    except UsageError:
        address = None
    if address is None or "?" in where:
        raise UsageError(f"--listen {where}: write HOST:PORT")
    if rate is not None and not math.isfinite(rate):
        raise UsageError(f"--rate {rate} is no number of tuples a second")
    with Replay(open_source(file), address, rate, punct_namespace) as replay:
        say(f"listening on {replay.address}")
        if not replay.run():
            sent = f" after {replay.tuples:,} tuples" if rate is not None else ""
            say(f"the peer left{sent}")
