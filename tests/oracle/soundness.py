"""The invariants against the meaning of punctuations itself, by brute force over what may still come.

What `Oracle` says is copied from rules, and rules can be wrong. Here nothing is: every grammatical
continuation of at most one tuple a port is tried, with the relational operator over all of it as the judge.
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
    """Safety and propriety of cpass and cprop after ``ports`` have arrived (the paper, Section 5.1).

    Whatever grammatical tuples still come, the result of all tuples contains what was output, and none of the
    rest matches a promise.
    """
    output, promised = bag(oracle.cpass(ports)), oracle.cprop(ports)
    may_come = [[t for t in ts if not set_match(t, p.ps)] for ts, p in zip(domains, ports, strict=True)]
    choices = [[[], *([t] for t in ts)] for ts in may_come]
    for added in product(*choices):
        result = operation(*(port.ts + more for port, more in zip(ports, added, strict=True)))
        assert output <= bag(result), f"{output - bag(result)} is wrong if {added} come"
        later = bag(result) - output
        for u in result:
            broken = tuple(map(same, u)) in later and promised(u)
            assert not broken, f"{u} was promised away, and comes if {added} come"
