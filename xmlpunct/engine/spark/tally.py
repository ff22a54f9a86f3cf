"""The numbers of a run, summed from what the rows of all micro-batches report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from xmlpunct.engine.durable.parts import Input
from xmlpunct.engine.plan import Query
from xmlpunct.engine.spark.job import COUNTS, EDGE_OPERATORS, OPERATORS, WAITS, Row
from xmlpunct.engine.stats import InputStats, OperatorStats, RunStats

_FLOWS = ("tuples_in", "tuples_out", "punctuations_in", "punctuations_out")
_TOTALS = ("slices", "tuples_out", "punctuations_out", "late", "rejected")


class Tally:
    """Keeps ``stats`` up to date. ``saved`` is what `as_dict` of an earlier run gave, or nothing."""

    def __init__(self, query: Query, inputs: Sequence[Input], stats: RunStats, saved: dict[str, Any]) -> None:
        self.stats = stats
        self._names = [stream.name for stream in query.streams]
        self._streams = [given.streams for given in inputs]
        self._states: dict[str, dict[str, list[int]]] = saved.get("states", {})
        stats.inputs = {name: InputStats(**saved.get("inputs", {}).get(name, {})) for name in self._names}
        stats.operators = [OperatorStats(**values) for values in saved.get("operators", [])]
        for name in _TOTALS:
            setattr(stats, name, saved.get(name, getattr(stats, name)))
        self._ended: set[int] = set(saved.get("ended", ()))
        self._waits: dict[tuple[int, int], list[int]] = {}
        self._taken = 0  # tuples in the last micro-batch

    @property
    def ended(self) -> bool:
        """Whether all inputs have."""
        return len(self._ended) == len(self._streams)

    @property
    def starved(self) -> int | None:
        """The input to be read alone: more than a micro-batch brings waits for it. None if there is none."""
        waits = [sum(found) for found in zip(*self._waits.values(), strict=True)] or [0]
        most = max(waits)
        return waits.index(most) if most > self._taken else None

    def take(self, rows: Iterable[Row]) -> None:
        """Add what a micro-batch reports."""
        before = sum(i.tuples for i in self.stats.inputs.values())
        operators = {o.id: OperatorStats(**asdict(o)) for o in self.stats.operators}
        for row in rows:
            if row.port == COUNTS:
                self._count(row)
            elif row.port == WAITS:
                stage, waits = json.loads(row.payload)
                self._waits[stage, row.seq] = waits
            elif row.port in (EDGE_OPERATORS, OPERATORS):
                for values in json.loads(row.payload):
                    number = values["id"]
                    o = operators.setdefault(number, OperatorStats(id=number, operator=values["operator"]))
                    _add(o, values, _FLOWS)
                    if row.port == OPERATORS:
                        held = [values["state_rows"], values["held_punctuations"]]
                        self._states.setdefault(str(number), {})[str(row.seq)] = held
        for o in operators.values():
            shards = self._states.get(str(o.id), {}).values()
            o.state_rows, o.held_punctuations = sum(s[0] for s in shards), sum(s[1] for s in shards)
        self.stats.observe(operators.values())
        self._taken = sum(i.tuples for i in self.stats.inputs.values()) - before

    def _count(self, row: Row) -> None:
        number, found = row.seq >> 32, json.loads(row.payload)
        for stream, values in zip(self._streams[number], found["streams"], strict=True):
            _add(self.stats.inputs[self._names[stream]], values, values)
        if found["ended"]:
            self._ended.add(number)

    def as_dict(self) -> dict[str, Any]:
        """The numbers as plain values."""
        s = self.stats
        return {
            "inputs": {name: asdict(i) for name, i in s.inputs.items()},
            "operators": [asdict(o) for o in s.operators],
            "states": self._states,
            "ended": sorted(self._ended),
            **{name: getattr(s, name) for name in _TOTALS},
        }


def _add(total: object, values: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        setattr(total, name, getattr(total, name) + values[name])
