"""Judges that copy no rule: an operator against its relational counterpart over every grammatical continuation.

The paper, Section 5.1, and what the report asks beyond it. Domains are small enough to try all that may still come, up
to two tuples a port. An operator is

- *safe*: what is out is in the result, whatever comes;
- *complete*: what is in the result, whatever comes, is out;
- *proper*: what it has promised away does not come;
- *maximal*: what cannot come, for punctuations say so, it has promised away. (That a distinct tuple comes once, or one
  that difference has seen on the right never, no punctuation says, and the paper's rules leave it unsaid.)
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
"""A function of whole inputs."""
Bag = Counter[tuple[Hashable, ...]]
MOST = 2
"""How many tuples may still come on a port."""


def continuations(ports: Sequence[Port], domains: Sequence[Sequence[Row]]) -> Iterator[tuple[list[Row], ...]]:
    """All that may still come, a list a port."""
    each = []
    for port, ts in zip(ports, domains, strict=True):
        may_come = [t for t in ts if not set_match(t, port.ps)]
        each.append([list(c) for n in range(MOST + 1) for c in combinations_with_replacement(may_come, n)])
    return product(*each)


@dataclass
class Verdict:
    """What all continuations have in common, and what some of them bring."""

    certain: Bag
    """What is in the result, whatever comes."""
    possible: Bag
    """What is in some result, as often as it can be."""
    conceivable: Bag
    """The same if there were no punctuations."""

    @classmethod
    def of(cls, operation: Relational, ports: Sequence[Port], domains: Sequence[Sequence[Row]]) -> Verdict:
        """Try them all."""
        certain = bag(operation(*(port.ts for port in ports)))
        possible, conceivable = Bag(certain), Bag(certain)
        for added in continuations(ports, domains):
            result = bag(operation(*(port.ts + more for port, more in zip(ports, added, strict=True))))
            certain &= result
            possible |= result
        for added in continuations([Port() for _ in ports], domains):
            conceivable |= bag(operation(*(port.ts + more for port, more in zip(ports, added, strict=True))))
        return cls(certain, possible, conceivable)

    def judge(
        self,
        output: Iterable[Row],
        promises: Sequence[Punctuation],
        probes: Sequence[Row],
        whole: Sequence[Punctuation] | None = None,
        keys: int | None = None,
    ) -> Iterator[str]:
        """What is wrong with an output and its promises so far; ``probes`` are tuples that it may have.

        With ``whole``, an operator says punctuations as they came or not at all: owed are those among them that
        nothing contradicts. With ``keys`` it speaks of so many first attributes only.
        """
        yield from self.judge_tuples(output)
        yield from self.judge_promises(output, promises, probes, whole, keys)

    def judge_tuples(self, output: Iterable[Row]) -> Iterator[str]:
        """What is wrong with an output."""
        out = bag(output)
        yield from (f"unsafe: {t} is out" for t in out - self.certain)
        yield from (f"incomplete: {t} is not out" for t in self.certain - out)

    def judge_promises(
        self,
        output: Iterable[Row],
        promises: Sequence[Punctuation],
        probes: Sequence[Row],
        whole: Sequence[Punctuation] | None = None,
        keys: int | None = None,
    ) -> Iterator[str]:
        """What is wrong with the promises that go with an output."""
        out = bag(output)
        coming = [t for t in probes if self.possible[tuple(map(same, t))] > out[tuple(map(same, t))]]
        open_keys = set() if keys is None else {tuple(map(same, t[:keys])) for t in coming}
        if whole is not None:
            whole = [p for p in whole if not any(match(t, p) for t in coming)]
        for t in probes:
            key = tuple(map(same, t))
            may_come, is_promised = self.possible[key] > out[key], set_match(t, promises)
            if may_come and is_promised:
                yield f"improper: {t} may come"
            owed = self.conceivable[key] > out[key] and (whole is None or set_match(t, whole))
            owed = owed and key[:keys] not in open_keys
            if not may_come and not is_promised and owed:
                yield f"not maximal: {t} cannot come"


def in_output(
    ports: Sequence[Port], schema: Schema, places: Sequence[Sequence[int | None]], combines: bool = True
) -> list[Punctuation]:
    """The punctuations of each port and, if it ``combines``, all combinations of one of each, in terms of the output.

    ``places`` has for each port where it has each attribute of the output.
    """
    moved = [
        [p.rebase(schema, at) for p in port.ps if set(p.constrained) <= set(at)]
        for port, at in zip(ports, places, strict=True)
    ]
    both = [combine(p, q) for p, q in product(*moved)] if combines and len(moved) > 1 else []
    return [*(p for said in moved for p in said), *(p for p in both if p is not None)]
