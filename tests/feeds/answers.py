"""Expected results of the sample queries: tables extracted with lxml, queried by DuckDB."""

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
    """An invalid tuple: a single-valued path occurs twice, or a required one is missing."""


def xpath(at: Any, path: str) -> list[Any]:
    """The nodes that an XPath selects."""
    return list(at.xpath(path, namespaces=NAMESPACES))


def text_at(at: Any, path: str, required: bool = False) -> str | None:
    """The text of the one attribute or element at a path; None if there is none."""
    matches = xpath(at, path)
    if len(matches) > 1 or (required and not matches):
        raise Rejected
    if not matches:
        return None
    return str(matches[0]) if isinstance(matches[0], str) else str(matches[0].xpath("string()"))


def moment(text: str | None) -> str | None:
    """A time in UTC, without its zone."""
    if text is None:
        return None
    return datetime.fromisoformat(text.strip()).astimezone(UTC).replace(tzinfo=None).isoformat(" ")


def own_text_at(at: Any, path: str) -> str | None:
    """The text of an element, without the text of its children."""
    if text_at(at, path) is None:
        return None
    return "".join(xpath(at, f"{path}/text()"))


@dataclass(frozen=True)
class Table:
    """A stream as a table: the XPath of its elements, its columns, and the same for its nested items."""

    elements: str
    columns: Sequence[str]
    read: Callable[[Any], Row]
    items: str = ""
    item_columns: Sequence[str] = ()
    read_item: Callable[[Any], Row] = tuple

    def rows(self, root: Any) -> Iterator[tuple[Row, list[Row]]]:
        """Each row, with the rows of its items."""
        for at in xpath(root, self.elements):
            try:
                items = [self.read_item(item) for item in xpath(at, self.items)] if self.items else []
                yield self.read(at), items
            except Rejected:
                continue


@dataclass(frozen=True)
class Feed:
    """A sample: its tables, each with items in a table ``<table>_items``, and its query in DuckDB's SQL."""

    tables: Mapping[str, Table]
    question: str
    in_order: str = ""
    """A column of the only table; rows with a smaller value than an earlier row are dropped."""

    def answer(self, document: bytes) -> list[Row]:
        """The rows of the answer for a document."""
        root = etree.fromstring(document).getroottree()
        with duckdb.connect() as connection:
            for name, table in self.tables.items():
                rows = list(table.rows(root))
                if self.in_order:
                    rows = _in_order(rows, table.columns.index(self.in_order))
                numbered_rows = [(number, *row) for number, (row, _) in enumerate(rows)]
                items = [
                    (number, position, *item)
                    for number, (_, its) in enumerate(rows)
                    for position, item in enumerate(its, 1)
                ]
                _register(connection, name, ["number", *table.columns], numbered_rows)
                _register(connection, f"{name}_items", ["number", "place", *table.item_columns], items)
            answer = connection.execute(self.question).fetchall()
        return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in answer]


def _in_order(rows: list[tuple[Row, list[Row]]], index: int) -> list[tuple[Row, list[Row]]]:
    ordered: list[tuple[Row, list[Row]]] = []
    for row in rows:
        if not ordered or row[0][index] >= ordered[-1][0][index]:
            ordered.append(row)
    return ordered


def _register(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], rows: list[Row]
) -> None:
    numbers = ("number", "place", "at_line")
    types: dict[str, Any] = {column: pl.Int64 if column in numbers else pl.String for column in columns}
    connection.register(name, pl.DataFrame(rows, schema=types, orient="row").to_arrow())


def _around(up: int, name: str) -> str:
    """XPath of the earlier siblings called ``name``, ``up`` levels above the tuple."""
    before = "/".join([".."] * (up - 1))
    return f"{before}/preceding-sibling::{name}" if before else f"preceding-sibling::{name}"


def _markup_text(at: Any, path: str) -> str | None:
    """The text of an XML column; `test_feeds.plain` compares its markup with the document."""
    return text_at(at, path)


