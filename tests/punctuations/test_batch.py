"""Every operation on a batch has the same result as on the list of its punctuations."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, column_in, parts_in
from xmlpunct.punctuations.forms import range_key
from xmlpunct.punctuations.promised import Promised
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import columnar
from xmlpunct.schema import Schema

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


def parts(space: Space) -> st.SearchStrategy[list[list[Punctuation]]]:
    return st.lists(st.lists(space.punctuations(), max_size=5), max_size=4)


@every_space
@given(data=st.data())
def test_a_batch_is_the_sequence_of_its_punctuations(space: Space, data: st.DataObject) -> None:
    forms = st.sampled_from([lambda ps: column_in(ps) or PunctuationBatch(ps), parts_in, PunctuationBatch])
    batches = [data.draw(forms)(ps) for ps in data.draw(parts(space))]
    lists = [list(batch) for batch in batches]
    expected = [p for ps in lists for p in ps]
    assert PunctuationBatch.concat(batches) == expected
    assert PunctuationBatch.union(batches) == list(dict.fromkeys(expected))
    reversed_schema = Schema.of(space.schema.attributes[::-1])
    sources = data.draw(
        st.lists(
            st.sampled_from(range(len(reversed_schema))),
            min_size=len(reversed_schema),
            max_size=len(reversed_schema),
        )
    )
    for batch, listed in zip(batches, lists, strict=True):
        rebuilt = PunctuationBatch(listed)
        assert batch.has_end == rebuilt.has_end == any(p.is_everything for p in listed)
        assert batch.rename(space.schema) == listed
        assert PunctuationBatch.from_frame(space.schema, batch.to_frame(space.schema)) == listed
        assert pickle.loads(pickle.dumps(batch)) == listed
        assert batch.unique() == list(dict.fromkeys(listed))
        assert batch.ordered() == rebuilt.ordered()
        assert set(batch.ordered()) == {p for p in listed if not p.is_everything}
        for position in range(len(reversed_schema)):
            assert batch.closing([position]) == rebuilt.closing([position])
        if [a.type for a in reversed_schema] == [space.schema.attributes[i].type for i in sources]:
            assert batch.rebase(reversed_schema, sources) == [
                p.rebase(reversed_schema, sources) for p in listed
            ]
        unmapped = [None] * len(reversed_schema)
        assert batch.rebase(reversed_schema, unmapped) == [
            p.rebase(reversed_schema, unmapped) for p in listed
        ]
        assert len(batch) == len(listed)
        assert batch.possible() == [p for p in listed if not p.is_empty]
        assert batch.take(np.arange(len(batch))[::-2]) == listed[::-2]
        if batch.position is not None:
            assert (
                PunctuationBatch.from_frame(space.schema, batch.to_frame(space.schema)).position
                == batch.position
            )
            keys = [range_key(p) if batch.ranged else p.constants[0] for p in batch]  # type: ignore[index]
            assert batch.keys == keys
            lows, highs = batch.columns
            ranges = [p.patterns[batch.position] for p in batch] if batch.ranged else []
            assert not ranges or lows.to_list() == [p.low for p in ranges]  # type: ignore[attr-defined]
            assert not ranges or highs.to_list() == [p.high for p in ranges]  # type: ignore[attr-defined]
            assert batch.of_some(batch.keys) == listed
            rebuilt = batch.of_some(batch.keys)
            assert all(
                column.equals(original)
                for column, original in zip(rebuilt.columns, batch.columns, strict=True)
            )
            assert batch[0] == listed[0]
            assert batch[:2] == listed[:2]


def test_columns_of_one_attribute_stay_a_column() -> None:
    schema = Schema.parse("a INT, b INT")
    a12, a23 = (column_in([Punctuation.of(schema, a=i) for i in numbers]) for numbers in ((1, 2), (2, 3)))
    b1 = column_in([Punctuation.of(schema, b=1)])
    assert a12 is not None
    assert a23 is not None
    assert b1 is not None
    assert PunctuationBatch.concat([a12, []]).position == 0
    assert PunctuationBatch.concat([a12, a23.of_some([3])]).position == 0
    assert PunctuationBatch.concat([a12, a23]).position is None  # each is in it once
    assert PunctuationBatch.union([a12, a23]).position == 0
    assert PunctuationBatch.union([a12, b1]).parts == [a12, b1]
    assert PunctuationBatch.concat([a12, b1, a23.of_some([3])]).parts == [[*a12, a23[1]], b1]
    assert PunctuationBatch.concat([a12, b1, a23]).parts[0].position is None
    mixed = PunctuationBatch.concat([b1, a12])
    assert mixed.closing([0]).position == 0
    assert mixed.ordered().parts == [a12, b1]
    assert not mixed.has_end


@every_space
@given(data=st.data())
def test_parts_are_remembered_as_their_punctuations_are(space: Space, data: st.DataObject) -> None:
    batches = [parts_in(ps) for ps in data.draw(parts(space))]
    together, singly = Promised(space.schema), Promised(space.schema)
    by_batch, one_by_one = PunctuationSet(space.schema), PunctuationSet(space.schema)
    for batch in batches:
        together.add(batch)
        for p in batch:
            singly.add([p])
        assert set(by_batch.common(batch)) == {p for p in batch if p in one_by_one}
        assert set(by_batch.update(batch)) == {p for p in batch if one_by_one.add(p)}
    tuples = space.schema.frame(space.tuples())
    assert together.mask(tuples).equals(singly.mask(tuples))
    assert len(together) == len(singly)
    for batch in batches[:1]:
        by_batch.discard(batch)
        for p in batch:
            one_by_one.remove(p)
    assert set(by_batch) == set(one_by_one)


def test_each_part_is_routed_by_its_form() -> None:
    schema = Schema.parse("a INT, b INT")
    punctuations = [
        Punctuation.of(schema, a=1),
        Punctuation.of(schema, b=7),
        Punctuation.of(schema, a="[1,3]"),
    ]
    punctuations.append(Punctuation.of(schema, a=2))

    def of_values(values: pl.Series) -> dict[int, pl.Series]:
        return {shard: values.filter(values % 2 == shard) for shard in (0, 1)}

    routed = parts_in(punctuations).route([0], [0, 1], of_values, lambda p: None)
    assert {shard: set(batch) for shard, batch in routed.items()} == {
        0: {*punctuations[1:]},
        1: {*punctuations[:3]},
    }


def test_a_union_of_several_forms_with_repetitions_is_columnar() -> None:
    schema = Schema.parse("a INT, b INT")
    for count in (3, 40):  # keys one by one, and columns
        first = [Punctuation.of(schema, **{name: n}) for n in range(count) for name in ("a", "b")]
        second = [
            first[1],
            Punctuation.of(schema, b="(,5]"),
            *(Punctuation.of(schema, a=-n) for n in range(count)),
        ]
        union = PunctuationBatch.union([columnar(first), columnar(second)])
        assert {(part.position, part.ranged) for part in union.parts} == {(0, False), (1, False), (1, True)}
        assert list(union) == list(dict.fromkeys([*first, *second]))
