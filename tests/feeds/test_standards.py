"""The marks of six standards: their samples' results are out at the mark and not before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cli.harness import SAMPLES
from xmlpunct import query
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.source import Source
from xmlpunct.engine.sql.planner.promises import marks_of
from xmlpunct.firehose.stream_check import check
from xmlpunct.schema import Schema

FOLDER = SAMPLES / "standards"


@dataclass(frozen=True)
class Standard:
    """The mark's element takes effect behind the last ``end`` before ``then``; ``results`` are released there.

    ``late``: a tuple that breaks the promise, for the end of the document.
    """

    name: str
    end: str
    then: str
    results: list[tuple[object, ...]]
    late: str
    closed: str

    @property
    def document(self) -> str:
        return (FOLDER / f"{self.name}.xml").read_text()

    @property
    def sql(self) -> str:
        return (FOLDER / f"{self.name}.sql").read_text()

    @property
    def effect(self) -> int:
        """The offset at which the mark takes effect."""
        limit = self.document.index(self.then) if self.then else len(self.document)
        return self.document.rindex(self.end, 0, limit) + len(self.end)

    def broken(self) -> str:
        """The document with the late tuple at its end."""
        at = self.document.rindex("</")
        return self.document[:at] + self.late + self.document[at:]


STANDARDS = [
    Standard("oai", 'cursor="2"/>', "", [("maps", 3, 1), ("theses", 1, 0)],
             "<record><header><identifier>oai:lib:5</identifier><setSpec>maps</setSpec></header></record>",
             "<*, *, *>"),
    Standard("camt", "</BkToCstmrStmt>", "M3", [("2026-061", "100.00")],
             "<BkToCstmrStmt><Stmt><Id>2026-061</Id><Ntry><Amt>1</Amt><CdtDbtInd>DBIT</CdtDbtInd></Ntry></Stmt>"
             "</BkToCstmrStmt>",
             "<2026-061, *, *>"),
    Standard("complete", "</feed>", "urn:feed:news", [("urn:feed:closures", 2)],
             "<feed><id>urn:feed:closures</id><entry><id>urn:c:3</id></entry></feed>",
             "<urn:feed:closures, *>"),
    Standard("siri", "</ServiceDelivery>", "r18", [("r17", 2)],
             "<ServiceDelivery><RequestMessageRef>r17</RequestMessageRef><VehicleMonitoringDelivery><VehicleActivity>"
             "<MonitoredVehicleJourney><VehicleRef>A3</VehicleRef></MonitoredVehicleJourney></VehicleActivity>"
             "</VehicleMonitoringDelivery></ServiceDelivery>",
             "<r17, *>"),
    Standard("netconf", "</notification>", "", [("xe-0/0/1", 2), ("xe-0/0/7", 1)],
             "<notification><eventTime>2026-03-02T05:57:00Z</eventTime></notification>",
             "<*, *>"),
    Standard("cap", "</alert>", "<alert><identifier>A-5", [("flood-9", 3)],
             "<alert><identifier>A-6</identifier><sent>2026-03-02T09:00:00Z</sent><incidents>flood-9</incidents></alert>",
             "<flood-9, *>"),
]  # fmt: skip
BY_NAME = pytest.mark.parametrize("standard", STANDARDS, ids=lambda standard: standard.name)


def shown(result: tuple[object, ...], width: int) -> tuple[object, ...]:
    """The first values of a result; decimals as texts."""
    return tuple(value if isinstance(value, str | int) else str(value) for value in result[:width])


@BY_NAME
def test_results_are_out_at_the_mark_and_not_before(standard: Standard) -> None:
    events: list[object] = []
    data, end = standard.document.encode(), standard.effect

    def chunks() -> Iterator[bytes]:
        yield data[: end - 1]
        events.append("mark")
        yield data[end - 1 : end]
        events.append("rest")
        yield data[end:]

    stream = re.findall(r"CREATE STREAM (\w+)", standard.sql)[0]
    width = len(standard.results[0])
    for result in query(standard.sql, **{stream: chunks()}):
        if isinstance(result, tuple):
            events.append(shown(result, width))
    released = events[events.index("mark") + 1 : (*events, "rest").index("rest")]
    assert events[0] == "mark"
    assert sorted(map(str, released)) == sorted(map(str, standard.results))


@BY_NAME
def test_a_source_that_breaks_off_before_its_mark_closes_nothing(standard: Standard) -> None:
    stream = re.findall(r"CREATE STREAM (\w+)", standard.sql)[0]
    results = []
    try:
        for result in query(standard.sql, **{stream: standard.document[: standard.effect - 1].encode()}):
            results.append(result)
    except SourceError as error:
        results.append(str(error)[-12:])
    assert results == ["is cut short"]


@BY_NAME
def test_check_says_whether_the_promise_was_kept(standard: Standard) -> None:
    columns, element, clause = re.findall(
        r"CREATE STREAM \w+ \(\n(.*?)\n\) WITH \(.*?element = '([^']*)'\)\n\s*(PUNCTUATE.*?);",
        standard.sql,
        re.S,
    )[0]
    for namespace in re.findall(r"DEFAULT '([^']*)'", columns):
        element = f"{{{namespace}}}{element}"
    schema = Schema.parse(columns)
    marks = marks_of(clause, columns, schema)
    kept = check(Source.of(standard.document.encode()), schema, element, marks=marks)
    assert (kept.fine, sum(kept.schemes.values())) == (True, 1)
    broken = check(Source.of(standard.broken().encode()), schema, element, marks=marks)
    assert (broken.error, broken.rejected, broken.late) == (None, 0, 1)
    assert broken.examples[0].reason == f"late: {standard.closed} was closed before it"
