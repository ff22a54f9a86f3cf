"""HTTP: pieces that are posted, in order and once, and results that are; refused, retried and killed at random."""

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
from tests.connectors.test_messages import HOURS, QUERY, copied, elements
from tests.reliability.support import LONG, bag, ends_well, launch
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Outlet, Results
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.http_listen import Listeners, Posted, Server, _address
from xmlpunct.connectors.open_source import is_endless, open_source, senders_of
from xmlpunct.connectors.outlet import chained
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema

RESULT = Schema.parse("hour INT, n INT, top INT")


def post(port: int, data: bytes, path: str = "/", **headers: str) -> tuple[int, dict[str, Any]]:
    """Post a piece; the status and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(
            "POST", path, data, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def piece(number: int, **more: str) -> dict[str, str]:
    return {"Xmlpunct_Sequence": str(number), "Xmlpunct_Run": "r"} | more


@contextmanager
def reading(
    url: str = "", position: Any = None, most_bytes: int = 2**25
) -> Iterator[tuple[int, Posted, list[bytes]]]:
    """A reader that makes what is posted durable at once; its port, it, and the pieces."""
    port = free_port()
    server = Server(_address(url or f"http-listen://:{port}"))
    server.most_bytes = most_bytes
    inlet, pieces = Posted(server, ""), list[bytes]()
    inlet.open(position)

    def take() -> None:
        while (found := inlet.read()) is not None:
            pieces.append(found[0])
            inlet.acknowledge(json.loads(json.dumps(found[1])))

    thread = threading.Thread(target=take)
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
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        open_source(url)


def test_what_can_be_known_beforehand() -> None:
    url = "http-listen://me:pw@:7000?senders=a,b"
    assert (senders_of(url), is_endless(url)) == (2, True)
    assert [s.name for s in open_source(url).senders] == ["http-listen://:7000#a", "http-listen://:7000#b"]
    with pytest.raises(UsageError, match="nothing is written to http-listen"):
        Listeners().outlet(url, url)
    with pytest.raises(SourceError, match="cannot listen there"):
        open_source("http-listen://203.0.113.1:7000").open()


def test_pieces_are_taken_in_order_and_once() -> None:
    with reading() as (port, _, pieces):
        assert post(port, b"<s><t>1</t>", **piece(0)) == (200, {"next": 1})
        assert post(port, b"<t>2</t>", **piece(1)) == (200, {"next": 2})
        assert post(port, b"<t>2</t>", **piece(1)) == (200, {"next": 2}), "a retry"
        assert post(port, b"<s><t>1</t>", **piece(0)) == (200, {"next": 2}), "one that was long on its way"
        assert post(port, b"<t>4</t>", **piece(3)) == (409, {"error": "piece 2 is next", "next": 2})
        assert post(port, b"<t>x</t>", **piece(1)) == (409, {"error": "piece 1 had other content", "next": 2})
        assert post(port, b"", **piece(2, Xmlpunct_Run="other"))[0] == 409
        assert post(port, b"</s>", **piece(2, Xmlpunct_Last="1")) == (200, {"next": 3})
        assert b"".join(pieces) == b"<s><t>1</t><t>2</t></s>"
        assert post(port, b"</s>", **piece(2, Xmlpunct_Last="1")) == (200, {"next": 3})
        assert post(port, b"<s/>", **piece(3))[1] == {"error": "nothing follows the last piece", "next": 3}


def test_a_sender_that_went_back_is_found_out() -> None:
    """By the digest of the piece before; or by its end, if that comes sooner."""

    def linked(number: int, link: str, digest: str, **more: str) -> dict[str, str]:
        return piece(number, Xmlpunct_Link=link, Xmlpunct_Digest=digest, **more)

    with reading() as (port, _, pieces):
        assert post(port, b"<s><t>1</t>", **linked(0, "", "a"))[0] == 200
        assert post(port, b"<t>2</t>", **linked(1, "a", "b"))[0] == 200
        assert post(port, b"<t>2</t>", **linked(1, "a", "b"))[0] == 200
        status, said = post(port, b"<t>3</t>", **linked(2, "x", "y"))
        assert (status, "older checkpoint" in said["error"]) == (409, True)
        status, said = post(port, b"</s>", **linked(0, "", "z", Xmlpunct_Last="1"))
        assert (status, said["error"]) == (409, "piece 0 was not the last")
        assert post(port, b"</s>", **linked(2, "b", "c", Xmlpunct_Last="1"))[0] == 200
        assert b"".join(pieces) == b"<s><t>1</t><t>2</t></s>"


def test_what_is_posted_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece to the one before, also those of one group, and of a group behind one without data."""
    monkeypatch.setattr("xmlpunct.connectors.http_post.PIECE_BYTES", 4)
    link, groups = "", list[Results]()
    for number, data in enumerate((b"<s><a/>", b"", b"</s>")):
        digest = chained(link, data)
        groups.append(Results(number, (), data, last=number == 2, digest=digest, link=link))
        link = digest
    with receiving() as (url, taken), closing(opened(url)) as outlet:
        for group in groups:
            outlet.write(group)
    headers = [h for h, _ in taken]
    assert [h["Xmlpunct-Link"] for h in headers] == ["", *(h["Xmlpunct-Digest"] for h in headers[:-1])]
    assert len({h["Xmlpunct-Digest"] for h in headers}) == 3


