"""Arrangement against a plain list of its tuples, with either index; its snapshots share unchanged pages."""

from __future__ import annotations

import math
import random

import numpy as np
import polars as pl
import pytest

from xmlpunct.base.codec import pack, unpack
from xmlpunct.operators import arrangement, hash_index
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import hash_index as new_index
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema

SCHEMA = Schema.parse("n INT NOT NULL, x DOUBLE, s STRING")
NUMBERS, DOUBLES, STRINGS = range(12), [None, math.nan, 0.0, -0.0, math.inf, 2.5], [None, "", "a", "b"]


@pytest.fixture(autouse=True, params=["compiled", "sorted runs"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, blocks and indexes of few rows; otherwise all rows would be in one block."""
    compiled = request.param == "compiled"
    if compiled and not hash_index.USE_COMPILED:
        pytest.skip("there was no C compiler")
    monkeypatch.setattr(hash_index, "USE_COMPILED", compiled)
    monkeypatch.setattr(arrangement, "PAGE_ROWS", 40)
    monkeypatch.setattr(arrangement, "BLOCK_ROWS", 8)
    monkeypatch.setattr(arrangement, "UNINDEXED_ROWS", 5)
    assert isinstance(new_index(), hash_index.HashIndex) is compiled


def random_rows(rng: random.Random, count: int) -> pl.DataFrame:
    return SCHEMA.frame((rng.choice(NUMBERS), rng.choice(DOUBLES), rng.choice(STRINGS)) for _ in range(count))


def plain(value: object) -> object:
    """A value that equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def listed(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return [tuple(map(plain, row)) for row in frame.rows()]


def punctuations(rng: random.Random) -> PunctuationSet:
    texts = {
        "n": ["3", "[2,5]", "{1,7}", "(,4)", "[9,)"],
        "x": ["NaN", "0.0", "(0.0,)", "[2.5,INF]"],
        "s": ["a", "[a,b)"],
    }
    punctuation_set = PunctuationSet(SCHEMA)
    for _ in range(rng.randrange(1, 4)):
        chosen = rng.sample(sorted(texts), rng.choice([1, 1, 2, 3]))
        punctuation_set.add(Punctuation.of(SCHEMA, **{name: rng.choice(texts[name]) for name in chosen}))
    return punctuation_set


def closed(t: Tuple, ps: PunctuationSet) -> bool:
    return any(match(t, p) for p in ps)


@pytest.mark.parametrize("key", [("n", "x", "s"), ("n",), ("x", "s"), ()])
@pytest.mark.parametrize("seed", range(12))
def test_operations_agree_with_a_list(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(seed)
    retained, model = Arrangement(SCHEMA.empty(), key), list[Tuple]()
    at = [SCHEMA.index(name) for name in key]

    def key_of(t: Tuple) -> tuple[object, ...]:
        return tuple(plain(t[i]) for i in at)

    for _ in range(25):
        ps, new_rows = punctuations(rng), random_rows(rng, rng.choice([0, 1, 5, 30]))
        match rng.randrange(6):
            case 0:
                retained.append(new_rows)
                model += new_rows.rows()
            case 1:
                present, added = set(listed(SCHEMA.frame(model))), list[Tuple]()
                for t in new_rows.rows():
                    if tuple(map(plain, t)) not in present:
                        present.add(tuple(map(plain, t)))
                        added.append(t)
                assert listed(retained.insert(new_rows)) == [tuple(map(plain, t)) for t in added]
                model += added
            case 2:
                positions, rows = retained.probe(new_rows)
                matched = listed(retained.take(rows))
                pairs = list(zip(positions.tolist(), matched, strict=True))
                assert pairs == [
                    (i, tuple(map(plain, t)))
                    for i, f in enumerate(new_rows.rows())
                    for t in model
                    if key_of(f) == key_of(t)
                ]
            case 3:
                removed = retained.remove(retained.matching(ps))
                assert listed(removed) == [tuple(map(plain, t)) for t in model if closed(t, ps)]
                model = [t for t in model if not closed(t, ps)]
            case 4:
                removed = retained.remove(retained.where(pl.col("n") > 2))
                assert listed(removed) == [tuple(map(plain, t)) for t in model if (t[0] or 0) > 2]
                model = [t for t in model if not (t[0] or 0) > 2]
            case 5:
                blocked = set(retained.blocked(ps))
                assert blocked == {p for p in ps if any(match(t, p) for t in model)}
        assert retained.height == len(model)
        assert listed(retained.frame) == [tuple(map(plain, t)) for t in model]
        if rng.random() < 0.2:
            restored = Arrangement(SCHEMA.empty(), key)
            restored.restore(unpack(pack(retained.snapshot())))
            retained = restored


def test_the_next_snapshot_shares_unchanged_pages() -> None:
    retained = Arrangement(SCHEMA.empty(), ("n",))
    for start in range(0, 400, 5):
        retained.append(SCHEMA.frame((i, 0.0, "a") for i in range(start, start + 5)))
    before = retained.snapshot()
    retained.append(SCHEMA.frame([(1000, 0.0, "a")]))
    retained.remove(retained.matching(PunctuationSet(SCHEMA, [Punctuation.of(SCHEMA, n="[0,2]")])))
    after = retained.snapshot()
    unchanged_rows = sum(frame.height for name, frame in after.items() if before.get(name) is frame)
    assert unchanged_rows >= 300
    restored = Arrangement(SCHEMA.empty(), ("n",))
    restored.restore(after)
    assert {name for name in restored.snapshot() if after[name] is restored.snapshot()[name]} >= {
        name for name in after if not name.endswith(".dead")
    }, "a restored arrangement writes no page again"


def test_pages_are_rewritten_once_most_of_their_rows_are_removed() -> None:
    retained = Arrangement(SCHEMA.empty(), ("n",))
    retained.append(SCHEMA.frame((i, 0.0, "a") for i in range(40)))
    retained.remove(np.arange(0, 30))
    (page,) = retained.snapshot().values()
    assert page["n"].to_list() == list(range(30, 40))


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_key_become_one(seed: int) -> None:
    rng = random.Random(seed)
    empty = pl.DataFrame(schema={"k": pl.Int64, "x": pl.Float64, "n": pl.Int64})
    retained, model = Arrangement(empty, ["k", "x"]), dict[tuple[object, ...], int]()
    for _ in range(30):
        keys = [
            (rng.choice([*range(30), None]), rng.choice([math.nan, 0.0, None]))
            for _ in range(rng.choice([1, 8]))
        ]
        new_rows = pl.DataFrame([(*key, 1) for key in keys], empty.schema, orient="row")
        retained.merge(new_rows, [pl.col("n").sum()])
        for key in keys:
            at = tuple(map(plain, key))
            model[at] = model.get(at, 0) + 1
        if rng.random() < 0.2:
            removed = retained.remove(np.unique(retained.probe(new_rows)[1]))
            for *key, _ in removed.rows():
                del model[tuple(map(plain, key))]
        assert {tuple(map(plain, key)): n for *key, n in retained.frame.rows()} == model
        assert retained.height == len(model)


def test_tuples_of_one_hash_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement, "firsts", lambda hashes: np.zeros(len(hashes), np.int64))
    tuples = pl.DataFrame({"a": [1, 2, 1, None, None]})
    assert arrangement.distinct(tuples).rows() == [(1,), (2,), (None,)]


@pytest.mark.parametrize("different", [3, 1000])
def test_many_tuples_are_made_distinct_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch, different: int
) -> None:
    monkeypatch.setattr(arrangement, "_CHUNK_ROWS", 16)
    rng = random.Random(different)
    rows = [rng.choice([None, *range(different)]) for _ in range(200)]
    distinct_rows = arrangement.distinct(pl.DataFrame({"a": rows}))
    assert distinct_rows["a"].to_list() == list(dict.fromkeys(rows))
