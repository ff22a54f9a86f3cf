"""Progress in a notebook. A small shell stands for IPython, which the tests do not need."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import xmlpunct.spark

pytestmark = pytest.mark.spark


class Shell:
    """The events and the display of IPython's shell; ``lines`` has the texts of each display."""

    def __init__(self) -> None:
        self.kernel, self.events = object(), self
        self.callbacks: dict[str, list[Callable[..., object]]] = {"pre_run_cell": [], "post_run_cell": []}
        self.lines: list[list[str]] = []

    def register(self, event: str, callback: Callable[..., object]) -> None:
        self.callbacks[event].append(callback)

    def display(self, data: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert (raw, display_id) == (True, True)
        texts = [data["text/plain"]]
        self.lines.append(texts)
        return SimpleNamespace(update=lambda data, raw: texts.append(data["text/plain"]))

    def run(self, cell: Callable[[], object]) -> None:
        for event in ("pre_run_cell", "post_run_cell"):
            for callback in self.callbacks[event]:
                callback(SimpleNamespace())
            if event == "pre_run_cell":
                cell()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    fake, ipython, display = Shell(), ModuleType("IPython"), ModuleType("IPython.display")
    monkeypatch.setattr(ipython, "get_ipython", lambda: fake, raising=False)
    monkeypatch.setattr(display, "display", fake.display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    yield fake
    for callback in fake.callbacks["post_run_cell"]:
        callback()


def slow(batches: Iterator[Any]) -> Iterator[Any]:
    time.sleep(1)
    yield from batches


def test_a_line_below_each_cell_counts_the_tasks_of_spark(spark: Any, shell: Shell) -> None:
    def registered_job() -> None:
        xmlpunct.spark.register(spark)
        spark.range(0, 4, 1, 4).mapInArrow(slow, "id LONG").collect()

    shell.run(registered_job)
    shell.run(lambda: None)
    shell.run(registered_job)
    first, second = shell.lines
    for line in (first, second):
        assert line[-1].startswith("Spark: 4 of 4 tasks, ")
        assert any(text.startswith(("Spark: 0 of 4", "Spark: 2 of 4")) for text in line)


def test_a_terminal_has_no_such_line(spark: Any, shell: Shell) -> None:
    del shell.kernel
    xmlpunct.spark.register(spark)
    assert shell.callbacks == {"pre_run_cell": [], "post_run_cell": []}
