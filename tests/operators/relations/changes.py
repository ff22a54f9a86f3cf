"""Runs operators over changes slice by slice; random changes with a slow oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.operators.harness import assert_proper, give, restart
from tests.oracle import is_canonical
from tests.oracle.values import same
from tests.strategies import REAL, SMALL, Cut, Pool, Space, Stream, punctuations_of, some_patterns, tuples_of
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT
from xmlpunct.types.pattern import WILDCARD

TAU = Pool("instant", INT, tuple(range(-2, 4)), tuple(range(-4, 6)))
"""Few instants, so that changes of different tuples meet."""
T = Instants(INT)
KEY = Pool("key", INT, (1, 2), (0, 1, 2, 3))
ELEMENTS = (
    Space.of(k=KEY, n=(SMALL, "[0,1]")),
    Space.of(x=REAL),
    Space.of(k=(KEY, "NOT NULL")),
)
"""The tuples of relations: nullable and not, with a domain, with NaN."""

RESTARTS = st.sets(st.integers(0, 8))


@dataclass
class Run:
    """The input of an operator so far, by port, and its output, opening included."""

    operator: Operator
    tuples_in: list[list[Tuple]]
    punctuations_in: list[list[Punctuation]]
    tuples: list[Tuple] = field(default_factory=list)
    punctuations: list[Punctuation] = field(default_factory=list)
    rejected: int = 0

    def promises(self, t: Tuple) -> bool:
        """True if an emitted punctuation matches a tuple."""
        return any(match(t, p) for p in self.punctuations)


def runs(make: Callable[[], Operator], pieces: Sequence[Cut], restarts: Iterable[int] = ()) -> Iterator[Run]:
    """Run an operator over slices; yields its Run at the start and after each slice.

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
        rows = output.tuples.rows()
        assert_proper(rows, so_far.punctuations)
        assert all(is_canonical(v) for t in rows for v in t)
        so_far.tuples += rows
        so_far.punctuations += output.punctuations
        so_far.rejected += len(operator.rejects)
        operator.rejects.clear()
        if number in restarts:
            so_far.operator = operator = restart(make, operator)
        yield so_far


# Random changes


@st.composite
def change_feeds(
    draw: st.DrawFn, elements: Space, size: int = 8, t: Instants = T, lasting: bool = True
) -> Stream:
    """Changes of a relation in any order, with prefix punctuations. No tuple ever has a negative count.

    Without ``lasting`` no tuple exists at LO, and each is deleted in the end.
    """
    schema, instants = changes(elements.schema, INT), st.sampled_from([*[t.lo][:lasting], *TAU.domain])
    tuples = elements.tuples()
    feed: Stream = []
    for _ in range(draw(st.integers(0, size))):
        e, n = tuples[draw(st.integers(0, len(tuples) - 1))], draw(st.integers(1, 2))
        first, last = sorted((draw(instants), draw(instants)))
        feed += [(*e, first, n), (*e, last, -n)][: draw(st.sampled_from([1, 2, 2])) if lasting else 2]
    feed = draw(st.permutations(feed))
    for _ in range(draw(st.integers(0, size))):
        is_wildcard = draw(st.booleans())
        q = [
            WILDCARD if is_wildcard else draw(st.just(WILDCARD) | some_patterns(pool))
            for pool in elements.pools
        ]
        bound = draw(st.sampled_from([t.lo, *TAU.domain, t.last]))
        p = Punctuation(schema, [*q, t.prefix(bound), WILDCARD])
        matched = [i for i, c in enumerate(feed) if not isinstance(c, Punctuation) and match(c, p)]
        feed.insert(draw(st.integers(matched[-1] + 1 if matched else 0, len(feed))), p)
    return [*feed, Punctuation.everything(schema)]


def closed_up_to(e: Tuple, punctuations: Sequence[Punctuation], t: Instants = T) -> int:
    """C(e): the last instant up to which prefix punctuations close a tuple."""
    closed = [t.bound(p.patterns[-2]) for p in punctuations if match((*e, t.lo, 1), p)]
    return max(closed, default=t.lo - 1)


def count_at(feed: Iterable[Tuple | Punctuation], e: Tuple, at: int) -> int:
    """R(at)(e): the number of copies of a tuple at an instant."""
    ts = [t for t in feed if not isinstance(t, Punctuation)]
    return sum(t[-1] for t in ts if same(t[:-2]) == same(e) and t[-2] <= at)


def moments(closed: int) -> list[int]:
    """The instants up to a bound at which a relation may change."""
    return [at for at in (T.lo, *TAU.domain) if at <= closed]
