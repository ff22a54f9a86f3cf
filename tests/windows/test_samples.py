"""The queries of samples/windows have DuckDB's results over the same documents, for any slices."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import duckdb
import pytest
from lxml import etree

import xmlpunct
from tests.cli.harness import SAMPLES
from tests.operators.harness import assert_proper
from tests.oracle.values import Row, bag
from xmlpunct.base.errors import SourceError, SqlError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.cli import invoke
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.local.local_run import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.python.parse_api import rows

FOLDER = SAMPLES / "windows"

HOT = """SELECT item, w, w + 10, COUNT(*) FROM bid, generate_series(-100, 100, 5) AS s(w)
WHERE w <= ts AND ts < w + 10 GROUP BY ALL HAVING COUNT(*) >= 2"""

DUCKDB = {
    "stanford": """SELECT src, len, ts FROM packet WHERE
        (SELECT SUM(diff) FROM host WHERE ip = src AND name = 'stanford.edu' AND "at" <= ts) > 0""",
    "hot-items": HOT,
    "watermark": HOT,
    "highest": "SELECT item, ts, price, MAX(price) OVER (PARTITION BY item ORDER BY ts) FROM bid",
    "sessions": """SELECT item, MIN(ts), MAX(ts) + 6, COUNT(*), MAX(price) FROM (
        SELECT *, COUNT(*) FILTER (WHERE opens) OVER (PARTITION BY item ORDER BY ts) AS n FROM (
        SELECT *, ts - LAG(ts, 1, -1000) OVER (PARTITION BY item ORDER BY ts) >= 6 AS opens FROM bid))
        GROUP BY item, n""",
}
"""The same queries over tables. Series and joins replace the windows, which DuckDB lacks."""


def query_of(name: str) -> str:
    return (FOLDER / f"{name}.sql").read_text()


Documents = dict[str, bytes]
"""The inputs of the queries, by the names of the samples' files."""
SAMPLED: Documents = {path.stem: path.read_bytes() for path in FOLDER.glob("*.xml")}


def random_documents(seed: int) -> Documents:
    """Documents like the samples: packets and hosts in order, bids in order of each item or at most 18 late."""
    rng = Random(seed)
    packets, hosts, host_counts = [], [], Counter[str]()
    for ts in range(12):
        for _ in range(rng.randrange(4)):
            packets.append(
                f'<packet ts="{ts}"><src>10.{rng.randrange(3)}</src><len>{rng.randrange(3)}</len></packet>'
            )
        for _ in range(rng.randrange(3)):
            host = f"<ip>10.{rng.randrange(3)}</ip><alias>{rng.choice('ab')}</alias>"
            host += f"<name>{rng.choice(['stanford.edu', 'example.org'])}</name>"
            diff = -1 if host_counts[host] and rng.random() < 0.7 else 1
            host_counts[host] += diff
            hosts.append(f'<host at="{ts}" diff="{diff}">{host}</host>')
        packets += [f'<p:packet ts="(,{ts}]"/>'] * (rng.random() < 0.6)
        hosts += [f'<p:host at="(,{ts}]"/>'] * (rng.random() < 0.6)
    bids = [
        (ts, item, rng.randrange(9))
        for item in ("lamp", "sofa", "vase")
        for ts in sorted(rng.choices(range(45), k=12))
    ]
    texts = {bid: f'<bid item="{bid[1]}" ts="{bid[0]}"><price>{bid[2]}</price></bid>' for bid in bids}
    ordered: list[str] = []
    waiting = {item: [bid for bid in bids if bid[1] == item] for item in ("lamp", "sofa", "vase")}
    while any(waiting.values()):
        item = rng.choice([item for item, queue in waiting.items() if queue])
        ordered.append(texts[waiting[item].pop(0)])
        if waiting[item] and rng.random() < 0.5:
            ordered.append(f'<p:bid item="{item}" ts="(,{waiting[item][0][0] - 1}]"/>')
    late = [texts[bid] for bid in sorted(bids, key=lambda bid: bid[0] + rng.randint(0, 18))]
    parts = {"packets": packets, "domains": hosts, "bids": ordered, "unpunctuated": late}
    return {
        name: f"<s xmlns:p='{PUNCT_NAMESPACE}'>{''.join(elements)}</s>".encode()
        for name, elements in parts.items()
    }


def tables(documents: Documents) -> duckdb.DuckDBPyConnection:
    """The tuples of the documents, as lxml reads them."""
    database = duckdb.connect()
    database.execute("CREATE TABLE packet (src TEXT, len BIGINT, ts BIGINT)")
    database.execute('CREATE TABLE host (ip TEXT, alias TEXT, name TEXT, "at" BIGINT, diff BIGINT)')
    database.execute("CREATE TABLE bid (item TEXT, ts BIGINT, price BIGINT)")
    for document, element in (("packets", "packet"), ("domains", "host"), ("bids", "bid")):
        for row in etree.fromstring(documents[document]).iter(element):
            values = {**row.attrib, **{child.tag: child.text for child in row}}
            columns = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO {element} ({columns}) VALUES ({marks})", [*values.values()])
    return database


