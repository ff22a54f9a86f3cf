"""The request parser and the limits that the live view and ``http-listen://`` share, against forged requests."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest

from tests.connectors.servers import free_port
from tests.connectors.test_http_post import piece, post, reading
from tests.reliability.support import MOST_SECONDS, ends_well
from tests.view.running import SQL, taking, view_of_a_run
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.http_listen import Posted, Server, _address
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue
from xmlpunct.engine.sql import plan
from xmlpunct.engine.view.server import ViewServer
from xmlpunct.engine.view.talk import Talk

SAID = json.dumps({"input": "b", "punctuation": {"hour": "1"}})
Target = tuple[int, str, Callable[[], int]]
"""A port, a request with an effect, and the number of effects so far."""


@contextmanager
def live_view() -> Iterator[Target]:
    with view_of_a_run() as (view, stats):
        injections = InjectionQueue()
        talk = Talk(plan(SQL, {"a": "a", "b": "b"}), stats, PUNCT_NAMESPACE, injections)
        with ViewServer(view, ("127.0.0.1", 0), talk) as server, taking(injections) as effects:
            port = int(server.url.rstrip("/").rpartition(":")[2])
            request = f"POST /say HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            yield port, f"{request}Content-Length: {len(SAID)}\r\n\r\n{SAID}", lambda: len(effects)


@contextmanager
def listener() -> Iterator[Target]:
    with reading() as (port, _, pieces):
        request = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n\r\n<s/>"
        yield port, request, lambda: len(pieces)


@pytest.fixture(params=[live_view, listener])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with request.param() as target_:
        yield target_


def exchange(port: int, request: bytes, timeout: float = 5.0) -> list[int]:
    """The statuses of all answers to ``request``, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client:
        client.sendall(request)
        with suppress(OSError):  # a server that refuses may have closed the connection already
            client.shutdown(socket.SHUT_WR)
        answers = b""
        with suppress(ConnectionResetError):
            while data := client.recv(2**16):
                answers += data
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


FORGERIES = {
    "another site": "POST /say HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\nContent-Length: {n}\r\n\r\n",
    "another host": "POST /say HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {n}\r\n\r\n",
    "no such page": "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {n}\r\n\r\n",
    "another type": "POST /say HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n"
    "Content-Length: {n}\r\n\r\n",
    "GET": "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\n\r\n",
    "HEAD": "HEAD /state HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\n\r\n",
    "another method": "PUT / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\n\r\n",
    "length and chunks": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks": "POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown encoding": "POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "two lengths": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: {n}\r\n\r\n",
    "the same length twice": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\nContent-Length: {n}\r\n\r\n",
    "a list of lengths": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0, {n}\r\n\r\n",
    "a signed length": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: +0\r\n\r\n",
    "a negative length": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    "a space before the colon": "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length : {n}\r\n\r\n",
    "a line that is no field": "POST / HTTP/1.1\r\nHost: {host}\r\nno field\r\nContent-Length: {n}\r\n\r\n",
    "a folded line": "POST / HTTP/1.1\r\nHost: {host}\r\nX: a\r\n Content-Length: {n}\r\n\r\n",
    "a bare line feed": "POST / HTTP/1.1\r\nHost: {host}\r\nX: a\nContent-Length: {n}\r\n\r\n",
    "a bare carriage return": "POST / HTTP/1.1\r\nHost: {host}\r\nX: a\rContent-Length: {n}\r\n\r\n",
    "a null character": "POST / HTTP/1.1\r\nHost: {host}\r\nX: a\0\r\nContent-Length: {n}\r\n\r\n",
    "two hosts": "POST / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nContent-Length: {n}\r\n\r\n",
    "HTTP/0.9": "GET /\r\n",
    "HTTP/2": "GET / HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "another expectation": "POST / HTTP/1.1\r\nHost: {host}\r\nExpect: 200-ok\r\nContent-Length: {n}\r\n\r\n",
    "a large field": "POST / HTTP/1.1\r\nHost: {host}\r\nX: "
    + "x" * 70_000
    + "\r\nContent-Length: {n}\r\n\r\n",
    "many fields": "POST / HTTP/1.1\r\nHost: {host}\r\n" + "X: x\r\n" * 101 + "Content-Length: {n}\r\n\r\n",
    "a long path": "POST /" + "x" * 70_000 + " HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\n\r\n",
    "HTTP/1.0": "GET / HTTP/1.0\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n",
}


