"""The queries of samples/nexmark have DuckDB's results, and their stream is grammatical."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import polars as pl
import pytest
from lxml import etree

import xmlpunct
from tests.cli.harness import SAMPLES
from tests.operators.harness import assert_proper
from tests.oracle.values import Row, bag
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.cli import invoke
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.local.local_run import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.firehose.generators import write
from xmlpunct.firehose.nexmark import nexmark
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.python.parse_api import rows

FOLDER = SAMPLES / "nexmark"

FINAL = """(SELECT a.id, a.category, a.seller, a.expires, MAX(b.bid) AS final FROM open_auction a
  JOIN bidder b ON a.id = b.auction AND b.time BETWEEN a.start AND a.expires GROUP BY ALL)"""
HOPS = """(SELECT auction, w AS s, COUNT(*) AS n FROM (SELECT auction, time,
  UNNEST(RANGE((time // 2000 - 4) * 2000, time + 1, 2000)) AS w FROM bidder) GROUP BY ALL)"""
ANSWERS = {
    "q0": "SELECT auction, person, bid, time FROM bidder",
    "q1": "SELECT auction, person, bid * 0.908, time FROM bidder",
    "q2": "SELECT auction, bid FROM bidder WHERE auction % 23 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM open_auction a, person p
      WHERE a.seller = p.id AND a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"SELECT category, AVG(final) FROM {FINAL} GROUP BY category",
    "q5": f"SELECT auction, n, s, s + 10000 FROM {HOPS} QUALIFY RANK() OVER (PARTITION BY s ORDER BY n DESC) = 1",
    "q6": f"""SELECT seller, id, expires, AVG(final) OVER (PARTITION BY seller ORDER BY expires, id
      ROWS 9 PRECEDING) FROM {FINAL}""",
    "q7": """SELECT auction, person, bid, time FROM bidder
      QUALIFY RANK() OVER (PARTITION BY time // 10000 ORDER BY bid DESC) = 1""",
    "q8": """SELECT DISTINCT p.id, p.name, registered // 10000 * 10000 FROM person p, open_auction a
      WHERE p.id = a.seller AND registered // 10000 = start // 10000""",
}


def tables(data: bytes) -> dict[str, pl.DataFrame]:
    """The tuples of the stream, read with plain loops over lxml."""
    site = etree.fromstring(data)

    def table(path: str, numbers: dict[str, str], texts: dict[str, str]) -> pl.DataFrame:
        elements = site.xpath(path)
        read = {name: [int(e.xpath(f"string({at})")) for e in elements] for name, at in numbers.items()}
        return pl.DataFrame(
            read | {n: [str(e.xpath(f"string({at})")) for e in elements] for n, at in texts.items()}
        )

    return {
        "person": table(
            "person",
            {"id": "@id", "registered": "registered"},
            {"name": "name", "city": "address/city", "state": "address/province"},
        ),
        "open_auction": table(
            "open_auction[@new]",
            {
                "id": "@id",
                "seller": "seller/@person",
                "category": "category",
                "start": "interval/start",
                "expires": "interval/end",
            },
            {},
        ),
        "bidder": table(
            "open_auction/bidder",
            {"auction": "../@id", "person": "person_ref/@person", "bid": "bid", "time": "time"},
            {},
        ),
    }


def run(name: str, data: bytes, slice_bytes: int | None) -> tuple[list[Row], int]:
    """A query's tuples, none matching an earlier punctuation, and their number before the last slice."""
    query = plan((FOLDER / f"{name}.sql").read_text())
    running = LocalRun(
        query,
        {stream.name: Source.of(data, stream.name) for stream in query.streams},
        slice_bytes,
        RunStats("local"),
        PUNCT_NAMESPACE,
    )
    tuples: list[Row] = []
    punctuations: list[Punctuation] = []
    early = 0
    try:
        while (part := running.advance()) is not None:
            early = len(tuples)
            new_rows = rows(query.root.schema, part)
            assert_proper(new_rows, punctuations)
            tuples += new_rows
            punctuations += part.punctuations
        assert (len(running.notices), len(running.rejects)) == (0, 0)
    finally:
        running.close()
    return tuples, early


def rounded(tuples: list[Row]) -> list[Row]:
    return [tuple(round(float(v), 6) if not isinstance(v, str) else v for v in row) for row in tuples]


def generated(folder: Path, seed: int) -> bytes:
    (path,) = write(nexmark(300, 10, 8, 20, seed), str(folder))
    return path.read_bytes()


@pytest.mark.parametrize("name", sorted(ANSWERS))
@pytest.mark.parametrize(("seed", "slice_bytes"), [(2, 700), (3, 5000), (4, None)])
def test_a_query_agrees_with_duckdb(tmp_path: Path, name: str, seed: int, slice_bytes: int | None) -> None:
    data = generated(tmp_path, seed)
    with duckdb.connect() as database:
        for table, frame in tables(data).items():
            database.register(table, frame)
        expected = database.sql(ANSWERS[name]).fetchall()
    actual, early = run(name, data, slice_bytes)
    assert expected
    assert bag(rounded(actual)) == bag(rounded(expected))
    if slice_bytes == 700:
        assert bool(early) == (name != "q4")  # no category is ever closed


@pytest.mark.parametrize("slice_bytes", [4000, None])
def test_averages_change_as_auctions_end(tmp_path: Path, slice_bytes: int | None) -> None:
    data = generated(tmp_path, 6)
    changes, early = run("q4-running", data, slice_bytes)
    assert early or slice_bytes is None
    instants = sorted({at for _, _, at, _ in changes})
    assert len(instants) > 5
    with duckdb.connect() as database:
        for table, frame in tables(data).items():
            database.register(table, frame)
        for instant in instants:
            current = Counter[Row]()
            for category, average, at, diff in changes:
                current[category, round(average, 6)] += diff * (at <= instant)
            ended = f"SELECT category, AVG(final) FROM {FINAL} WHERE expires <= {instant} GROUP BY category"
            expected = Counter(
                (category, round(average, 6)) for category, average in database.sql(ended).fetchall()
            )
            assert +current == expected, instant


@pytest.mark.parametrize(
    ("stream", "declared", "element"),
    [
        ("person", "q3", "person"),
        ("open_auction", "q6", "open_auction"),
        ("bidder", "q6", "open_auction/bidder"),
    ],
)
def test_the_stream_is_grammatical(tmp_path: Path, stream: str, declared: str, element: str) -> None:
    # `parse` cannot choose among elements of one name, so the bids are omitted where auctions are read.
    lines = nexmark(300, 10, 8, 20, 5)
    (path,) = write((x for x in lines if stream == "bidder" or "<bidder>" not in x[1]), str(tmp_path))
    query = plan((FOLDER / f"{declared}.sql").read_text())
    schema = next(s.schema for s in query.streams if s.name == stream)
    punctuations: list[Punctuation] = []
    tuples = 0
    for parsed in xmlpunct.parse(path, schema, element=element):
        if isinstance(parsed, Punctuation):
            punctuations.append(parsed)
        else:
            tuples += 1
            assert not any(xmlpunct.match(parsed, p) for p in punctuations)
    assert tuples
    assert punctuations


def test_the_command_makes_the_sample(tmp_path: Path) -> None:
    call = "generate nexmark --events 1500 --rate 50 --open 10 --promise-every 50 -o"
    assert invoke([*call.split(), str(tmp_path)]) == 0
    assert (tmp_path / "nexmark.xml").read_bytes() == (FOLDER / "nexmark.xml").read_bytes()
