"""A view of a run that has read a fixed part of its inputs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.engine.run.inputs.injected_punctuations import InjectedTexts, InjectionQueue
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import Idle, RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.view.view import View

SQL = """
CREATE STREAM a (hour INT NOT NULL, x INT) WITH (element = 't');
CREATE STREAM b (hour INT NOT NULL, x INT) WITH (element = 't');
SELECT hour, MAX(x) AS top FROM (SELECT hour, x FROM a UNION SELECT hour, x FROM b) GROUP BY hour
"""
A = (
    f"<s xmlns:p='{PUNCT_NAMESPACE}'><t><hour>1</hour><x>4</x></t><t><hour>1</hour><x>5</x></t>"
    "<p:t><hour>1</hour></p:t></s>"
)
B = "<s>" + "<t><hour>2</hour><x>9</x></t>" * 99 + "</s>"


@contextmanager
def taking(injections: InjectionQueue) -> Iterator[list[InjectedTexts]]:
    """Takes injected punctuations as a run does, confirms them at once, and yields them as a list."""
    punctuations, over = list[InjectedTexts](), threading.Event()

    def take() -> None:
        while not over.is_set():
            while (punctuation := injections.take()) is not None:
                punctuations.append(punctuation)
            injections.settle()
            over.wait(0.005)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield punctuations
    finally:
        over.set()
        thread.join()


@contextmanager
def view_of_a_run() -> Iterator[tuple[View, RunStats]]:
    """A view and the statistics of its run: ``a`` was read, ``b`` was not, and the union waits for ``b``."""
    stats, query = RunStats("local"), plan(SQL, {"a": "a", "b": "b"})
    view = View(query, "local")
    sources = {name: Source.of(text.encode(), name) for name, text in (("a", A), ("b", B))}
    run = LocalRun(query, sources, 64, stats, PUNCT_NAMESPACE)
    try:
        while stats.inputs["a"].punctuations == 0:
            a = run._feeds[0]
            parsed = a.reader.read(4096)
            assert parsed is not None
            run._count(a, parsed)
            run._push(a.streams, parsed.slices)
        run.look()
        stats.idle = [Idle("b", 2.5, 2)]
        view.show(stats)
        yield view, stats
    finally:
        run.close()
