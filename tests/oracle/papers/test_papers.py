"""The papers' iterators: their own examples, the theorem about them, and our operators beside them."""

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
from xmlpunct.operators import Difference, DupElim, Operator
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

SPACE = Space.of(a=SMALL, b=FLAG)
X = Schema.parse("x INT")
T = TypeVar("T")


def sliced(data: st.DataObject, stream: Stream, count: int) -> list[Stream]:
    """A stream in so many slices, some of them empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), min_size=count - 1, max_size=count - 1)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def drawn(data: st.DataObject, inputs: int) -> list[list[Stream]]:
    """Grammatical streams, all in equally many slices."""
    count = data.draw(st.integers(1, 6))
    return [sliced(data, data.draw(streams(SPACE)), count) for _ in range(inputs)]


def ours(operator: Operator, *inputs: Sequence[Stream]) -> list[Stream]:
    """What our operator gives for each stage: a slice of every input."""
    stages = []
    for slices in zip(*inputs, strict=True):
        output: Stream = []
        for port, elements in enumerate(slices):
            found = give(operator, port, elements)
            output += [*found.tuples.rows(), *found.punctuations]
        stages.append(output)
    return stages


def joined(slices: Iterable[list[T]]) -> list[T]:
    """All slices as one."""
    return list(chain.from_iterable(slices))


def theirs(trace: Iterable[tuple[Stream, object]], inputs: int) -> list[Stream]:
    """What an iterator of the papers gives for each stage."""
    outputs = [out for out, _ in trace]
    return [joined(outputs[i : i + inputs]) for i in range(0, len(outputs), inputs)]


def assert_alike(mine: Sequence[Stream], others: Sequence[Stream]) -> None:
    """At every stage the same tuples, each once; and we have promised what they have, or more."""
    said: list[Punctuation] = []
    heard: list[Punctuation] = []
    for a, b in zip(mine, others, strict=True):
        assert sorted(tuples_of(a), key=repr) == sorted(tuples_of(b), key=repr)
        said += punctuations_of(a)
        heard += punctuations_of(b)
        owed = [t for t in SPACE.tuples() if set_match(t, heard) and not set_match(t, said)]
        assert not owed, f"the paper promises that no {owed[0]} comes"


def test_the_example_of_sdupelim() -> None:
    """Section 4.2: each slice, what it gives, and the state behind it."""
    closed = Punctuation.of(X, x="[0,4]")
    given_: list[Stream] = [[(1,), (5,)], [(3,)], [closed], [(5,), (6,), (7,)]]
    assert list(tkde.sdupelim(given_)) == [
        ([(1,), (5,)], [(1,), (5,)]),
        ([(3,)], [(1,), (5,), (3,)]),
        ([closed], [(5,)]),
        ([(6,), (7,)], [(5,), (6,), (7,)]),
    ]
    assert ours(DupElim(X), given_) == [out for out, _ in tkde.sdupelim(given_)]


@given(data=st.data())
def test_without_punctuations_they_are_the_relational_operators(data: st.DataObject) -> None:
    """Section 4.1: what has come out at the end."""
    slices = st.lists(st.lists(st.sampled_from(SPACE.tuples()), max_size=4), max_size=5)
    left, right = data.draw(slices), data.draw(slices)
    ls, rs = joined(left), joined(right)
    assert joined(plain.sdupelim(left)) == nub(ls)
    found = joined(plain.sdiff(left, right))
    assert set(found) == set(minus(ls, rs))
    assert found == nub(found)


@given(data=st.data())
def test_dupelim_is_sdupelim(data: st.DataObject) -> None:
    (xs,) = drawn(data, 1)
    assert_alike(ours(DupElim(SPACE.schema), xs), theirs(tkde.sdupelim(xs), 1))


@given(data=st.data())
def test_difference_is_sdiff(data: st.DataObject) -> None:
    """TKDE's, and the report's, which says other punctuations: ours says those of both."""
    inputs = drawn(data, 2)
    for sdiff in (tkde.sdiff, report.sdiff):
        mine = ours(Difference(SPACE.schema, SPACE.schema), *inputs)
        assert_alike(mine, theirs(sdiff(*inputs), 2))


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
    """The same of sdiff, behind each slice of the negative input, and of our operator beside it."""
    lxs, rxs = drawn(data, 2)
    oracle, before = sets.difference(), set[Row]()
    operator = Difference(SPACE.schema, SPACE.schema)
    mine = ours(operator, lxs, rxs)
    trace = list(tkde.difference(lxs, rxs))
    for i, ((lout, _), (rout, state)) in enumerate(zip(trace[::2], trace[1::2], strict=True)):
        ports = [arrived(lxs[: i + 1]), arrived(rxs[: i + 1])]
        cpass, ckeep = as_set(oracle.cpass(ports)), oracle.ckeep(ports)
        assert not lout
        assert as_set(tuples_of(rout)) - before == cpass - before == as_set(tuples_of(mine[i]))
        assert as_set(state[0]) == as_set(ckeep[0]), "ckeepL"
        assert as_set(state[1]) == as_set(ckeep[1]), "ckeepR"
        before = cpass
    assert len(operator.stored[0]) == len(ckeep[0])
    assert len(operator.stored[1]) == len(nub(ckeep[1]))
