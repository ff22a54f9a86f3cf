"""The index of an arrangement, compiled and as sorted runs, against a dictionary of lists."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from xmlpunct.operators import hash_index
from xmlpunct.operators.hash_index import HashIndex, SortedRuns

KINDS = [HashIndex, SortedRuns] if hash_index.USE_COMPILED else [SortedRuns]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_lookups_agree_with_a_dictionary_of_lists(kind: type[HashIndex | SortedRuns], seed: int) -> None:
    rng = random.Random(seed)
    index, model, number = kind(), defaultdict[int, list[int]](list), 0
    spread, stride = (
        rng.choice([3, 20, 1000, 2**58]),
        rng.choice([1, 64]),
    )  # a stride makes neighbours in the table
    for _ in range(30):
        hashes = np.array([stride * rng.randrange(spread) for _ in range(rng.randrange(30))], np.uint64)
        rows = np.arange(number, number + len(hashes))
        number += len(hashes)
        index.add(hashes, rows)
        for h, row in zip(hashes.tolist(), rows.tolist(), strict=True):
            model[h].append(row)
        entries = [(h, row) for h, listed in model.items() for row in listed]
        removed = rng.sample(entries, rng.randrange(len(entries) + 1)) if rng.random() < 0.6 else []
        index.remove(
            np.array([h for h, _ in removed] + [7], np.uint64),
            np.array([row for _, row in removed] + [10**9]),
        )
        for h, row in removed:
            model[h].remove(row)
        probes = np.array([*hashes.tolist(), stride * rng.randrange(spread)], np.uint64)
        positions, matched_rows = index.probe(probes)
        assert list(zip(positions.tolist(), matched_rows.tolist(), strict=True)) == [
            (position, row) for position, h in enumerate(probes.tolist()) for row in model[h]
        ]
        assert len(index) == sum(map(len, model.values()))


@pytest.mark.skipif(not hash_index.USE_COMPILED, reason="there was no C compiler")
def test_arrays_of_other_lengths_or_types_are_refused() -> None:
    index = hash_index._Compiled()
    with pytest.raises(ValueError, match="a hash for each row"):
        index.add(np.zeros(2, np.uint64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="a hash for each row"):
        index.remove(np.zeros(1, np.uint32), np.zeros(1, np.int32))


@pytest.mark.parametrize("compiled", {True, False} if hash_index.USE_COMPILED else {False})
@pytest.mark.parametrize("seed", range(10))
def test_the_first_of_equal_hashes(compiled: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_index, "USE_COMPILED", compiled)
    rng = random.Random(seed)
    hashes = [rng.randrange(rng.choice([3, 100, 2**63])) for _ in range(rng.choice([0, 1, 60, 300]))]
    assert hash_index.firsts(np.array(hashes, np.uint64)).tolist() == [hashes.index(h) for h in hashes]


@pytest.mark.parametrize("rows", [[], [4], [3, 1, 3, 1], list(range(9))])
def test_rows_in_order(rows: list[int]) -> None:
    assert hash_index.ascending(np.array(rows, np.int64)).tolist() == sorted(set(rows))
