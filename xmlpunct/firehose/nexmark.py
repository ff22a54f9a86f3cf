"""The generator of NEXMark's auction site: one stream of people, auctions and bids, in nested elements."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from xmlpunct.firehose.generators import Line

FILE = "nexmark.xml"

CYCLE = 50
"""Of so many events the first is a person, the next ``AUCTIONS`` are auctions, and all others are bids."""
AUCTIONS = 3
CATEGORIES = (10, 14)
ACTIVE = 100
"""Only the latest so many people sell and bid."""

_GIVEN = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gro", "Hal")
_FAMILY = ("Abrams", "Berg", "Cho", "Diaz", "Eng", "Falk")
_PLACES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Cheyenne", "WY"),
)
_THINGS = ("lamp", "clock", "vase", "chair", "map", "radio")


def nexmark(events: int, rate: int, open_auctions: int, promise_every: int, seed: int) -> Iterator[Line]:
    """``events`` of which ``rate`` happen in a second, with about ``open_auctions`` open at a time.

    Times are milliseconds. What is promised is true of the whole stream: every ``promise_every`` events (0: nothing
    is ever promised) that the time so far is over for each kind, that numbers of people and auctions come in
    order, and who sells no more; and at the end of each auction that it gets no more bids.
    """
    random = Random(seed)
    lifetime = max(open_auctions * CYCLE * 1000 // (AUCTIONS * rate), 1)
    running: list[int] = []
    ends: list[tuple[int, int]] = []
    people = auctions = 0
    for event in range(events):
        now = event * 1000 // rate
        while ends and ends[0][0] < now:
            ended = heappop(ends)[1]
            running.remove(ended)
            if promise_every:
                yield FILE, _promise("bidder", f"<punct:auction>{ended}</punct:auction>")
        if promise_every and event and event % promise_every == 0:
            yield from ((FILE, line) for line in _promises(now, people, auctions))
        place = event % CYCLE
        if place == 0:
            yield FILE, _person(people, now, random)
            people += 1
        elif place <= AUCTIONS or not running:
            end = now + random.randint(1, 2 * lifetime)
            yield FILE, _auction(auctions, _active(people, random), now, end, random)
            running.append(auctions)
            heappush(ends, (end, auctions))
            auctions += 1
        else:
            hot = random.random() < 0.5
            auction = running[-1] if hot else running[random.randrange(len(running))]
            yield FILE, _bid(auction, _active(people, random), now, random)


def _active(people: int, random: Random) -> int:
    return random.randrange(max(people - ACTIVE, 0), people)


def _promises(now: int, people: int, auctions: int) -> Iterator[str]:
    """What is true once so many people and auctions have come and the time is ``now``, which is not over."""
    yield _promise("person", f"<registered>(,{now})</registered>")
    yield _promise("person", "", f' id="(,{people})"')
    yield _promise("open_auction", f"<interval><start>(,{now})</start></interval>")
    yield _promise("open_auction", f"<interval><end>(,{now}]</end></interval>")  # an auction lasts
    yield _promise("open_auction", "", f' id="(,{auctions})"')
    yield _promise("open_auction", f'<seller person="(,{people - ACTIVE})"/>')
    yield _promise("bidder", f"<time>(,{now})</time>")


def _promise(kind: str, inside: str, attributes: str = "") -> str:
    return f"<punct:{kind}{attributes}>{inside}</punct:{kind}>\n"


def _person(number: int, now: int, random: Random) -> str:
    given, family = random.choice(_GIVEN), random.choice(_FAMILY)
    city, state = random.choice(_PLACES)
    return (
        f'<person id="{number}"><name>{given} {family}</name>'
        f"<emailaddress>{given.lower()}.{family.lower()}{number}@example.com</emailaddress>"
        f"<address><street>{random.randint(1, 99)} Main St</street><city>{city}</city>"
        f"<province>{state}</province><country>United States</country></address>"
        f"<registered>{now}</registered></person>\n"
    )


def _auction(number: int, seller: int, now: int, end: int, random: Random) -> str:
    initial = random.randint(1, 200)
    return (
        f'<open_auction id="{number}" new="yes"><seller person="{seller}"/>'
        f'<itemref item="{number}"><name>{random.choice(_THINGS)}</name></itemref>'
        f"<category>{random.randint(*CATEGORIES)}</category>"
        f"<initial>{initial}</initial><reserve>{initial + random.randint(0, 200)}</reserve>"
        f"<interval><start>{now}</start><end>{end}</end></interval></open_auction>\n"
    )


def _bid(auction: int, bidder: int, now: int, random: Random) -> str:
    price = int(10 ** random.uniform(2, 6))
    return (
        f'<open_auction id="{auction}"><bidder><time>{now}</time><person_ref person="{bidder}"/>'
        f"<bid>{price}</bid></bidder></open_auction>\n"
    )