@pytest.mark.parametrize("head", FORGERIES.values(), ids=FORGERIES)
def test_a_body_is_never_parsed_as_a_request(target: Target, head: str) -> None:
    port, valid_request, effects = target
    text = head.format(host=f"127.0.0.1:{port}", n=len(valid_request)) + valid_request
    (status,) = exchange(port, text.encode())
    assert status >= 400 or head.startswith(("GET / HTTP/1.", "HEAD"))
    assert effects() == 0


def test_pipelined_requests_have_their_own_answers(target: Target) -> None:
    """Several requests in one connection; the body of one is not parsed as the next."""
    port, valid_request, effects = target
    assert exchange(port, valid_request.encode()) == [200]
    assert effects() == 1
    assert exchange(port, valid_request.encode() * 3) == [200] * 3, "pipelined requests are requests"
    assert effects() == 4
    requests = valid_request.encode() + b"\r\n" + valid_request.encode()
    assert exchange(port, requests) == [200] * 2, "an empty line between requests"


def test_a_client_that_awaits_permission(target: Target) -> None:
    port, valid_request, effects = target
    expecting = valid_request.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1).encode()
    head, _, body = expecting.partition(b"\r\n\r\n")
    assert exchange(port, expecting) == [100, 200]
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(head + b"\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    before = effects()
    other_host_head = head.replace(b"Host: 127.0.0.1", b"Host: evil.example")
    assert exchange(port, other_host_head + b"\r\n\r\n" + body) == [403], (
        "a refused request is not told to continue"
    )
    assert effects() == before


def test_random_heads_have_one_answer_at_most(target: Target) -> None:
    """Fields in any order and number: the bytes after a refused head are not a request."""
    import random

    port, valid_request, effects = target
    chance = random.Random(5)
    lines = [
        f"Host: 127.0.0.1:{port}",
        "Origin: http://evil.example",
        f"Content-Length: {len(valid_request)}",
        "Content-Length: 0",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Expect: 100-continue",
        "Connection: keep-alive",
        "X: \t",
        "Content-Length:\t0x10",
    ]
    for _ in range(60):
        fields = [chance.choice(lines) for _ in range(chance.randrange(6))]
        head = chance.choice(["POST /say", "GET /", "HEAD /", "OPTIONS /x"]) + " HTTP/1.1\r\n"
        fields_text = "\r\n".join(["Host: evil.example", *fields]) + "\r\n\r\n"
        if f"Content-Length: {len(valid_request)}" not in fields:
            fields_text = "Transfer-Encoding: chunked\r\n" + fields_text
        statuses = exchange(port, (head + fields_text + valid_request).encode())
        assert len(statuses) == 1, (head, fields_text, statuses)
        assert effects() == 0


def test_a_client_that_still_sends_receives_the_answer(target: Target) -> None:
    port, _, _ = target
    head = f"POST /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 900000\r\n\r\n"
    (status,) = exchange(port, head.encode() + b"x" * 900_000)
    assert status >= 400


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Let this process open ``spare`` more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in range(hard) if number not in used)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, spare, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_leave_descriptors_to_the_run(target: Target) -> None:
    port, valid_request, effects = target
    clients = list[socket.socket]()
    with few_descriptors(80), ExitStack() as stack:
        for _ in range(30):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)))
        time.sleep(0.2)
        with ExitStack() as files:  # files that the run opens meanwhile
            for _ in range(8):
                files.enter_context(open("/dev/null", "rb"))
        assert exchange(port, valid_request.encode()) == [200], "idle connections are closed for it"
        assert effects() == 1


