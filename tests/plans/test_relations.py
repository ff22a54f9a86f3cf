"""Random queries over windows and relations as SQL: what M says of the complete instants, at every prefix."""

from __future__ import annotations

import os

import pytest

from tests.plans.relations import Planned

BLOCKS = 4
CASES = 500 if os.environ.get("XMLPUNCT_LONG") == "1" else 10
"""Queries a block."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_queries_give_what_m_says(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        planned = None
        try:
            planned = Planned(seed)
            assert planned.is_wide or planned.judge() is None
        except Exception as error:
            error.add_note(f"seed {seed}: {planned.sql if planned else ''}")
            raise


@pytest.mark.parametrize("seed", [6250])
def test_queries_that_once_failed(seed: int) -> None:
    assert Planned(seed).judge() is None
