"""Nodes at which a plan is cut into fragments."""

from __future__ import annotations

from dataclasses import dataclass

from xmlpunct.engine.plan.node import Node, Unary
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Receive(Node):
    """A leaf for input ``port`` of a fragment, with the schema ``given``."""

    port: int
    given: Schema

    @property
    def schema(self) -> Schema:
        return self.given

    def partition_choices(self) -> None:
        return None


@dataclass(frozen=True)
class Exchange(Unary):
    """A cut in the plan: its input is an edge or another fragment."""

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def partition_choices(self) -> None:
        return None
