"""Runs an operator over a punctuated stream and compares it with the oracle after every slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from tests.oracle import Oracle, Port, assert_sound, bag, is_canonical
from tests.oracle.relational import Operation
from tests.oracle.table_1 import set_match
from tests.strategies import (
    Cut,
    Element,
    Space,
    Stream,
    column_in,
    cuts,
    punctuations_of,
    slice_of,
    tuples_of,
)
from xmlpunct.base.codec import pack, unpack
from xmlpunct.operators import Operator, run
from xmlpunct.operators.notation import read, read_port, shown
from xmlpunct.punctuations.punctuation import Punctuation, Tuple, match
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

Make = Callable[[], Operator]

FEWER = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
"""For property tests that run over many cases."""


def restart(make: Make, operator: Operator) -> Operator:
    """A new operator, restored from the serialized state of the old one."""
    restored = make()
    restored.state.restore(unpack(pack(operator.state.snapshot())))
    assert (restored.state.rows, restored.state.held) == (operator.state.rows, operator.state.held)
    return restored


@dataclass
class Outcome:
    """The complete output of an operator."""

    tuples: list[Tuple]
    punctuations: list[Punctuation]
    rejected: int
    events: Counter[str] = field(default_factory=Counter)
    """The events ``released``, ``promised`` and ``purged`` that occurred before the last slice."""


class Tally:
    """Counts events over the runs of a property test, so that the test is not vacuous."""

    def __init__(self) -> None:
        self.runs, self.events = 0, Counter[str]()

    def add(self, *outcomes: Outcome) -> None:
        """Count some runs."""
        for outcome in outcomes:
            self.runs += 1
            self.events.update(outcome.events.keys())

    def check(self, **shares: float) -> None:
        """Assert that each event occurred in at least a share of the runs."""
        for event, share in shares.items():
            observed = self.events[event] / self.runs
            assert observed >= share, f"{event} in {observed:.0%} of the runs, not in {share:.0%}"


def drive(
    make: Make,
    oracle: Oracle,
    pieces: Sequence[Cut],
    probes: Sequence[Tuple],
    restarts: Iterable[int] = (),
    spare_rows: int = 0,
) -> Outcome:
    """Run an operator over slices of its inputs and check the cumulative invariants after each.

    ``probes`` are tuples of the output schema. No emitted punctuation may close one too early, and after every
    slice with punctuations none may be missing. After the slices numbered in ``restarts`` the operator is
    replaced by one restored from its snapshot. The operator may retain ``spare_rows`` more rows than ckeep.
    """
    operator = make()
    ports = [Port() for _ in operator.inputs]
    outcome = Outcome([], [], 0)
    open_probes = list(probes)
    for number, (port, elements) in enumerate(pieces):
        output = give(operator, port, elements)
        ports[port].ts += tuples_of(elements)
        ports[port].ps += punctuations_of(elements)
        rows = output.tuples.rows()
        assert_proper(rows, outcome.punctuations)
        assert all(is_canonical(v) for t in rows for v in t), f"a sign in slice {number}"
        outcome.tuples += rows
        outcome.punctuations += output.punctuations
        outcome.rejected += len(operator.rejects)
        operator.rejects.clear()

        assert bag(outcome.tuples) == bag(oracle.cpass(ports)), f"tuples after slice {number}"
        if output.punctuations or punctuations_of(elements):
            promised = oracle.cprop(ports)
            open_probes, closed = _split(open_probes, lambda t: set_match(t, output.punctuations))  # noqa: B023
            too_much = [t for t in closed if not promised(t)]
            assert not too_much, f"slice {number} promises too much: no {too_much[0]}"
            owes = (oracle.owes or oracle.cprop)(ports)
            owed = [t for t in open_probes if owes(t)]
            assert not owed, f"slice {number} owes a promise: no {owed[0]}"
        required = sum(map(len, oracle.ckeep(ports)))
        if number < len(pieces) - 1:
            arrived = sum(len(port.ts) for port in ports)
            happened = {"released": rows, "promised": output.punctuations, "purged": required < arrived}
            outcome.events.update(event for event, yes in happened.items() if yes)
        assert operator.state.rows <= required + spare_rows, (
            f"keeps {operator.state.rows} rows after slice {number}, may keep {required}"
        )
        if number in restarts:
            operator = restart(make, operator)
    return outcome


def drive_twice(
    data: st.DataObject,
    make: Make,
    oracle: Oracle,
    inputs: Sequence[Stream],
    probes: Sequence[Tuple],
    spare_rows: int = 0,
) -> list[Outcome]:
    """`drive` an operator over its inputs, cut and interleaved in two ways, each with some restarts."""
    restarts = st.sets(st.integers(0, 8))
    return [
        drive(make, oracle, data.draw(cuts(inputs)), probes, data.draw(restarts), spare_rows)
        for _ in range(2)
    ]


def assert_sound_after(
    inputs: Sequence[Stream], oracle: Oracle, operation: Operation, spaces: Sequence[Space]
) -> None:
    """`assert_sound` after the first elements of the inputs, over samples of their spaces' tuples."""
    ports = [Port(tuples_of(stream[:8]), punctuations_of(stream[:8])) for stream in inputs]
    all_ = [space.tuples() for space in spaces]
    assert_sound(oracle, operation, ports, [Random(1).sample(ts, min(24, len(ts))) for ts in all_])


