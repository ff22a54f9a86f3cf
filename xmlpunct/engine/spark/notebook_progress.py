"""The tasks of Spark that run during a cell of a notebook, as a line below the cell."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkContext

_REFRESH_SECONDS = 0.5


class CellLine:
    """A line below the current cell, which later texts replace."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Show a text."""
        data = {"text/plain": text}
        if self._handle is not None:
            self._handle.update(data, raw=True)
        else:
            self._handle = importlib.import_module("IPython.display").display(data, raw=True, display_id=True)


class NotebookProgress:
    """Shows the finished tasks of the active Spark context, if a cell has any."""

    def __init__(self) -> None:
        self._cell_ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, *_: object) -> None:
        """Watch the tasks of a cell that begins. Every cell has a thread: its output goes to this cell."""
        self.end()
        self._cell_ended.clear()
        self._thread = threading.Thread(target=self._watch, name="notebook progress", daemon=True)
        self._thread.start()

    def end(self, *_: object) -> None:
        """Show the last counts of the cell."""
        if self._thread is not None:
            self._cell_ended.set()
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        line, began, is_over = CellLine(), time.monotonic(), False
        tasks: dict[int, tuple[int, int]] = {}
        active: set[int] = set()
        while not is_over:
            is_over = self._cell_ended.wait(_REFRESH_SECONDS)
            with suppress(Exception):  # of many types, if the session is stopped meanwhile
                before, active = active, _active_stages()
                tasks |= _tasks(before | active)
            if tasks:
                finished, total = map(sum, zip(*tasks.values(), strict=True))
                line.show(f"Spark: {finished:,} of {total:,} tasks, {time.monotonic() - began:.0f} s")


_progress = NotebookProgress()


def notebook_shell() -> Any:
    """IPython's shell in a notebook; None in a terminal or a script."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def show_in_notebook() -> None:
    """In a notebook, show the progress of this cell and of later ones."""
    shell = notebook_shell()
    if shell is None or _progress.begin in shell.events.callbacks["pre_run_cell"]:
        return
    shell.events.register("pre_run_cell", _progress.begin)
    shell.events.register("post_run_cell", _progress.end)
    _progress.begin()


@contextmanager
def shown_start() -> Iterator[None]:
    """In a notebook, show that Spark starts during the block, and then its version and master."""
    if notebook_shell() is None or SparkContext._active_spark_context is not None:
        yield
        return
    line = CellLine()
    line.show("starting Spark")
    yield
    context = SparkContext._active_spark_context
    if context is not None:
        line.show(f"Spark {context.version} runs on {context.master}")


def _active_stages() -> set[int]:
    context = SparkContext._active_spark_context
    return set() if context is None else set(context.statusTracker().getActiveStageIds())


def _tasks(stages: set[int]) -> dict[int, tuple[int, int]]:
    """The numbers of finished and of all tasks, by stage."""
    context = SparkContext._active_spark_context
    if context is None:
        return {}
    infos = {stage: context.statusTracker().getStageInfo(stage) for stage in stages}
    return {
        stage: (info.numCompletedTasks, info.numTasks) for stage, info in infos.items() if info is not None
    }
