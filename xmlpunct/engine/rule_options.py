"""Rules that can be on or off: the results are the same, what they cost is not."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from xmlpunct.base.errors import UsageError

DROP_DUPELIMS = "drop-dupelims"
"""No duplicate elimination below a group-by all of whose aggregates ignore duplicates."""
EDGE_AGGREGATION = "edge-aggregation"
"""A group-by's tuples are aggregated slice by slice inside the reader, before the exchange."""
EDGE_DUPELIM = "edge-dupelim"
"""Where duplicates do not matter, those within a slice stay inside the reader."""

RULE_OPTIONS = MappingProxyType({DROP_DUPELIMS: False, EDGE_AGGREGATION: True, EDGE_DUPELIM: True})
"""Whether each is on unless somebody says otherwise."""

Rules = frozenset[str]
"""The names of those that are on."""

USUAL: Rules = frozenset(name for name, on in RULE_OPTIONS.items() if on)


def read_rules(given: Iterable[str]) -> Rules:
    """The rules that are on after some ``NAME=on`` and ``NAME=off``. Raises `UsageError`.

    >>> sorted(read_rules(["edge-dupelim=off", "drop-dupelims=on"]))
    ['drop-dupelims', 'edge-aggregation']
    """
    states = dict(RULE_OPTIONS)
    for text in given:
        name, _, state = text.partition("=")
        if name not in RULE_OPTIONS:
            raise UsageError(f"--rule {text}: there is no rule {name}, but {', '.join(RULE_OPTIONS)}")
        if state not in ("on", "off"):
            raise UsageError(f"--rule {text}: write {name}=on or {name}=off")
        states[name] = state == "on"
    return frozenset(name for name, on in states.items() if on)
