"""The queries of samples/feeds give what lxml and DuckDB give, over the samples and over random documents like them."""

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
    """The document that a sample reads, as it is stored."""
    (source,) = set(re.findall(r"source = '([^']*)'", query_of(name)))
    return Path(SAMPLES.parent, source).read_bytes()


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def answer(name: str, data: bytes, slice_bytes: int | None, notices: int | None = None) -> list[Row]:
    """The tuples of a query over a document, taken in slices, none of which breaks a promise."""
    query = plan(query_of(name))
    sources = {stream.name: Source.of(data, stream.name) for stream in query.streams}
    running = LocalRun(query, sources, slice_bytes, RunStats("local"), PUNCT_NAMESPACE)
    found: list[Row] = []
    said: list[Punctuation] = []
    try:
        while (part := running.advance()) is not None:
            fresh = rows(query.root.schema, part)
            assert_proper(fresh, said)
            found += fresh
            said += part.punctuations
    finally:
        running.close()
    if notices is not None:
        assert (len(running.notices), len(running.rejects)) == (notices, 0)
    as_it_stood = [i for i, a in enumerate(query.root.schema) if a.type is XML]
    return [tuple(plain(v, data) if i in as_it_stood else v for i, v in enumerate(row)) for row in found]


def plain(markup: str | None, data: bytes) -> str | None:
    """The text of an element that stands so in a document, whose namespaces are declared around it."""
    if markup is None:
        return None
    assert markup.encode() in data
    return str(etree.fromstring(markup, etree.XMLParser(recover=True)).xpath("string()"))


@pytest.mark.parametrize("name", sorted(FEEDS))
def test_a_sample_gives_what_lxml_and_duckdb_give(name: str) -> None:
    data = document_of(name)
    expected = FEEDS[name].answer(unpacked(data))
    assert expected
    for slice_bytes in (7, 2**16, None):
        assert bag(answer(name, data, slice_bytes, notices=0)) == bag(expected)


@pytest.mark.parametrize("name", sorted(SHAPES))
@FEWER
@given(rng=st.randoms(use_true_random=False), slice_bytes=st.sampled_from([40, 300, 2000, None]))
def test_random_documents_give_what_lxml_and_duckdb_give(
    name: str, rng: Random, slice_bytes: int | None
) -> None:
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
def test_what_a_feed_has_promised_is_out_before_it_goes_on(name: str, cut: bytes, released: int) -> None:
    """A feed that breaks off there has given these results and no others."""
    data, found = document_of(name), list[Row]()
    data = data[: data.index(cut)]
    streams = {stream.name: data for stream in plan(query_of(name)).streams}
    with pytest.raises(SourceError, match="ends"):
        found += (r for r in xmlpunct.query(query_of(name), **streams) if not isinstance(r, Punctuation))
    whole = bag(answer(name, document_of(name), None))
    assert len(found) == released < whole.total()
    assert not bag(found) - whole


def test_every_sample_is_tested_and_told_of() -> None:
    names = {path.stem for path in FOLDER.glob("*.sql")}
    assert names == set(FEEDS) == set(SHAPES)
    told = (FOLDER / "README.md").read_text()
    assert [name for name in names if f"[{name}.sql]({name}.sql)" not in told] == []


@pytest.mark.parametrize("name", sorted(FEEDS))
def test_the_command_runs_a_sample_and_has_nothing_to_say(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    assert invoke(["run", f"samples/feeds/{name}.sql", "--engine", "local", "--strict"]) == 0
    printed = capfd.readouterr()
    assert printed.out.count("<result>") == sum(bag(FEEDS[name].answer(unpacked(document_of(name)))).values())
    assert printed.err == ""
