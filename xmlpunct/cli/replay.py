"""``xmlpunct replay``."""

from __future__ import annotations

import math

import click

from xmlpunct.base.errors import UsageError
from xmlpunct.cli.shared_options import namespace_option
from xmlpunct.cli.terminal import complete_files, say
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.firehose.replay_server import Replay


@click.command("replay")
@click.argument("file", shell_complete=complete_files)
@click.option("--listen", "where", required=True, metavar="HOST:PORT", help="The address to listen on.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Tuples per second (default: as fast as the client reads).",
)
@namespace_option
def replay_command(file: str, where: str, rate: float | None, punct_namespace: str) -> None:
    """Serve FILE as a live stream to the first client that connects, and exit after the last tuple.

    The children of the root element are the tuples. Port 0 is any free port; its number is printed on standard
    error. A client may disconnect at any time.
    """
    try:
        address = SocketAddress.parse(f"tcp-listen://{where}")
    except UsageError:
        address = None
    if address is None or "?" in where:
        raise UsageError(f"--listen {where}: write HOST:PORT")
    if rate is not None and not math.isfinite(rate):
        raise UsageError(f"--rate {rate} is not a number of tuples per second")
    with Replay(open_source(file), address, rate, punct_namespace) as replay:
        say(f"listening on {replay.address}")
        if not replay.run():
            sent = f" after {replay.tuples:,} tuples" if rate is not None else ""
            say(f"the client disconnected{sent}")