FEEDS: dict[str, Feed] = {
    "osm": Feed(
        {
            "node": Table(
                "//node",
                ("id", "lat", "lon", "amenity", "name"),
                lambda e: (
                    text_at(e, "@id", True),
                    text_at(e, "@lat"),
                    text_at(e, "@lon"),
                    text_at(e, "tag[@k='amenity']/@v"),
                    text_at(e, "tag[@k='name']/@v"),
                ),
                "tag",
                ("k", "v"),
                lambda e: (text_at(e, "@k"), text_at(e, "@v")),
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
                    text_at(e, _around(1, "title")),
                    text_at(e, "guid", True),
                    text_at(e, "guid/@isPermaLink"),
                    text_at(e, "title"),
                    text_at(e, "dc:creator"),
                    text_at(e, "content:encoded"),
                    text_at(e, "category[1]"),
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
                    text_at(e, "atom:id", True),
                    text_at(e, "atom:title"),
                    moment(text_at(e, "atom:updated", True)),
                    text_at(e, "atom:author/atom:name"),
                    text_at(e, "atom:link[@rel='self']/@href"),
                    _markup_text(e, "atom:content"),
                ),
                "atom:category",
                ("term", "label"),
                lambda e: (text_at(e, "@term", True), text_at(e, "@label")),
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
                    text_at(e, _around(2, "gpx:name")),
                    text_at(e, "@lat", True),
                    text_at(e, "@lon", True),
                    text_at(e, "gpx:ele"),
                    moment(text_at(e, "gpx:time", True)),
                    text_at(e, "gpx:extensions/t:TrackPointExtension/t:hr"),
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
                    text_at(e, _around(1, "cbc:ID")),
                    text_at(e, "cac:Item/cbc:Description[1]"),
                    text_at(e, "cac:Item/cac:ClassifiedTaxCategory/cbc:ID"),
                    text_at(e, "cbc:LineExtensionAmount", True),
                ),
            ),
            "tax": Table(
                "//cac:TaxSubtotal[parent::cac:TaxTotal]",
                ("invoice", "rate", "taxable", "currency"),
                lambda e: (
                    text_at(e, _around(2, "cbc:ID")),
                    text_at(e, "cac:TaxCategory/cbc:ID"),
                    text_at(e, "cbc:TaxableAmount", True),
                    text_at(e, "cbc:TaxableAmount/@currencyID"),
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
                    text_at(e, _around(3, "siri:ProducerRef")),
                    moment(text_at(e, _around(1, "siri:RecordedAtTime"), True)),
                    text_at(e, "siri:LineRef", True),
                    text_at(e, "siri:DatedVehicleJourneyRef", True),
                ),
                "siri:EstimatedCalls/siri:EstimatedCall",
                ("stop", "aimed", "expected"),
                lambda e: (
                    text_at(e, "siri:StopPointRef"),
                    moment(text_at(e, "siri:AimedArrivalTime")),
                    moment(text_at(e, "siri:ExpectedArrivalTime")),
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
                    moment(text_at(e, "n:eventTime", True)),
                    text_at(e, "link:link-state/link:if-name"),
                    text_at(e, "link:link-state/link:state"),
                    text_at(e, "link:link-state/link:severity"),
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
                "//item[@featured='yes']",
                ("id", "name"),
                lambda e: (text_at(e, "@id", True), text_at(e, "name")),
            ),
            "person": Table(
                "//person", ("id", "name"), lambda e: (text_at(e, "@id", True), text_at(e, "name"))
            ),
            "auction": Table(
                "//open_auction",
                ("id", "item"),
                lambda e: (text_at(e, "@id", True), text_at(e, "itemref/@item", True)),
                "bidder",
                ("person", "increase"),
                lambda e: (text_at(e, "personref/@person"), text_at(e, "increase")),
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
                lambda e: (e.sourceline, text_at(e, "text"), own_text_at(e, "text")),
            )
        },
        "SELECT at_line, words, plain FROM listitem WHERE words IS NOT NULL",
    ),
}
