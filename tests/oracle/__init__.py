"""The oracle: what each operator must do, a row at a time, plain and slow.

Written from the paper's Tables 2 to 4 with the corrections that the project settled on, and from nothing
else: it shares no code with the operators. An operator is three *cumulative invariants* (`Oracle`), functions
of all tuples and all punctuations that have arrived on each port so far. `soundness` judges the invariants
themselves.
"""

from tests.oracle.aggregates import NotRepresentable, aggregate
from tests.oracle.joins import join, not_in, semijoin
from tests.oracle.operators import Oracle, Port, dupelim, group_by, merge, project, select, union, unnest
from tests.oracle.sets import difference, intersect
from tests.oracle.soundness import assert_sound
from tests.oracle.values import bag, is_canonical, same

__all__ = [
    "NotRepresentable",
    "Oracle",
    "Port",
    "aggregate",
    "assert_sound",
    "bag",
    "difference",
    "dupelim",
    "group_by",
    "intersect",
    "is_canonical",
    "join",
    "merge",
    "not_in",
    "project",
    "same",
    "select",
    "semijoin",
    "union",
    "unnest",
]
