"""Optional plan rules: they affect cost, not results."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from xmlpunct.base.errors import UsageError
from xmlpunct.base.suggestions import did_you_mean

DROP_DUPELIMS = "drop-dupelims"
"""Removes a duplicate elimination below a group-by if all its aggregates ignore duplicates."""
EDGE_AGGREGATION = "edge-aggregation"
"""Aggregates the tuples of each slice inside the reader, before the exchange to a group-by."""
EDGE_DUPELIM = "edge-dupelim"
"""Drops duplicates within a slice inside the reader, if duplicates do not matter."""

RULE_OPTIONS = MappingProxyType({DROP_DUPELIMS: False, EDGE_AGGREGATION: True, EDGE_DUPELIM: True})
"""The default of each rule: True is on."""

Rules = frozenset[str]
"""The names of the rules that are on."""

USUAL: Rules = frozenset(name for name, on in RULE_OPTIONS.items() if on)


def read_rules(settings: Iterable[str]) -> Rules:
    """The rules that are on, given settings ``NAME=on`` and ``NAME=off``. Raises `UsageError`.

    >>> sorted(read_rules(["edge-dupelim=off", "drop-dupelims=on"]))
    ['drop-dupelims', 'edge-aggregation']
    """
    states = dict(RULE_OPTIONS)
    for text in settings:
        name, _, state = text.partition("=")
        if name not in RULE_OPTIONS:
            hint = did_you_mean(name, RULE_OPTIONS)
            raise UsageError(
                f"--rule {text}: there is no rule {name}; there are {', '.join(RULE_OPTIONS)}{hint}"
            )
        if state not in ("on", "off"):
            raise UsageError(f"--rule {text}: write {name}=on or {name}=off")
        states[name] = state == "on"
    return frozenset(name for name, on in states.items() if on)
