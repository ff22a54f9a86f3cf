"""HTTP: pieces posted to a run, and results posted by a run: order, duplicates, retries, and runs killed at random."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Cli
from tests.connectors.servers import free_port
from tests.connectors.test_messages import HOURS, QUERY, elements, shown_arguments
from tests.reliability.support import LONG, bag, ends_well, launch
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Outlet, Results
from xmlpunct.connectors.contract import connector_of, is_endless, open_source, senders_of
from xmlpunct.connectors.http_listen import Listeners, Posted, Server, _address
from xmlpunct.connectors.outlet import chained
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema

RESULT = Schema.parse("hour INT, n INT, top INT")


def post(port: int, data: bytes, path: str = "/", **headers: str) -> tuple[int, dict[str, Any]]:
    """Post a piece; the status and the answer."""
    header_lines = {name.replace("_", "-"): text for name, text in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, data, header_lines)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def piece(number: int, **headers: str) -> dict[str, str]:
    return {"Xmlpunct_Sequence": str(number), "Xmlpunct_Run": "r"} | headers


@contextmanager
def reading(
    url: str = "", position: Any = None, most_bytes: int = 2**25
) -> Iterator[tuple[int, Posted, list[bytes]]]:
    """A reader that makes each piece durable at once; its port, the inlet and its pieces."""
    port = free_port()
    server = Server(_address(url or f"http-listen://:{port}"))
    server.most_bytes = most_bytes
    inlet, pieces = Posted(server, ""), list[bytes]()
    inlet.open(position)

    def read_pieces() -> None:
        while (next_piece := inlet.read()) is not None:
            pieces.append(next_piece[0])
            inlet.acknowledge(json.loads(json.dumps(next_piece[1])))

    thread = threading.Thread(target=read_pieces)
    thread.start()
    try:
        yield port, inlet, pieces
    finally:
        inlet.stop()
        thread.join()
        inlet.close()


@pytest.mark.parametrize(
    "url",
    [
        "http-listen://host",
        "http-listen://host:1/path",
        "http-listen://host:1?senders=",
        "http-listen://me@host:1",
        "http-listen://host:1?x=1",
        "http-listen://host:99999",
    ],
)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(UsageError):
        open_source(url)


def test_properties_and_an_unavailable_address() -> None:
    url = "http-listen://me:pw@:7000?senders=a,b"
    assert (senders_of(url), is_endless(url)) == (2, True)
    assert [s.name for s in open_source(url).senders] == ["http-listen://:7000#a", "http-listen://:7000#b"]
    with pytest.raises(UsageError, match="is not an output"):
        Listeners().outlet(url, url)
    with pytest.raises(SourceError, match="cannot listen there"):
        open_source("http-listen://203.0.113.1:7000").open()


def test_pieces_are_read_in_order_and_once() -> None:
    with reading() as (port, _, pieces):
        assert post(port, b"<s><t>1</t>", **piece(0)) == (200, {"next": 1})
        assert post(port, b"<t>2</t>", **piece(1)) == (200, {"next": 2})
        assert post(port, b"<t>2</t>", **piece(1)) == (200, {"next": 2}), "a retry of the last piece"
        assert post(port, b"<s><t>1</t>", **piece(0)) == (200, {"next": 2}), "a delayed retry"
        assert post(port, b"<t>4</t>", **piece(3)) == (409, {"error": "piece 2 is next", "next": 2})
        assert post(port, b"<t>x</t>", **piece(1)) == (409, {"error": "piece 1 had other content", "next": 2})
        assert post(port, b"", **piece(2, Xmlpunct_Run="other"))[0] == 409
        assert post(port, b"</s>", **piece(2, Xmlpunct_Last="1")) == (200, {"next": 3})
        assert b"".join(pieces) == b"<s><t>1</t><t>2</t></s>"
        assert post(port, b"</s>", **piece(2, Xmlpunct_Last="1")) == (200, {"next": 3})
        assert post(port, b"<s/>", **piece(3))[1] == {"error": "nothing follows the last piece", "next": 3}


def test_a_sender_with_an_older_checkpoint_is_an_error() -> None:
    """The link must be the digest of the previous piece; a repeated piece must not become the last one."""

    def linked(number: int, link: str, digest: str, **headers: str) -> dict[str, str]:
        return piece(number, Xmlpunct_Link=link, Xmlpunct_Digest=digest, **headers)

    with reading() as (port, _, pieces):
        assert post(port, b"<s><t>1</t>", **linked(0, "", "a"))[0] == 200
        assert post(port, b"<t>2</t>", **linked(1, "a", "b"))[0] == 200
        assert post(port, b"<t>2</t>", **linked(1, "a", "b"))[0] == 200
        status, answer = post(port, b"<t>3</t>", **linked(2, "x", "y"))
        assert (status, "older checkpoint" in answer["error"]) == (409, True)
        status, answer = post(port, b"</s>", **linked(0, "", "z", Xmlpunct_Last="1"))
        assert (status, answer["error"]) == (409, "piece 0 was not the last one")
        assert post(port, b"</s>", **linked(2, "b", "c", Xmlpunct_Last="1"))[0] == 200
        assert b"".join(pieces) == b"<s><t>1</t><t>2</t></s>"


def test_posted_pieces_have_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece has the digest of the previous one, also within a group and after an empty group."""
    monkeypatch.setattr("xmlpunct.connectors.http_post.PIECE_BYTES", 4)
    link, groups = "", list[Results]()
    for number, data in enumerate((b"<s><a/>", b"", b"</s>")):
        digest = chained(link, data)
        groups.append(Results(number, (), data, last=number == 2, digest=digest, link=link))
        link = digest
    with receiving() as (url, received), closing(opened_outlet(url)) as outlet:
        for group in groups:
            outlet.write(group)
    headers = [h for h, _ in received]
    assert [h["Xmlpunct-Link"] for h in headers] == ["", *(h["Xmlpunct-Digest"] for h in headers[:-1])]
    assert len({h["Xmlpunct-Digest"] for h in headers}) == 3


