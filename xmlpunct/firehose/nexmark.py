"""The generator of NEXMark's auction site: one stream of people, auctions and bids, in nested elements."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from xmlpunct.firehose.generators import Line

FILE = "nexmark.xml"

CYCLE = 50
"""Events per cycle: the first is a person, the next ``AUCTIONS`` are auctions, and the remaining ones are bids."""
AUCTIONS = 3
CATEGORIES = (10, 14)
ACTIVE = 100
"""Number of active people: only the latest ones sell and bid."""

_FIRST_NAMES = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gro", "Hal")
_LAST_NAMES = ("Abrams", "Berg", "Cho", "Diaz", "Eng", "Falk")
_CITIES = (
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
    """A stream of ``events``, ``rate`` per second, with about ``open_auctions`` auctions open at a time.

    Times are milliseconds. All punctuations hold for the whole stream. Every ``promise_every`` events (0: no
    punctuations), punctuations close past times of each kind of event, past numbers of people and auctions, and past
    sellers. At the end of an auction, a punctuation closes its bids.
    """
    random = Random(seed)
    lifetime = max(open_auctions * CYCLE * 1000 // (AUCTIONS * rate), 1)
    running: list[int] = []
    ends: list[tuple[int, int]] = []
    people = auctions = 0
    for event in range(events):
        time = event * 1000 // rate
        while ends and ends[0][0] < time:
            ended = heappop(ends)[1]
            running.remove(ended)
            if promise_every:
                yield FILE, _promise("bidder", f"<punct:auction>{ended}</punct:auction>")
        if promise_every and event and event % promise_every == 0:
            yield from ((FILE, line) for line in _promises(time, people, auctions))
        cycle_position = event % CYCLE
        if cycle_position == 0:
            yield FILE, _person(people, time, random)
            people += 1
        elif cycle_position <= AUCTIONS or not running:
            end = time + random.randint(1, 2 * lifetime)
            yield FILE, _auction(auctions, _active(people, random), time, end, random)
            running.append(auctions)
            heappush(ends, (end, auctions))
            auctions += 1
        else:
            hot = random.random() < 0.5
            auction = running[-1] if hot else running[random.randrange(len(running))]
            yield FILE, _bid(auction, _active(people, random), time, random)


def _active(people: int, random: Random) -> int:
    return random.randrange(max(people - ACTIVE, 0), people)


def _promises(time: int, people: int, auctions: int) -> Iterator[str]:
    """Punctuations that hold after this many people and auctions, at this time, which is not over yet."""
    yield _promise("person", f"<registered>(,{time})</registered>")
    yield _promise("person", "", f' id="(,{people})"')
    yield _promise("open_auction", f"<interval><start>(,{time})</start></interval>")
    yield _promise("open_auction", f"<interval><end>(,{time}]</end></interval>")  # an auction takes time
    yield _promise("open_auction", "", f' id="(,{auctions})"')
    yield _promise("open_auction", f'<seller person="(,{people - ACTIVE})"/>')
    yield _promise("bidder", f"<time>(,{time})</time>")


def _promise(kind: str, inside: str, attributes: str = "") -> str:
    return f"<punct:{kind}{attributes}>{inside}</punct:{kind}>\n"


def _person(number: int, time: int, random: Random) -> str:
    first_name, last_name = random.choice(_FIRST_NAMES), random.choice(_LAST_NAMES)
    city, state = random.choice(_CITIES)
    return (
        f'<person id="{number}"><name>{first_name} {last_name}</name>'
        f"<emailaddress>{first_name.lower()}.{last_name.lower()}{number}@example.com</emailaddress>"
        f"<address><street>{random.randint(1, 99)} Main St</street><city>{city}</city>"
        f"<province>{state}</province><country>United States</country></address>"
        f"<registered>{time}</registered></person>\n"
    )


def _auction(number: int, seller: int, time: int, end: int, random: Random) -> str:
    initial = random.randint(1, 200)
    return (
        f'<open_auction id="{number}" new="yes"><seller person="{seller}"/>'
        f'<itemref item="{number}"><name>{random.choice(_THINGS)}</name></itemref>'
        f"<category>{random.randint(*CATEGORIES)}</category>"
        f"<initial>{initial}</initial><reserve>{initial + random.randint(0, 200)}</reserve>"
        f"<interval><start>{time}</start><end>{end}</end></interval></open_auction>\n"
    )


def _bid(auction: int, bidder: int, time: int, random: Random) -> str:
    price = int(10 ** random.uniform(2, 6))
    return (
        f'<open_auction id="{auction}"><bidder><time>{time}</time><person_ref person="{bidder}"/>'
        f"<bid>{price}</bid></bidder></open_auction>\n"
    )
