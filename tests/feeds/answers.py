"""What the samples' queries mean: tables made by plain loops over lxml, and the same questions in DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import polars as pl
from lxml import etree

from tests.oracle.values import Row

NAMESPACES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "atom": "http://www.w3.org/2005/Atom",
    "gpx": "http://www.topografix.com/GPX/1/1",
    "t": "http://www.garmin.com/xmlschemas/TrackPointExtension/v1",
    "inv": "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2",
    "cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
    "siri": "http://www.siri.org.uk/siri",
    "n": "urn:ietf:params:xml:ns:netconf:notification:1.0",
    "link": "urn:example:links",
}


class Rejected(Exception):
    """A tuple is no tuple: something that occurs once occurs twice, or what has to be there is not."""


def found(at: Any, path: str) -> list[Any]:
    """What is at a path of XPath."""
    return list(at.xpath(path, namespaces=NAMESPACES))


def one(at: Any, path: str, required: bool = False) -> str | None:
    """The text of what is at a path: an attribute or an element, if there is one."""
    there = found(at, path)
    if len(there) > 1 or (required and not there):
        raise Rejected
    if not there:
        return None
    return str(there[0]) if isinstance(there[0], str) else str(there[0].xpath("string()"))


def moment(text: str | None) -> str | None:
    """A time in UTC, without its zone."""
    if text is None:
        return None
    return datetime.fromisoformat(text.strip()).astimezone(UTC).replace(tzinfo=None).isoformat(" ")


def own(at: Any, path: str) -> str | None:
    """The text of an element without that of those in it."""
    if one(at, path) is None:
        return None
    return "".join(found(at, f"{path}/text()"))


@dataclass(frozen=True)
class Table:
    """A stream as a table: its elements, its columns, and how one is read; and the items in an element as another."""

    elements: str
    columns: Sequence[str]
    read: Callable[[Any], Row]
    items: str = ""
    item_columns: Sequence[str] = ()
    read_item: Callable[[Any], Row] = tuple

    def rows(self, root: Any) -> Iterator[tuple[Row, list[Row]]]:
        """Each row, and those of its items."""
        for at in found(root, self.elements):
            try:
                items = [self.read_item(item) for item in found(at, self.items)] if self.items else []
                yield self.read(at), items
            except Rejected:
                continue


@dataclass(frozen=True)
class Feed:
    """A sample: its tables, the items of each one's rows in another of the name ``<table>_items``, and the question."""

    tables: Mapping[str, Table]
    question: str
    in_order: str = ""
    """A column of the one table. What comes after a later value of it is dropped."""

    def answer(self, document: bytes) -> list[Row]:
        """The rows of the answer for a document."""
        root = etree.fromstring(document).getroottree()
        with duckdb.connect() as connection:
            for name, table in self.tables.items():
                rows = list(table.rows(root))
                if self.in_order:
                    rows = _in_order(rows, table.columns.index(self.in_order))
                own = [(number, *row) for number, (row, _) in enumerate(rows)]
                items = [
                    (number, place, *item)
                    for number, (_, its) in enumerate(rows)
                    for place, item in enumerate(its, 1)
                ]
                _register(connection, name, ["number", *table.columns], own)
                _register(connection, f"{name}_items", ["number", "place", *table.item_columns], items)
            answer = connection.execute(self.question).fetchall()
        return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in answer]


def _in_order(rows: list[tuple[Row, list[Row]]], place: int) -> list[tuple[Row, list[Row]]]:
    kept: list[tuple[Row, list[Row]]] = []
    for row in rows:
        if not kept or row[0][place] >= kept[-1][0][place]:
            kept.append(row)
    return kept


def _register(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], rows: list[Row]
) -> None:
    numbers = ("number", "place", "at_line")
    types: dict[str, Any] = {column: pl.Int64 if column in numbers else pl.String for column in columns}
    connection.register(name, pl.DataFrame(rows, schema=types, orient="row").to_arrow())


