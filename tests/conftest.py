"""Hypothesis profiles: ``ci``, the same examples every time, and ``long``, 50 times as many and random ones.

``XMLPUNCT_LONG=1 pytest`` selects the long profile.
"""

from __future__ import annotations

import os

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