def answer(name: str, slice_bytes: int | None, documents: Documents = SAMPLED) -> list[Row]:
    """The tuples of a query over its documents in slices, none matching an earlier punctuation."""
    query = plan(query_of(name))
    sources = {
        stream.name: Source.of(documents[Path(str(stream.source)).stem], stream.name)
        for stream in query.streams
    }
    running = LocalRun(query, sources, slice_bytes, RunStats("local"), PUNCT_NAMESPACE)
    tuples: list[Row] = []
    punctuations: list[Punctuation] = []
    try:
        while (part := running.advance()) is not None:
            new_rows = rows(query.root.schema, part)
            assert_proper(new_rows, punctuations)
            tuples += new_rows
            punctuations += part.punctuations
    finally:
        running.close()
    assert (len(running.notices), len(running.rejects)) == (0, 0)
    return tuples


@pytest.mark.parametrize("slice_bytes", [7, 200, 2**16, None])
@pytest.mark.parametrize("name", sorted(DUCKDB))
def test_a_sample_agrees_with_duckdb(name: str, slice_bytes: int | None) -> None:
    with tables(SAMPLED) as database:
        expected = database.execute(DUCKDB[name]).fetchall()
    assert expected
    assert bag(answer(name, slice_bytes)) == bag(expected)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", sorted(DUCKDB))
def test_random_documents_agree_with_duckdb(name: str, seed: int) -> None:
    documents = random_documents(seed)
    with tables(documents) as database:
        expected = database.execute(DUCKDB[name]).fetchall()
    assert expected
    for slice_bytes in (100 + 50 * seed, None):
        assert bag(answer(name, slice_bytes, documents)) == bag(expected)


BEHIND = b'  <bid item="sofa" ts="6"'
"""The text in the documents of bids at which an item 18 instants late begins."""
AHEAD = [("lamp", -5, 5, 2), ("lamp", 0, 10, 3), ("lamp", 5, 15, 2)]


@pytest.mark.parametrize(
    ("name", "document", "released"), [("hot-items", "bids", AHEAD), ("watermark", "unpunctuated", AHEAD[:1])]
)
def test_windows_of_an_item_that_is_ahead_are_released_before_others(
    name: str, document: str, released: list[Row]
) -> None:
    """A feed that is cut off at BEHIND has released exactly these results."""
    data, tuples = (FOLDER / f"{document}.xml").read_bytes(), list[Row]()
    results = xmlpunct.query(query_of(name), bid=data[: data.index(BEHIND)])
    with pytest.raises(SourceError, match="ends"):
        tuples += (r for r in results if not isinstance(r, Punctuation))
    assert bag(tuples) == bag(released)


@contextmanager
def sending(data: bytes, go_on: threading.Event) -> Iterator[str]:
    """The address of a peer that sends the data before BEHIND, and the remainder after ``go_on`` is set."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(data[: data.index(BEHIND)])
                go_on.wait(20)
                connection.sendall(data[data.index(BEHIND) :])

        sender = threading.Thread(target=send)
        sender.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        go_on.set()
        sender.join()


def test_windows_are_released_while_the_input_is_open() -> None:
    go_on = threading.Event()
    with sending((FOLDER / "bids.xml").read_bytes(), go_on) as address:
        results = xmlpunct.query(query_of("hot-items"), bid=address)
        first = [next(results) for _ in AHEAD]
        assert not go_on.is_set()
        go_on.set()
        remaining = [r for r in results if not isinstance(r, Punctuation)]
    assert bag(first) == bag(AHEAD)
    assert bag(first + remaining) == bag(answer("hot-items", None))


def test_a_relation_is_read_back_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    page = (SAMPLES.parent / "docs" / "windows.md").read_text()
    (read_back,) = re.findall(r"^CREATE RELATION names .*?;$", page, re.MULTILINE | re.DOTALL)
    (query,) = re.findall(r"-q '(SELECT name, COUNT.*)'", page)
    out = tmp_path / "names.xml"
    text = query_of("streams") + query
    assert invoke(["run", "-q", text, "--engine", "local", "-o", str(out)]) == 0
    changes = [r for r in xmlpunct.query(text) if not isinstance(r, Punctuation)]
    reread = xmlpunct.query(read_back + "SELECT name, n FROM names", names=out)
    assert bag(r for r in reread if not isinstance(r, Punctuation)) == bag(changes)


@pytest.mark.parametrize(
    "table",
    [
        "TUMBLE(TABLE domainof, DESCRIPTOR(at), 5)",
        "SESSION(TABLE domainof PARTITION BY ip, DESCRIPTOR(ip), 5)",
        "HOP((SELECT t0 FROM (SELECT ts AS t0, ts FROM packet) [NOW]), DESCRIPTOR(t0), 5, 10)",
    ],
)
def test_windows_as_tables_are_over_streams(table: str) -> None:
    with pytest.raises(SqlError, match="need a stream, and this is a relation: ISTREAM"):
        plan(query_of("streams") + f"SELECT * FROM {table}")


def test_every_sample_is_tested_and_listed() -> None:
    names = {path.stem for path in FOLDER.glob("*.sql")}
    assert names == {*DUCKDB, "streams"}
    readme = (FOLDER / "README.md").read_text()
    assert [name for name in names if f"[{name}.sql]({name}.sql)" not in readme] == []
