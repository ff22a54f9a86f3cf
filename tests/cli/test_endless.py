"""Queries over endless sources: the clauses that a run proposes, and the punctuations that a stopped run waited for."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.cli.screen import screen, terminal_run

MOST_SECONDS = 60
CLICKS = """CREATE STREAM clicks (ts INT NOT NULL, user STRING NOT NULL)
  WITH (source = 'tcp://127.0.0.1:{}', element = 'click') {};"""
ORDERS = """CREATE STREAM orders (ts INT NOT NULL, amount INT)
  WITH (source = 'tcp://127.0.0.1:{}', element = 'order') {};"""
JOIN = "SELECT user, amount FROM clicks LEFT JOIN orders ON clicks.ts = orders.ts;"


@contextmanager
def endless(tuple_: str) -> Iterator[int]:
    """The port of a server that sends tuples, in which ``{}`` is a rising number, without end and punctuations."""
    is_stopped = threading.Event()

    def send(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.sendall(b"<s>")
            number = 0
            while not is_stopped.wait(0.01):
                peer.sendall(tuple_.replace("{}", str(number)).encode())
                number += 1

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=send, args=server.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            is_stopped.set()
            server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    click = "<click><ts>{}</ts><user>u{}</user></click>"
    with endless(click) as clicks, endless("<order><ts>{}</ts><amount>5</amount></order>") as orders:
        yield clicks, orders


def interrupted(sql: str, *, results: int = 0, seconds: float = 1) -> tuple[str, str]:
    """Standard output and error of a run that is interrupted after a number of results and of seconds of input."""
    command = [sys.executable, "-u", "-m", "xmlpunct", "run", "--engine", "local", "-q", sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        until, shown = time.monotonic() + MOST_SECONDS, run.stdout.readline()
        while shown.count("<result>") < results:
            assert time.monotonic() < until
            shown += run.stdout.readline()
        time.sleep(seconds)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=MOST_SECONDS)
        assert run.returncode == 130
    return shown + out, err


def test_two_feeds_without_punctuations(cli: Cli, ports: tuple[int, int]) -> None:
    """The report at the start names the clause, `explain` offers it first, and with it results come."""
    silent = CLICKS.format(ports[0], "") + ORDERS.format(ports[1], "") + JOIN
    _, err = interrupted(silent)
    assert "join blocks for ever on clicks and orders; PUNCTUATE ORDER BY ts on " in err
    assert "would unblock it" in err
    assert "after WITH (...)" in err

    explained = cli("explain", "-q", silent).out
    fixes = explained.partition("what would fix it\n")[2].partition("\n\n")[0].splitlines()
    assert fixes[2].startswith("  or, if the sender punctuates, ")
    pasted = dict(line.strip().split(": ") for line in fixes[:2])
    mended = CLICKS.format(ports[0], pasted["clicks"]) + ORDERS.format(ports[1], pasted["orders"]) + JOIN
    out, err = interrupted(mended, results=10)
    assert out.count("<result>") >= 10
    assert "for ever" not in err


def test_a_source_without_a_declaration(ports: tuple[int, int]) -> None:
    sql = "SELECT ts, COUNT(*) AS n FROM {} GROUP BY ts"
    source = f"'tcp://127.0.0.1:{ports[0]}'"
    _, err = interrupted(sql.format(source))
    assert f"group-by blocks for ever on {source[1:-1]}; " in err
    remedy = err.partition("; ")[2].partition(" would unblock it")[0]
    assert remedy == f"(SELECT * FROM {source}) AS click PUNCTUATE ORDER BY ts"
    _, err = interrupted(sql.format(remedy), results=3)
    assert "for ever" not in err


def test_results_that_no_order_releases(ports: tuple[int, int]) -> None:
    """What would give nothing is not offered: provisional results are."""
    by_user = CLICKS.format(ports[0], "") + "SELECT user, COUNT(*) AS n FROM clicks GROUP BY user"
    _, err = interrupted(by_user)
    assert "PUNCTUATED BY (user) would unblock it, if the sender punctuates" in err
    assert re.search(r"waits for clicks: <\*, \{?\[?u0,.*>, since \d+ s \(group-by #2\)", err)
    count = CLICKS.format(ports[0], "") + "SELECT COUNT(*) AS n FROM (SELECT DISTINCT user FROM clicks)"
    _, err = interrupted(count)
    assert "group-by blocks for ever on clicks; no punctuation would unblock it" in err
    assert "PUNCTUATED BY" not in err
    options = re.search(r"xmlpunct: (--engine local --partial \w+) writes", err)
    assert options is not None
    command = [
        sys.executable,
        "-u",
        "-m",
        "xmlpunct",
        "run",
        *options[1].replace("10s", "1s").split(),
        "-q",
        count,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline() for _ in range(3)]
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=MOST_SECONDS)
    assert "<partial:result>" in "".join(lines)


def test_nothing_is_reported_of_a_query_that_answers(ports: tuple[int, int]) -> None:
    _, err = interrupted(CLICKS.format(ports[0], "") + "SELECT ts FROM clicks", results=3)
    assert re.fullmatch(r"xmlpunct: stopped after [\d,]+ tuples, [\d,]+ bytes", err.strip())


def test_infer_and_check_name_the_columns_in_order(cli: Cli, ports: tuple[int, int], tmp_path: Path) -> None:
    source = f"tcp://127.0.0.1:{ports[0]}"
    ran = cli("infer", source, "--sample", "400B")
    assert "-- In order so far: ts; PUNCTUATE ORDER BY ts may apply.\nCREATE STREAM click (" in ran.out
    rows = [("1", "2024-01-05", "9", "x"), ("1", "2024-01-06", "10", "y"), ("7", "2024-02-01", "8", "z")]
    (tmp_path / "t.xml").write_text(
        "<s>"
        + "".join("<t>" + "".join(f"<c{i}>{v}</c{i}>" for i, v in enumerate(row)) + "</t>" for row in rows)
        + "</s>"
    )
    for schema in ([], ["--schema", "c0 INT, c1 DATE, c2 DECIMAL(5,2), c3 STRING"]):
        ran = cli("check", tmp_path / "t.xml", "--element", "t", *schema)
        assert "\n  in order: c0, c1, for PUNCTUATE ORDER BY\n" in ran.out


def test_a_terminal_shows_at_once_what_is_read(tmp_path: Path) -> None:
    """During inference and during a run; in the end, nothing of it is left."""
    (tmp_path / "t.xml").write_text("<s><t><a>1</a></t><t><a>2</a></t></s>")
    shown = terminal_run("infer", str(tmp_path / "t.xml"))
    assert "reading the beginning of" in shown
    sql = f"SELECT COUNT(*) AS n FROM read_xml('{tmp_path}/t.xml')"
    shown = terminal_run("run", "--engine", "local", "-q", sql)
    assert "planning the query" in shown
    assert [line.strip() for line in screen(shown)][-2:] == ["2", "1 row"]
    os.mkfifo(tmp_path / "pipe")

    def send() -> None:
        with (tmp_path / "pipe").open("w") as pipe:
            time.sleep(1)
            pipe.write("<s><t><a>1</a></t></s>")

    sender = threading.Thread(target=send)
    sender.start()
    sql = f"CREATE STREAM t (a INT) WITH (source = '{tmp_path}/pipe'); SELECT a FROM t"
    shown = terminal_run("run", "--engine", "local", "-q", sql)
    sender.join()
    assert re.search(r"reading\s+/", shown)  # a long path begins a line
    assert [line.strip() for line in screen(shown)][-2:] == ["1", "1 row"]
