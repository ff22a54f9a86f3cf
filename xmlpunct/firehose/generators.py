"""Generators: the examples of the papers as punctuated streams of any size, deterministic for a seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE

Line = tuple[str, str]
"""The name of a file, and a line of it."""


def warehouse(sensors: int, hours: int, readings: int, punctuations: int, seed: int) -> Iterator[Line]:
    """Temperature reports (Example 1): a file per sensor, ``readings`` per minute.

    There are ``punctuations`` per hour (0 or a divisor of 60). Each closes the minutes since the previous one, and the
    last one closes the hour.
    """
    if punctuations and 60 % punctuations:
        raise UsageError(f"{punctuations} punctuations per hour: the number must divide 60")
    for sensor in range(1, sensors + 1):
        random = Random(f"{seed}/{sensor}")
        file, heat = f"sensor{sensor}.xml", random.randint(60, 80)
        for hour in range(hours):
            for minute in range(60):
                for _ in range(readings):
                    heat = min(max(heat + random.randint(-2, 2), 20), 95)
                    yield file, _element("tempdata", sid=f"S{sensor:02}", hour=hour, min=minute, currtmp=heat)
                if punctuations and (minute + 1) * punctuations % 60 == 0:
                    first = minute + 1 - 60 // punctuations
                    part = "*" if minute == 59 else f"[{first},{minute}]" if first < minute else minute
                    yield file, _element("punct:tempdata", sid="*", hour=hour, min=part, currtmp="*")


def auction(items: int, bids: int, open_items: int, punctuated: bool, seed: int) -> Iterator[Line]:
    """Items for sale and bids on them (Example 2), ``open_items`` at a time: ``items.xml`` and ``bids.xml``.

    If ``punctuated``, a punctuation after each item closes its number, and one after its last bid closes its bids.
    """
    random = Random(seed)
    running: deque[int] = deque()
    bid_count = 0
    for item in range(items):
        price, seller = random.randint(1, 500), f"P{random.randint(1, 9999):04}"
        yield "items.xml", _element("item", itemid=item, seller=seller, price=price)
        if punctuated:
            yield "items.xml", _element("punct:item", itemid=item, seller="*", price="*")
        running.append(item)
        due = (item + 1) * bids // items  # distribute bids evenly over items
        while bid_count < due:
            item_number, buyer = running[random.randrange(len(running))], f"P{random.randint(1, 9999):04}"
            yield (
                "bids.xml",
                _element("bid", itemid=item_number, increase=random.randint(1, 20), buyerid=buyer),
            )
            bid_count += 1
        if punctuated:
            last = item == items - 1
            while len(running) >= open_items or (last and running):
                closed = running.popleft()
                yield "bids.xml", _element("punct:bid", itemid=closed, increase="*", buyerid="*")
        elif len(running) >= open_items:
            running.popleft()


def outage(hours: int, zones: int, monitors: int, punctuated: bool, seed: int) -> Iterator[Line]:
    """Electrical outages (the technical report's Figure 1), reported by monitors of the equipment and by customers.

    The files are ``monitor1.xml`` and so on, and ``calls.xml``. In each hour a third of the zones has an outage. Each
    monitor reports it up to twice or not at all, and so do customers. If ``punctuated``, each file closes each hour.
    """
    random = Random(seed)
    senders = [("report", f"monitor{monitor}.xml") for monitor in range(1, monitors + 1)] + [
        ("call", "calls.xml")
    ]
    yield from ((file, "") for _, file in senders)
    for hour in range(hours):
        for zone in random.sample(range(1, zones + 1), (zones + 2) // 3):
            for name, file in senders:
                for _ in range(random.randint(0, 2)):
                    yield file, _element(name, zoneid=zone, hour=hour)
        if punctuated:
            yield from ((file, _element(f"punct:{name}", zoneid="*", hour=hour)) for name, file in senders)


def _element(name: str, **children: object) -> str:
    inside = "".join(f"<{child}>{value}</{child}>" for child, value in children.items())
    return f"<{name}>{inside}</{name}>\n"


def write(lines: Iterable[Line], directory: str) -> list[Path]:
    """Write generated lines into files of a directory, each a complete document. Returns the files' paths.

    Raises `UsageError` if a file cannot be written.
    """
    folder = Path(directory)
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = {}
            for name, line in lines:
                if name not in files:
                    files[name] = stack.enter_context(open(folder / name, "w", encoding="utf-8"))
                    files[name].write(f'<stream xmlns:punct="{PUNCT_NAMESPACE}">\n')
                files[name].write(line)
            for file in files.values():
                file.write("</stream>\n")
        except OSError as error:
            raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return [folder / name for name in files]
