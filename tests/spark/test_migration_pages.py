"""The pages for users of other readers: each pair of examples has the same rows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.site import ROOT


def run_pairs(name: str, monkeypatch: pytest.MonkeyPatch, **variables: Any) -> None:
    """Run the examples of a page in turn. Each binds ``rows``; those of the second of a pair equal the first's."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / name).read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 4
    assert len(examples) % 2 == 0
    results = []
    for example in examples:
        variables["rows"] = None
        exec(compile(example, name, "exec"), variables)
        results.append(sorted((tuple(row) for row in variables["rows"]), key=str))
    assert all(results)
    assert results[::2] == results[1::2]


def test_from_pandas_read_xml(monkeypatch: pytest.MonkeyPatch) -> None:
    run_pairs("from-read-xml.md", monkeypatch)


def test_from_a_loop_over_lxml(monkeypatch: pytest.MonkeyPatch) -> None:
    run_pairs("from-lxml.md", monkeypatch)


@pytest.mark.spark
def test_from_spark_xml(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_pairs("from-spark-xml.md", monkeypatch, spark=spark)
