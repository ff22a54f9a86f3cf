"""Operators on relations, which are represented as streams of changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Lasting, Node, Unary, attributes
from xmlpunct.engine.plan.operator_text import completion_text
from xmlpunct.engine.plan.schemes import Fate, Need
from xmlpunct.engine.plan.set_nodes import Matched
from xmlpunct.engine.plan.window_nodes import Declared, ToRelation
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.retained_outline import EVERYTHING
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Pointwise(Matched):
    """A relation whose multiplicity of a tuple is a ``function`` of the inputs' multiplicities: see the operator."""

    waiting = EVERYTHING

    sides: tuple[Node, ...]
    function: str
    instants: Instants

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, sides=tuple(inputs))

    def operator(self) -> ops.Operator:
        return ops.Pointwise([side.schema for side in self.sides], self.function, self.instants)

    def describe(self) -> str:
        return f"{self.name} {self.function}"

    @property
    def awaits(self) -> tuple[Need, ...]:
        return self.whole_tuples(Fate.BLOCKS)

    @property
    def unblocked_by(self) -> str:
        return f"a tuple is released at an instant once {completion_text(self, attributes(self))}"

    @property
    def lasting(self) -> Lasting:
        sides = [side.lasting for side in self.sides]
        return {"except": sides[0], "intersect": min(sides)}.get(self.function.split()[0], max(sides))

    @property
    def withholds(self) -> bool:  # type: ignore[override]
        return self.function.split()[0] in ("except", "intersect")  # one input can imply an empty result


@dataclass(frozen=True)
class Again(Unary):
    """A copy of a part of the plan; only the original reports rejects.

    Used during planning only: finally `drops_rejects` is set in the nodes below it.
    """

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def lasting(self) -> Lasting:
        return self.input.lasting

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[name for name in self.input.schema.names if name in used]]

    def partition_choices(self) -> None:
        return None


def instants_of(node: Node) -> Instants:
    """The instants at which a relation changes."""
    return next(n.instants for n in node.walk() if isinstance(n, ToRelation | Declared))
