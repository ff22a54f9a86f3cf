"""Judges the output of an engine for a query at each prefix of its feed (relations 13).

`check` returns the first error: a released tuple that is not in M's answer or in that of a continuation; a punctuation
that a continuation violates; a complete tuple that is not released or not promised; output that depends on the slices.
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
    """The output after the elements of the feed before ``position``, since the previous `Output`.

    Tuples and punctuations have the output schema: the columns, then a stream's timestamp or a relation's at, diff.
    """

    position: int
    tuples: Sequence[Row] = ()
    punctuations: Sequence[Punctuation] = ()


Run = Sequence[Output]
"""The outputs of one run in order; the positions are the ends of the slices."""


@dataclass
class Answer:
    """A complete answer: counts or diffs by key, and the tuple of each key."""

    counts: Counter[Key] = field(default_factory=Counter)
    tuples: dict[Key, Row] = field(default_factory=dict)

    def add(self, e: Row, at: int, n: int) -> Key:
        key = tuple(map(same, e)), at
        self.tuples.setdefault(key, e)
        self.counts[key] += n
        return key


class Checker:
    """Checks any number of runs of one query over one feed."""

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
        self._states: dict[int, tuple[Closed, list[Answer]]] = {}

    def answer(self, feed: Feed) -> Answer:
        """M's answer over a complete feed."""
        elements = [(name, element) for name, element in feed if name in self.inputs]
        result = Answer()
        for (e, at), n in Meaning(self.inputs, elements, self.time).answer(self.query).items():
            result.add(e, at, n)
        return result

    def at(self, position: int) -> tuple[Closed, list[Answer]]:
        """The closed instants at a prefix, and the answers over continuations of it; the first is the feed."""
        if position not in self._states:
            elements = [(name, e) for name, e in self.feed if name in self.inputs]
            before = [(name, e) for name, e in self.feed[:position] if name in self.inputs]
            alternatives = [
                self.answer([*before, *continuation(self._rng, self.inputs, before, self.time, elements)])
                for _ in range(self._futures)
            ]
            self._states[position] = Closed(self.inputs, before, self.time), [self.final, *alternatives]
        return self._states[position]

    def read(self, t: Row) -> tuple[Row, int, int]:
        """An output tuple as <e, at, diff>; a stream's elements are one copy each."""
        if self.is_stream:
            return canonical(t[:-1]), instant(self.type, t[-1]), 1
        return canonical(t[:-2]), self.time.low if t[-2] is None else instant(self.type, t[-2]), t[-1]

    def shows_lo(self, output: Output) -> Iterator[str]:
        """The tuples that have a formal LO, and the punctuations about it alone."""
        column = -1 if self.is_stream else -2
        for t in output.tuples:
            if t[column] is not None and self.time.is_formal(instant(self.type, t[column])):
                yield f"{t} shows the formal first instant"
        formal = [] if self.time.declared_low else [(self.time.low, self.time.low)]
        for p in output.punctuations:
            if formal and spans(self.type, p.patterns[column]) == formal:
                yield f"{p} is about the formal first instant alone"

    def promised(self, e: Row, ps: Sequence[Punctuation]) -> float:
        """The prefix of instants that punctuations of the output close for e."""
        start, column = (self.time.before, -1) if self.is_stream else (self.time.low - 1, -2)
        parts: list[tuple[int, int]] = []
        for p in ps:
            if all(q.matches(v) for q, v in zip(p.patterns, e, strict=False)) and self._any_diff(p):
                is_ever = str(p.patterns[column]) == "*"
                parts += (
                    [(self.time.low, self.time.high)] if is_ever else spans(self.type, p.patterns[column])
                )
        return self.time.bound(prefix(start, parts))

    def _any_diff(self, p: Punctuation) -> bool:
        return self.is_stream or str(p.patterns[-1]) in ("*", "(,)")

    def is_promised(self, e: Row, at: int, diff: int, ps: Sequence[Punctuation]) -> Punctuation | None:
        """A punctuation that matches an output tuple, if any."""
        t = (*e, timestamp(self.type, at), *([] if self.is_stream else [diff]))
        return next((p for p in ps if all(q.matches(v) for q, v in zip(p.patterns, t, strict=True))), None)

    def run(self, outputs: Run) -> Iterator[str]:
        """All errors in a run."""
        released, promises = Answer(), list[Punctuation]()
        for output in outputs:
            where = f"after {output.position} of {len(self.feed)} elements"
            closed, answers = self.at(output.position)
            yield from (f"{where}: {wrong}" for wrong in self.shows_lo(output))
            for t in output.tuples:
                e, at, n = self.read(t)
                is_repeated = (tuple(map(same, e)), at) in released.counts
                released.add(e, at, n)
                if not self.is_stream and (is_repeated or n == 0):
                    yield f"{where}: {t} is no canonical change: one of its instant is out, or it changes nothing"
            promises += output.punctuations
            yield from (f"{where}: {wrong}" for wrong in self.untrue(released, promises, answers))
            yield from (f"{where}: {wrong}" for wrong in self.missing(released, promises, closed, answers))

    def untrue(
        self, released: Answer, promises: list[Punctuation], answers: Sequence[Answer]
    ) -> Iterator[str]:
        """Released tuples and promises that the feed or a continuation contradicts."""
        for i, answer in enumerate(answers):
            why = "M's answer has" if i == 0 else "a continuation has"
            for key, n in released.counts.items():
                right = answer.counts[key]
                if n != right and not (self.is_stream and n < right):
                    yield f"{n} times {released.tuples[key]} at {key[1]} is released, and {why} {right}"
            for key, n in answer.counts.items():
                remaining = n - released.counts[key] if self.is_stream else n * (key not in released.counts)
                p = self.is_promised(answer.tuples[key], key[1], n, promises) if remaining else None
                if p is not None:
                    yield f"{p} is promised, and {why} {remaining} times {answer.tuples[key]} at {key[1]} to come"

    def missing(
        self, released: Answer, promises: list[Punctuation], closed: Closed, answers: Sequence[Answer]
    ) -> Iterator[str]:
        """Complete tuples that are not released, and closed tuples that are not promised."""
        for key, n in self.final.counts.items():
            e, at = self.final.tuples[key], key[1]
            if at <= closed.bound(self.query, e) and released.counts[key] != n:
                yield f"{n} times {e} at {at} is complete and not out: only {released.counts[key]}"
        for e in {key[0]: e for answer in answers for key, e in answer.tuples.items()}.values():
            least, reached = closed.bound(self.query, e), self.promised(e, promises)
            if self.time.low < least and reached < least:
                yield f"{e} is closed up to {least}, and promised up to {reached}"
        if closed.is_over(self.query) and not any(p.is_everything for p in promises):
            yield "the end of the output is not said"

    def check(self, *runs: Run) -> str | None:
        """The first error in runs over different slices; None if there is no error."""
        errors_of_runs = (wrong for run in runs for wrong in self.run(run))
        differences = (wrong for other in runs[1:] for wrong in self.alike(runs[0], other))
        return next(chain(errors_of_runs, differences), None)

    def alike(self, first_run: Run, second_run: Run) -> Iterator[str]:
        """Differences between two runs at the positions where both have a slice boundary."""
        views = [dict(self._views(run)) for run in (first_run, second_run)]
        for position in sorted(views[0].keys() & views[1].keys()):
            (a, first), (b, second) = views[0][position], views[1][position]
            if a.counts != b.counts:
                surplus, deficit = a.counts - b.counts, b.counts - a.counts
                yield f"after {position} elements the slicings differ in what is out: {dict(surplus)}, {dict(deficit)}"
            for e in {key[0]: e for key, e in self.final.tuples.items()}.values():
                if self.promised(e, first) != self.promised(e, second):
                    yield f"after {position} elements the slicings differ in what is promised of {e}"

    def _views(self, run: Run) -> Iterator[tuple[int, tuple[Answer, list[Punctuation]]]]:
        released, promises = Counter[Key](), list[Punctuation]()
        for output in run:
            view = Answer(released)
            for t in output.tuples:
                view.add(*self.read(t))
            promises = [*promises, *output.punctuations]
            yield output.position, (Answer(Counter(released)), promises)


def check(
    query: cql.Query,
    inputs: Inputs,
    feed: Feed,
    *runs: Run,
    futures: int = 2,
    rng: random.Random | None = None,
) -> str | None:
    """The first error in runs of a query over a feed with different slices; None if there is no error.

    ``futures``: the number of random continuations of each prefix that check the promises.
    """
    return Checker(query, inputs, feed, futures, rng).check(*runs)
