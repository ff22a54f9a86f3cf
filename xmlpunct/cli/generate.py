"""``xmlpunct generate``."""

from __future__ import annotations

from collections.abc import Iterable

import click

from xmlpunct.cli.terminal import PLACE, say
from xmlpunct.firehose import generators
from xmlpunct.firehose.nexmark import nexmark

COUNT = click.IntRange(min=1)
_out = click.option(
    "-o", "--output", type=PLACE, required=True, metavar="DIR", help="The directory to write the files to."
)
_seed = click.option("--seed", default=1, show_default=True, help="The same seed gives the same streams.")


@click.group("generate")
def generate_command() -> None:
    """Write punctuated test streams."""


@generate_command.command("warehouse")
@click.option(
    "--sensors", type=COUNT, default=2, show_default=True, help="The number of sensors; each has a file."
)
@click.option("--hours", type=COUNT, default=60, show_default=True)
@click.option(
    "--readings", type=COUNT, default=1, show_default=True, help="Readings per minute of each sensor."
)
@click.option(
    "--punctuations", type=click.IntRange(0, 60), default=1, show_default=True, help="Punctuations per hour."
)
@_seed
@_out
def warehouse_command(
    sensors: int, hours: int, readings: int, punctuations: int, seed: int, output: str
) -> None:
    """Temperature reports of sensors: sensor1.xml, sensor2.xml, ..."""
    _write(generators.warehouse(sensors, hours, readings, punctuations, seed), output)


@generate_command.command("auction")
@click.option("--items", type=COUNT, default=1000, show_default=True)
@click.option("--bids", type=COUNT, default=10_000, show_default=True)
@click.option(
    "--open",
    "open_items",
    type=COUNT,
    default=50,
    show_default=True,
    help="Items that are open at the same time.",
)
@click.option(
    "--punctuated/--plain", default=True, show_default=True, help="Write a punctuation per item, or none."
)
@_seed
@_out
def auction_command(items: int, bids: int, open_items: int, punctuated: bool, seed: int, output: str) -> None:
    """Items for sale and bids on them: items.xml and bids.xml."""
    _write(generators.auction(items, bids, open_items, punctuated, seed), output)


@generate_command.command("outage")
@click.option("--hours", type=COUNT, default=60, show_default=True)
@click.option(
    "--zones",
    type=COUNT,
    default=100,
    show_default=True,
    help="The number of zones. A third of them have an outage each hour.",
)
@click.option(
    "--monitors",
    type=COUNT,
    default=2,
    show_default=True,
    help="The number of monitors; each has a file, besides calls.xml.",
)
@click.option(
    "--punctuated/--plain", default=True, show_default=True, help="Write a punctuation per hour, or none."
)
@_seed
@_out
def outage_command(hours: int, zones: int, monitors: int, punctuated: bool, seed: int, output: str) -> None:
    """Electrical outages, noticed by monitors or customers: monitor1.xml, ..., and calls.xml."""
    _write(generators.outage(hours, zones, monitors, punctuated, seed), output)


@generate_command.command("nexmark")
@click.option(
    "--events", type=COUNT, default=10_000, show_default=True, help="The number of events. 46 of 50 are bids."
)
@click.option("--rate", type=COUNT, default=1000, show_default=True, help="Events per second of stream time.")
@click.option(
    "--open",
    "open_auctions",
    type=COUNT,
    default=100,
    show_default=True,
    help="Auctions that are open at the same time.",
)
@click.option(
    "--promise-every",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Events between punctuations; 0: no punctuations.",
)
@_seed
@_out
def nexmark_command(
    events: int, rate: int, open_auctions: int, promise_every: int, seed: int, output: str
) -> None:
    """NEXMark's auction site: people, auctions and bids in one stream, nexmark.xml."""
    _write(nexmark(events, rate, open_auctions, promise_every, seed), output)


def _write(lines: Iterable[generators.Line], output: str) -> None:
    for path in generators.write(lines, output):
        say(f"wrote {path}")
