"""libxml2's names are counted where they are kept: by thread."""

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


def test_a_thread_that_has_met_many_names_parses_in_others() -> None:
    found: list[threading.Thread] = []

    def work() -> None:
        found.extend(thread_of_a_parser(dictionary.ROOM // 2) for _ in range(3))
        found.append(threading.current_thread())

    apart(work)
    first, second, third, own = found
    assert first is second is own
    assert third is not own


def test_what_one_thread_has_met_is_nothing_to_another() -> None:
    apart(lambda: thread_of_a_parser(dictionary.ROOM) and None)
    apart(lambda: thread_of_a_parser(0, b"<?" + bytes(dictionary.ROOM)) and None)
    assert thread_of_a_parser() is threading.current_thread()


def test_what_is_large_is_parsed_in_a_thread_that_ends() -> None:
    assert thread_of_a_parser(0, bytes(dictionary.LARGE + 1)) is not threading.current_thread()


def test_what_goes_wrong_in_a_thread_of_its_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("x")

    monkeypatch.setattr(dictionary, "ROOM", 0)
    with pytest.raises(KeyError, match="x"):
        contained(fail, b"", lambda: 0)
