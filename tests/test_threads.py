"""Threads: readers with equal schemas share no mutable state.

Races last a second, or XMLPUNCT_SECONDS (default 60) with

    XMLPUNCT_LONG=1 pytest tests/test_threads.py
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xmlpunct
from tests.firehose.documents import OPEN, SPECS, body, damaged
from xmlpunct import Reject, Schema, SourceError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.read_ahead import ReadAhead
from xmlpunct.connectors.source import Source

LONG = os.environ.get("XMLPUNCT_LONG") == "1"
SECONDS = float(os.environ.get("XMLPUNCT_SECONDS", "60")) if LONG else 1.0
THREADS = 4
COLUMNS = "a INT, b STRING, c INT"
SELECT = f"CREATE STREAM s ({COLUMNS}) WITH (element = 't'); SELECT a, b, c FROM s"
SCHEMA = SPECS[0].schema

Outcome = tuple[list[str], list[str], str]
"""(tuples and punctuations, rejects, final error)."""


@pytest.fixture
def _eager() -> Iterator[None]:
    """Threads switch as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(works: Sequence[Callable[[], object]]) -> None:
    """Run functions at once, each in a thread; raise the first exception."""
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def shaped(number: int) -> tuple[bytes, list[Any]]:
    """A document of one of many shapes, and its tuples, with different values in each column."""
    random = Random(number)
    names, gap = random.sample("abc", 3 - number % 2), random.choice(["", " ", "\n", "\n  ", "\t"])
    parts, rows = [f'<r xmlns:p="{PUNCT_NAMESPACE}">'], []
    for i in range(80):
        row = {"a": 1000 * number + i, "b": f"b{number}-{i}", "c": -i - 1}
        parts.append(f"\n<t>{gap}{gap.join(f'<{n}>{row[n]}</{n}>' for n in names)}</t>")
        rows.append(tuple(row[n] if n in names else None for n in "abc"))
    return "".join([*parts, "</r>"]).encode(), rows


def by_parse(document: bytes) -> list[Any]:
    return [*xmlpunct.parse(document, Schema.parse(COLUMNS), element="t")]


def by_slices(document: bytes) -> list[Any]:
    slices = xmlpunct.slices(document, Schema.parse(COLUMNS), element="t", size=3000)
    return [row for part in slices for row in part.tuples.rows()]


def by_query(document: bytes) -> list[Any]:
    return [*xmlpunct.query(SELECT, s=document)]


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("read", [by_parse, by_slices, by_query])
def test_threads_that_read_the_same_schema(read: Callable[[bytes], list[Any]]) -> None:
    documents = [shaped(number) for number in range(24)]
    until = time.monotonic() + SECONDS

    def work(seed: int) -> None:
        random = Random(seed)
        while time.monotonic() < until:
            document, rows = random.choice(documents)
            assert read(document) == rows

    together([lambda seed=seed: work(seed) for seed in range(THREADS)])  # type: ignore[misc]


def random_document(random: Random) -> bytes:
    document = f"{OPEN}{body(random)}</r>".encode("utf-8", "surrogatepass")
    return damaged(random, document) if random.random() < 0.3 else document


class Reading:
    """Reads a document element by element."""

    def __init__(self, document: bytes) -> None:
        self._rows, self._rejects = list[str](), list[Reject]()
        self._elements = xmlpunct.parse(document, SCHEMA, element="t", on_reject=self._rejects.append)

    def run(self) -> Outcome:
        """Read to the end."""
        while (outcome := self.step()) is None:
            pass
        return outcome

    def step(self) -> Outcome | None:
        """Read one element; at the end, return the outcome."""
        try:
            element = next(self._elements)
        except StopIteration:
            return self._outcome("None")
        except SourceError as error:
            return self._outcome(str(error))
        self._rows.append(repr(element) if isinstance(element, tuple) else str(element))
        return None

    def leave(self, way: int) -> None:
        """Read no more."""
        if way == 0:
            self._elements.close()
        elif way == 1:
            with pytest.raises(KeyError), self._elements:
                raise KeyError
        elif way == 2:
            together([self._elements.close])

    def _outcome(self, error: str) -> Outcome:
        return self._rows, [*map(str, self._rejects)], error


@given(st.randoms(use_true_random=False))
def test_readers_in_turn(random: Random) -> None:
    """Some readers end early: closed, in this thread or another, thrown into, or deleted."""
    documents = [random_document(random) for _ in range(random.randint(2, 5))]
    readings = [(Reading(document), Reading(document).run()) for document in documents]
    while readings:
        number = random.randrange(len(readings))
        reading, expected = readings[number]
        is_left = random.random() < 0.005
        outcome = None if is_left else reading.step()
        assert outcome in (None, expected)
        if is_left:
            reading.leave(random.randrange(4))
        if is_left or outcome:
            del readings[number], reading


