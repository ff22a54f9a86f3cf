"""Web servers that violate HTTP: the result is the document or an error."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

import pytest

from tests.firehose.test_compression import read_part
from tests.firehose.test_web import DOCUMENT, Site, serving
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors import http
from xmlpunct.connectors.contract import open_source
from xmlpunct.schema import Schema

SIZE = len(DOCUMENT)
WHOLE = f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n"
PART = 'HTTP/1.1 206 Partial Content\r\nETag: "1"\r\n'
OK = 'HTTP/1.1 200 OK\r\nETag: "1"\r\n'


class Asked:
    """The requested byte of each request to the server; None for the complete document."""

    def __init__(self) -> None:
        self.bytes: list[int | None] = []


@contextmanager
def answering(answer: Callable[[int, int | None], bytes]) -> Iterator[tuple[str, Asked]]:
    """A server that closes after each response; ``answer`` maps a request's number and byte to its response."""
    asked, listening = Asked(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(5)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(2**16)
                range_headers = [line for line in head.split(b"\r\n") if line.lower().startswith(b"range:")]
                byte = int(range_headers[0].rpartition(b"=")[2].rstrip(b"-")) if range_headers else None
                asked.bytes.append(byte)
                connection.sendall(answer(len(asked.bytes) - 1, byte))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/feed", asked
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES", (0.001,) * 5)


def read(answer: Callable[[int, int | None], bytes]) -> tuple[bytes, str, list[int | None]]:
    """The data that is read, the error, and the requested bytes."""
    with answering(answer) as (url, asked):
        try:
            data, error = read_part(open_source(url))
        except SourceError as failure:
            data, error = b"", failure
        return data, str(error or "").removeprefix(f"{url}: "), asked.bytes


def once(head: str, body: bytes = DOCUMENT) -> Callable[[int, int | None], bytes]:
    return lambda number, byte: f"{head}\r\n".encode("latin-1") + body


@pytest.mark.parametrize(
    ("headers", "description"),
    [
        (
            f"Content-Range: bytes 5000-{SIZE - 1}/{SIZE}\r\n",
            f"'bytes 5000-{SIZE - 1}/{SIZE}' as Content-Range",
        ),
        (f"Content-Range: bytes 0-4999/{SIZE}\r\n", f"'bytes 0-4999/{SIZE}' as Content-Range"),
        (f"Content-Range: bytes 0-{SIZE - 1}/*\r\n", f"'bytes 0-{SIZE - 1}/*' as Content-Range"),
        (f"Content-Range: bytes 0-{SIZE}/{SIZE}\r\n", f"'bytes 0-{SIZE}/{SIZE}' as Content-Range"),
        (f"Content-Range: bytes {'9' * 5000}-{SIZE}/{SIZE}\r\n", "'bytes 999"),
        (f"Content-Range: items 0-{SIZE - 1}/{SIZE}\r\n", "'items 0-"),
        ("Content-Type: multipart/byteranges; boundary=x\r\n", "a part of it without Content-Range"),
    ],
)
def test_an_unrequested_part_is_refused(headers: str, description: str) -> None:
    """An unrequested part is refused without a second request."""
    tail = DOCUMENT[5000:]
    data, error, asked = read(once(f"{PART}{headers}", b"<r>" + tail[tail.index(b"<t>") :]))
    assert (data, asked) == (b"", [None])
    assert error.startswith(f"the server sent {description}")
    assert error.endswith(", but the whole document was requested")


def test_a_part_that_is_all_of_a_document() -> None:
    head = f"{PART}Content-Range: bytes 0-{SIZE - 1}/{SIZE}\r\n"
    assert read(once(head)) == (DOCUMENT, "", [None])


@pytest.mark.parametrize("byte", [0, 4999, 5001, 6000])
def test_another_part_than_was_asked_for(byte: int) -> None:
    def answer(number: int, asked: int | None) -> bytes:
        if not number:
            return f"{OK}Content-Length: {SIZE}\r\n\r\n".encode() + DOCUMENT[:5000]
        return f"{PART}Content-Range: bytes {byte}-{SIZE - 1}/{SIZE}\r\n\r\n".encode() + DOCUMENT[byte:]

    data, error, asked = read(answer)
    assert (data, asked) == (DOCUMENT[:5000], [None, 5000])
    assert error == (
        f"the server sent 'bytes {byte}-{SIZE - 1}/{SIZE}' as Content-Range, but bytes 5000- were requested"
    )


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_document_of_unknown_length_goes_on_in_short_parts(is_chunked: bool) -> None:
    """Requests continue after the end of each part until the end of the document."""

    def answer(number: int, asked: int | None) -> bytes:
        begin = asked or 0
        piece = DOCUMENT[begin : begin + 5000]
        head = OK
        if asked is not None:
            head = f"{PART}Content-Range: bytes {begin}-{begin + len(piece) - 1}/{SIZE}\r\n"
        if number and not is_chunked:
            return f"{head}Content-Length: {len(piece)}\r\n\r\n".encode() + piece
        end = b"0\r\n\r\n" if number else b""
        return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(piece):x}\r\n".encode() + piece + b"\r\n" + end

    assert read(answer) == (DOCUMENT, "", [None, *range(5000, SIZE, 5000)])


