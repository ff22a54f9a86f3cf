"""The oracle: a simple, slow definition of each operator, one row at a time.

It follows the paper's Tables 2 to 4 with the project's corrections, and shares no code with the operators. An
operator is three *cumulative invariants* (`Oracle`): functions of all tuples and punctuations received on each port
so far. `soundness` checks the invariants themselves.
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
