"""Examples of the papers: results of the samples, compared with a plain Python computation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lxml import etree

import xmlpunct
from tests.cli.harness import SAMPLES, Cli
from xmlpunct import Punctuation

AUCTION, OUTAGE = SAMPLES / "auction.sql", SAMPLES / "outage.sql"
STREAMS = ("calls", "monitor1", "monitor2")


def read(path: Path, element: str) -> list[dict[str, int]]:
    """The integers in a stream's tuples."""
    texts = ({str(c.tag): c.text or "" for c in t} for t in etree.parse(path).iter(element))
    return [{name: int(text) for name, text in t.items() if text.isdecimal()} for t in texts]


def unnoticed(folder: Path) -> set[tuple[int, int]]:
    """(zone, hour) pairs with calls but without reports."""
    calls, *reports = (
        {(t["zoneid"], t["hour"]) for t in read(folder / f"{s}.xml", "call" if s == "calls" else "report")}
        for s in STREAMS
    )
    return calls.difference(*reports)


def test_the_final_prices_of_the_auction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    bids = read(SAMPLES / "bids.xml", "bid")
    expected = set()
    for item in read(SAMPLES / "items.xml", "item"):
        increases = [bid["increase"] for bid in bids if bid["itemid"] == item["itemid"]]
        if increases:
            expected.add((item["itemid"], item["price"] + sum(increases)))
    assert len(expected) > 5
    results = list(xmlpunct.query(AUCTION.read_text()))
    assert {r for r in results if not isinstance(r, Punctuation)} == expected


def test_the_outages_without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    results = list(xmlpunct.query(OUTAGE.read_text()))
    assert {r for r in results if not isinstance(r, Punctuation)} == unnoticed(SAMPLES) != set()


@pytest.mark.parametrize("seed", range(3))
def test_an_hour_is_answered_once_the_monitors_have_closed_it(cli: Cli, tmp_path: Path, seed: int) -> None:
    """With feeds cut after the punctuation of hour 5, all results up to hour 5 are emitted."""
    options = ("--hours", 10, "--zones", 30, "--seed", seed)
    assert cli("generate", "outage", *options, "-o", tmp_path).code == 0
    expected = {(zone, hour) for zone, hour in unnoticed(tmp_path) if hour <= 5}
    assert expected
    sources = {}
    for stream in STREAMS:
        before, closed, _ = (tmp_path / f"{stream}.xml").read_text().partition("<hour>5</hour></punct:")
        sources[stream] = (before + closed + ("call>" if stream == "calls" else "report>")).encode()
    results: list[object] = []
    with pytest.raises(xmlpunct.SourceError, match="cut short"):
        results.extend(xmlpunct.query(OUTAGE.read_text(), **sources))
    assert {r for r in results if not isinstance(r, Punctuation)} == expected


def test_only_open_hours_are_retained(cli: Cli, tmp_path: Path) -> None:
    peaks = []
    for hours in (20, 200):
        folder = tmp_path / str(hours)
        assert cli("generate", "outage", "--hours", hours, "--zones", 30, "-o", folder).code == 0
        source_options = [option for s in STREAMS for option in ("-s", f"{s}={folder / s}.xml")]
        ran = cli(
            "run", OUTAGE, "--engine", "local", *source_options, "-o", folder / "out", "--stats", folder / "stats",
            "--slice", "4KiB",
        )  # fmt: skip
        assert (ran.code, ran.err) == (0, "")
        stats = json.loads((folder / "stats").read_text())
        peaks.append(max(o["state_rows_peak"] for o in stats["operators"]))
    assert 0 < peaks[1] <= 1.5 * peaks[0]