def test_a_piece_without_a_number_is_the_next() -> None:
    with reading() as (port, _, pieces):
        for _ in range(2):
            assert post(port, b"<t>1</t>")[0] == 200
        assert pieces == [b"<t>1</t>"] * 2


def test_refused_requests() -> None:
    with reading(most_bytes=100) as (port, _, pieces):
        answers = [
            (403, post(port, b"<s>", Host="evil.example")),
            (403, post(port, b"<s>", Origin="http://evil.example")),
            (404, post(port, b"<s>", "/nobody")),
            (415, post(port, b"<s>", Content_Encoding="gzip")),
            (413, post(port, b"x" * 101)),
            (400, post(port, b"<s>1", Xmlpunct_Sequence="one")),
            (400, post(port, b"<?xml vers")),
            (400, post(port, b"<s>")),
        ]
        assert [status for status, _ in answers] == [answer[0] for _, answer in answers]
        assert all(answer["error"] for _, (_, answer) in answers)
        assert pieces == []
        chunked = http.client.HTTPConnection("127.0.0.1", port)
        with closing(chunked):
            chunked.request("POST", "/", (b"<s>" * 1000 for _ in range(100)), encode_chunked=True)
            assert chunked.getresponse().status == 411
        for body in (b"-5\r\n<s>\r\n", b"zz\r\n", b"5"):  # malformed chunks
            with socket.create_connection(("127.0.0.1", port)) as sender:
                head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
                sender.sendall(head.encode() + body)
                sender.shutdown(socket.SHUT_WR)
                assert b"411" in sender.recv(100)


@pytest.mark.parametrize(
    ("first", "charset", "status"),
    [
        (b"<s>", "UTF-8", 200),
        (b"<s>", '"us-ascii"', 200),
        (b"<s>1", "iso-8859-1", 415),
        (b"<s>1", "no-such", 415),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><s>", "latin1", 200),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><s>", "utf-8", 415),
        ("<s>\u20ac".encode("utf-16"), "utf-16", 200),
        ("<s>\u20ac".encode("utf-16"), "utf-16le", 200),
        ("<s>\u20ac".encode("utf-16"), "us-ascii", 415),
    ],
)
def test_a_charset_must_match_the_encoding_of_the_document(first: bytes, charset: str, status: int) -> None:
    headers = {"Content_Type": f"application/xml; charset={charset}"}
    with reading() as (port, _, pieces):
        assert post(port, first + b"    ", **piece(0))[0] == 200
        answers = [post(port, b"<t/>", **piece(1), **headers)]
    with reading() as (port, _, new_pieces):
        answers.append(post(port, first + b"    ", **piece(0), **headers))
        assert new_pieces == ([first + b"    "] if status == 200 else [])
    assert [answer[0] for answer in answers] == [status, status]
    if status == 415:
        assert all("charset in Content-Type" in answer["error"] for _, answer in answers)
        assert pieces == [first + b"    "]


