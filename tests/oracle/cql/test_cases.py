"""Random cases: the oracle's output at a prefix is final, and the checker accepts it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.oracle.cql.checker import Checker
from tests.oracle.cql.generate import Case
from tests.oracle.cql.reference import reference
from tests.oracle.cql.text import Printer

BLOCKS = 4
CASES = 3000 if os.environ.get("XMLPUNCT_LONG") == "1" else 25


def judge(case: Case) -> str | None:
    """The first error of the minimal engine; without one, no continuation changes M at a complete instant."""
    checker = Checker(case.query, case.inputs, case.feed, futures=2, rng=case.rng)
    return checker.check(*(list(reference(checker, case.slices())) for _ in range(2)))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_complete_instants_are_final(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        case = Case(seed)
        try:
            assert judge(case) is None
        except Exception as error:
            error.add_note(f"seed {seed}: {Printer(case.inputs).sql(case.query)}")
            raise


def test_the_checker_detects_lost_and_repeated_tuples() -> None:
    checked = 0
    for seed in range(40):
        case = Case(seed)
        checker = Checker(case.query, case.inputs, case.feed, futures=1, rng=case.rng)
        run = list(reference(checker, case.slices()))
        for i, output in enumerate(run):
            if output.tuples:
                for tuples in (output.tuples[1:], [*output.tuples, output.tuples[0]]):
                    checked += 1
                    wrong = [*run[:i], replace(output, tuples=tuples), *run[i + 1 :]]
                    assert checker.check(wrong) is not None
                break
    assert checked
