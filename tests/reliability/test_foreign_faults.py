"""Every call into a library that reads foreign bytes fails once, in each way: see `foreign`.

Whoever runs xmlpunct gets our error, which names the source, and all tuples that were complete before the fault.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.firehose.test_archives import zipped
from tests.firehose.test_odd_servers import answering
from tests.firehose.test_packed import zstd
from tests.reliability.foreign import ERRORS, Fault, Patch, arrow, calls, codec, engine, expat, lxml, method
from xmlpunct import SqlError, XmlPunctError, parse, query
from xmlpunct.firehose import faults, native, packed, web
from xmlpunct.schema import Schema

ROWS = 3000
DOCUMENT = b"<s>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(ROWS)) + b"</s>"
SMALL = b"<s>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(20)) + b"</s>"
MOST = 4
"""So many calls have their turn. What is called more often is in the middle by then."""


def latin(data: bytes) -> bytes:
    return b'<?xml version="1.0" encoding="ISO-8859-1"?>' + data


def tarred(data: bytes) -> bytes:
    """A document in five members."""
    out, step = io.BytesIO(), ROWS // 5
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as file:
        for number in range(5):
            rows = b"".join(b"<t><a>%d</a></t>" % n for n in range(number * step, (number + 1) * step))
            info = tarfile.TarInfo(f"{number}.xml")
            info.size = len(rows) + 7
            file.addfile(info, io.BytesIO(b"<s>" + rows + b"</s>"))
    return out.getvalue()


@dataclass
class Case:
    """A source that is read with the help of a library, and how to make a call of that fail.

    ``whole``: the error comes before any tuple. ``xsd`` is a schema, if tuples are validated.
    """

    data: bytes
    patch: Patch
    compiled: bool = True
    whole: bool = False
    xsd: bool = False


CASES = {
    "a file": Case(DOCUMENT, method("xmlpunct.firehose.steady.SteadyFile.read", "nothing")),
    "zlib": Case(gzip.compress(DOCUMENT), engine("gzip")),
    "bz2": Case(bz2.compress(DOCUMENT), engine("bzip2")),
    "lzma": Case(lzma.compress(DOCUMENT), engine("xz")),
    "pyarrow": Case(zstd(DOCUMENT), arrow),
    "zlib, in a file that fails": Case(
        gzip.compress(DOCUMENT, 1), method("xmlpunct.firehose.steady.SteadyFile.read", "nothing")
    ),
    "codecs": Case(latin(DOCUMENT), codec),
    "tarfile": Case(tarred(DOCUMENT), method("tarfile.TarFile.next", "nothing"), whole=True),
    "a tar's first header": Case(tarred(DOCUMENT), method("tarfile.TarInfo.frombuf", "nothing"), whole=True),
    "zipfile": Case(zipped({"a.xml": DOCUMENT}), method("zipfile.ZipFile.infolist", "nothing"), whole=True),
    "a zip's end": Case(
        zipped({"a.xml": DOCUMENT}), method("zipfile.ZipFile.__init__", "nothing"), whole=True
    ),
    "lxml": Case(DOCUMENT, lxml("faults"), compiled=False),
    "libexpat": Case(SMALL[:-4] + b"<t><a>5</b></t>", expat, compiled=False),
    "lxml's validator": Case(SMALL, lxml("validity"), xsd=True),
    "lxml's pull parser": Case(SMALL, lxml("faults"), xsd=True),
}
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="t"><xs:complexType><xs:sequence>
  <xs:element name="a" type="xs:int"/></xs:sequence></xs:complexType></xs:element></xs:schema>"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAUSES", (0.001,) * 5)
    monkeypatch.setattr(
        packed, "PIECE_BYTES", 2**14
    )  # so that there are more, and shorter ones to look for a fault in


def numbers(out: str) -> list[int]:
    return [int(line) for line in out.splitlines()[1:]]


def judge(code: int, out: str, err: str, fault: Fault, source: str, rows: int = ROWS) -> None:
    """Either the fault was overcome, or what came before it is there, and an error of ours."""
    told = (fault.error(), fault.left, err)
    read = numbers(out)
    assert read == [*range(len(read))], told
    assert len(read) >= fault.before.count(b"</t>"), told
    assert "internal error" not in err, told
    assert "Traceback" not in err, told
    if code:
        assert code in (1, 2), told
        assert source in err, told
    else:
        assert len(read) == rows, told


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("command", ["parse", "run"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.xsd])
def test_a_call_fails(
    name: str, command: str, error: Callable[[], Exception], tmp_path: Path, cli: Cli
) -> None:
    case, path = CASES[name], tmp_path / "s.xml"
    path.write_bytes(case.data)
    sql = f"CREATE STREAM s (a INT) WITH (source = '{path}', element = 't'); SELECT a FROM s"
    arguments = {
        "parse": ["parse", path, "--element", "t", "--schema", "a INT", "--format", "csv"],
        "run": ["run", "--engine", "local", "--format", "csv", "-q", sql],
    }[command]

    def run(number: int) -> Fault:
        fault = Fault(error, number)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "COMPILED", case.compiled and native.COMPILED)
            case.patch(patch, fault)
            ran = cli(*arguments)
        if fault.came:
            judge(ran.code, ran.out or "a\n", ran.err, fault, str(path))
        return fault

    ran = list(calls(run, MOST))
    assert ran or (command == "run" and name == "a file")  # which the local engine reads by itself


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("command", ["check", "infer", "parse", "run"])
@pytest.mark.parametrize("name", ["zlib", "codecs", "tarfile", "zipfile", "lxml"])
def test_a_call_fails_where_nothing_is_declared(
    name: str, command: str, error: Callable[[], Exception], tmp_path: Path, cli: Cli
) -> None:
    case, path = CASES[name], tmp_path / "s.xml"
    path.write_bytes(case.data)
    arguments = {
        "check": ["check", path, "--element", "t"],
        "infer": ["infer", path],
        "parse": ["parse", path, "--element", "t", "--format", "csv"],
        "run": ["run", "--engine", "local", "--format", "csv", "-q", f"SELECT a FROM '{path}'"],
    }[command]

    def run(number: int) -> Fault:
        fault = Fault(error, number)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "COMPILED", case.compiled and native.COMPILED)
            case.patch(patch, fault)
            ran = cli(*arguments)
        assert ran.code in (0, 1, 2), ran.err
        assert "internal error" not in ran.err, ran.err
        if fault.came and ran.code:
            assert str(path) in ran.err
        return fault

    assert list(calls(run, 3))


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("name", ["lxml's validator", "lxml's pull parser"])
def test_a_call_that_validates_fails(
    name: str, error: Callable[[], Exception], tmp_path: Path, cli: Cli
) -> None:
    """A tuple that was not validated is rejected; the others are there."""
    case, path = CASES[name], tmp_path / "s.xml"
    path.write_bytes(case.data)
    (tmp_path / "t.xsd").write_text(XSD)
    sql = (
        f"CREATE STREAM s (a INT) WITH (source = '{path}', element = 't', xsd = '{tmp_path / 't.xsd'}'); "
        "SELECT a FROM s"
    )

    def run(number: int) -> Fault:
        fault = Fault(error, number)
        with pytest.MonkeyPatch.context() as patch:
            from xmlpunct.firehose import validity

            patch.setattr(validity, "_validators", type("Own", (), {})())
            case.patch(patch, fault)
            ran = cli("run", "--engine", "local", "--format", "csv", "-q", sql)
        if fault.came:
            read, told = numbers(ran.out or "a\n"), (error(), number, ran)
            rejected = ran.err.count("1 tuple rejected")
            assert "internal error" not in ran.err, told
            assert read == [n for n in range(20) if n in read], told
            if ran.code == 0:
                assert len(read) + rejected == 20, told
            else:
                assert str(tmp_path) in ran.err, told
        return fault

    assert list(calls(run, 6))


HTTP = {
    "a request": "http.client.HTTPConnection.request",
    "an answer": "http.client.HTTPConnection.getresponse",
    "a body": "http.client.HTTPResponse.read1",
    "urllib": "urllib.request.OpenerDirector.open",
    "a name": "socket.getaddrinfo",
}


@contextmanager
def serving() -> Iterator[str]:
    def answer(number: int, byte: int | None) -> bytes:
        begin, size = byte or 0, len(DOCUMENT)
        head = "HTTP/1.1 200 OK" if byte is None else "HTTP/1.1 206 Partial Content"
        part = "" if byte is None else f"Content-Range: bytes {begin}-{size - 1}/{size}\r\n"
        lines = f'{head}\r\nETag: "1"\r\n{part}Content-Length: {size - begin}\r\n\r\n'
        return lines.encode() + DOCUMENT[begin:]

    with answering(answer) as (url, _):
        yield url


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("name", HTTP)
def test_a_call_over_http_fails(name: str, error: Callable[[], Exception], cli: Cli) -> None:
    """A connection that fails is made again. Nothing else is."""
    with serving() as url:

        def run(number: int) -> Fault:
            fault = Fault(error, number)
            with pytest.MonkeyPatch.context() as patch:
                method(HTTP[name], "result" if name == "a body" else "nothing")(patch, fault)
                ran = cli("parse", url, "--element", "t", "--schema", "a INT", "--format", "csv")
            if fault.came:
                judge(ran.code, ran.out or "a\n", ran.err, fault, url)
                # What is looked at first, for whether it is an archive, is asked for again.
                assert ran.code == 0 or not isinstance(error(), OSError)
            return fault

        assert list(calls(run, MOST))


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("name", ["read", "seek"])
def test_a_file_of_somebody_fails(name: str, error: Callable[[], Exception]) -> None:
    """A file object that Python gives; so does a connector's, or fsspec's."""

    def run(number: int) -> Fault:
        fault, rows = Fault(error, number), []
        with pytest.MonkeyPatch.context() as patch:
            file = io.BytesIO(DOCUMENT)
            watched = type("File", (io.BytesIO,), {"name": "theirs"})(DOCUMENT)
            patch.setattr(type(watched), name, fault.watch(getattr(file, name)), raising=False)
            patch.setattr(type(watched), "tell", file.tell, raising=False)
            patch.setattr(type(watched), "read1", None, raising=False)
            failed = None
            try:
                for row in parse(watched, Schema.parse("a INT"), element="t"):
                    rows.append(row)
            except XmlPunctError as failure:
                failed = failure
        if fault.came:
            assert failed is not None
            assert "theirs" in str(failed)
        assert rows == [(n,) for n in range(len(rows))]
        return fault

    assert list(calls(run, MOST))


@pytest.mark.parametrize("error", ERRORS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("call", ["tokenize", "parse"])
def test_sqlglot_fails(call: str, error: Callable[[], Exception]) -> None:
    sql = "CREATE STREAM s (a INT) WITH (element = 't');\nSELECT a FROM s WHERE a > 5"
    path = {
        "tokenize": "sqlglot.dialects.dialect.Dialect.tokenize",
        "parse": "sqlglot.parser.Parser._parse_where",
    }

    def run(number: int) -> Fault:
        fault = Fault(error, number)
        with pytest.MonkeyPatch.context() as patch:
            method(path[call], "nothing")(patch, fault)
            failed = None
            try:
                query(sql, s=SMALL)
            except SqlError as failure:
                failed = failure
            if failed is not None:
                assert "^" in str(failed)  # the place, underlined
            else:
                assert not fault.came or call == "tokenize"  # by parameters, which leave it to the parser
        return fault

    assert list(calls(run, 3))
