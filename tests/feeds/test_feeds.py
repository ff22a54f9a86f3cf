"""The queries of samples/feeds agree with lxml and DuckDB on the samples and on random documents."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

import xmlpunct
from tests.cli.harness import SAMPLES
from tests.feeds.answers import FEEDS
from tests.feeds.markup import document
from tests.feeds.shapes import SHAPES, Maker
from tests.operators.harness import FEWER, assert_proper
from tests.oracle.values import Row, bag
from xmlpunct.base.errors import SourceError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.cli import invoke
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.local.local_run import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.python.parse_api import rows
from xmlpunct.types import XML

FOLDER = SAMPLES / "feeds"


def query_of(name: str) -> str:
    return (FOLDER / f"{name}.sql").read_text()


def document_of(name: str) -> bytes:
    """The stored document that a sample reads."""
    (source,) = set(re.findall(r"source = '([^']*)'", query_of(name)))
    return Path(SAMPLES.parent, source).read_bytes()


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def answer(name: str, data: bytes, slice_bytes: int | None, notices: int | None = None) -> list[Row]:
    """The tuples of a query over a document; asserts that its result is grammatical."""
    query = plan(query_of(name))
    sources = {stream.name: Source.of(data, stream.name) for stream in query.streams}
    running = LocalRun(query, sources, slice_bytes, RunStats("local"), PUNCT_NAMESPACE)
    tuples: list[Row] = []
    received: list[Punctuation] = []
    try:
        while (part := running.advance()) is not None:
            slice_rows = rows(query.root.schema, part)
            assert_proper(slice_rows, received)
            tuples += slice_rows
            received += part.punctuations
    finally:
        running.close()
    if notices is not None:
        assert (len(running.notices), len(running.rejects)) == (notices, 0)
    xml_columns = [i for i, a in enumerate(query.root.schema) if a.type is XML]
    return [tuple(plain(v, data) if i in xml_columns else v for i, v in enumerate(row)) for row in tuples]


def plain(markup: str | None, data: bytes) -> str | None:
    """The text of an element; asserts that its markup is a literal part of the document."""
    if markup is None:
        return None
    assert markup.encode() in data
    return str(etree.fromstring(markup, etree.XMLParser(recover=True)).xpath("string()"))


@pytest.mark.parametrize("name", sorted(FEEDS))
def test_samples_agree_with_lxml_and_duckdb(name: str) -> None:
    data = document_of(name)
    expected = FEEDS[name].answer(unpacked(data))
    assert expected
    for slice_bytes in (7, 2**16, None):
        assert bag(answer(name, data, slice_bytes, notices=0)) == bag(expected)


@pytest.mark.parametrize("name", sorted(SHAPES))
@FEWER
@given(rng=st.randoms(use_true_random=False), slice_bytes=st.sampled_from([40, 300, 2000, None]))
def test_random_documents_agree_with_lxml_and_duckdb(name: str, rng: Random, slice_bytes: int | None) -> None:
    data = document(SHAPES[name](Maker(rng)), rng)
    assert bag(answer(name, data, slice_bytes)) == bag(FEEDS[name].answer(data))


@pytest.mark.parametrize(
    ("name", "cut", "released"),
    [
        ("siri", b"<ServiceDelivery>\n    <ResponseTimestamp>2026-06-01T08:01:10Z", 2),
        ("netconf", b"<!-- cable -->", 1),
        ("xmark", b'<open_auction id="open_auction1">', 2),
        ("gpx", b"</trkseg>\n  </trk>\n</gpx>", 3),
    ],
)
def test_a_truncated_feed_releases_results_closed_before_the_cut(
    name: str, cut: bytes, released: int
) -> None:
    """A feed that ends at the cut releases exactly ``released`` results."""
    data, results = document_of(name), list[Row]()
    data = data[: data.index(cut)]
    streams = {stream.name: data for stream in plan(query_of(name)).streams}
    with pytest.raises(SourceError, match="ends"):
        results += (r for r in xmlpunct.query(query_of(name), **streams) if not isinstance(r, Punctuation))
    full_answer = bag(answer(name, document_of(name), None))
    assert len(results) == released < full_answer.total()
    assert not bag(results) - full_answer


def test_every_sample_is_tested_and_documented() -> None:
    names = {path.stem for path in FOLDER.glob("*.sql")}
    assert names == set(FEEDS) == set(SHAPES)
    readme = (FOLDER / "README.md").read_text()
    assert [name for name in names if f"[{name}.sql]({name}.sql)" not in readme] == []


@pytest.mark.parametrize("name", sorted(FEEDS))
def test_the_command_runs_a_sample_without_warnings(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    assert invoke(["run", f"samples/feeds/{name}.sql", "--engine", "local", "--strict"]) == 0
    printed = capfd.readouterr()
    assert printed.out.count("<result>") == sum(bag(FEEDS[name].answer(unpacked(document_of(name)))).values())
    assert printed.err == ""