def test_a_run_survives_idle_connections_under_a_low_limit(tmp_path: Path) -> None:
    """Each of two servers gets more connections than the limit; each still answers, and the run completes."""
    first, second = free_port(), free_port()
    sql = f"CREATE STREAM s (x INT) WITH (source = 'http-listen://:{first}', element = 't'); SELECT x FROM s"
    options = [
        "--engine",
        "local",
        "--threads",
        "2",
        "--checkpoint",
        str(tmp_path / "state"),
        "--http",
        str(second),
    ]
    command = [sys.executable, "-m", "xmlpunct", "run", "-q", sql, *options, "-o", str(tmp_path / "out.xml")]
    limited_command = ["sh", "-c", 'ulimit -n 80; exec "$@"', "sh", *command]
    with subprocess.Popen(limited_command, stderr=subprocess.PIPE) as run, ExitStack() as stack:
        try:
            for port in (first, second, first):
                clients = list[socket.socket]()
                deadline = time.monotonic() + MOST_SECONDS
                while len(clients) < 90:
                    try:
                        clients.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                        stack.enter_context(clients[-1])
                    except ConnectionRefusedError:  # the server is still starting
                        assert run.poll() is None
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
            assert len(os.listdir(f"/proc/{run.pid}/fd")) <= 60
            assert post(first, b"<s><t><x>1</x></t>", **piece(0))[0] == 200
            health_request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{second}\r\nConnection: close\r\n\r\n"
            assert exchange(second, health_request.encode()) == [200]
            assert post(first, b"</s>", **piece(1, Xmlpunct_Last="1"))[0] == 200
            ends_well(run)
        finally:
            run.kill()
    assert "<x>1</x>" in (tmp_path / "out.xml").read_text()


def test_connections_are_limited(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_server.MOST_CONNECTIONS", 3)
    port, valid_request, effects = target
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(5)
        ]
        assert [client.recv(1) for client in clients[:2]] == [b"", b""], "the oldest connections are closed"
        assert exchange(port, valid_request.encode()) == [200]
        assert effects() == 1


def test_a_server_that_is_busy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_server.MOST_CONNECTIONS", 2)
    port = free_port()
    inlet = Posted(Server(_address(f"http-listen://:{port}")), "")
    inlet.open(None)
    with closing(inlet):  # without a reader both pieces wait
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n\r\n"
        with ExitStack() as stack:
            for _ in range(2):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                client.sendall(head.encode() + b"<s/>")
            time.sleep(0.3)
            assert exchange(port, (head + "<s/>").encode()) == [503]


def test_an_idle_connection_is_closed(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete head does not count as activity."""
    monkeypatch.setattr("xmlpunct.connectors.http_server.IDLE_SECONDS", 0.3)
    port, valid_request, _ = target
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(valid_request.partition("\r\n")[0].encode())
        assert client.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(valid_request.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        client.settimeout(5)
        while client.recv(1000):
            pass


def test_a_slow_sender_does_not_block_other_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_server.GRACE_SECONDS", 1.0)
    with reading() as (port, _, pieces), socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000000\r\n\r\n"
        slow.sendall(head.encode())
        start_time, stopped = time.monotonic(), threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not stopped.wait(0.1):
                    slow.sendall(b"x")

        drip_thread = threading.Thread(target=drip)
        drip_thread.start()
        try:
            assert post(port, b"<s>", **piece(0))[0] == 400
            assert post(port, b"<s><t/>", **piece(0))[0] == 200
            assert time.monotonic() - start_time < 1.0, "other requests do not wait for the slow one"
            assert slow.recv(100).startswith(b"HTTP/1.1 408 "), "the slow request has a time limit"
        finally:
            stopped.set()
            drip_thread.join()
        assert pieces == [b"<s><t/>"]


def test_pieces_in_memory_are_limited() -> None:
    with reading() as (port, inlet, pieces):
        inlet._server.held_bytes = 1000
        assert post(port, b"x" * 1001, **piece(0))[0] == 429
        assert post(port, b"x" * 1000, **piece(0))[0] == 200, "a refused piece does not count"
        assert [len(data) for data in pieces] == [1000]
