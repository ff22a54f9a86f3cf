"""The papers' iterators: the papers' examples and theorem, and a comparison with our operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.harness import give
from tests.oracle import Port, operators, sets
from tests.oracle.papers import plain, report, tkde
from tests.oracle.papers.lists import minus, nub
from tests.oracle.table_1 import set_match
from tests.oracle.values import Row
from tests.strategies import FLAG, SMALL, Space, Stream, punctuations_of, streams, tuples_of
from xmlpunct.operators import Operator, Pointwise
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

SPACE = Space.of(a=SMALL, b=FLAG)
X = Schema.parse("x INT")
T = TypeVar("T")


def sliced(data: st.DataObject, stream: Stream, count: int) -> list[Stream]:
    """A stream cut into ``count`` slices; some are empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), min_size=count - 1, max_size=count - 1)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def drawn(data: st.DataObject, inputs: int) -> list[list[Stream]]:
    """Grammatical streams, all cut into the same number of slices."""
    count = data.draw(st.integers(1, 6))
    return [sliced(data, data.draw(streams(SPACE)), count) for _ in range(inputs)]


def ours(operator: Operator, *inputs: Sequence[Stream]) -> list[Stream]:
    """The output of our operator for each stage, that is one slice of every input."""
    stages = []
    for slices in zip(*inputs, strict=True):
        output: Stream = []
        for port, elements in enumerate(slices):
            step = give(operator, port, elements)
            output += [*step.tuples.rows(), *step.punctuations]
        stages.append(output)
    return stages


def joined(slices: Iterable[list[T]]) -> list[T]:
    """All slices concatenated."""
    return list(chain.from_iterable(slices))


def theirs(trace: Iterable[tuple[Stream, object]], inputs: int) -> list[Stream]:
    """The output of one of the papers' iterators for each stage."""
    outputs = [out for out, _ in trace]
    return [joined(outputs[i : i + inputs]) for i in range(0, len(outputs), inputs)]


def assert_alike(our_stages: Sequence[Stream], paper_stages: Sequence[Stream]) -> None:
    """At every stage the tuples are equal, and our punctuations imply the papers' punctuations."""
    our_punctuations: list[Punctuation] = []
    paper_punctuations: list[Punctuation] = []
    for a, b in zip(our_stages, paper_stages, strict=True):
        assert sorted(tuples_of(a), key=repr) == sorted(tuples_of(b), key=repr)
        our_punctuations += punctuations_of(a)
        paper_punctuations += punctuations_of(b)
        owed = [
            t
            for t in SPACE.tuples()
            if set_match(t, paper_punctuations) and not set_match(t, our_punctuations)
        ]
        assert not owed, f"the paper promises that no {owed[0]} comes"


def test_the_example_of_sdupelim() -> None:
    """Section 4.2: the output of each slice, and the state after it."""
    closed = Punctuation.of(X, x="[0,4]")
    slices: list[Stream] = [[(1,), (5,)], [(3,)], [closed], [(5,), (6,), (7,)]]
    assert list(tkde.sdupelim(slices)) == [
        ([(1,), (5,)], [(1,), (5,)]),
        ([(3,)], [(1,), (5,), (3,)]),
        ([closed], [(5,)]),
        ([(6,), (7,)], [(5,), (6,), (7,)]),
    ]
    assert ours(Pointwise([X], "distinct"), slices) == [out for out, _ in tkde.sdupelim(slices)]


@given(data=st.data())
def test_without_punctuations_iterators_equal_relational_operators(data: st.DataObject) -> None:
    """Section 4.1: the output at the end of the inputs."""
    slices = st.lists(st.lists(st.sampled_from(SPACE.tuples()), max_size=4), max_size=5)
    left, right = data.draw(slices), data.draw(slices)
    ls, rs = joined(left), joined(right)
    assert joined(plain.sdupelim(left)) == nub(ls)
    rows = joined(plain.sdiff(left, right))
    assert set(rows) == set(minus(ls, rs))
    assert rows == nub(rows)


@given(data=st.data())
def test_dupelim_is_sdupelim(data: st.DataObject) -> None:
    (xs,) = drawn(data, 1)
    assert_alike(ours(Pointwise([SPACE.schema], "distinct"), xs), theirs(tkde.sdupelim(xs), 1))


@given(data=st.data())
def test_difference_is_sdiff(data: st.DataObject) -> None:
    """TKDE and the report emit different punctuations; our difference emits both kinds."""
    inputs = drawn(data, 2)
    for sdiff in (tkde.sdiff, report.sdiff):
        our_stages = ours(Pointwise([SPACE.schema, SPACE.schema], "except"), *inputs)
        assert_alike(our_stages, theirs(sdiff(*inputs), 2))


def arrived(slices: Sequence[Stream]) -> Port:
    """tups and puncts of all slices."""
    elements = joined(slices)
    return Port(tuples_of(elements), punctuations_of(elements))


def as_set(ts: Iterable[Row]) -> set[Row]:
    return set(ts)


@given(data=st.data())
def test_sdupelim_conforms(data: st.DataObject) -> None:
    """Theorem 1's induction: incrts = cpass at i + 1 - cpass at i, and the state is ckeep, for all i."""
    (xs,) = drawn(data, 1)
    oracle, before = operators.dupelim(), set[Row]()
    for i, (out, state) in enumerate(tkde.sdupelim(xs)):
        ports = [arrived(xs[: i + 1])]
        cpass = as_set(oracle.cpass(ports))
        assert as_set(tuples_of(out)) == cpass - before
        assert as_set(state) == as_set(oracle.ckeep(ports)[0])
        assert punctuations_of(out) == punctuations_of(xs[i])  # prop
        before = cpass


@given(data=st.data())
def test_sdiff_conforms(data: st.DataObject) -> None:
    """The same for sdiff and our operator, after each slice of the negative input."""
    lxs, rxs = drawn(data, 2)
    oracle, before = sets.difference(), set[Row]()
    operator = Pointwise([SPACE.schema, SPACE.schema], "except")
    our_stages = ours(operator, lxs, rxs)
    trace = list(tkde.difference(lxs, rxs))
    for i, ((lout, _), (rout, state)) in enumerate(zip(trace[::2], trace[1::2], strict=True)):
        ports = [arrived(lxs[: i + 1]), arrived(rxs[: i + 1])]
        cpass, ckeep = as_set(oracle.cpass(ports)), oracle.ckeep(ports)
        assert not lout
        assert as_set(tuples_of(rout)) - before == cpass - before == as_set(tuples_of(our_stages[i]))
        assert as_set(state[0]) == as_set(ckeep[0]), "ckeepL"
        assert as_set(state[1]) == as_set(ckeep[1]), "ckeepR"
        before = cpass
    retained = operator.state.parts
    assert len(retained["retained0_0"]) == len(ckeep[0])
    assert len(retained["retained1_0"]) == len(nub(ckeep[1]))
