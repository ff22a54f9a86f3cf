"""OVER: results over the neighbours of each tuple in order of time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Node, Unary
from xmlpunct.engine.plan.operator_text import closed, closing_attributes, only_at_end
from xmlpunct.engine.plan.schemes import Fate, Need, has_many_values, nullable
from xmlpunct.operators.time.over.calls import END
from xmlpunct.types import DOUBLE


@dataclass(frozen=True)
class Over(Unary):
    """Adds the results of ``calls`` OVER (PARTITION BY ``keys`` ORDER BY ``order``), which are final together.

    With ``has_timestamp``, the first column of the order is NOT NULL and ascending, so a stream can advance along it.
    """

    keys: tuple[str, ...]
    order: tuple[ops.SortKey, ...]
    calls: tuple[ops.OverCall, ...]
    has_timestamp: bool = True

    withholds = True
    waiting = "waiting"

    def operator(self) -> ops.Operator:
        return ops.Over(self.input.schema, self.keys, self.order, self.calls, self.has_timestamp)

    @property
    def parameters(self) -> str:
        by_keys = f"by {', '.join(self.keys)} " * bool(self.keys)
        in_order = f"in order of {', '.join(map(str, self.order))}" * bool(self.order)
        rows = f"{by_keys}{in_order}".rstrip() or "all tuples"
        return f"{rows}: {', '.join(call.name for call in self.calls)}"

    @property
    def timestamps(self) -> tuple[str, ...]:
        """The column along which the stream can advance, if there is one."""
        return (self.order[0].column,) if self.has_timestamp else ()

    @property
    def release(self) -> ops.OverRelease:
        """When the results are final."""
        return self.calls[0].release if self.has_timestamp else END

    @property
    def unblocked_by(self) -> str:
        kind, count = self.release
        closing = closing_attributes(self.input, [*self.keys, *self.timestamps])
        if not any(name in closing for name in (*self.keys, *self.timestamps)):
            return only_at_end(self)
        partition = f" of its {', '.join(self.keys)}" * bool(self.keys)
        ts = next((name for name in self.timestamps if name in closing), None)
        if kind == "end" or ts is None:
            text = f"a tuple is released once all{partition} is closed for ever"
        else:
            text = f"a tuple is released once every {ts}{partition} is closed up to its own"
            if kind == "rows":
                text += f" and that of {count} {'tuple' if count == 1 else 'tuples'} behind it"
            if kind == "range":
                text += f" and {count} {'instant' if count == 1 else 'instants'} more"
        text += f": {closed(self.input, closing)}"
        nulls = [key for key in self.keys if key in closing and self.input.schema[key].nullable]
        if nulls:
            text += f"; where {' or '.join(nulls)} is null, by punctuations with * there"
        return text

    def rejects_by(self, call: ops.OverCall) -> bool:
        """True if this result can overflow, which rejects the tuple."""
        if call.function not in ("SUM", "AVG") or call.argument is None:
            return False
        return self.input.schema[call.argument].type is not DOUBLE

    @property
    def can_fail(self) -> bool:
        return any(map(self.rejects_by, self.calls))

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.input.distinct_key

    def narrowed(self, used: Collection[str]) -> Node:
        calls = tuple(call for call in self.calls if call.name in used or self.rejects_by(call))
        return replace(self, calls=calls) if calls else self.input.narrowed(used)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        names = self.input.schema.names
        if any(call.goes_by_ties for call in self.calls):
            return [names]
        read = {
            *self.keys,
            *(key.column for key in self.order),
            *(c for call in self.calls for c in call.columns),
        }
        return [[name for name in names if name in used or name in read]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name in self.input.schema else []

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        if columns is None:
            return [None]
        copied = (name for name in columns if name in self.input.schema)
        return [{*copied, *self.keys, *self.timestamps}]

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        """If a row waits for later rows, the last rows of a partition wait until the partition is closed."""
        schema, kind = self.input.schema, self.release.kind
        need = Need(Fate.BLOCKS, 0, self.keys, nullable(schema), self.keys, passes=0)
        if kind == "end":
            return (need,)
        (order,), until_closed = self.timestamps, kind == "rows" and has_many_values(schema, self.keys)
        return (replace(need, within=(*self.keys, order), order=order, closed_keys=until_closed),)

    @property
    def state_keys(self) -> tuple[str, ...]:
        return self.keys if self.has_timestamp and any(call.is_remembered for call in self.calls) else ()
