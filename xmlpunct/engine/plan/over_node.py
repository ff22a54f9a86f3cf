"""OVER: results about the tuples near each one in the order of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Choice, Constraint, Node, Unary, constraints
from xmlpunct.engine.plan.operator_text import closed, every_stream, places
from xmlpunct.engine.plan.schemes import Outlook
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types import DOUBLE


@dataclass(frozen=True)
class Over(Unary):
    """Adds the results of ``calls`` OVER (PARTITION BY ``keys`` ORDER BY ``order``), which are final together."""

    keys: tuple[str, ...]
    order: tuple[ops.SortKey, ...]
    calls: tuple[ops.OverCall, ...]

    sifts = True
    waiting = "waiting"

    def operator(self) -> ops.Operator:
        return ops.Over(self.input.schema, self.keys, self.order, self.calls)

    @property
    def parameters(self) -> str:
        by = f"by {', '.join(self.keys)} " * bool(self.keys)
        return f"{by}in order of {', '.join(map(str, self.order))}: {', '.join(call.name for call in self.calls)}"

    @property
    def unblocked_by(self) -> str:
        ts, end, (kind, count) = self.order[0].column, every_stream(self), self.calls[0].release
        by = places(self.input, [*self.keys, ts])
        if ts not in by and not any(key in by for key in self.keys):
            return (
                f"nothing is released before the end of {end}: no punctuation speaks about what is computed"
            )
        whose = f" of its {', '.join(self.keys)}" * bool(self.keys)
        if kind == "end" or ts not in by:
            text = f"a tuple is released once all{whose} is closed for ever"
        else:
            text = f"a tuple is released once every {ts}{whose} is closed up to its own"
            if kind == "rows":
                text += f" and that of {count} {'tuple' if count == 1 else 'tuples'} behind it"
            if kind == "range":
                text += f" and {count} {'instant' if count == 1 else 'instants'} more"
        text += f": {closed(self.input, by)}"
        nulls = [key for key in self.keys if key in by and self.input.schema[key].nullable]
        if nulls:
            text += f"; where {' or '.join(nulls)} is null, by punctuations with * there"
        return text

    def rejects_by(self, call: ops.OverCall) -> bool:
        """Whether a tuple can be rejected because this result does not fit its type."""
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

    def sources(self, wanted: Punctuation) -> Iterable[Constraint]:
        return ((0, name, pattern) for name, pattern in constraints(wanted) if name in self.keys)

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        if wanted is None:
            return [None]
        passed = (name for name in wanted if name in self.input.schema)
        return [{*passed, *self.keys, self.order[0].column}]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        """Where a row waits for others behind it, the last ones of each partition wait until that is closed."""
        (given,), schema, kind = below, self.input.schema, self.calls[0].release.kind
        whole = kind == "end" or (kind == "rows" and given.retained(self.keys, schema))
        need = given.partition(self.keys, None if whole else self.order[0].column, schema)
        said = given.renamed(self.carriers(0)) if need.by else Outlook()
        told = given.retained(self.keys, schema) if any(call.is_remembered for call in self.calls) else ""
        return replace(said, needs=(need,), told=told)

    def partition_choices(self) -> list[Choice]:
        return [Choice((key,), key) for key in self.keys]
