"""Retained tuples: the same as a plain list of them, whichever index there is, and little changes at a time."""

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
    """Pages and blocks of few rows, and indexes for few: otherwise everything would be one block."""
    compiled = request.param == "compiled"
    if compiled and not hash_index.USE_COMPILED:
        pytest.skip("there was no C compiler")
    monkeypatch.setattr(hash_index, "USE_COMPILED", compiled)
    monkeypatch.setattr(arrangement, "PAGE_ROWS", 40)
    monkeypatch.setattr(arrangement, "BLOCK_ROWS", 8)
    monkeypatch.setattr(arrangement, "UNINDEXED_ROWS", 5)
    assert isinstance(new_index(), hash_index.HashIndex) is compiled


def some(rng: random.Random, count: int) -> pl.DataFrame:
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
    found = PunctuationSet(SCHEMA)
    for _ in range(rng.randrange(1, 4)):
        chosen = rng.sample(sorted(texts), rng.choice([1, 1, 2, 3]))
        found.add(Punctuation.of(SCHEMA, **{name: rng.choice(texts[name]) for name in chosen}))
    return found


def closed(t: Tuple, ps: PunctuationSet) -> bool:
    return any(match(t, p) for p in ps)


@pytest.mark.parametrize("key", [("n", "x", "s"), ("n",), ("x", "s"), ()])
@pytest.mark.parametrize("seed", range(12))
def test_it_holds_finds_and_loses_what_a_list_does(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(seed)
    held, model = Arrangement(SCHEMA.empty(), key), list[Tuple]()
    at = [SCHEMA.index(name) for name in key]

    def key_of(t: Tuple) -> tuple[object, ...]:
        return tuple(plain(t[i]) for i in at)

    for _ in range(25):
        ps, fresh = punctuations(rng), some(rng, rng.choice([0, 1, 5, 30]))
        match rng.randrange(6):
            case 0:
                held.append(fresh)
                model += fresh.rows()
            case 1:
                seen, new = set(listed(SCHEMA.frame(model))), list[Tuple]()
                for t in fresh.rows():
                    if tuple(map(plain, t)) not in seen:
                        seen.add(tuple(map(plain, t)))
                        new.append(t)
                assert listed(held.insert(fresh)) == [tuple(map(plain, t)) for t in new]
                model += new
            case 2:
                places, rows = held.probe(fresh)
                theirs = listed(held.take(rows))
                pairs = list(zip(places.tolist(), theirs, strict=True))
                assert pairs == [
                    (i, tuple(map(plain, t)))
                    for i, f in enumerate(fresh.rows())
                    for t in model
                    if key_of(f) == key_of(t)
                ]
            case 3:
                gone = held.remove(held.matching(ps))
                assert listed(gone) == [tuple(map(plain, t)) for t in model if closed(t, ps)]
                model = [t for t in model if not closed(t, ps)]
            case 4:
                gone = held.remove(held.where(pl.col("n") > 2))
                assert listed(gone) == [tuple(map(plain, t)) for t in model if (t[0] or 0) > 2]
                model = [t for t in model if not (t[0] or 0) > 2]
            case 5:
                blocked = set(held.blocked(ps))
                assert blocked == {p for p in ps if any(match(t, p) for t in model)}
        assert held.height == len(model)
        assert listed(held.frame) == [tuple(map(plain, t)) for t in model]
        if rng.random() < 0.2:
            again = Arrangement(SCHEMA.empty(), key)
            again.restore(unpack(pack(held.snapshot())))
            held = again


def test_what_did_not_change_is_the_same_in_the_next_snapshot() -> None:
    held = Arrangement(SCHEMA.empty(), ("n",))
    for start in range(0, 400, 5):
        held.append(SCHEMA.frame((i, 0.0, "a") for i in range(start, start + 5)))
    before = held.snapshot()
    held.append(SCHEMA.frame([(1000, 0.0, "a")]))
    held.remove(held.matching(PunctuationSet(SCHEMA, [Punctuation.of(SCHEMA, n="[0,2]")])))
    after = held.snapshot()
    kept = sum(frame.height for name, frame in after.items() if before.get(name) is frame)
    assert kept >= 300
    again = Arrangement(SCHEMA.empty(), ("n",))
    again.restore(after)
    assert {name for name in again.snapshot() if after[name] is again.snapshot()[name]} >= {
        name for name in after if not name.endswith(".dead")
    }, "who continues writes no page again"


def test_pages_are_written_anew_once_most_of_their_rows_are_gone() -> None:
    held = Arrangement(SCHEMA.empty(), ("n",))
    held.append(SCHEMA.frame((i, 0.0, "a") for i in range(40)))
    held.remove(np.arange(0, 30))
    (page,) = held.snapshot().values()
    assert page["n"].to_list() == list(range(30, 40))


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_key_become_one(seed: int) -> None:
    rng = random.Random(seed)
    empty = pl.DataFrame(schema={"k": pl.Int64, "x": pl.Float64, "n": pl.Int64})
    held, model = Arrangement(empty, ["k", "x"]), dict[tuple[object, ...], int]()
    for _ in range(30):
        keys = [
            (rng.choice([*range(30), None]), rng.choice([math.nan, 0.0, None]))
            for _ in range(rng.choice([1, 8]))
        ]
        fresh = pl.DataFrame([(*key, 1) for key in keys], empty.schema, orient="row")
        held.merge(fresh, [pl.col("n").sum()])
        for key in keys:
            at = tuple(map(plain, key))
            model[at] = model.get(at, 0) + 1
        if rng.random() < 0.2:
            gone = held.remove(np.unique(held.probe(fresh)[1]))
            for *key, _ in gone.rows():
                del model[tuple(map(plain, key))]
        assert {tuple(map(plain, key)): n for *key, n in held.frame.rows()} == model
        assert held.height == len(model)


def test_tuples_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
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
    found = arrangement.distinct(pl.DataFrame({"a": rows}))
    assert found["a"].to_list() == list(dict.fromkeys(rows))
