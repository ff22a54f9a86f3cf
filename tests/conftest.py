"""Hypothesis profiles: ``ci``, the same examples every time, and ``long``, 50 times as many and random ones.

``XMLPUNCT_LONG=1 pytest`` selects the long profile. ``pytest -n 2 --dist loadgroup`` runs tests side by side,
and those on Spark one after the other in one process, since they share a session.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

EXAMPLES = 20
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "ci",
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=SLOW,
)
settings.register_profile(
    "long",
    max_examples=50 * EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=SLOW,
)
settings.load_profile("long" if os.environ.get("XMLPUNCT_LONG") == "1" else "ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests on Spark together."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if item.get_closest_marker("spark"):
                item.add_marker(pytest.mark.xdist_group("spark"))