def test_another_document_when_it_is_read_again() -> None:
    """A changed document is an error: the length and columns are known from the first read."""
    longer = DOCUMENT.replace(b"</r>", b"<t><a>1000</a></t></r>")

    def answer(number: int, asked: int | None) -> bytes:
        data = longer if number else DOCUMENT
        return f'HTTP/1.1 200 OK\r\nETag: "{number}"\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data

    with answering(answer) as (url, _):
        source = open_source(url)
        assert read_part(source) == (DOCUMENT, None)
        data, error = read_part(source)
    assert data == b""
    assert str(error).endswith(
        "an input has changed: the server had another document when byte 0 was requested"
    )


@pytest.mark.parametrize(
    "lengths", [["9" * 5000], ["-1"], ["x"], ["5", str(SIZE)], [f"5, {SIZE}"], ["+5"], ["1_0"], ["٥"]]
)
def test_an_invalid_length(lengths: list[str]) -> None:
    lines = "".join(f"Content-Length: {length.encode().decode('latin-1')}\r\n" for length in lengths)
    data, error, asked = read(once(f"{OK}{lines}"))
    assert (data, asked) == (b"", [None])
    assert error.startswith("the server sends '")
    assert error.endswith("' as Content-Length, which is no length")


@pytest.mark.parametrize("lengths", [[str(SIZE)] * 2, [f"{SIZE}, {SIZE}"]])
def test_the_same_length_twice(lengths: list[str]) -> None:
    lines = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    assert read(once(f"{OK}{lines}")) == (DOCUMENT, "", [None])


@pytest.mark.parametrize("encoding", ["GZIP", "X-Gzip", " gzip ", "gzip, identity", "Identity", ""])
def test_encodings_in_any_case(encoding: str) -> None:
    body = gzip.compress(DOCUMENT)
    head = f"{OK}Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n"
    assert read(once(head, body)) == (DOCUMENT, "", [None])


def test_an_encoding_that_was_not_asked_for() -> None:
    data, error, asked = read(once(f"{WHOLE}Content-Encoding: gzip, br\r\n"))
    assert (data, asked) == (b"", [None])
    assert error == "the server sent it with the encoding br, gzip, which was not requested"


