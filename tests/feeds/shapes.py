"""Random documents shaped like the sample feeds, with optional, repeated and occasionally invalid elements."""

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


def build(prefixed: str, *content: Element | str | None, **attributes: str | None) -> Element:
    """Build an element with a prefixed name of a feed."""
    return element(name(prefixed), *content, **attributes)


def punctuation(prefixed: str, column: str, pattern: str) -> Element:
    """A punctuation with one pattern, in the namespace of punctuations."""
    local = prefixed.rpartition(":")[2]
    return element(f"{{{PUNCT_NAMESPACE}}}{local}", element(f"{{{PUNCT_NAMESPACE}}}{column}", pattern))


class Maker:
    """Generates parts of documents."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.clock = datetime(2026, 3, 1, 10, 58, tzinfo=UTC)

    def coin(self, chance: float = 0.5) -> bool:
        return self.rng.random() < chance

    def text(self) -> str:
        return self.rng.choice(TEXTS)

    def leaf(
        self, prefixed: str, *texts: str, chance: float = 0.7, **attributes: str | None
    ) -> list[Element]:
        """Zero, one or, rarely, two children; the text comes from ``texts`` or else from `TEXTS`."""
        times = 0 if not self.coin(chance) else 2 if self.coin(0.03) else 1
        return [build(prefixed, self.rng.choice(texts or TEXTS), **attributes) for _ in range(times)]

    def repeated(self, maker: Callable[[], Element], max_count: int = 3) -> list[Element]:
        return [maker() for _ in range(self.rng.randint(0, max_count))]

    def mixed(self, *groups: list[Element]) -> list[Element]:
        """The children of an element, in any order."""
        children = [child for group in groups for child in group]
        if self.coin(0.3):
            self.rng.shuffle(children)
        return children

    def number(self) -> str:
        return self.rng.choice(["0", "1.5", "-2.25", "+3", " 4.0 ", "10.10"])

    def time(self) -> str:
        """The next time, not before the previous one, in a random time zone."""
        self.clock += timedelta(seconds=self.rng.choice([0, 1, 20, 90]))
        zone = self.rng.choice(
            [UTC, UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30))]
        )
        text = self.clock.astimezone(zone).isoformat()
        return text.replace("+00:00", "Z") if self.coin() else text

    def moment(self) -> str:
        """The current time of the document, in UTC."""
        return self.clock.isoformat().replace("+00:00", "Z")

    # Feeds

    def osm(self) -> Element:
        def tag() -> Element:
            return build("tag", k=self.rng.choice(["amenity", "name", "x", "y"]), v=self.text())

        def node() -> Element:
            number = str(self.rng.randint(0, 9)) if self.coin(0.95) else None
            tags = self.repeated(tag, 4)
            return build("node", *tags, id=number, lat=self.number(), lon=self.number(), version="1")

        other_elements = [
            build("way", build("nd", ref="1"), tag(), id="7"),
            build("bounds", minlat="1"),
        ]
        return build("osm", *self.mixed(self.repeated(node, 5), [o for o in other_elements if self.coin()]))

    def rss(self) -> Element:
        def item() -> Element:
            guid = self.leaf("guid", chance=0.95, isPermaLink=self.rng.choice(["true", "false", None]))
            parts = [guid, self.leaf("title"), self.leaf("dc:creator"), self.leaf("content:encoded")]
            parts += [
                self.repeated(lambda: build("category", self.text())),
                self.leaf("description", chance=0.3),
            ]
            return build("item", *self.mixed(*parts))

        def channel() -> Element:
            items = self.repeated(item, 4)
            items.insert(self.rng.randint(0, len(items)) if self.coin(0.2) else 0, build("link", "x"))
            items[0:0] = self.leaf("title", chance=0.9)
            return build("channel", *items)

        return build("rss", channel(), version="2.0")

    def atom(self) -> Element:
        def entry() -> Element:
            def category() -> Element:
                term = self.text() if self.coin(0.95) else None
                return build("atom:category", term=term, label=self.text() if self.coin() else None)

            def link() -> Element:
                rel = self.rng.choice(["self", "alternate", "enclosure", None])
                return build("atom:link", rel=rel, href=self.text())

            author = build("atom:author", *self.leaf("atom:name"), build("atom:uri", "x"))
            body = build("atom:content", self.text(), build("dc:b", self.text()), type="xhtml")
            parts = [self.leaf("atom:id", chance=0.95), self.leaf("atom:title"), self.repeated(link)]
            parts += [[build("atom:updated", self.time())], self.repeated(category)]
            parts += [[author] if self.coin() else [], [body] if self.coin() else []]
            return build("atom:entry", *self.mixed(*parts))

        return build(
            "atom:feed",
            build("atom:title", "feed"),
            build("atom:link", rel="self"),
            *self.repeated(entry, 4),
        )

    def gpx(self) -> Element:
        def point() -> Element:
            heart = build("t:TrackPointExtension", *self.leaf("t:hr", "90", " 120", "151"))
            if self.coin(0.1):
                self.clock -= timedelta(minutes=1)
            parts = [self.leaf("gpx:ele", "1", "600.5", "-3.0"), [build("gpx:time", self.time())]]
            parts += [[build("gpx:extensions", heart)] if self.coin() else []]
            return build("gpx:trkpt", *self.mixed(*parts), lat=self.number(), lon=self.number())

        def track() -> Element:
            segments = self.repeated(lambda: build("gpx:trkseg", *self.repeated(point)), 2)
            return build("gpx:trk", *self.leaf("gpx:name", chance=0.9), *segments)

        return build("gpx:gpx", build("gpx:metadata", *self.leaf("gpx:name")), *self.repeated(track))

    def ubl(self) -> Element:
        rates = ("S", "AA")

        def category(prefixed: str) -> list[Element]:
            return (
                [build(prefixed, *self.leaf("cbc:ID", *rates), build("cbc:Percent", "20"))]
                if self.coin(0.9)
                else []
            )

        def amount(prefixed: str) -> list[Element]:
            currency = self.rng.choice(["EUR", "SEK", None])
            return self.leaf(prefixed, "1.5", "17.25", " 3 ", "-0.01", chance=0.95, currencyID=currency)

        def line() -> Element:
            texts = self.repeated(lambda: build("cbc:Description", self.text()))
            item = build("cac:Item", *self.mixed(texts, category("cac:ClassifiedTaxCategory")))
            return build(
                "cac:InvoiceLine", *self.mixed(self.leaf("cbc:ID"), amount("cbc:LineExtensionAmount"), [item])
            )

        def subtotal() -> Element:
            parts = self.mixed(amount("cbc:TaxableAmount"), category("cac:TaxCategory"))
            return build("cac:TaxSubtotal", *parts)

        total = build("cac:TaxTotal", *amount("cbc:TaxAmount"), *self.repeated(subtotal))
        children = [
            *self.leaf("cbc:ID", "F1", "F2", chance=0.95),
            build("cac:Party", *self.leaf("cbc:ID")),
        ]
        return build("inv:Invoice", *children, *self.mixed([total], self.repeated(line, 5)))

    def siri(self) -> Element:
        def call() -> Element:
            times = [self.leaf(f"siri:{kind}ArrivalTime", self.moment()) for kind in ("Aimed", "Expected")]
            return build("siri:EstimatedCall", *self.mixed(self.leaf("siri:StopPointRef"), *times))

        def journey() -> Element:
            calls = [build("siri:EstimatedCalls", *self.repeated(call))] if self.coin(0.8) else []
            reference = self.leaf("siri:DatedVehicleJourneyRef", "1", "2", "3", chance=0.97)
            line = self.leaf("siri:LineRef", "7", "12", chance=0.97)
            return build("siri:EstimatedVehicleJourney", *self.mixed(line, reference, calls))

        def frame() -> Element:
            recorded = build("siri:RecordedAtTime", self.time())
            return build("siri:EstimatedJourneyVersionFrame", recorded, *self.repeated(journey))

        def delivery() -> Element:
            frames = build("siri:EstimatedTimetableDelivery", *self.repeated(frame, 2))
            return build("siri:ServiceDelivery", *self.leaf("siri:ProducerRef", "north", "south"), frames)

        parts: list[Element] = []
        for _ in range(self.rng.randint(0, 3)):
            parts.append(delivery())
            if self.coin():
                parts.append(punctuation("siri:EstimatedVehicleJourney", "recorded", f"(,{self.moment()})"))
        return build("siri:Siri", *parts, version="2.0")

    def netconf(self) -> Element:
        def event() -> Element:
            if self.coin(0.2):
                return build("dc:session-start", build("dc:username", "ops"))
            fields = [self.leaf("link:if-name", "eth0", "eth1"), self.leaf("link:state", "up", "down")]
            return build("link:link-state", *self.mixed(*fields, self.leaf("link:severity")))

        parts: list[Element] = []
        for _ in range(self.rng.randint(0, 6)):
            self.clock += timedelta(minutes=self.rng.choice([0, 0, 30]))
            parts.append(build("n:notification", *self.mixed([build("n:eventTime", self.time())], [event()])))
            if self.coin(0.3):
                parts.append(punctuation("n:notification", "at", f"(,{self.moment()})"))
        return build("session", *parts)

    def xmark(self) -> Element:
        people, items, auctions = 3, 3, self.rng.randint(0, 4)

        def item(number: int) -> Element:
            featured = self.rng.choice(["yes", "yes", "no", None])
            return build(
                "item",
                *self.leaf("name"),
                build("quantity", "1"),
                id=f"item{number}",
                featured=featured,
            )

        def person(number: int) -> Element:
            return build("person", *self.mixed(self.leaf("name"), self.leaf("phone")), id=f"person{number}")

        def bidder() -> Element:
            reference = build("personref", person=f"person{self.rng.randint(0, people)}")
            return build("bidder", *self.mixed(self.leaf("increase", "1.50", "3", " 4.5 "), [reference]))

        def auction(number: int) -> list[Element]:
            reference = build("itemref", item=f"item{self.rng.randint(0, items)}")
            parts = self.mixed(
                self.repeated(bidder, 4), [reference] if self.coin(0.95) else [], self.leaf("initial")
            )
            closed = [punctuation("open_auction", "auction", f"auction{number}")] if self.coin() else []
            return [build("open_auction", *parts, id=f"auction{number}"), *closed]

        def over(stream: str) -> list[Element]:
            return [punctuation(stream, "id", "(,)")] if self.coin() else []

        sections = [
            [build("regions", build("asia", *map(item, range(items)))), *over("item")],
            [build("people", *map(person, range(people))), *over("person")],
            [build("open_auctions", *(part for n in range(auctions) for part in auction(n)))],
        ]
        self.rng.shuffle(sections)
        return build("site", *(part for section in sections for part in section))

    def xmark_notes(self, depth: int = 3) -> Element:
        def text() -> Element:
            words: list[Element | str] = [self.text() for _ in range(self.rng.randint(0, 3))]
            words[1:1] = [
                build(self.rng.choice(["bold", "keyword"]), self.text(), build("emph", self.text()))
            ]
            return build("text", *words) if self.coin(0.8) else build("text")

        def item(left: int) -> Element:
            below = [build("parlist", *self.repeated(lambda: item(left - 1)))] if left and self.coin() else []
            texts = [text() for _ in range(self.rng.choice([0, 1, 1, 1, 1, 2 if self.coin(0.2) else 1]))]
            return build("listitem", *self.mixed(texts, below))

        return build("site", build("description", build("parlist", *self.repeated(lambda: item(depth)))))


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
