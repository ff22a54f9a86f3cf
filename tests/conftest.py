"""Thread counts of local runs (see `tests.threads`), and Hypothesis profiles.

``ci`` has fixed examples; ``long``, selected by ``XMLPUNCT_LONG=1 pytest``, has 50 times as many, drawn at random.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.threads import TURNS
from xmlpunct.base import secrets
from xmlpunct.engine.run.local import running
from xmlpunct.engine.spark import stage_messages

running.cores = TURNS.next
stage_messages.PAYLOAD_BYTES = 64  # slices of a few tuples travel in parts, too

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


def pytest_runtest_setup(item: pytest.Item) -> None:
    TURNS.begin(item.nodeid)
    secrets._replacements.clear()  # a password of an earlier test is masked in every later message
    secrets._masked_urls.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and str(TURNS):
        report.sections.append(("threads of the local engine, run by run", str(TURNS)))
    return report
