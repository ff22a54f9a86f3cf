"""Explains waiting results: the punctuation that each input still has to emit, since when, and for which operator."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xmlpunct.base.errors import PatternError, UsageError
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import Node, Query, Stream
from xmlpunct.engine.why.holding import LISTED, Holding
from xmlpunct.engine.why.tracing import Held, Missing, Tracing
from xmlpunct.firehose.writer import punctuation_xml
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import Type
from xmlpunct.types.cut_points import hull
from xmlpunct.types.pattern import WILDCARD, Pattern, enumerate_values, values
from xmlpunct.types.pattern_text import parse_pattern

PASSES = 3
"""Maximum number of repeated traces. One punctuation per stream may cover more than each operator waits for."""


@dataclass(frozen=True)
class Wait:
    """A punctuation of a stream that an operator has waited for, for a number of seconds."""

    stream: Stream
    punctuation: Punctuation
    operator: str
    seconds: float
    punct_namespace: str = PUNCT_NAMESPACE
    sink: str = ""
    """The sink whose result waits; empty for a SELECT without a sink."""

    def __str__(self) -> str:
        request = f"{self.stream.name}: {self.punctuation}"
        return f"{self.sink} waits for {request}, since {self.seconds:,.0f} s ({self.operator})".lstrip()

    def as_dict(self) -> dict[str, Any]:
        """The wait for programs. The punctuation is XML that can be sent to the stream."""
        return {
            "input": self.stream.name,
            "operator": self.operator,
            "since": round(self.seconds, 3),
            "punctuation": punctuation_xml(self.punctuation, self.stream.element, self.punct_namespace),
            **({"sink": self.sink} if self.sink else {}),
        }


def why(
    query: Query,
    holding: Holding,
    patterns: Mapping[str, str],
    punct_namespace: str = PUNCT_NAMESPACE,
    timestamp: float | None = None,
    complete: Container[str] = (),
) -> list[Wait]:
    """The punctuations that matching results of a running or stopped query wait for; empty if no result is retained.

    ``patterns`` maps columns of the result to patterns. With several results, the ones that have these columns are
    traced. If no tuple is retained, a punctuation of the result may be pending because only some streams have emitted
    their part. Sinks that are ``complete`` wait for no punctuation. Raises `UsageError` for an unknown column or a
    wrong pattern.
    """
    timestamp = time.time() if timestamp is None else timestamp
    answers = [answer for answer in query.answers if all(name in answer.root.schema for name in patterns)]
    if not answers:
        raise UsageError(_unknown_columns_message(query, patterns))
    return [
        replace(wait, sink=answer.name)
        for answer in answers
        if answer.name not in complete
        for wait in _waits_of(
            answer.root, holding, _parse_request(answer.root.schema, patterns), punct_namespace, timestamp
        )
    ]


def _waits_of(
    root: Node, holding: Holding, requested: Punctuation, punct_namespace: str, timestamp: float
) -> list[Wait]:
    """The waits of one result of the query."""
    tracing = Tracing(holding)
    missing = tracing.release(root, requested)
    covering = _covering_by_stream(missing)
    for _ in range(PASSES):  # one punctuation per stream covers all missing ones
        missing = Tracing(holding, covering).release(root, requested)
        previous, covering = covering, _covering_by_stream(missing)
        if covering == previous:
            break
    if not missing:
        missing = tracing.promise(root, requested, Held(_result_operator(root), 0))
        last_times = [
            holding.told.get(m.stream.name, holding.started) for m in missing if m.punctuation is None
        ]
        holder = Held(_result_operator(root), min(last_times, default=0.0))
        missing = [Missing(m.stream, m.punctuation, holder) for m in missing if last_times]
    return _by_stream(missing, timestamp, punct_namespace)


def _unknown_columns_message(query: Query, columns: Iterable[str]) -> str:
    """An error message: no result has these columns."""
    if len(query.answers) > 1:
        has = "; ".join(f"{answer} has {', '.join(answer.root.schema.names)}" for answer in query.answers)
        return f"no result has the columns {', '.join(columns)}: {has}"
    schema = query.root.schema
    name = next(name for name in columns if name not in schema)
    return (
        f"the result has no column {name}: it has {', '.join(schema.names)}{did_you_mean(name, schema.names)}"
    )


def _by_stream(missing: list[Missing], timestamp: float, punct_namespace: str) -> list[Wait]:
    """One wait per stream, with a punctuation that covers all missing punctuations of the stream."""
    waits = []
    for name, p in _covering_by_stream(missing).items():
        stream_missing = [m for m in missing if m.stream.name == name and m.punctuation is not None]
        oldest = min((m.held for m in stream_missing), key=lambda holder: holder.since)
        waits.append(
            Wait(
                stream_missing[0].stream,
                p,
                oldest.operator,
                max(timestamp - oldest.since, 0.0),
                punct_namespace,
            )
        )
    return waits


def _covering_by_stream(missing: list[Missing]) -> dict[str, Punctuation]:
    """For each stream a punctuation that covers all its missing punctuations."""
    by_stream: dict[str, list[Punctuation]] = {}
    for m in missing:
        if m.punctuation is not None:
            by_stream.setdefault(m.stream.name, []).append(m.punctuation)
    return {
        name: Punctuation(
            ps[0].schema,
            [_covering_pattern(a.type, [p.patterns[i] for p in ps]) for i, a in enumerate(ps[0].schema)],
        )
        for name, ps in by_stream.items()
    }


def _covering_pattern(type_: Type, patterns: list[Pattern]) -> Pattern:
    """A pattern that covers several patterns: the list of their values, or their hull if there are too many."""
    if len(set(patterns)) == 1:
        return patterns[0]
    value_lists = [enumerate_values(p, LISTED) for p in patterns]
    if any(members is None for members in value_lists):
        return hull(type_, patterns)
    return values(type_, [v for members in value_lists for v in members or ()])


def _parse_request(schema: Schema, texts: Mapping[str, str]) -> Punctuation:
    patterns: list[Pattern] = [WILDCARD] * len(schema)
    for name, text in texts.items():
        try:
            patterns[schema.index(name)] = parse_pattern(schema[name].type, text, name)
        except PatternError as error:
            raise UsageError(str(error)) from None
    return Punctuation(schema, patterns)


def _result_operator(node: Node) -> str:
    """The operator that a result comes from: the topmost one that retains tuples."""
    while node.partition_choices() is None and node.inputs:
        node = node.inputs[0]
    return f"{node.name} #{node.number}"