def _around(up: int, name: str) -> str:
    """What ended before the tuple began, among the children of the element that is ``up`` above it."""
    before = "/".join([".."] * (up - 1))
    return f"{before}/preceding-sibling::{name}" if before else f"preceding-sibling::{name}"


def _markup_text(at: Any, path: str) -> str | None:
    """An element that is read as it stood, by its text: its markup is compared with the document's."""
    return one(at, path)


FEEDS: dict[str, Feed] = {
    "osm": Feed(
        {
            "node": Table(
                "//node",
                ("id", "lat", "lon", "amenity", "name"),
                lambda e: (
                    one(e, "@id", True),
                    one(e, "@lat"),
                    one(e, "@lon"),
                    one(e, "tag[@k='amenity']/@v"),
                    one(e, "tag[@k='name']/@v"),
                ),
                "tag",
                ("k", "v"),
                lambda e: (one(e, "@k"), one(e, "@v")),
            )
        },
        """SELECT CAST(id AS BIGINT), CAST(lat AS DECIMAL(9,7)), CAST(lon AS DECIMAL(10,7)), amenity,
                  IFNULL(name, 'unnamed'), k, v
           FROM node JOIN node_items USING (number)
           WHERE amenity IS NOT NULL AND k <> 'amenity' AND k <> 'name'""",
    ),
    "rss": Feed(
        {
            "item": Table(
                "//item",
                ("channel", "guid", "linked", "title", "author", "body", "category"),
                lambda e: (
                    one(e, _around(1, "title")),
                    one(e, "guid", True),
                    one(e, "guid/@isPermaLink"),
                    one(e, "title"),
                    one(e, "dc:creator"),
                    one(e, "content:encoded"),
                    one(e, "category[1]"),
                ),
            )
        },
        """SELECT channel, guid, linked IS NULL OR linked = 'true', title, IFNULL(author, 'agency'), category,
                  LENGTH(body)
           FROM item""",
    ),
    "atom": Feed(
        {
            "entry": Table(
                "//atom:entry",
                ("id", "title", "updated", "author", "self", "content"),
                lambda e: (
                    one(e, "atom:id", True),
                    one(e, "atom:title"),
                    moment(one(e, "atom:updated", True)),
                    one(e, "atom:author/atom:name"),
                    one(e, "atom:link[@rel='self']/@href"),
                    _markup_text(e, "atom:content"),
                ),
                "atom:category",
                ("term", "label"),
                lambda e: (one(e, "@term", True), one(e, "@label")),
            )
        },
        """SELECT id, title, CAST(updated AS TIMESTAMP), author, self, IFNULL(label, term), content
           FROM entry LEFT JOIN entry_items USING (number)""",
    ),
    "gpx": Feed(
        {
            "point": Table(
                "//gpx:trkpt",
                ("track", "lat", "lon", "ele", "time", "heart"),
                lambda e: (
                    one(e, _around(2, "gpx:name")),
                    one(e, "@lat", True),
                    one(e, "@lon", True),
                    one(e, "gpx:ele"),
                    moment(one(e, "gpx:time", True)),
                    one(e, "gpx:extensions/t:TrackPointExtension/t:hr"),
                ),
            )
        },
        """SELECT track, CAST(substr(time, 1, 13) || ':00:00' AS TIMESTAMP) AS hour, COUNT(*),
                  MAX(CAST(ele AS DECIMAL(7,1))), MAX(CAST(heart AS BIGINT)),
                  MIN(CAST(lat AS DECIMAL(9,6))), MAX(CAST(lat AS DECIMAL(9,6))),
                  MIN(CAST(lon AS DECIMAL(9,6))), MAX(CAST(lon AS DECIMAL(9,6)))
           FROM point GROUP BY track, hour""",
        in_order="time",
    ),
    "ubl": Feed(
        {
            "line": Table(
                "//cac:InvoiceLine[parent::inv:Invoice]",
                ("invoice", "description", "rate", "amount"),
                lambda e: (
                    one(e, _around(1, "cbc:ID")),
                    one(e, "cac:Item/cbc:Description[1]"),
                    one(e, "cac:Item/cac:ClassifiedTaxCategory/cbc:ID"),
                    one(e, "cbc:LineExtensionAmount", True),
                ),
            ),
            "tax": Table(
                "//cac:TaxSubtotal[parent::cac:TaxTotal]",
                ("invoice", "rate", "taxable", "currency"),
                lambda e: (
                    one(e, _around(2, "cbc:ID")),
                    one(e, "cac:TaxCategory/cbc:ID"),
                    one(e, "cbc:TaxableAmount", True),
                    one(e, "cbc:TaxableAmount/@currencyID"),
                ),
            ),
        },
        """SELECT t.invoice, t.rate, CAST(t.taxable AS DECIMAL(12,2)) AS taxed, t.currency,
                  SUM(CAST(l.amount AS DECIMAL(12,2))), COUNT(l.description)
           FROM tax t JOIN line l ON t.invoice = l.invoice AND t.rate = l.rate
           GROUP BY t.invoice, t.rate, taxed, t.currency""",
    ),
    "siri": Feed(
        {
            "journey": Table(
                "//siri:EstimatedVehicleJourney",
                ("producer", "recorded", "line", "journey"),
                lambda e: (
                    one(e, _around(3, "siri:ProducerRef")),
                    moment(one(e, _around(1, "siri:RecordedAtTime"), True)),
                    one(e, "siri:LineRef", True),
                    one(e, "siri:DatedVehicleJourneyRef", True),
                ),
                "siri:EstimatedCalls/siri:EstimatedCall",
                ("stop", "aimed", "expected"),
                lambda e: (
                    one(e, "siri:StopPointRef"),
                    moment(one(e, "siri:AimedArrivalTime")),
                    moment(one(e, "siri:ExpectedArrivalTime")),
                ),
            )
        },
        """SELECT CAST(substr(recorded, 1, 16) || ':00' AS TIMESTAMP) AS minute, line, producer,
                  COUNT(DISTINCT journey), COUNT(stop), MAX(place), MAX(CAST(IFNULL(expected, aimed) AS TIMESTAMP))
           FROM journey LEFT JOIN journey_items USING (number) GROUP BY minute, line, producer""",
    ),
    "netconf": Feed(
        {
            "notification": Table(
                "//n:notification",
                ("at", "interface", "state", "severity", "at_line"),
                lambda e: (
                    moment(one(e, "n:eventTime", True)),
                    one(e, "link:link-state/link:if-name"),
                    one(e, "link:link-state/link:state"),
                    one(e, "link:link-state/link:severity"),
                    e.sourceline,
                ),
            )
        },
        """SELECT CAST(substr("at", 1, 13) || ':00:00' AS TIMESTAMP) AS hour, interface, COUNT(*), MIN(at_line),
                  COUNT(severity)
           FROM notification WHERE state IS NOT NULL GROUP BY hour, interface""",
    ),
    "xmark": Feed(
        {
            "item": Table(
                "//item[@featured='yes']", ("id", "name"), lambda e: (one(e, "@id", True), one(e, "name"))
            ),
            "person": Table("//person", ("id", "name"), lambda e: (one(e, "@id", True), one(e, "name"))),
            "auction": Table(
                "//open_auction",
                ("id", "item"),
                lambda e: (one(e, "@id", True), one(e, "itemref/@item", True)),
                "bidder",
                ("person", "increase"),
                lambda e: (one(e, "personref/@person"), one(e, "increase")),
            ),
        },
        """SELECT a.id, i.name, p.name, COUNT(*), SUM(CAST(increase AS DECIMAL(12,2)))
           FROM auction a, auction_items b, item i, person p
           WHERE a.number = b.number AND a.item = i.id AND b.person = p.id
           GROUP BY a.id, i.name, p.name""",
    ),
    "xmark-notes": Feed(
        {
            "listitem": Table(
                "//listitem",
                ("at_line", "words", "plain"),
                lambda e: (e.sourceline, one(e, "text"), own(e, "text")),
            )
        },
        "SELECT at_line, words, plain FROM listitem WHERE words IS NOT NULL",
    ),
}
