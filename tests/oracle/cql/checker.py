"""Judges what an engine gave for a query, prefix by prefix of its feed (relations 13).

`check` says the first thing that is wrong: something released that M's answer has not, or that a continuation takes
back; a punctuation that a continuation breaks; something complete that is not out, or not promised; output that
depends on the slices.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from tests.oracle.cql import query as cql
from tests.oracle.cql.complete import Closed
from tests.oracle.cql.feeds import (
    Feed,
    Inputs,
    Time,
    canonical,
    instant,
    prefix,
    spans,
    timestamp,
)
from tests.oracle.cql.futures import continuation
from tests.oracle.cql.meaning import Meaning
from tests.oracle.cql.query import is_stream, names
from tests.oracle.values import Row, same
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types import INT, Type

Key = tuple[tuple[Hashable, ...], int]
"""A tuple without its timestamp, as `same` sees it, and an instant."""


@dataclass
class Output:
    """What came out once the elements of the feed before ``position`` were in, and not before.

    Tuples and punctuations are of the output schema: the columns, then a stream's timestamp or a relation's at, diff.
    """

    position: int
    tuples: Sequence[Row] = ()
    punctuations: Sequence[Punctuation] = ()


Run = Sequence[Output]
"""The outputs of one run, in order; the positions are the slices."""


@dataclass
class Answer:
    """All that comes out in the end: counts or diffs, and the tuples themselves."""

    counts: Counter[Key] = field(default_factory=Counter)
    tuples: dict[Key, Row] = field(default_factory=dict)

    def add(self, e: Row, at: int, n: int) -> Key:
        key = tuple(map(same, e)), at
        self.tuples.setdefault(key, e)
        self.counts[key] += n
        return key


class Checker:
    """The answers to one query over one feed, for any number of runs."""

    def __init__(
        self, query: cql.Query, inputs: Inputs, feed: Feed, futures: int = 2, rng: random.Random | None = None
    ) -> None:
        self.query, self.feed = query, list(feed)
        self.inputs = {name: inputs[name] for name in names(query)}
        self.time = Time.of(self.inputs.values())
        self.is_stream = is_stream(query)
        self.type: Type = next((i.type for i in self.inputs.values() if i.stamp is not None), INT)
        self._futures, self._rng = futures, rng or random.Random(len(self.feed))
        self.final = self.answer(self.feed)
        self._known: dict[int, tuple[Closed, list[Answer]]] = {}

    def answer(self, feed: Feed) -> Answer:
        """M's answer over a whole feed."""
        own = [(name, element) for name, element in feed if name in self.inputs]
        found = Answer()
        for (e, at), n in Meaning(self.inputs, own, self.time).answer(self.query).items():
            found.add(e, at, n)
        return found

    def at(self, position: int) -> tuple[Closed, list[Answer]]:
        """What a prefix closes, and the answers over continuations of it, the feed itself first."""
        if position not in self._known:
            own = [(name, e) for name, e in self.feed if name in self.inputs]
            before = [(name, e) for name, e in self.feed[:position] if name in self.inputs]
            others = [
                self.answer([*before, *continuation(self._rng, self.inputs, before, self.time, own)])
                for _ in range(self._futures)
            ]
            self._known[position] = Closed(self.inputs, before, self.time), [self.final, *others]
        return self._known[position]

    def read(self, t: Row) -> tuple[Row, int, int]:
        """An output tuple as <e, at, diff>; a stream's elements are one copy each."""
        if self.is_stream:
            return canonical(t[:-1]), instant(self.type, t[-1]), 1
        return canonical(t[:-2]), instant(self.type, t[-2]), t[-1]

    def promised(self, e: Row, ps: Sequence[Punctuation]) -> float:
        """How far punctuations of the output promise e."""
        start, place = (self.time.before, -1) if self.is_stream else (self.time.low - 1, -2)
        parts: list[tuple[int, int]] = []
        for p in ps:
            if all(q.matches(v) for q, v in zip(p.patterns, e, strict=False)) and self._any_diff(p):
                is_ever = str(p.patterns[place]) == "*"
                parts += [(self.time.low, self.time.high)] if is_ever else spans(self.type, p.patterns[place])
        return self.time.bound(prefix(start, parts))

    def _any_diff(self, p: Punctuation) -> bool:
        return self.is_stream or str(p.patterns[-1]) in ("*", "(,)")

    def is_promised(self, e: Row, at: int, diff: int, ps: Sequence[Punctuation]) -> Punctuation | None:
        """A punctuation that says that an output tuple does not come."""
        t = (*e, timestamp(self.type, at), *([] if self.is_stream else [diff]))
        return next((p for p in ps if all(q.matches(v) for q, v in zip(p.patterns, t, strict=True))), None)

    def run(self, outputs: Run) -> Iterator[str]:
        """All that is wrong with a run."""
        released, said = Answer(), list[Punctuation]()
        for output in outputs:
            where = f"after {output.position} of {len(self.feed)} elements"
            closed, answers = self.at(output.position)
            for t in output.tuples:
                e, at, n = self.read(t)
                again = (tuple(map(same, e)), at) in released.counts
                released.add(e, at, n)
                if not self.is_stream and (again or n == 0):
                    yield f"{where}: {t} is no canonical change: one of its instant is out, or it changes nothing"
            said += output.punctuations
            yield from (f"{where}: {wrong}" for wrong in self.untrue(released, said, answers))
            yield from (f"{where}: {wrong}" for wrong in self.missing(released, said, closed, answers))

    def untrue(self, released: Answer, said: list[Punctuation], answers: Sequence[Answer]) -> Iterator[str]:
        """What is released or promised, and not so in the end, whatever may still come."""
        for i, answer in enumerate(answers):
            why = "M's answer has" if i == 0 else "a continuation has"
            for key, n in released.counts.items():
                right = answer.counts[key]
                if n != right and not (self.is_stream and n < right):
                    yield f"{n} times {released.tuples[key]} at {key[1]} is released, and {why} {right}"
            for key, n in answer.counts.items():
                rest = n - released.counts[key] if self.is_stream else n * (key not in released.counts)
                p = self.is_promised(answer.tuples[key], key[1], n, said) if rest else None
                if p is not None:
                    yield f"{p} is promised, and {why} {rest} times {answer.tuples[key]} at {key[1]} to come"

    def missing(
        self, released: Answer, said: list[Punctuation], closed: Closed, answers: Sequence[Answer]
    ) -> Iterator[str]:
        """What is complete and not out, and what is closed and not promised."""
        for key, n in self.final.counts.items():
            e, at = self.final.tuples[key], key[1]
            if at <= closed.bound(self.query, e) and released.counts[key] != n:
                yield f"{n} times {e} at {at} is complete and not out: only {released.counts[key]}"
        for e in {key[0]: e for answer in answers for key, e in answer.tuples.items()}.values():
            least, found = closed.bound(self.query, e), self.promised(e, said)
            if self.time.low < least and found < least:
                yield f"{e} is closed up to {least}, and promised up to {found}"
        if closed.is_over(self.query) and not any(p.is_everything for p in said):
            yield "the end of the output is not said"

    def check(self, *runs: Run) -> str | None:
        """The first thing wrong with some runs, cut in one or several ways; None: all is right."""
        alone = (wrong for run in runs for wrong in self.run(run))
        among = (wrong for other in runs[1:] for wrong in self.alike(runs[0], other))
        return next(chain(alone, among), None)

    def alike(self, one: Run, other: Run) -> Iterator[str]:
        """Whether two slicings gave the same wherever both were cut."""
        views = [dict(self._views(run)) for run in (one, other)]
        for position in sorted(views[0].keys() & views[1].keys()):
            (a, first), (b, second) = views[0][position], views[1][position]
            if a.counts != b.counts:
                more, less = a.counts - b.counts, b.counts - a.counts
                yield f"after {position} elements the slicings differ in what is out: {dict(more)}, {dict(less)}"
            for e in {key[0]: e for key, e in self.final.tuples.items()}.values():
                if self.promised(e, first) != self.promised(e, second):
                    yield f"after {position} elements the slicings differ in what is promised of {e}"

    def _views(self, run: Run) -> Iterator[tuple[int, tuple[Answer, list[Punctuation]]]]:
        released, said = Counter[Key](), list[Punctuation]()
        for output in run:
            found = Answer(released)
            for t in output.tuples:
                found.add(*self.read(t))
            said = [*said, *output.punctuations]
            yield output.position, (Answer(Counter(released)), said)


def check(
    query: cql.Query,
    inputs: Inputs,
    feed: Feed,
    *runs: Run,
    futures: int = 2,
    rng: random.Random | None = None,
) -> str | None:
    """The first thing wrong with runs of a query over a feed, cut in one or several ways; None: all is right.

    ``futures`` random continuations of each prefix judge whether what was said is true.
    """
    return Checker(query, inputs, feed, futures, rng).check(*runs)