def test_a_piece_without_a_number_is_the_next() -> None:
    with reading() as (port, _, pieces):
        for _ in range(2):
            assert post(port, b"<t>1</t>")[0] == 200
        assert pieces == [b"<t>1</t>"] * 2


def test_what_is_refused() -> None:
    with reading(most_bytes=100) as (port, _, pieces):
        refused = [
            (403, post(port, b"<s>", Host="evil.example")),
            (403, post(port, b"<s>", Origin="http://evil.example")),
            (404, post(port, b"<s>", "/nobody")),
            (415, post(port, b"<s>", Content_Encoding="gzip")),
            (413, post(port, b"x" * 101)),
            (400, post(port, b"<s>1", Xmlpunct_Sequence="one")),
            (400, post(port, b"<?xml vers")),
            (400, post(port, b"<s>")),
        ]
        assert [status for status, _ in refused] == [answer[0] for _, answer in refused]
        assert all(answer["error"] for _, (_, answer) in refused)
        assert pieces == []
        chunked = http.client.HTTPConnection("127.0.0.1", port)
        with closing(chunked):
            chunked.request("POST", "/", (b"<s>" * 1000 for _ in range(100)), encode_chunked=True)
            assert chunked.getresponse().status == 411
        for body in (b"-5\r\n<s>\r\n", b"zz\r\n", b"5"):  # no chunks
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
def test_what_is_said_to_be_in_another_encoding_is_refused(first: bytes, charset: str, status: int) -> None:
    said = {"Content_Type": f"application/xml; charset={charset}"}
    with reading() as (port, _, pieces):
        assert post(port, first + b"    ", **piece(0))[0] == 200
        answers = [post(port, b"<t/>", **piece(1), **said)]
    with reading() as (port, _, fresh):
        answers.append(post(port, first + b"    ", **piece(0), **said))
        assert fresh == ([first + b"    "] if status == 200 else [])
    assert [answer[0] for answer in answers] == [status, status]
    if status == 415:
        assert all("charset in Content-Type" in answer["error"] for _, answer in answers)
        assert pieces == [first + b"    "]


def test_who_has_no_password_is_refused() -> None:
    port = free_port()
    with reading(f"http-listen://me:s%2Fcret@:{port}") as (_, _, pieces):
        assert post(port, b"<s/>")[0] == 401
        assert post(port, b"<s/>", Authorization="Basic bWU6bm8=")[0] == 401
        assert post(port, b"<s/>", Authorization="Basic bWU6cy9jcmV0")[0] == 200
        assert pieces == [b"<s/>"]


def test_what_cannot_be_taken_now_is_to_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_listen.WAIT_SECONDS", 0.1)
    port = free_port()
    inlet = Posted(Server(_address(f"http-listen://:{port}")), "")
    inlet.open(None)
    with closing(inlet):
        assert post(port, b"<s/>", **piece(0))[0] == 429, "nobody reads"
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
        assert post(port, b"<s/>", **piece(0))[0] == 429, "it is not durable yet"
        assert answers == []
        inlet.stop()
        sender.join()
        assert answers == [503]


def test_a_stream_that_is_posted_is_read(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    pieces = [b"<s><t><a>1</a></t>", b"<t><a>2</", b"a></t></s>"]

    tuples = list[object]()
    found = parse(f"http-listen://:{port}", Schema.parse("a INT"), element="t")
    reader = threading.Thread(target=lambda: tuples.extend(found), daemon=True)
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
    """A server that takes requests, after it has answered some with these; its URL, and what it was sent."""
    taken, left = list[tuple[dict[str, str], bytes]](), [*statuses]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            status = left.pop(0) if left else 200
            if status == 200:
                taken.append((dict(self.headers), data))
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
            yield f"http://127.0.0.1:{server.server_port}/in", taken
        finally:
            server.shutdown()
            thread.join()


def opened(url: str, position: Any = None, format_: str = "xml") -> Outlet:
    made = connector_of(url).outlet(url, url)
    made.open(Form("r", RESULT, writer_for(format_, RESULT), format_), position)
    return made


def test_groups_are_posted_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PIECE_BYTES", 4)
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,) * 3)
    with receiving(503, 429, 429, 429, 429, 500) as (url, taken), closing(opened(url)) as outlet:
        outlet.write(Results(0, (), b"<s><a/>"))
        outlet.write(Results(1, (), b""))
        outlet.write(Results(2, (), b"</s>", last=True))
        assert outlet.commit() == {"next": 3}
        with closing(opened(url, {"next": 3}, "jsonl")) as another:
            another.write(Results(3, (), b"", last=True))
    assert [data for _, data in taken] == [b"<s><", b"a/>", b"</s>", b""]
    assert [h["Xmlpunct-Sequence"] for h, _ in taken] == ["0", "1", "2", "3"]
    assert {h["Xmlpunct-Run"] for h, _ in taken} == {"r"}
    assert [h.get("Xmlpunct-Last") for h, _ in taken] == [None, None, "1", "1"]
    assert [h["Content-Type"] for h, _ in taken[2:]] == ["application/xml", "application/x-ndjson"]


