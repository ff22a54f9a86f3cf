"""What results wait for: which punctuation each input has still to say, since when, and for which operator."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xmlpunct.base.errors import PatternError, UsageError
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
"""So often the question is asked again because a stream's one punctuation says more than each place asks for."""


@dataclass(frozen=True)
class Wait:
    """What is waited for: a punctuation of a stream, by an operator, for so many seconds."""

    stream: Stream
    punctuation: Punctuation
    operator: str
    seconds: float
    punct_namespace: str = PUNCT_NAMESPACE
    sink: str = ""
    """The name of the sink whose result waits; empty: that of the SELECT beside the sinks."""

    def __str__(self) -> str:
        what = f"{self.stream.name}: {self.punctuation}"
        return f"{self.sink} waits for {what}, since {self.seconds:,.0f} s ({self.operator})".lstrip()

    def as_dict(self) -> dict[str, Any]:
        """The same for programs: the punctuation is XML that can be sent."""
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
    wanted: Mapping[str, str],
    punct_namespace: str = PUNCT_NAMESPACE,
    now: float | None = None,
    complete: Container[str] = (),
) -> list[Wait]:
    """What the results of a running or stopped query that match these patterns wait for; nothing if none is held.

    ``wanted`` maps columns of the result to patterns; of several answers, those are meant that have these columns.
    Where no result is held, a punctuation of the result may be: some streams have said their part of it. Sinks that
    are ``complete`` wait for nothing. Raises `UsageError` for an unknown column or a wrong pattern.
    """
    now = time.time() if now is None else now
    meant = [answer for answer in query.answers if all(name in answer.root.schema for name in wanted)]
    if not meant:
        raise UsageError(_unknown(query, wanted))
    return [
        replace(wait, sink=answer.name)
        for answer in meant
        if answer.name not in complete
        for wait in _waits_of(answer.root, holding, _asked(answer.root.schema, wanted), punct_namespace, now)
    ]


def _waits_of(
    root: Node, holding: Holding, asked: Punctuation, punct_namespace: str, now: float
) -> list[Wait]:
    """What the results of one answer wait for."""
    tracing = Tracing(holding)
    missing = tracing.release(root, asked)
    covering = _covered(missing)
    for _ in range(PASSES):  # of a stream one punctuation covers all that is missing
        missing = Tracing(holding, covering).release(root, asked)
        before, covering = covering, _covered(missing)
        if covering == before:
            break
    if not missing:
        missing = tracing.promise(root, asked, Held(_top(root), 0))
        said = [holding.told.get(m.stream.name, holding.started) for m in missing if m.punctuation is None]
        held = Held(_top(root), min(said, default=0.0))
        missing = [Missing(m.stream, m.punctuation, held) for m in missing if said]
    return _by_stream(missing, now, punct_namespace)


def _unknown(query: Query, wanted: Iterable[str]) -> str:
    """That no answer has the columns that are asked for, in words."""
    if len(query.answers) > 1:
        has = "; ".join(f"{answer} has {', '.join(answer.root.schema.names)}" for answer in query.answers)
        return f"no result has the columns {', '.join(wanted)}: {has}"
    schema = query.root.schema
    name = next(name for name in wanted if name not in schema)
    return f"the result has no column {name}: it has {', '.join(schema.names)}"


def _by_stream(missing: list[Missing], now: float, punct_namespace: str) -> list[Wait]:
    """One answer for each stream: a punctuation that covers all that is missing of it."""
    waits = []
    for name, p in _covered(missing).items():
        found = [m for m in missing if m.stream.name == name and m.punctuation is not None]
        oldest = min((m.held for m in found), key=lambda held: held.since)
        waits.append(Wait(found[0].stream, p, oldest.operator, max(now - oldest.since, 0.0), punct_namespace))
    return waits


def _covered(missing: list[Missing]) -> dict[str, Punctuation]:
    """For each stream the punctuation that covers all that is missing of it."""
    by_stream: dict[str, list[Punctuation]] = {}
    for m in missing:
        if m.punctuation is not None:
            by_stream.setdefault(m.stream.name, []).append(m.punctuation)
    return {
        name: Punctuation(
            ps[0].schema, [_covering(a.type, [p.patterns[i] for p in ps]) for i, a in enumerate(ps[0].schema)]
        )
        for name, ps in by_stream.items()
    }


def _covering(type_: Type, patterns: list[Pattern]) -> Pattern:
    """All that several patterns describe, and what is between if they cannot be listed."""
    if len(set(patterns)) == 1:
        return patterns[0]
    listed = [enumerate_values(p, LISTED) for p in patterns]
    if any(members is None for members in listed):
        return hull(type_, patterns)
    return values(type_, [v for members in listed for v in members or ()])


def _asked(schema: Schema, wanted: Mapping[str, str]) -> Punctuation:
    patterns: list[Pattern] = [WILDCARD] * len(schema)
    for name, text in wanted.items():
        try:
            patterns[schema.index(name)] = parse_pattern(schema[name].type, text, name)
        except PatternError as error:
            raise UsageError(str(error)) from None
    return Punctuation(schema, patterns)


def _top(node: Node) -> str:
    """The operator that the result comes from: the last one that retains anything."""
    while node.partition_choices() is None and node.inputs:
        node = node.inputs[0]
    return f"{node.name} #{node.number}"