@pytest.mark.parametrize(
    "location",
    [
        *("http://[::1", "http://a..b/", "http://:80/", "http://h:x/", "http://h:99999/"),
        *(f"http://{'a' * 64}.b/", "ftp://localhost/x", "file:///etc/passwd", "data:,x", "mailto:a@b"),
    ],
)
def test_redirected_to_an_invalid_address(location: str) -> None:
    data, error, asked = read(once(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\n", b""))
    assert (data, asked) == (b"", [None])
    assert error == f"the server answered 302 Found, to {location!r}, which is no address of a web server"


@pytest.mark.parametrize("locations", [["feed"], ["a", "b"], ["a", "a"], ["http://"]])
def test_redirected_in_a_circle(locations: list[str]) -> None:
    _, error, asked = read(
        lambda number, _: (
            f"HTTP/1.1 302 Found\r\nLocation: {locations[number % len(locations)]}\r\n\r\n".encode()
        )
    )
    assert error == "the server answered 302 in a circle of redirections: Found"
    assert len(asked) <= 3


def test_redirected_ever_further() -> None:
    _, error, asked = read(lambda number, _: f"HTTP/1.1 302 Found\r\nLocation: /{number}\r\n\r\n".encode())
    assert error.startswith("the server answered 302")
    assert len(asked) <= 11


def test_beyond_ascii() -> None:
    """Letters in a URL or redirection are percent-encoded, and its host is encoded with IDNA."""
    site = Site()
    with serving(site) as url:
        port = url.split(":")[2].split("/")[0]
        assert read_part(open_source(f"http://localhost:{port}/mü/ü?q=ä b".replace(" ", "%20"))) == (
            DOCUMENT,
            None,
        )
        source = open_source(f"http://ｌｏｃａｌｈｏｓｔ:{port}/ü")
        assert source.name == f"http://ｌｏｃａｌｈｏｓｔ:{port}/ü"
        assert read_part(source) == (DOCUMENT, None)
        site.moved = f"http://localhost:{port}/über".encode().decode("latin-1")
        assert read_part(open_source(url.replace("feed", "moved"))) == (DOCUMENT, None)


@pytest.mark.parametrize("wrong", ["http://[::1", "http://a..b/", f"http://{'ü' * 64}/", "http://h/\udc80"])
def test_invalid_addresses(wrong: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        open_source(wrong)


HEADS = [
    OK,
    "HTTP/1.1 200\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/9.9 200 OK\r\n",
    "garbage\r\n",
    "HTTP/1.1 abc OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    "HTTP/1.1 416 Range Not Satisfiable\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    PART,
]
LINES = [
    f"Content-Length: {SIZE}\r\n",
    f"Content-Length: {SIZE - 4}\r\n",
    f"Content-Length: {SIZE + 9}\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: -5\r\n",
    "Content-Length\r\n",
    f"Content-Range: bytes 0-{SIZE - 1}/{SIZE}\r\n",
    f"Content-Range: bytes 7-{SIZE - 1}/{SIZE}\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Content-Encoding: GZIP\r\n",
    "Content-Encoding: br\r\n",
    'ETag: "\xff\r\n',
    "Last-Modified: \x01\r\n",
    " folded: x\r\n",
    "X: " + "y" * 70_000 + "\r\n",
    "X: y\r\n" * 200,
]


def body(random: Random) -> bytes:
    data = random.choice([DOCUMENT, gzip.compress(DOCUMENT), gzip.compress(DOCUMENT)[:300], b"", b"\x1f\x8b"])
    if random.random() < 0.4:
        sizes = [f"{len(data):x}", "-5", "0x5", "zz", "", "f" * 5000, "5;a=b"]
        chunk = random.choice([sizes[0], random.choice(sizes)])
        data = f"{chunk}\r\n".encode() + data + b"\r\n" + random.choice([b"0\r\n\r\n", b"", b"0\r\nX: y\r\n"])
    return data


@pytest.mark.parametrize("seed", range(150))
def test_any_answer_is_the_document_or_an_error(seed: int) -> None:
    random = Random(seed)
    answers = [
        (random.choice(HEADS) + "".join(random.sample(LINES, random.randrange(4))) + "\r\n").encode("latin-1")
        + body(random)
        for _ in range(3)
    ]
    with answering(lambda number, _: answers[number % len(answers)]) as (url, _):
        rows, error = [], None
        try:
            for row in parse(url, Schema.parse("a INT"), element="t"):
                rows.append(row)
        except (SourceError, UsageError) as failure:
            error = failure
    assert rows == [(n,) for n in range(len(rows))]
    assert error is not None or len(rows) == 1000