@pytest.mark.parametrize(
    ("status", "said"), [(302, "302 Found"), (409, "409 Conflict"), (503, "503 Service")]
)
def test_what_a_server_does_not_take(status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,) * 3)
    with receiving(*[status] * 4) as (url, taken), closing(opened(url)) as outlet:
        with pytest.raises(XmlPunctError, match=f"cannot write {url}: the server answered {said}"):
            outlet.write(Results(0, (), b"<s/>"))
        assert taken == []


def test_nobody_is_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http_post.PAUSES", (0.01,))
    out = f"http://127.0.0.1:{free_port()}/"
    ended = cli("run", "--engine", "local", "-q", QUERY, "-s", "sensor1=samples/sensor1.xml", "-o", out)
    assert (ended.code, f"cannot write {out}: Connection refused" in ended.err) == (1, True)


def run(*options: str) -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, *options)


def deliver(port: int, pieces: Sequence[bytes], sender: str, over: threading.Event) -> None:
    """Post a stream; what is not answered is sent again."""
    for number, data in enumerate(pieces):
        last = {"Xmlpunct_Last": "1"} if number == len(pieces) - 1 else {}
        while not over.is_set():
            try:
                status, answer = post(port, data, f"/{sender}", **piece(number, **last))
                assert status in (200, 503), answer
                if status == 200:
                    break
            except (OSError, http.client.HTTPException, ValueError):
                if number == len(pieces) - 1 and last and over.wait(0.2):
                    return
            time.sleep(0.02)


def test_the_lines_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port, over = free_port(), threading.Event()
    order = b"<order><id>%d</id><hour>17</hour><amount>12.50</amount></order>"
    with receiving() as (url, taken):
        places = {":8080": f":{port}", "http://localhost:9090/": url}
        process = launch(*copied("HTTP", **places))
        deliver(port, [b"<s>" + order % 1, order % 2 + b"</s>"], "", over)
        ends_well(process)
    text = b"".join(data for _, data in taken)
    assert b"<result><hour>17</hour><total>25.00</total></result>" in text
    assert text.endswith(b"</stream>\n")


def kill_at_random(folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """Two senders post a stream to a run, which posts its results to another: both are killed."""
    folder.mkdir()
    whole, alone, out = folder / "whole.xml", folder / "alone.xml", folder / "out.xml"
    sent = [elements(seed)[:-1] for seed in (kills, kills + 1)]
    whole.write_bytes(b"<s>" + b"".join(e for own in sent for e in own if e[:2] != b"<p") + b"</s>")
    ends_well(run("--engine", "local", "-s", f"sensor1={whole}", "-o", str(alone)))
    first, second, over = free_port(), free_port(), threading.Event()
    into = f"http-listen://127.0.0.1:{first}?senders=a,b"
    commands = [
        [
            *engine,
            "-s",
            f"sensor1={into}",
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
    copy = QUERY.replace("tempdata", "result").partition("SELECT")[0]
    copy = copy.replace("sid STRING, hour INT NOT NULL, min INT, currtmp INT", "hour INT, n INT, top INT")
    copying = launch("run", "-q", copy + "SELECT hour, n, top FROM sensor1", *commands[1])
    process = run(*commands[0])
    senders = []
    for name, own in zip("ab", sent, strict=True):
        count = 40
        cut = [b"".join(own[at : at + count]) for at in range(0, len(own), count)]
        cut[0], cut[-1] = b"<s>" + cut[0], cut[-1] + b"</s>"
        senders.append(threading.Thread(target=deliver, args=(first, cut, name, over)))
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
        ends_well(copying)
    finally:
        over.set()
        for each in (process, copying):
            each.kill()
            each.communicate()
        for sender in senders:
            sender.join()
    assert bag(out) == bag(alone)
    assert len(bag(out)) == HOURS


def test_http_to_http_killed_at_random(tmp_path: Path) -> None:
    chance = random.Random(7)
    for n in range(10 if LONG else 1):
        kill_at_random(tmp_path / str(n), chance, 3, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_http_to_http_killed_on_spark(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "spark", random.Random(8), 1, "--master", "local[2]", "--slice", "96KiB")