def test_a_missing_or_wrong_password_is_refused() -> None:
    port = free_port()
    with reading(f"http-listen://me:s%2Fcret@:{port}") as (_, _, pieces):
        assert post(port, b"<s/>")[0] == 401
        assert post(port, b"<s/>", Authorization="Basic bWU6bm8=")[0] == 401
        assert post(port, b"<s/>", Authorization="Basic bWU6cy9jcmV0")[0] == 200
        assert pieces == [b"<s/>"]


def test_a_piece_that_is_not_yet_durable_has_status_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_listen.WAIT_SECONDS", 0.1)
    port = free_port()
    inlet = Posted(Server(_address(f"http-listen://:{port}")), "")
    inlet.open(None)
    with closing(inlet):
        assert post(port, b"<s/>", **piece(0))[0] == 429, "no reader takes the piece"
        answers = list[int]()
        sender = threading.Thread(target=lambda: answers.append(post(port, b"<s/>", **piece(0))[0]))
        sender.start()
        assert inlet.read() == (
            b"<s/>",
            {
                "run": "r",
                "next": 1,
                "digest": inlet._offered[1]["digest"],
                "encoding": "utf-8",
                "ended": False,
            },
        )  # type: ignore[index]
        assert post(port, b"<s/>", **piece(0))[0] == 429, "the piece is not durable yet"
        assert answers == []
        inlet.stop()
        sender.join()
        assert answers == [503]


