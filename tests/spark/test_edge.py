"""What tasks of one process have in common: parsers, one at a time."""

from __future__ import annotations

from tests.firehose.harness import spec
from xmlpunct.engine.spark.edge import Parsers
from xmlpunct.firehose import PUNCT_NAMESPACE

SPECS = [spec("a INT")]


def test_a_parser_comes_back_and_is_lent_again() -> None:
    parsers = Parsers()
    with parsers.lent(SPECS, PUNCT_NAMESPACE) as first:
        pass
    with parsers.lent([spec("a INT")], PUNCT_NAMESPACE) as second:
        assert second is first


def test_two_tasks_never_have_the_same() -> None:
    parsers = Parsers()
    with parsers.lent(SPECS, PUNCT_NAMESPACE) as first, parsers.lent(SPECS, PUNCT_NAMESPACE) as second:
        assert second is not first


def test_other_streams_have_others() -> None:
    parsers = Parsers()
    with parsers.lent(SPECS, PUNCT_NAMESPACE) as first:
        assert first.specs == tuple(SPECS)
    with parsers.lent([spec("b INT")], PUNCT_NAMESPACE) as second, parsers.lent(SPECS, "urn:p") as third:
        assert first not in (second, third)


def test_only_so_many_are_kept_and_none_that_failed() -> None:
    parsers = Parsers(most=1)
    with parsers.lent(SPECS, PUNCT_NAMESPACE) as first, parsers.lent([spec("b INT")], PUNCT_NAMESPACE):
        pass  # the first one comes back last
    second = parsers.lent(SPECS, PUNCT_NAMESPACE)
    assert second.__enter__() is first
    assert not second.__exit__(KeyError, KeyError(), None)
    with parsers.lent(SPECS, PUNCT_NAMESPACE) as third:
        assert third is not first
