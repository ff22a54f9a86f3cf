"""The cumulative invariants of intersect and difference: Tables 2 to 4, then dupelim. Nulls are equal here."""

from __future__ import annotations

from tests.oracle import relational
from tests.oracle.operators import Oracle, Port, Ports, Promise, match, set_match
from tests.oracle.relational import among, distinct
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation


def free(port: Port, retained: list[Row]) -> list[Punctuation]:
    """setNomatchPs: an input's punctuations that none of its retained tuples matches."""
    return [p for p in port.ps if not any(match(t, p) for t in retained)]


def _oracle(difference: bool) -> Oracle:
    def cpass(ports: Ports) -> list[Row]:
        if not difference:
            return relational.intersect(ports[0].ts, ports[1].ts)
        return [t for t in relational.difference(ports[0].ts, ports[1].ts) if set_match(t, ports[1].ps)]

    def stored(ports: Ports) -> list[list[Row]]:
        """Table 4."""
        ts1, ts2 = (distinct(port.ts) for port in ports)
        return [
            [t for t in ts1 if not set_match(t, ports[1].ps) and not (difference and among(t, ports[1].ts))],
            [t for t in ts2 if not set_match(t, ports[0].ps)],
        ]

    def cprop(ports: Ports) -> Promise:
        retained = stored(ports)
        alone = free(ports[0], retained[0])
        if not difference:
            alone += free(ports[1], retained[1])
        return lambda u: all(set_match(u, port.ps) for port in ports) or set_match(u, alone)

    def ckeep(ports: Ports) -> list[list[Row]]:
        """What Table 4 has, and of what was output all that is not promised away (dupelim)."""
        promised = cprop(ports)
        return [*stored(ports), [t for t in cpass(ports) if not promised(t)]]

    return Oracle(cpass, cprop, ckeep)


def intersect() -> Oracle:
    """intersect: a left or a right punctuation that none of that side's retained tuples matches counts too."""
    return _oracle(difference=False)


def difference() -> Oracle:
    """difference: what the right has not and has closed; only left punctuations count by themselves."""
    return _oracle(difference=True)
