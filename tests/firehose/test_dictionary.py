"""libxml2 has a dictionary of names for each thread; its size is tracked for each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from xmlpunct.firehose.libxml import dictionary
from xmlpunct.firehose.libxml.dictionary import contained


def apart(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def thread_of_a_parser(met: int = 0, data: bytes = b"") -> threading.Thread:
    return contained(threading.current_thread, data, lambda: met)


def test_after_many_names_a_thread_parses_in_another_thread() -> None:
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.extend(thread_of_a_parser(dictionary.ROOM // 2) for _ in range(3))
        threads.append(threading.current_thread())

    apart(work)
    first, second, third, calling = threads
    assert first is second is calling
    assert third is not calling


def test_names_are_counted_for_each_thread() -> None:
    apart(lambda: thread_of_a_parser(dictionary.ROOM) and None)
    apart(lambda: thread_of_a_parser(0, b"<?" + bytes(dictionary.ROOM)) and None)
    assert thread_of_a_parser() is threading.current_thread()


def test_a_large_split_is_parsed_in_a_temporary_thread() -> None:
    assert thread_of_a_parser(0, bytes(dictionary.LARGE + 1)) is not threading.current_thread()


def test_errors_of_a_temporary_thread_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("x")

    monkeypatch.setattr(dictionary, "ROOM", 0)
    with pytest.raises(KeyError, match="x"):
        contained(fail, b"", lambda: 0)
