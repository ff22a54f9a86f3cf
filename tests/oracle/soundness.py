"""Checks the invariants against the meaning of punctuations, by brute force over all continuations.

`Oracle` is derived from the paper's rules, and rules can be wrong. This module uses no rule: it tries every
grammatical continuation of at most one tuple per port and compares with the relational operator over all tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tests.oracle.operators import Oracle, Port, set_match
from tests.oracle.relational import Operation
from tests.oracle.values import Row, bag, same


def assert_sound(
    oracle: Oracle, operation: Operation, ports: Sequence[Port], domains: Sequence[list[Row]]
) -> None:
    """Safety and propriety of cpass and cprop once ``ports`` have arrived (the paper, Section 5.1).

    For every grammatical continuation, the result over all tuples contains the output, and no remaining result
    matches a promise.
    """
    output, promised = bag(oracle.cpass(ports)), oracle.cprop(ports)
    may_come = [[t for t in ts if not set_match(t, p.ps)] for ts, p in zip(domains, ports, strict=True)]
    choices = [[[], *([t] for t in ts)] for ts in may_come]
    for added in product(*choices):
        result = operation(*(port.ts + new_tuples for port, new_tuples in zip(ports, added, strict=True)))
        assert output <= bag(result), f"{output - bag(result)} is wrong if {added} come"
        pending = bag(result) - output
        for u in result:
            broken = tuple(map(same, u)) in pending and promised(u)
            assert not broken, f"{u} was promised away, and comes if {added} come"