def test_a_posted_stream_is_parsed(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    pieces = [b"<s><t><a>1</a></t>", b"<t><a>2</", b"a></t></s>"]

    tuples = list[object]()
    results = parse(f"http-listen://:{port}", Schema.parse("a INT"), element="t")
    reader = threading.Thread(target=lambda: tuples.extend(results), daemon=True)
    reader.start()
    for number, data in enumerate(pieces):
        headers = piece(number, **({"Xmlpunct_Last": "1"} if number == 2 else {}))
        while reader.is_alive():
            with suppress(ConnectionRefusedError):
                assert post(port, data, **headers)[0] == 200
                break
            time.sleep(0.01)
    reader.join()
    assert tuples == [(1,), (2,)]


@contextmanager
def receiving(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A server that first answers with ``statuses``, then accepts; its URL and the accepted requests."""
    received, remaining = list[tuple[dict[str, str], bytes]](), [*statuses]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            status = remaining.pop(0) if remaining else 200
            if status == 200:
                received.append((dict(self.headers), data))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/in", received
        finally:
            server.shutdown()
            thread.join()


def opened_outlet(url: str, position: Any = None, format_: str = "xml") -> Outlet:
    outlet = connector_of(url).outlet(url, url)
    outlet.open(Form("r", RESULT, writer_for(format_, RESULT), format_), position)
    return outlet


def test_groups_are_posted_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PIECE_BYTES", 4)
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,) * 3)
    with receiving(503, 429, 429, 429, 429, 500) as (url, received), closing(opened_outlet(url)) as outlet:
        outlet.write(Results(0, (), b"<s><a/>"))
        outlet.write(Results(1, (), b""))
        outlet.write(Results(2, (), b"</s>", last=True))
        assert outlet.commit() == {"next": 3}
        with closing(opened_outlet(url, {"next": 3}, "jsonl")) as restarted:
            restarted.write(Results(3, (), b"", last=True))
    assert [data for _, data in received] == [b"<s><", b"a/>", b"</s>", b""]
    assert [h["Xmlpunct-Sequence"] for h, _ in received] == ["0", "1", "2", "3"]
    assert {h["Xmlpunct-Run"] for h, _ in received} == {"r"}
    assert [h.get("Xmlpunct-Last") for h, _ in received] == [None, None, "1", "1"]
    assert [h["Content-Type"] for h, _ in received[2:]] == ["application/xml", "application/x-ndjson"]


@pytest.mark.parametrize(
    ("status", "message"), [(302, "302 Found"), (409, "409 Conflict"), (503, "503 Service")]
)
def test_a_server_that_refuses_is_an_error(
    status: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,) * 3)
    with receiving(*[status] * 4) as (url, received), closing(opened_outlet(url)) as outlet:
        with pytest.raises(XmlPunctError, match=f"cannot write {url}: the server answered {message}"):
            outlet.write(Results(0, (), b"<s/>"))
        assert received == []


def test_a_missing_server_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,))
    out = f"http://127.0.0.1:{free_port()}/"
    result = cli("run", "--engine", "local", "-q", QUERY, "-s", "sensor1=samples/sensor1.xml", "-o", out)
    assert (result.code, f"cannot write {out}: Connection refused" in result.err) == (1, True)


def run(*options: str) -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, *options)


def deliver(port: int, pieces: Sequence[bytes], sender: str, stop: threading.Event) -> None:
    """Post a stream; repeat each piece until it has an answer."""
    for number, data in enumerate(pieces):
        last = {"Xmlpunct_Last": "1"} if number == len(pieces) - 1 else {}
        while not stop.is_set():
            try:
                status, answer = post(port, data, f"/{sender}", **piece(number, **last))
                assert status in (200, 503), answer
                if status == 200:
                    break
            except (OSError, http.client.HTTPException, ValueError):
                if number == len(pieces) - 1 and last and stop.wait(0.2):
                    return
            time.sleep(0.02)


def test_the_lines_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port, stop = free_port(), threading.Event()
    order = b"<order><id>%d</id><hour>17</hour><amount>12.50</amount></order>"
    with receiving() as (url, received):
        replacements = {":8080": f":{port}", "http://localhost:9090/": url}
        process = launch(*shown_arguments("HTTP", **replacements))
        deliver(port, [b"<s>" + order % 1, order % 2 + b"</s>"], "", stop)
        ends_well(process)
    text = b"".join(data for _, data in received)
    assert b"<result><hour>17</hour><total>25.00</total></result>" in text
    assert text.endswith(b"</stream>\n")


def kill_at_random(folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """Two senders post to one run, which posts its results to another one; the first run is killed."""
    folder.mkdir()
    document, undisturbed, out = folder / "whole.xml", folder / "alone.xml", folder / "out.xml"
    sent = [elements(seed)[:-1] for seed in (kills, kills + 1)]
    document.write_bytes(b"<s>" + b"".join(e for stream in sent for e in stream if e[:2] != b"<p") + b"</s>")
    ends_well(run("--engine", "local", "-s", f"sensor1={document}", "-o", str(undisturbed)))
    first, second, stop = free_port(), free_port(), threading.Event()
    source = f"http-listen://127.0.0.1:{first}?senders=a,b"
    commands = [
        [
            *engine,
            "-s",
            f"sensor1={source}",
            "-o",
            f"http://127.0.0.1:{second}/",
            "--checkpoint",
            str(folder / "one"),
        ],
        [
            "--engine",
            "local",
            "-s",
            f"sensor1=http-listen://:{second}",
            "-o",
            str(out),
            "--checkpoint",
            str(folder / "two"),
        ],
    ]
    copy_query = QUERY.replace("tempdata", "result").partition("SELECT")[0]
    copy_query = copy_query.replace(
        "sid STRING, hour INT NOT NULL, min INT, currtmp INT", "hour INT, n INT, top INT"
    )
    copy_process = launch("run", "-q", copy_query + "SELECT hour, n, top FROM sensor1", *commands[1])
    process = run(*commands[0])
    senders = []
    for name, stream in zip("ab", sent, strict=True):
        count = 40
        stream_pieces = [b"".join(stream[at : at + count]) for at in range(0, len(stream), count)]
        stream_pieces[0], stream_pieces[-1] = b"<s>" + stream_pieces[0], stream_pieces[-1] + b"</s>"
        senders.append(threading.Thread(target=deliver, args=(first, stream_pieces, name, stop)))
        senders[-1].start()
    try:
        for _ in range(kills):
            time.sleep(chance.uniform(0.5, 2.0))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.communicate()
            process = run(*commands[0])
        ends_well(process)
        ends_well(copy_process)
    finally:
        stop.set()
        for running in (process, copy_process):
            running.kill()
            running.communicate()
        for sender in senders:
            sender.join()
    assert bag(out) == bag(undisturbed)
    assert len(bag(out)) == HOURS


def test_http_to_http_killed_at_random(tmp_path: Path) -> None:
    chance = random.Random(7)
    for n in range(10 if LONG else 1):
        kill_at_random(tmp_path / str(n), chance, 3, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_http_to_http_killed_on_spark(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "spark", random.Random(8), 1, "--master", "local[2]", "--slice", "96KiB")
