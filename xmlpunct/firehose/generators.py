"""Generators: the examples of the papers as punctuated streams of any size, the same for the same seed."""

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
    """Temperature reports (Example 1): a file per sensor, ``readings`` a minute.

    ``punctuations`` an hour (0 or a divisor of 60) each close some minutes, the last of an hour all of it.
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

    If ``punctuated``, an item is followed by the promise that no other has its number, and its last bid by
    the promise that there are no more.
    """
    random = Random(seed)
    running: deque[int] = deque()
    made = 0
    for item in range(items):
        price, seller = random.randint(1, 500), f"P{random.randint(1, 9999):04}"
        yield "items.xml", _element("item", itemid=item, seller=seller, price=price)
        if punctuated:
            yield "items.xml", _element("punct:item", itemid=item, seller="*", price="*")
        running.append(item)
        due = (item + 1) * bids // items  # bids keep step with items
        while made < due:
            at, buyer = running[random.randrange(len(running))], f"P{random.randint(1, 9999):04}"
            yield "bids.xml", _element("bid", itemid=at, increase=random.randint(1, 20), buyerid=buyer)
            made += 1
        if punctuated:
            last = item == items - 1
            while len(running) >= open_items or (last and running):
                closed = running.popleft()
                yield "bids.xml", _element("punct:bid", itemid=closed, increase="*", buyerid="*")
        elif len(running) >= open_items:
            running.popleft()


def outage(hours: int, zones: int, monitors: int, punctuated: bool, seed: int) -> Iterator[Line]:
    """Electrical outages (the technical report's Figure 1), as monitors of the equipment and customers report them.

    The files are ``monitor1.xml`` and so on, and ``calls.xml``. In an hour a third of the zones has an outage; each
    monitor notices it or not, some more than once, and so do customers. If ``punctuated``, each file closes each hour.
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
    """Write generated lines into files of a directory, each a whole document; the files' paths.

    Raises `UsageError` where that is impossible.
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
