"""Window operators are exported, and are loaded only for a query with a window."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xmlpunct import operators

PROGRAM = """
import sys, xmlpunct
from xmlpunct.engine.run.build import build
from xmlpunct.engine.sql import plan
declared = "CREATE STREAM s (k INT, ts INT NOT NULL) WITH (source = '-', timestamp = 'ts');"
for query in ("SELECT k, COUNT(*) AS n FROM s GROUP BY k", "SELECT k FROM s [NOW]"):
    build(plan(declared + query).root, ["s"])
    print("xmlpunct.operators.windowed" in sys.modules)
"""


def test_operators_of_windows_are_loaded_when_a_query_has_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_all_listed_names_exist() -> None:
    assert all(hasattr(operators, name) for name in operators.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Windows'"):
        _ = operators.Windows  # type: ignore[attr-defined]
