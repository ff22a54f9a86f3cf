"""The outputs of other systems in docs/comparison.md, for the systems that are installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.site import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text()


def example_and_output(section: str) -> tuple[str, str]:
    """The code and the output that a section shows."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)
    (output,) = re.findall(r"^```text\n(.*?)^```", part, re.M | re.S)
    return code, output


def execute(code: str, **names: Any) -> None:
    exec(compile(code, "docs/comparison.md", "exec"), names)


@pytest.mark.long
@pytest.mark.spark
def test_spark(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Runs with Spark's default setting, which our sessions change."""
    code, output = example_and_output("Spark Structured Streaming")
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    previous = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    execute(code.replace('"samples/', f'"{ROOT}/samples/'), spark=spark)
    spark.conf.set(setting, previous)
    assert output in capfd.readouterr().out


def test_xml2arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xml2arrow", reason="xml2arrow is not installed: --group test")
    code, output = example_and_output("xml2arrow")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    execute(code)
    assert capsys.readouterr().out == output
