"""The difference of the technical report: it emits a left punctuation once no retained left tuple matches it.

The difference of TKDE emits combinations instead, and purges more.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.papers.lists import minus
from tests.oracle.papers.tkde import (
    Behavior,
    Puncts,
    Sides,
    Trace,
    Tuples,
    binary,
    keep_t,
    pass_t,
    prop_t,
    sdupelim,
)
from tests.oracle.table_1 import set_match_ts, set_nomatch_ps, set_nomatch_ts
from tests.strategies import Stream

purge_t = keep_t


def sdiff(lxs: Sequence[Stream], rxs: Sequence[Stream]) -> Trace[Tuples]:
    """Difference, by its left and right step, pass, prop and purge."""

    def lstep(ts: Tuples, st: Sides) -> tuple[Tuples, Sides]:
        lts, rts, lps, rps = st
        return [], (ts + lts, rts, lps, rps)

    def rstep(ts: Tuples, st: Sides) -> tuple[Tuples, Sides]:
        lts, rts, lps, rps = st
        return [], (lts, ts + rts, lps, rps)

    def rpass(ps: Puncts, st: Sides) -> Tuples:
        lts, rts, _, rps = st
        return set_match_ts(minus(lts, rts), ps + rps)

    def lprop(ps: Puncts, st: Sides) -> Puncts:
        lts, _, lps, _ = st
        return set_nomatch_ps(lts, ps + lps)

    def lpurge(ps: Puncts, st: Sides) -> Sides:
        lts, rts, lps, rps = st
        ps_0 = lprop(ps, st)
        return lts, rts, [p for p in ps + lps if p not in ps_0], rps

    def rpurge(ps: Puncts, st: Sides) -> Sides:
        lts, rts, lps, rps = st
        rps_new = ps + rps
        return set_nomatch_ts(lts, rps_new), rts, lps, rps_new

    start: Sides = [], [], [], []
    left, right = Behavior(lstep, pass_t, lprop, lpurge), Behavior(rstep, rpass, prop_t, rpurge)
    return sdupelim([out for out, _ in binary(start, left, right, lxs, rxs)])
