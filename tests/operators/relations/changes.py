"""Operators over changes run slice by slice, and relations as bags of tuples per instant: what came out so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.operators.harness import assert_proper, give, restart
from tests.oracle import is_canonical
from tests.strategies import Cut, Pool, punctuations_of, tuples_of
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.types import INT

TAU = Pool("instant", INT, tuple(range(-2, 4)), tuple(range(-4, 6)))
"""Few instants, so that changes of different tuples meet."""


@dataclass
class Run:
    """What went into an operator so far, by port, and what came out; opening included."""

    operator: Operator
    tuples_in: list[list[Tuple]]
    punctuations_in: list[list[Punctuation]]
    tuples: list[Tuple] = field(default_factory=list)
    punctuations: list[Punctuation] = field(default_factory=list)
    rejected: int = 0
    fresh: list[Tuple] = field(default_factory=list)
    """The tuples that came out of the last slice."""

    def says(self, t: Tuple) -> bool:
        """Whether a punctuation that came out matches a tuple."""
        return any(match(t, p) for p in self.punctuations)


def runs(make: Callable[[], Operator], pieces: Sequence[Cut], restarts: Iterable[int] = ()) -> Iterator[Run]:
    """Give slices to an operator; what has happened at the start and after each of them.

    After the slices whose numbers are in ``restarts`` the operator is replaced by one restored from its snapshot.
    """
    operator = make()
    ports = range(len(operator.inputs))
    so_far = Run(operator, [[] for _ in ports], [[] for _ in ports], [], list(operator.opening()))
    yield so_far
    for number, (port, elements) in enumerate(pieces):
        output = give(operator, port, elements)
        so_far.tuples_in[port] += tuples_of(elements)
        so_far.punctuations_in[port] += punctuations_of(elements)
        so_far.fresh = output.tuples.rows()
        assert_proper(so_far.fresh, so_far.punctuations)
        assert all(is_canonical(v) for t in so_far.fresh for v in t)
        so_far.tuples += so_far.fresh
        so_far.punctuations += output.punctuations
        so_far.rejected += len(operator.rejects)
        operator.rejects.clear()
        if number in restarts:
            so_far.operator = operator = restart(make, operator)
        yield so_far


RESTARTS = st.sets(st.integers(0, 8))
