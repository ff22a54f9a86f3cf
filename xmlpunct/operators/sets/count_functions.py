"""Count functions: the count of a tuple in the result of a set operation, by its counts in the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""The number of copies of each tuple, or its change; shape (n,)."""
CountFunction = Callable[[Sequence[Counts]], Counts]
"""Maps the counts of tuples in the inputs to those in the output; shape (tuples,) each."""


def _number(flags: NDArray[np.bool_]) -> Counts:
    return flags.astype(np.int64)


COUNT_FUNCTIONS: dict[str, CountFunction] = {
    "changes": lambda n: n[0],
    "distinct": lambda n: _number(n[0] > 0),
    "union": lambda n: _number(np.maximum.reduce(n) > 0),
    "except": lambda n: _number((n[0] > 0) & (n[1] == 0)),
    "except all": lambda n: np.maximum(n[0] - n[1], 0),
    "intersect": lambda n: _number(np.minimum.reduce(n) > 0),
    "intersect all": np.minimum.reduce,
    "semi": lambda n: np.where(n[1] > 0, n[0], 0),
    "anti": lambda n: np.where(n[1] > 0, 0, n[0]),
}
"""``changes`` returns the canonical changes of a relation: one for each tuple and instant, and none of 0.

``semi`` and ``anti`` return all copies of the first input's tuples that are, or are not, in the second input.
"""


def has_result(function: str, *is_present: int) -> bool:
    """True if a tuple is in the result that is in the inputs for which ``is_present`` is 1.

    >>> has_result("except", 1, 0), has_result("except", 1, 1)
    (True, False)
    """
    return bool(COUNT_FUNCTIONS[function]([np.array([n], np.int64) for n in is_present])[0])


def required_inputs(function: str, inputs: int) -> tuple[int, ...]:
    """The inputs, of several, without whose tuples there is no result. Their punctuations can hold alone.

    >>> [required_inputs(name, 2) for name in ("union", "except", "intersect all", "anti")]
    [(), (0,), (0, 1), (0,)]
    """
    if inputs == 1:
        return ()
    required = set(range(inputs))
    for presence in product((0, 1), repeat=inputs):
        if not required:  # a union of many inputs ends here, after two of its 2^inputs presences
            break
        if has_result(function, *presence):
            required = {side for side in required if presence[side]}
    return tuple(sorted(required))
