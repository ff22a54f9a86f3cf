"""The generators produce grammatical streams, which the seed determines."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmlpunct import Punctuation, Schema, UsageError, match, parse
from xmlpunct.firehose.generators import auction, outage, warehouse, write

REPORT = Schema.parse("sid STRING, hour INT, min INT, currtmp INT")
BID = Schema.parse("itemid INT, increase INT, buyerid STRING")
PLACE = Schema.parse("zoneid INT, hour INT")
ITEM = Schema.parse("itemid INT, seller STRING, price INT")


def check(path: Path, schema: Schema, element: str) -> tuple[int, int]:
    """The numbers of tuples and punctuations; asserts that no tuple is late."""
    punctuations: list[Punctuation] = []
    tuples = 0
    for element_read in parse(path, schema, element=element):
        if isinstance(element_read, Punctuation):
            punctuations.append(element_read)
        else:
            tuples += 1
            assert not any(match(element_read, p) for p in punctuations)
    return tuples, len(punctuations)


@pytest.mark.parametrize("punctuations", [0, 1, 2, 30, 60])
def test_the_warehouse(tmp_path: Path, punctuations: int) -> None:
    files = write(warehouse(2, 3, 1, punctuations, seed=7), str(tmp_path))
    assert [f.name for f in files] == ["sensor1.xml", "sensor2.xml"]
    for file in files:
        assert check(file, REPORT, "tempdata") == (180, 3 * punctuations)


def test_the_auction(tmp_path: Path) -> None:
    items, bids = write(auction(40, 400, 5, True, seed=7), str(tmp_path))
    assert check(items, ITEM, "item") == (40, 40)
    assert check(bids, BID, "bid") == (400, 40)


def test_the_outage(tmp_path: Path) -> None:
    monitor, calls = write(outage(20, 10, 1, True, seed=7), str(tmp_path))
    for path, element in ((monitor, "report"), (calls, "call")):
        tuples, closed = check(path, PLACE, element)
        assert (50 < tuples < 160, closed) == (True, 20)
    assert len(write(outage(1, 1, 3, False, seed=1), str(tmp_path / "plain"))) == 4


def test_the_seed_decides() -> None:
    assert list(auction(20, 50, 5, True, 1)) == list(auction(20, 50, 5, True, 1))
    assert list(auction(20, 50, 5, True, 1)) != list(auction(20, 50, 5, True, 2))
    assert not any("punct:" in line for _, line in auction(20, 50, 5, False, 1))
    assert list(outage(5, 9, 2, True, 1)) == list(outage(5, 9, 2, True, 1))
    assert list(outage(5, 9, 2, True, 1)) != list(outage(5, 9, 2, True, 2))
    assert not any("punct:" in line for _, line in outage(5, 9, 2, False, 1))


def test_a_number_that_does_not_divide_the_hour_is_refused() -> None:
    with pytest.raises(UsageError, match="divide 60"):
        list(warehouse(1, 1, 1, 7, 1))
