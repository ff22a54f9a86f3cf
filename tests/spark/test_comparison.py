"""What docs/comparison.md says that others answer is what they answer, where they can be had."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.site import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text()


def shown(section: str) -> tuple[str, str]:
    """The code of a section, and what it prints."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)
    (output,) = re.findall(r"^```text\n(.*?)^```", part, re.M | re.S)
    return code, output


def execute(code: str, **names: Any) -> None:
    exec(compile(code, "docs/comparison.md", "exec"), names)


@pytest.mark.long
@pytest.mark.spark
def test_spark(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """With the setting that Spark has by itself, and our sessions have not."""
    code, output = shown("Spark Structured Streaming")
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    usual = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    execute(code.replace('"samples/', f'"{ROOT}/samples/'), spark=spark)
    spark.conf.set(setting, usual)
    assert output in capfd.readouterr().out


def test_xml2arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xml2arrow", reason="xml2arrow is not installed: --group test")
    code, output = shown("xml2arrow")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    execute(code)
    assert capsys.readouterr().out == output
