"""Equivalences of relations 8 over windows, set operations and relation-to-stream operators."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.relations.changes import ELEMENTS, KEY, TAU, T, change_feeds
from tests.oracle import bag
from tests.strategies import Cut, Space, cuts, slice_of, streams, tuples_of
from xmlpunct.operators.driver import Pipeline
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.relations.to_stream import ToStream
from xmlpunct.operators.relations.window import Window
from xmlpunct.operators.sets.pointwise import Pointwise
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

S = Space.of(k=KEY, ts=(TAU, "NOT NULL"))
PAIR = changes(ELEMENTS[0].schema, INT)
LENGTHS = st.none() | st.integers(0, 4)


def chain(*operators: Operator) -> Pipeline:
    """A pipeline in which each operator reads the one before it."""
    targets = [*([(i + 1, 0)] for i in range(len(operators) - 1)), []]
    return Pipeline(list(operators), [[(0, 0)]], targets)


def output(pipeline: Pipeline, pieces: Sequence[Cut]) -> list[Tuple]:
    """The tuples that a pipeline emits."""
    schemas = [pipeline.operators[edges[0][0]].inputs[edges[0][1]] for edges in pipeline.inputs]
    outputs = [pipeline.open()]
    outputs += [pipeline.push(port, slice_of(schemas[port], elements)) for port, elements in pieces]
    assert any(out.punctuations.has_end for out in outputs)
    assert all(not operator.state.rows for operator in pipeline.operators)
    return [t for out in outputs for t in out.tuples.rows()]


def window(length: int | None, slide: int | None = None) -> Window:
    return Window(S.schema, "ts", T, length, slide)


def to_stream(kind: str, **options: object) -> ToStream:
    return ToStream(window(0).schema, kind, "ts", T, **options)  # type: ignore[arg-type]


@given(data=st.data())
def test_a_stream_comes_back(data: st.DataObject) -> None:
    feed = data.draw(streams(S, ends=True, closing=["ts"]))
    pieces, elements = data.draw(cuts([feed])), tuples_of(feed)
    assert bag(output(chain(window(0), to_stream("rstream")), pieces)) == bag(elements)
    assert bag(output(chain(window(None), to_stream("istream")), pieces)) == bag(elements)
    assert output(chain(window(None), to_stream("dstream")), pieces) == []


@given(data=st.data(), length=LENGTHS, kind=st.sampled_from(["istream", "dstream"]))
def test_a_slide_of_one_instant_is_none(data: st.DataObject, length: int | None, kind: str) -> None:
    pieces = data.draw(cuts([data.draw(streams(S, ends=True, closing=["ts"]))]))
    sliding, plain = (chain(window(length, slide), to_stream(kind)) for slide in (1, None))
    assert bag(output(sliding, pieces)) == bag(output(plain, pieces))


@given(data=st.data())
def test_a_relation_is_rebuilt_from_its_istream_and_dstream(data: st.DataObject) -> None:
    """R = ISTREAM(R) [UNBOUNDED] EXCEPT ALL DSTREAM(R) [UNBOUNDED], with the same canonical changes."""
    feed = data.draw(change_feeds(ELEMENTS[0], lasting=False))
    comes, goes = (ToStream(PAIR, kind, "at", T) for kind in ("istream", "dstream"))
    windows = [Window(operator.schema, "at", T, None) for operator in (comes, goes)]
    minus = Pointwise([w.schema for w in windows], "except all", T)
    rebuilt = Pipeline(
        [comes, windows[0], goes, windows[1], minus],
        [[(0, 0), (2, 0)]],
        [[(1, 0)], [(4, 0)], [(3, 0)], [(4, 1)], []],
    )
    pieces = data.draw(cuts([feed]))
    canonical = output(chain(Pointwise([PAIR], "changes", T)), pieces)
    assert bag(output(rebuilt, pieces)) == bag(canonical)


@given(data=st.data())
def test_an_intersection_is_a_difference_twice(data: st.DataObject) -> None:
    feeds = [data.draw(change_feeds(ELEMENTS[0])) for _ in range(2)]
    pieces = data.draw(cuts(feeds))
    once = Pipeline([Pointwise([PAIR] * 2, "intersect all", T)], [[(0, 0)], [(0, 1)]], [[]])
    inner, outer = (Pointwise([PAIR] * 2, "except all", T) for _ in range(2))
    twice = Pipeline([inner, outer], [[(0, 0), (1, 0)], [(0, 1)]], [[(1, 1)], []])
    assert bag(output(twice, pieces)) == bag(output(once, pieces))
