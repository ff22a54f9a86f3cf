"""LateFilter against its definition, one tuple at a time."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import restart
from tests.strategies import POOLS, Element, Space, punctuations_of, slice_of, tuples_of
from xmlpunct.operators import LateFilter, run
from xmlpunct.operators.time.late_filter import guarded_slice
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import is_attribute, placed
from xmlpunct.slice import Slice

INT, STRING, DATE = (next(p for p in POOLS if p.name == name) for name in ("int", "string", "date"))
SPACE = Space.of(a=INT, b=STRING, c=(DATE, "NOT NULL"))


@st.composite
def ungrammatical(draw: st.DrawFn) -> list[Element]:
    """Tuples and punctuations in any order, the end in the middle now and then."""
    tuples = st.sampled_from(SPACE.tuples())
    end = st.just(Punctuation.everything(SPACE.schema))
    element = st.integers(0, 19).flatmap(
        lambda n: tuples if n < 12 else SPACE.punctuations(("a",)) if n < 19 else end
    )
    return draw(st.lists(element, max_size=25))


def as_read(elements: list[Element], first: int) -> Slice:
    """A slice read from a document with one tuple per line."""
    slice_ = slice_of(SPACE.schema, elements)
    lines = list(range(first, first + slice_.tuples.height))
    return guarded_slice(
        Slice(
            placed(slice_.tuples, "s.xml", lines, [10 * n for n in lines]), slice_.punctuations, slice_.before
        ),
        SPACE.schema,
    )


def expected(elements: list[Element]) -> tuple[list[Tuple], list[tuple[int, str]]]:
    """The tuples that pass, and for each late tuple its line and the attributes that closed it."""
    earlier: list[Punctuation] = []
    accepted, late, line = list[Tuple](), list[tuple[int, str]](), 0
    for e in elements:
        if isinstance(e, Punctuation):
            earlier.append(e)
            continue
        line += 1
        schemes = [",".join(p.as_dict()) for p in earlier if match(e, p)]
        if schemes:
            late.append((line, min(schemes)))
        else:
            accepted.append(e)
    return accepted, late


@given(ungrammatical(), st.sets(st.integers(0, 25)), st.sets(st.integers(0, 25)))
def test_a_tuple_after_a_punctuation_that_matches_it_is_rejected(
    elements: list[Element], cuts: set[int], restarts: set[int]
) -> None:
    guard = LateFilter(SPACE.schema)
    bounds = sorted({0, *(c for c in cuts if c < len(elements)), len(elements)})
    released, rejects, emitted = list[Tuple](), [], list[Punctuation]()
    for number, (a, b) in enumerate(pairwise(bounds)):
        output = run(guard, 0, as_read(elements[a:b], 1 + len(tuples_of(elements[:a]))))
        assert output.tuples.columns == list(guard.schema.names)
        released += output.tuples.select(SPACE.schema.names).rows()
        emitted += [Punctuation(SPACE.schema, p.patterns[:3]) for p in output.punctuations]
        rejects += guard.rejects
        guard.rejects.clear()
        if number in restarts:
            guard = restart(lambda: LateFilter(SPACE.schema), guard)
    accepted, late = expected(elements)
    assert released == accepted
    assert set(emitted) == set(punctuations_of(elements))
    assert [r.line for r in rejects] == [line for line, _ in late]
    assert all(r.source == "s.xml" and r.byte == 10 * (r.line or 0) for r in rejects)
    for reject, (line, scheme) in zip(rejects, late, strict=True):
        t = tuples_of(elements)[line - 1]
        about = Punctuation.parse(SPACE.schema, reject.reason.removeprefix("late: ").partition(" was")[0])
        assert match(t, about)
        assert ",".join(about.as_dict()) == scheme
        assert list(json.loads(reject.text)) == list(SPACE.schema.names)
    assert guard.state.held <= len(set(punctuations_of(elements)))


def test_forgotten_punctuations_are_counted_and_reject_no_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.operators.time.late_filter.MOST", 3)
    schema = Schema.parse("s STRING")
    guard = LateFilter(schema)
    punctuations = [Punctuation.of(schema, s=f"s{n}") for n in range(5)]
    run(guard, 0, guarded_slice(Slice(placed(schema.empty(), "x", [], []), punctuations, [0] * 5), schema))
    assert (guard.state.held, guard.forgotten) == (3, 2)
    rows = placed(schema.frame([(f"s{n}",) for n in range(6)]), "x", [1] * 6, [0] * 6)
    output = run(guard, 0, guarded_slice(Slice(rows), schema))
    assert output.tuples["s"].to_list() == ["s0", "s1", "s5"]
    assert len(guard.rejects) == 3
    assert restart(lambda: LateFilter(schema), guard).forgotten == 2


def test_provenance_columns_are_no_attributes() -> None:
    assert [name for name in LateFilter(SPACE.schema).inputs[0].names if is_attribute(name)] == [
        "a",
        "b",
        "c",
    ]


def test_a_filter_that_drops_rejects_reports_none() -> None:
    guard = LateFilter(SPACE.schema)
    guard.drops_rejects = True
    t = SPACE.tuples()[0]
    output = run(guard, 0, as_read([Punctuation.everything(SPACE.schema), t], 1))
    assert (output.tuples.height, guard.rejects) == (0, [])
