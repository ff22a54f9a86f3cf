"""Judges without rules: they compare an operator with its relational counterpart over every grammatical continuation.

They check Section 5.1 of the paper and the additional conditions of the report. Domains are small enough to try all
continuations of up to two tuples per port. An operator is

- *safe*: every released tuple is in the result of every continuation;
- *complete*: every tuple in the result of every continuation is released;
- *proper*: no continuation produces a tuple that is promised away;
- *maximal*: a tuple that punctuations exclude is promised away. (The paper's rules emit no punctuation for a distinct
  tuple that was released, or for a tuple that difference has received on the right.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

from tests.oracle.operators import Port, set_match
from tests.oracle.values import Row, bag, same
from xmlpunct.punctuations.punctuation import Punctuation, combine, match
from xmlpunct.schema import Schema

Relational = Callable[..., list[Row]]
"""A function of complete inputs."""
Bag = Counter[tuple[Hashable, ...]]
MOST = 2
"""The most tuples that a continuation has on a port."""


def continuations(ports: Sequence[Port], domains: Sequence[Sequence[Row]]) -> Iterator[tuple[list[Row], ...]]:
    """All continuations: for each port a list of tuples."""
    choices = []
    for port, ts in zip(ports, domains, strict=True):
        may_come = [t for t in ts if not set_match(t, port.ps)]
        choices.append([list(c) for n in range(MOST + 1) for c in combinations_with_replacement(may_come, n)])
    return product(*choices)


@dataclass
class Verdict:
    """The results that all continuations share, and the results of any continuation."""

    certain: Bag
    """Tuples in the result of every continuation."""
    possible: Bag
    """Tuples in the result of any continuation, with the highest count."""
    conceivable: Bag
    """The same without punctuations."""

    @classmethod
    def of(cls, operation: Relational, ports: Sequence[Port], domains: Sequence[Sequence[Row]]) -> Verdict:
        """Try all continuations."""
        certain = bag(operation(*(port.ts for port in ports)))
        possible, conceivable = Bag(certain), Bag(certain)
        for added in continuations(ports, domains):
            result = bag(
                operation(*(port.ts + new_tuples for port, new_tuples in zip(ports, added, strict=True)))
            )
            certain &= result
            possible |= result
        for added in continuations([Port() for _ in ports], domains):
            conceivable |= bag(
                operation(*(port.ts + new_tuples for port, new_tuples in zip(ports, added, strict=True)))
            )
        return cls(certain, possible, conceivable)

    def judge(
        self,
        output: Iterable[Row],
        promises: Sequence[Punctuation],
        probes: Sequence[Row],
        received: Sequence[Punctuation] | None = None,
        keys: int | None = None,
    ) -> Iterator[str]:
        """Errors in an output and its promises so far; ``probes`` are conceivable output tuples.

        With ``received``, an operator emits received punctuations unchanged or not at all: it owes the punctuations
        that no possible result matches. With ``keys`` its promises constrain the first ``keys`` attributes only.
        """
        yield from self.judge_tuples(output)
        yield from self.judge_promises(output, promises, probes, received, keys)

    def judge_tuples(self, output: Iterable[Row]) -> Iterator[str]:
        """Errors in an output."""
        out = bag(output)
        yield from (f"unsafe: {t} is out" for t in out - self.certain)
        yield from (f"incomplete: {t} is not out" for t in self.certain - out)

    def judge_promises(
        self,
        output: Iterable[Row],
        promises: Sequence[Punctuation],
        probes: Sequence[Row],
        received: Sequence[Punctuation] | None = None,
        keys: int | None = None,
    ) -> Iterator[str]:
        """Errors in the promises that accompany an output."""
        out = bag(output)
        coming = [t for t in probes if self.possible[tuple(map(same, t))] > out[tuple(map(same, t))]]
        open_keys = set() if keys is None else {tuple(map(same, t[:keys])) for t in coming}
        if received is not None:
            received = [p for p in received if not any(match(t, p) for t in coming)]
        for t in probes:
            key = tuple(map(same, t))
            may_come, is_promised = self.possible[key] > out[key], set_match(t, promises)
            if may_come and is_promised:
                yield f"improper: {t} may come"
            owed = self.conceivable[key] > out[key] and (received is None or set_match(t, received))
            owed = owed and key[:keys] not in open_keys
            if not may_come and not is_promised and owed:
                yield f"not maximal: {t} cannot come"


def in_output(
    ports: Sequence[Port], schema: Schema, positions: Sequence[Sequence[int | None]], combines: bool = True
) -> list[Punctuation]:
    """The punctuations of each port over the output schema; if ``combines``, also the combinations of one of each port.

    ``positions``: for each port, the position of each output attribute in its input, or None.
    """
    moved = [
        [p.rebase(schema, at) for p in port.ps if set(p.constrained) <= set(at)]
        for port, at in zip(ports, positions, strict=True)
    ]
    combined = [combine(p, q) for p, q in product(*moved)] if combines and len(moved) > 1 else []
    return [*(p for punctuations in moved for p in punctuations), *(p for p in combined if p is not None)]
