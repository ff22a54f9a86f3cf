"""A fault injector: each call of a library that reads external bytes raises, in turn, each kind of exception.

The user gets an XmlPunctError that names the source, and all tuples that were read before the call.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from xmlpunct import Schema, XmlPunctError, parse
from xmlpunct.engine.sql import plan
from xmlpunct.engine.sql.syntax.parameters import of_values

PACKAGE = str(Path(sys.modules["xmlpunct"].__file__ or "").parent)
LIBRARIES = {
    "tarfile", "zipfile", "gzip", "bz2", "lzma", "zlib", "_bz2", "_lzma", "http", "urllib", "lxml", "pyarrow", "codecs",
    "_codecs", "encodings", "_multibytecodec", "socket", "ssl", "sqlglot",
}  # fmt: skip
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: OSError(5, "Input/output error"),
    lambda: ValueError("injected"),
    lambda: RecursionError("injected"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "injected"),
    lambda: MemoryError(),
)
SCHEMA = Schema.parse("a INT, b STRING")
COUNT = 60
CLOSING = {"close", "__exit__", "__del__", "shutdown"}
"""Calls that only release resources, and read nothing."""


@dataclass
class Injector:
    """Counts the calls of libraries from our code, by call site, and raises at one of them.

    A call site is (file, line, name of the function). ``delivered`` returns the number of emitted tuples.
    """

    site: tuple[str, int, str] | None = None
    occurrence: int = 0
    error: Callable[[], Exception] | None = None
    delivered: Callable[[], int] = lambda: 0
    calls: dict[tuple[str, int, str], list[int]] = field(default_factory=dict)
    """For each call site, the number of emitted tuples at each of its calls."""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            caller, module = frame.f_back, frame.f_globals.get("__name__", "")
            name = frame.f_code.co_name
        elif event == "c_call":
            caller, owner = frame, getattr(arg, "__self__", None)
            module_name = getattr(arg, "__module__", None) or getattr(owner, "__name__", None)
            module = module_name if isinstance(module_name, str) else type(owner).__module__
            name = arg.__name__
        else:
            return
        if caller is None or not caller.f_code.co_filename.startswith(PACKAGE) or name in CLOSING:
            return
        if module.partition(".")[0] not in LIBRARIES:
            return
        site = (caller.f_code.co_filename[len(PACKAGE) :], caller.f_lineno, name)
        calls = self.calls.setdefault(site, [])
        calls.append(self.delivered())
        if site == self.site and len(calls) == self.occurrence and self.error is not None:
            raise self.error()

    @contextmanager
    def watching(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def document(encoding: str = "utf-8", doctype: bool = False) -> bytes:
    """A document with a doctype is read by libxml2, any other one by the native reader."""
    head = f'<?xml version="1.0" encoding="{encoding}"?>' + ("<!DOCTYPE s>" if doctype else "")
    tuples = "".join(f"<t><a>{n}</a><b>{'é' * 10}</b></t>\n" for n in range(COUNT))
    return f"{head}<s>{tuples}</s>".encode(encoding)


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("1.xml", "2.xml"):
            archive.writestr(name, document())
    return file.getvalue()


def tarred(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name in ("1.xml", "2.xml"):
            info = tarfile.TarInfo(name)
            info.size = len(document())
            archive.addfile(info, io.BytesIO(document()))
    return file.getvalue()


SOURCES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "libxml2": ("s.xml", lambda: document(doctype=True)),
    "utf-16": ("s.xml", lambda: document("utf-16")),
    "gzip": ("s.xml.gz", lambda: gzip.compress(document())),
    "bzip2": ("s.xml.bz2", lambda: bz2.compress(document())),
    "xz": ("s.xml.xz", lambda: lzma.compress(document())),
    "zstd": ("s.xml.zst", lambda: pa.compress(document(), "zstd", asbytes=True)),
    "zip": ("s.zip", zipped),
    "tar": ("s.tar", lambda: tarred("w")),
    "tar.gz": ("s.tar.gz", lambda: tarred("w:gz")),
}


def read(source: object, injector: Injector) -> tuple[list[Any], Exception | None]:
    """The tuples of a source, and the error that ended it."""
    tuples = list[Any]()
    injector.delivered = lambda: len(tuples)
    try:
        with injector.watching():
            for t in parse(source, SCHEMA, element="t"):  # type: ignore[arg-type]
                tuples.append(t)
    except Exception as error:
        return tuples, error
    return tuples, None


def inject(source: object, name: str, tuple_count: int) -> int:
    """Raise every error at the first and last call of every call site. Returns the number of sites."""
    dry = Injector()
    expected, error = read(source, dry)
    assert error is None
    assert len(expected) == tuple_count
    for site, calls in dry.calls.items():
        for occurrence in {1, len(calls)}:
            for make_error in ERRORS:
                tuples, error = read(source, Injector(site, occurrence, make_error))
                context = f"{site} at call {occurrence} of {len(calls)}, {make_error()!r}: {error!r}"
                if error is None:
                    assert tuples == expected, context  # the reader tolerates a failure of this call
                    continue
                assert isinstance(error, XmlPunctError), context
                assert name in str(error), context
                assert tuples == expected[: len(tuples)], context
                assert len(tuples) >= calls[occurrence - 1], context
    return len(dry.calls)


@pytest.mark.parametrize("kind", SOURCES)
def test_each_call_that_reads_a_file(kind: str, tmp_path: Path) -> None:
    name, make_content = SOURCES[kind]
    path = tmp_path / name
    path.write_bytes(make_content())
    tuple_count = COUNT * (2 if kind in ("zip", "tar", "tar.gz") else 1)
    assert inject(path, name, tuple_count) > 0


@pytest.mark.parametrize("packed", [False, True])
def test_each_call_that_reads_from_a_web_server(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.http.PAUSES", ())
    body = gzip.compress(document()) if packed else document()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/s.xml"
            assert inject(url, url, COUNT) > 0
        finally:
            server.shutdown()
            thread.join()


def test_each_call_that_reads_sql() -> None:
    stream = "CREATE STREAM s (a INT, b STRING) WITH (source = '-');"
    sql = f"{stream} SELECT a + 1 AS c, UPPER(b) AS d FROM s WHERE a > :n"

    def planned(injector: Injector) -> Exception | None:
        try:
            with injector.watching():
                plan(sql, parameters=of_values({"n": 1}))
        except Exception as error:
            return error
        return None

    dry = Injector()
    assert planned(dry) is None
    sites = [
        (file, line, name)
        for file, line, name in dry.calls
        if file.endswith(("dialect.py", "parameters.py")) and name in ("parse", "parser", "tokenize")
    ]
    assert sites
    for site in sites:
        for make_error in ERRORS:
            error = planned(Injector(site, 1, make_error))
            assert error is None or isinstance(error, XmlPunctError), f"{site}: {error!r}"
