"""The cumulative invariants of intersect and difference: Tables 2 to 4, then dupelim. Nulls are equal here.

Table 4's conditions on punctuations are conditions on closed tuples here. A value outside an input's domain is closed
once the input has closed every tuple that it can have instead (`has_closed`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle import relational
from tests.oracle.operators import Oracle, Port, Ports, Promise, has_closed, in_place_of, match
from tests.oracle.relational import among, distinct
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation


def free(port: Port, retained: list[Row]) -> list[Punctuation]:
    """setNomatchPs: an input's punctuations that none of its retained tuples matches."""
    return [p for p in port.ps if not any(match(t, p) for t in retained)]


def _oracle(difference: bool, conceivable: Sequence[Sequence[Row]]) -> Oracle:
    rows = conceivable or ((), ())
    propagating = (0,) if difference else (0, 1)

    def has(ports: Ports, side: int, u: Row) -> bool:
        return has_closed(ports[side].ps, u, rows[side])

    def cpass(ports: Ports) -> list[Row]:
        if not difference:
            return relational.intersect(ports[0].ts, ports[1].ts)
        return [t for t in relational.difference(ports[0].ts, ports[1].ts) if has(ports, 1, t)]

    def stored(ports: Ports) -> list[list[Row]]:
        """Table 4; neither side retains a tuple that intersect has released."""
        ts1, ts2 = (distinct(port.ts) for port in ports)
        return [
            [t for t in ts1 if not has(ports, 1, t) and not among(t, ports[1].ts)],
            [t for t in ts2 if not has(ports, 0, t) and not (among(t, ports[0].ts) and not difference)],
        ]

    def both_closed(ports: Ports, u: Row) -> bool:
        return all(has(ports, side, u) for side in (0, 1))

    def owes(ports: Ports) -> Promise:
        retained = stored(ports)
        freed = {side: free(ports[side], retained[side]) for side in propagating}
        return lambda u: (
            both_closed(ports, u) or any(has_closed(ps, u, rows[side]) for side, ps in freed.items())
        )

    def cprop(ports: Ports) -> Promise:
        """The owed promises; if the domains differ, also tuples that one input closes and does not retain."""
        retained, owed = stored(ports), owes(ports)

        def closes_alone(side: int, u: Row) -> bool:
            instead = in_place_of(u, rows[side])
            return has(ports, side, u) and not any(among(t, instead) for t in retained[side])

        return lambda u: owed(u) or any(closes_alone(side, u) for side in propagating if rows[side])

    def ckeep(ports: Ports) -> list[list[Row]]:
        """The state of Table 4, and the output tuples that no promise covers (dupelim)."""
        promised = owes(ports)
        return [*stored(ports), [t for t in cpass(ports) if not promised(t)]]

    return Oracle(cpass, cprop, ckeep, owes=owes)


def intersect(conceivable: Sequence[Sequence[Row]] = ()) -> Oracle:
    """intersect: also emits a punctuation of either side that no retained tuple of that side matches.

    ``conceivable``: the tuples that each input can have, if these differ.
    """
    return _oracle(False, conceivable)


def difference(conceivable: Sequence[Sequence[Row]] = ()) -> Oracle:
    """difference: left tuples that the right side has closed and does not have; only left punctuations count alone.

    ``conceivable`` as for `intersect`.
    """
    return _oracle(True, conceivable)