@pytest.mark.usefixtures("_eager")
@settings(max_examples=200 if LONG else 4)
@given(st.randoms(use_true_random=False))
def test_readers_at_once(random: Random) -> None:
    documents = [random_document(random) for _ in range(4)]
    expected = [Reading(document).run() for document in documents]

    def work(seed: int) -> None:
        order = [*zip(documents, expected, strict=True)]
        Random(seed).shuffle(order)
        for document, outcome in order:
            assert Reading(document).run() == outcome

    together([lambda seed=seed: work(seed) for seed in range(THREADS)])  # type: ignore[misc]


def test_two_sources_of_bytes_in_one_query() -> None:
    (left, left_rows), (right, right_rows) = shaped(2), shaped(6)
    streams = [f"CREATE STREAM {name} ({COLUMNS}) WITH (element = 't');" for name in "lr"]
    results = xmlpunct.query(f"{''.join(streams)} SELECT * FROM l UNION ALL SELECT * FROM r", l=left, r=right)
    assert sorted(results, key=repr) == sorted(left_rows + right_rows, key=repr)


def test_a_consumer_that_fails_does_not_affect_others() -> None:
    document = b"<r><t><a>x</a></t><t><a>1</a></t></r>"
    schema = Schema.parse("a INT")

    def fail(_: Reject) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        list(xmlpunct.parse(document, schema, element="t", on_reject=fail))
    with pytest.raises(ZeroDivisionError):
        sum(a / 0 for (a,) in xmlpunct.parse(document, schema, element="t", on_reject=lambda _: None))
    assert [*xmlpunct.parse(document, schema, element="t", on_reject=lambda _: None)] == [(1,)]


def test_abandoned_queries_end_their_threads() -> None:
    """Each of two inputs has a read-ahead thread. Deleting the query in another thread ends both."""
    before = threading.active_count()

    def start() -> Any:
        pipes = [os.pipe() for _ in range(2)]
        files = [os.fdopen(end, "rb", buffering=0) for end, _ in pipes]
        for _, end in pipes:
            os.write(end, b"<r>" + b"<t><a>1</a></t>" * 100)
        streams = "".join(f"CREATE STREAM {n} (a INT) WITH (element = 't');" for n in "lr")
        results = xmlpunct.query(
            f"{streams} SELECT a FROM l UNION ALL SELECT a FROM r", l=files[0], r=files[1]
        )
        assert next(results) == (1,)
        return results, files, pipes

    results, files, pipes = start()
    for _, end in pipes:
        os.close(end)
    box = [results]
    del results
    together([box.clear])
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
    for file in files:
        file.close()


def test_a_read_ahead_thread_may_close_itself() -> None:
    """The garbage collector can run in any thread, so a read-ahead thread may close itself."""
    bell, closed = threading.Condition(), threading.Event()
    readers: list[ReadAhead] = []

    class File:
        def read(self, _: int) -> bytes:
            if not readers:  # format detection
                return b"<r/>"
            readers[0].close()
            closed.set()
            return b""

        def stop(self) -> None:
            pass

    with bell:
        readers.append(ReadAhead(Source.of(File()), 0, bell))
    assert closed.wait(5)
    with bell:
        assert bell.wait_for(lambda: readers[0].ready, 5)
    assert readers[0].read(10) == b""


FIRST = """
import sys, threading
sys.setswitchinterval(1e-6)
start = threading.Barrier(6)
failures = []
def work(number):
    start.wait()
    try:
        import xmlpunct
        schema = xmlpunct.Schema.parse("a INT, m DECIMAL(7,3)")
        document = b"<r><t><a>1</a><m>1.5</m></t></r>"
        assert len([*xmlpunct.parse(document, schema, element="t")]) == 1
        sql = "CREATE STREAM t (a INT, m DECIMAL(7,3)); SELECT a, SUM(m) AS m FROM t GROUP BY a"
        assert str([*xmlpunct.query(sql, t=document)]) == "[(1, Decimal('1.500'))]"
    except BaseException as failure:
        failures.append(failure)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures)
"""


def test_threads_may_begin_together() -> None:
    process = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


@pytest.mark.usefixtures("_eager")
def test_queries_on_threads_leave_the_process_as_it_was() -> None:
    """The library, unlike the command, changes no signal handler, environment or collector setting."""
    import signal

    def state() -> tuple[object, ...]:
        return (
            dict(os.environ),
            os.getcwd(),
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
            gc.isenabled(),
            gc.get_freeze_count(),
            gc.get_threshold(),
        )

    before = state()
    document, rows = shaped(4)
    together([lambda: [by_query(document) for _ in range(3)]] * THREADS)
    assert by_query(document) == rows
    assert state() == before
