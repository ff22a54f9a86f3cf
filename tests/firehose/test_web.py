"""Documents from local web servers: truncated, resumed, changed, redirected, refused."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.firehose.harness import spec
from tests.firehose.test_archives import tarred, zipped
from tests.firehose.test_compression import read_part
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors import http
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import ChangedError
from xmlpunct.firehose import SliceReader
from xmlpunct.schema import Schema

A = Schema.parse("a INT")
DOCUMENT = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(1000)) + b"</r>"
CERTIFICATES = Path(__file__).parents[1] / "fixtures" / "tls"


@dataclass
class Site:
    """The responses of a server. ``cuts``: the bytes of each response before the connection is closed."""

    data: bytes = DOCUMENT
    cuts: list[int] = field(default_factory=list)
    tags: list[str | None] = field(default_factory=lambda: ['"1"'])
    modified: str | None = None
    ranges: bool = True
    chunked: bool = False
    says: list[int] = field(default_factory=list)
    ignores_condition: bool = False
    moved: str | None = None
    asked: list[dict[str, str]] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(dict(handler.headers))
        if self.moved is not None and handler.path == "/moved":
            handler.send_response(302)
            handler.send_header("Location", self.moved)
            handler.end_headers()
            return
        if self.says:
            handler.send_error(self.says.pop(0))
            return
        tag = self.tags[min(len(self.asked), len(self.tags)) - 1]
        begin, range_header = 0, handler.headers.get("Range")
        same = self.ignores_condition or handler.headers.get("If-Range") in (tag, self.modified, None)
        if range_header is not None and self.ranges and same:
            begin = int(range_header.removeprefix("bytes=").removesuffix("-"))
            handler.send_response(206)
            size = len(self.data)
            handler.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        else:
            handler.send_response(200)
        if tag is not None:
            handler.send_header("ETag", tag)
        if self.modified is not None:
            handler.send_header("Last-Modified", self.modified)
        data = self.data[begin:]
        cut = data[: self.cuts.pop(0)] if self.cuts else data
        if self.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for at in range(0, len(cut), 999):
                piece = cut[at : at + 999]
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.write(b"0\r\n\r\n" if cut == data else b"ff\r\n")
        else:
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(cut)


@contextmanager
def serving(site: Site, secure: bool = False) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True
            with suppress(OSError):  # the client may disconnect
                site.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / "localhost.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{'https' if secure else 'http'}://localhost:{server.server_port}/feed"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES", (0.001,) * 5)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("data", [DOCUMENT, gzip.compress(DOCUMENT)], ids=["plain", "gzip"])
def test_read(data: bytes, chunked: bool) -> None:
    site = Site(data, chunked=chunked)
    with serving(site) as url:
        assert read_part(open_source(url)) == (DOCUMENT, None)
        assert read_part(open_source(url), size=7) == (DOCUMENT, None)
        source = open_source(url)
        for _ in range(2):
            assert list(parse(source, A, element="t")) == [(n,) for n in range(1000)]
    assert [asked.get("Range") for asked in site.asked] == [None] * 4


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("data", [DOCUMENT, gzip.compress(DOCUMENT)], ids=["plain", "gzip"])
@pytest.mark.parametrize("know", ["tag", "date"])
def test_cut_and_resumed(data: bytes, chunked: bool, know: str) -> None:
    half, third = len(data) // 2, len(data) // 3
    site = Site(data, [half, third, 0, 0, 10, 0], chunked=chunked)
    if know == "date":
        site.tags, site.modified = ['W/"1"'], "Mon, 01 Jan 2024 00:00:00 GMT"
    with serving(site) as url:
        assert read_part(open_source(url)) == (DOCUMENT, None)
    asked = [asked.get("Range") for asked in site.asked]
    assert len(asked) == 7
    if not chunked:
        at = [half, half + third, half + third, half + third, half + third + 10, half + third + 10]
        assert asked == [None, *(f"bytes={byte}-" for byte in at)]
        validator = site.modified or '"1"'
        assert [asked.get("If-Range") for asked in site.asked] == [None, *[validator] * 6]


def test_cut_at_any_byte() -> None:
    data = gzip.compress(DOCUMENT[:300])
    for cut in range(0, len(data), 7):
        with serving(Site(data, [cut])) as url:
            assert read_part(open_source(url)) == (DOCUMENT[:300], None)


def test_a_server_without_ranges() -> None:
    with serving(Site(cuts=[5000, 6000], ranges=False)) as url:
        assert read_part(open_source(url)) == (DOCUMENT, None)


@pytest.mark.parametrize("obeys", [False, True])
def test_another_document_after_a_cut(obeys: bool) -> None:
    site = Site(cuts=[5000], tags=['"1"', '"2"'], ignores_condition=not obeys)
    with serving(site) as url:
        data, error = read_part(open_source(url))
        assert data == DOCUMENT[:5000]
        assert isinstance(error, ChangedError)
        assert str(error) == (
            f"{url}: an input has changed: the server had another document when byte 5000 was requested"
        )


def test_a_document_without_a_validator() -> None:
    for tag in (None, 'W/"1"'):
        with serving(Site(cuts=[5000], tags=[tag])) as url:
            data, error = read_part(open_source(url))
            assert data == DOCUMENT[:5000]
            assert "from byte 5000" in str(error)
            assert "sends no ETag or Last-Modified" in str(error)


def test_a_server_that_cuts_for_ever() -> None:
    site = Site(cuts=[5000, *[0] * 50])
    with serving(site) as url:
        data, error = read_part(open_source(url))
        assert data == DOCUMENT[:5000]
        assert f"byte 5000: the connection was cut at byte 5000 of {len(DOCUMENT)}" in str(error)
    assert len(site.asked) == 1 + len(http.PAUSES) + 0


def test_error_responses() -> None:
    site = Site(says=[503, 429, 500])
    with serving(site) as url:
        assert read_part(open_source(url)) == (DOCUMENT, None)
        site.says = [404]
        with pytest.raises(SourceError, match="the server answered 404 Not Found"):
            open_source(url)
        site.says = [503] * 6
        with pytest.raises(SourceError, match="cannot be read: the server answered 503 Service Unavailable"):
            open_source(url)
        assert not site.says
    with pytest.raises(SourceError, match="Connection refused"):
        open_source(url)


def test_moved() -> None:
    site = Site(cuts=[5000])
    with serving(site) as url:
        site.moved = url
        assert read_part(open_source(url.replace("feed", "moved"))) == (DOCUMENT, None)
        for elsewhere in ("file:///etc/passwd", "ftp://localhost/x"):
            site.moved = elsewhere
            with pytest.raises(SourceError):
                open_source(url.replace("feed", "moved"))


def test_name_and_password() -> None:
    site = Site(cuts=[100])
    with serving(site) as url:
        source = open_source(url.replace("//", "//me:se%20cret@"))
        assert read_part(source) == (DOCUMENT, None)
        assert source.name == url
        assert [name for name, _ in source.parts] == [url]
    assert [asked["Authorization"] for asked in site.asked] == ["Basic bWU6c2UgY3JldA=="] * 2


@pytest.mark.parametrize("make", [zipped, tarred, lambda: gzip.compress(tarred())])
@pytest.mark.parametrize("ranges", [False, True])
def test_archives(make: Callable[[], bytes], ranges: bool) -> None:
    with serving(Site(make(), ranges=ranges)) as url:
        assert list(parse(url, A, element="t")) == [(n,) for n in range(5)]


def test_an_empty_document() -> None:
    with serving(Site(b"")) as url:
        assert read_part(open_source(url)) == (b"", None)


def test_read_ahead_and_closed() -> None:
    """Closing a reader does not wait for a server that sends no more data."""
    waits = threading.Event()

    class Slow(Site):
        def answer(self, handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(b"<r><t><a>1</a></t>")
            waits.wait(10)

    with serving(Slow()) as url:
        bell = threading.Condition()
        with closing(SliceReader(open_source(url), [spec("a INT")], bell=bell)) as reader:
            with bell:
                assert bell.wait_for(reader.is_ready, 5)
            parsed = reader.read(1 << 16)
            assert parsed is not None
            assert parsed.slices[0].tuples.height == 1
            begun = time.monotonic()
        waits.set()
        assert time.monotonic() - begun < 0.9


def test_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Site(cuts=[5000]), secure=True) as url:
        with pytest.raises(SourceError, match="its certificate is not valid: "):
            open_source(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
        assert read_part(open_source(url)) == (DOCUMENT, None)
        with pytest.raises(SourceError, match="its certificate is not valid: "):
            open_source(url.replace("localhost", "127.0.0.1"))


@pytest.mark.parametrize("wrong", ["http://", "http:///x", "http://localhost:x/", "http://localhost/a b"])
def test_invalid_addresses(wrong: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        open_source(wrong)


def test_a_file_url(tmp_path: Path) -> None:
    (tmp_path / "a b.xml").write_bytes(DOCUMENT)
    assert read_part(open_source((tmp_path / "a b.xml").as_uri())) == (DOCUMENT, None)