def _split(ts: Iterable[Tuple], test: Callable[[Tuple], bool]) -> tuple[list[Tuple], list[Tuple]]:
    """The tuples for which the test is false, and the tuples for which it is true."""
    parts: tuple[list[Tuple], list[Tuple]] = ([], [])
    for t in ts:
        parts[test(t)].append(t)
    return parts


def give(operator: Operator, port: int, elements: Sequence[Tuple | Punctuation]) -> Slice:
    """Run an operator on one slice; its output must have the operator's schema."""
    output = run(operator, port, mixed(operator.inputs[port], elements))
    assert dict(output.tuples.schema) == operator.schema.dtypes
    assert list(output.tuples.columns) == list(operator.schema.names)
    assert all(len(p.patterns) == len(operator.schema) for p in output.punctuations)
    assert all(p.schema == operator.schema for p in output.punctuations)
    return output


def promised(operator: Operator, port: int, punctuations: Sequence[Punctuation]) -> PunctuationBatch:
    """The punctuations that an operator emits once it has received these."""
    return operator.punctuate(port, PunctuationBatch(punctuations))[1]


def mixed(schema: Schema, elements: Sequence[Element]) -> Slice:
    """Elements as a slice; half of the slices have punctuations in columns where possible.

    In half of them columns of one value are scalar columns, which polars computes differently.
    """
    slice_ = slice_of(schema, elements)
    if slice_.tuples.height % 4 in (1, 2):
        slice_.tuples = with_scalars(slice_.tuples)
    batch = column_in(slice_.punctuations) if slice_.tuples.height % 2 else None
    if batch is not None and batch == slice_.punctuations:
        slice_.punctuations = batch
    return slice_


def with_scalars(tuples: pl.DataFrame) -> pl.DataFrame:
    """Tuples in which columns of one value, or of nulls, are scalar columns."""
    alike = [column for column in tuples.get_columns() if column.n_unique() == 1]
    return tuples.with_columns(pl.lit(c.head(1)).first().alias(c.name) for c in alike)


def assert_proper(tuples: Iterable[Tuple], earlier: Sequence[Punctuation]) -> None:
    """Propriety: no output tuple matches an earlier output punctuation."""
    for t in tuples:
        for p in earlier:
            assert not match(t, p), f"{t} came after {p}"


def assert_once(output: Sequence[Punctuation], *inputs: Sequence[Punctuation]) -> None:
    """If no input repeats a punctuation, neither does the output."""
    if all(len(set(punctuations)) == len(punctuations) for punctuations in inputs):
        twice = [p for p, n in Counter(output).items() if n > 1]
        assert not twice, f"promised twice: {', '.join(map(str, twice))}"


def probes(space: Space, extra: int = 0) -> list[Tuple]:
    """The tuples of a space, with ``extra`` null columns that no punctuation constrains."""
    return [(*t, *[None] * extra) for t in space.tuples()]


def notation(operator: Operator, port: int, text: str) -> list[Tuple | Punctuation]:
    """The elements of a slice in the paper's notation."""
    return read(operator.inputs[port], text)


def check_table(operator: Operator, table: str) -> None:
    """Run an operator on the slices of a table, one per line, and compare each output.

    A line is ``slice -> output``, or ``2: slice -> output`` for another port than the first (which is 1). The
    order inside a slice does not matter.
    """
    for line in filter(None, map(str.strip, table.splitlines())):
        text, _, expected = (part.strip() for part in line.partition("->"))
        port, text = read_port(text)
        output = give(operator, port, notation(operator, port, text))
        assert sorted(shown(operator.schema, output).split("; ")) == sorted(expected.split("; ")), line
