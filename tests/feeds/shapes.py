"""Random documents in the shapes of the feeds: what is optional, what is repeated, and now and then what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from random import Random

from tests.feeds.answers import NAMESPACES
from tests.feeds.markup import Element, element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE

TEXTS = ("", "a", "b & c", "<i>", "]]>", "\"'", " é ", "\U0001f600\n", "a longer text of some words")


def name(prefixed: str) -> str:
    """An expanded name."""
    prefix, _, local = prefixed.rpartition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}" if prefix else local


def made(prefixed: str, *content: Element | str | None, **attributes: str | None) -> Element:
    """An element of a feed's namespace."""
    return element(name(prefixed), *content, **attributes)


def said(prefixed: str, column: str, pattern: str) -> Element:
    """A punctuation: under the column's name, in the namespace of punctuations."""
    local = prefixed.rpartition(":")[2]
    return element(f"{{{PUNCT_NAMESPACE}}}{local}", element(f"{{{PUNCT_NAMESPACE}}}{column}", pattern))


class Maker:
    """Makes parts of documents."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = datetime(2026, 3, 1, 10, 58, tzinfo=UTC)

    def coin(self, chance: float = 0.5) -> bool:
        return self.rng.random() < chance

    def text(self) -> str:
        return self.rng.choice(TEXTS)

    def leaf(self, prefixed: str, *texts: str, there: float = 0.7, **attributes: str | None) -> list[Element]:
        """An optional child with one of these texts or any; now and then, two."""
        times = 0 if not self.coin(there) else 2 if self.coin(0.03) else 1
        return [made(prefixed, self.rng.choice(texts or TEXTS), **attributes) for _ in range(times)]

    def some(self, maker: Callable[[], Element], most: int = 3) -> list[Element]:
        return [maker() for _ in range(self.rng.randint(0, most))]

    def mixed(self, *groups: list[Element]) -> list[Element]:
        """The children of an element, in any order."""
        children = [child for group in groups for child in group]
        if self.coin(0.3):
            self.rng.shuffle(children)
        return children

    def number(self) -> str:
        return self.rng.choice(["0", "1.5", "-2.25", "+3", " 4.0 ", "10.10"])

    def time(self) -> str:
        """A time that is no earlier than the one before, in some zone."""
        self.now += timedelta(seconds=self.rng.choice([0, 1, 20, 90]))
        zone = self.rng.choice(
            [UTC, UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30))]
        )
        text = self.now.astimezone(zone).isoformat()
        return text.replace("+00:00", "Z") if self.coin() else text

    def moment(self) -> str:
        """Now, in UTC."""
        return self.now.isoformat().replace("+00:00", "Z")

    # Feeds

    def osm(self) -> Element:
        def tag() -> Element:
            return made("tag", k=self.rng.choice(["amenity", "name", "x", "y"]), v=self.text())

        def node() -> Element:
            number = str(self.rng.randint(0, 9)) if self.coin(0.95) else None
            tags = self.some(tag, 4)
            return made("node", *tags, id=number, lat=self.number(), lon=self.number(), version="1")

        others = [made("way", made("nd", ref="1"), tag(), id="7"), made("bounds", minlat="1")]
        return made("osm", *self.mixed(self.some(node, 5), [o for o in others if self.coin()]))

    def rss(self) -> Element:
        def item() -> Element:
            guid = self.leaf("guid", there=0.95, isPermaLink=self.rng.choice(["true", "false", None]))
            parts = [guid, self.leaf("title"), self.leaf("dc:creator"), self.leaf("content:encoded")]
            parts += [self.some(lambda: made("category", self.text())), self.leaf("description", there=0.3)]
            return made("item", *self.mixed(*parts))

        def channel() -> Element:
            items = self.some(item, 4)
            items.insert(self.rng.randint(0, len(items)) if self.coin(0.2) else 0, made("link", "x"))
            items[0:0] = self.leaf("title", there=0.9)
            return made("channel", *items)

        return made("rss", channel(), version="2.0")

    def atom(self) -> Element:
        def entry() -> Element:
            def category() -> Element:
                term = self.text() if self.coin(0.95) else None
                return made("atom:category", term=term, label=self.text() if self.coin() else None)

            def link() -> Element:
                rel = self.rng.choice(["self", "alternate", "enclosure", None])
                return made("atom:link", rel=rel, href=self.text())

            author = made("atom:author", *self.leaf("atom:name"), made("atom:uri", "x"))
            body = made("atom:content", self.text(), made("dc:b", self.text()), type="xhtml")
            parts = [self.leaf("atom:id", there=0.95), self.leaf("atom:title"), self.some(link)]
            parts += [[made("atom:updated", self.time())], self.some(category)]
            parts += [[author] if self.coin() else [], [body] if self.coin() else []]
            return made("atom:entry", *self.mixed(*parts))

        return made(
            "atom:feed", made("atom:title", "feed"), made("atom:link", rel="self"), *self.some(entry, 4)
        )

    def gpx(self) -> Element:
        def point() -> Element:
            heart = made("t:TrackPointExtension", *self.leaf("t:hr", "90", " 120", "151"))
            if self.coin(0.1):
                self.now -= timedelta(minutes=1)
            parts = [self.leaf("gpx:ele", "1", "600.5", "-3.0"), [made("gpx:time", self.time())]]
            parts += [[made("gpx:extensions", heart)] if self.coin() else []]
            return made("gpx:trkpt", *self.mixed(*parts), lat=self.number(), lon=self.number())

        def track() -> Element:
            segments = self.some(lambda: made("gpx:trkseg", *self.some(point)), 2)
            return made("gpx:trk", *self.leaf("gpx:name", there=0.9), *segments)

        return made("gpx:gpx", made("gpx:metadata", *self.leaf("gpx:name")), *self.some(track))

    def ubl(self) -> Element:
        rates = ("S", "AA")

        def category(prefixed: str) -> list[Element]:
            return (
                [made(prefixed, *self.leaf("cbc:ID", *rates), made("cbc:Percent", "20"))]
                if self.coin(0.9)
                else []
            )

        def amount(prefixed: str) -> list[Element]:
            currency = self.rng.choice(["EUR", "SEK", None])
            return self.leaf(prefixed, "1.5", "17.25", " 3 ", "-0.01", there=0.95, currencyID=currency)

        def line() -> Element:
            texts = self.some(lambda: made("cbc:Description", self.text()))
            item = made("cac:Item", *self.mixed(texts, category("cac:ClassifiedTaxCategory")))
            return made(
                "cac:InvoiceLine", *self.mixed(self.leaf("cbc:ID"), amount("cbc:LineExtensionAmount"), [item])
            )

        def subtotal() -> Element:
            parts = self.mixed(amount("cbc:TaxableAmount"), category("cac:TaxCategory"))
            return made("cac:TaxSubtotal", *parts)

        total = made("cac:TaxTotal", *amount("cbc:TaxAmount"), *self.some(subtotal))
        children = [*self.leaf("cbc:ID", "F1", "F2", there=0.95), made("cac:Party", *self.leaf("cbc:ID"))]
        return made("inv:Invoice", *children, *self.mixed([total], self.some(line, 5)))

    def siri(self) -> Element:
        def call() -> Element:
            times = [self.leaf(f"siri:{kind}ArrivalTime", self.moment()) for kind in ("Aimed", "Expected")]
            return made("siri:EstimatedCall", *self.mixed(self.leaf("siri:StopPointRef"), *times))

        def journey() -> Element:
            calls = [made("siri:EstimatedCalls", *self.some(call))] if self.coin(0.8) else []
            reference = self.leaf("siri:DatedVehicleJourneyRef", "1", "2", "3", there=0.97)
            line = self.leaf("siri:LineRef", "7", "12", there=0.97)
            return made("siri:EstimatedVehicleJourney", *self.mixed(line, reference, calls))

        def frame() -> Element:
            recorded = made("siri:RecordedAtTime", self.time())
            return made("siri:EstimatedJourneyVersionFrame", recorded, *self.some(journey))

        def delivery() -> Element:
            frames = made("siri:EstimatedTimetableDelivery", *self.some(frame, 2))
            return made("siri:ServiceDelivery", *self.leaf("siri:ProducerRef", "north", "south"), frames)

        parts: list[Element] = []
        for _ in range(self.rng.randint(0, 3)):
            parts.append(delivery())
            if self.coin():
                parts.append(said("siri:EstimatedVehicleJourney", "recorded", f"(,{self.moment()})"))
        return made("siri:Siri", *parts, version="2.0")

    def netconf(self) -> Element:
        def event() -> Element:
            if self.coin(0.2):
                return made("dc:session-start", made("dc:username", "ops"))
            fields = [self.leaf("link:if-name", "eth0", "eth1"), self.leaf("link:state", "up", "down")]
            return made("link:link-state", *self.mixed(*fields, self.leaf("link:severity")))

        parts: list[Element] = []
        for _ in range(self.rng.randint(0, 6)):
            self.now += timedelta(minutes=self.rng.choice([0, 0, 30]))
            parts.append(made("n:notification", *self.mixed([made("n:eventTime", self.time())], [event()])))
            if self.coin(0.3):
                parts.append(said("n:notification", "at", f"(,{self.moment()})"))
        return made("session", *parts)

    def xmark(self) -> Element:
        people, items, auctions = 3, 3, self.rng.randint(0, 4)

        def item(number: int) -> Element:
            featured = self.rng.choice(["yes", "yes", "no", None])
            return made(
                "item", *self.leaf("name"), made("quantity", "1"), id=f"item{number}", featured=featured
            )

        def person(number: int) -> Element:
            return made("person", *self.mixed(self.leaf("name"), self.leaf("phone")), id=f"person{number}")

        def bidder() -> Element:
            reference = made("personref", person=f"person{self.rng.randint(0, people)}")
            return made("bidder", *self.mixed(self.leaf("increase", "1.50", "3", " 4.5 "), [reference]))

        def auction(number: int) -> list[Element]:
            reference = made("itemref", item=f"item{self.rng.randint(0, items)}")
            parts = self.mixed(
                self.some(bidder, 4), [reference] if self.coin(0.95) else [], self.leaf("initial")
            )
            closed = [said("open_auction", "auction", f"auction{number}")] if self.coin() else []
            return [made("open_auction", *parts, id=f"auction{number}"), *closed]

        def over(what: str) -> list[Element]:
            return [said(what, "id", "(,)")] if self.coin() else []

        sections = [
            [made("regions", made("asia", *map(item, range(items)))), *over("item")],
            [made("people", *map(person, range(people))), *over("person")],
            [made("open_auctions", *(part for n in range(auctions) for part in auction(n)))],
        ]
        self.rng.shuffle(sections)
        return made("site", *(part for section in sections for part in section))

    def xmark_notes(self, depth: int = 3) -> Element:
        def text() -> Element:
            words: list[Element | str] = [self.text() for _ in range(self.rng.randint(0, 3))]
            words[1:1] = [made(self.rng.choice(["bold", "keyword"]), self.text(), made("emph", self.text()))]
            return made("text", *words) if self.coin(0.8) else made("text")

        def item(left: int) -> Element:
            below = [made("parlist", *self.some(lambda: item(left - 1)))] if left and self.coin() else []
            texts = [text() for _ in range(self.rng.choice([0, 1, 1, 1, 1, 2 if self.coin(0.2) else 1]))]
            return made("listitem", *self.mixed(texts, below))

        return made("site", made("description", made("parlist", *self.some(lambda: item(depth)))))


SHAPES: dict[str, Callable[[Maker], Element]] = {
    "osm": Maker.osm,
    "rss": Maker.rss,
    "atom": Maker.atom,
    "gpx": Maker.gpx,
    "ubl": Maker.ubl,
    "siri": Maker.siri,
    "netconf": Maker.netconf,
    "xmark": Maker.xmark,
    "xmark-notes": Maker.xmark_notes,
}
