"""Faults at the calls of libraries that read foreign bytes: one call, of a chosen number, raises a chosen exception."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: OSError(5, "Input/output error"),
    lambda: ValueError("no such value"),
    lambda: RecursionError("maximum recursion depth exceeded"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    lambda: MemoryError(),
)


class Fault:
    """An exception that the call of that number raises, once; the calls are those of all functions that it watches.

    ``before`` is what the calls before it have given, or taken: tuples that are complete in it must not be lost.
    """

    def __init__(self, error: Callable[[], Exception], number: int) -> None:
        self.error, self.left, self.came = error, number, False
        self.before = b""

    def watch(self, function: Callable[..., Any], counts: str = "result") -> Callable[..., Any]:
        """The function, with the fault in it. What it gives counts, or its first ``argument``, or ``nothing``."""

        def call(*arguments: Any, **options: Any) -> Any:
            if not self.left and not self.came:
                self.came = True
                raise self.error()
            self.left -= not self.came
            given = function(*arguments, **options)
            if not self.came:
                counted = (
                    given
                    if counts == "result"
                    else arguments[0]
                    if counts == "argument" and arguments
                    else b""
                )
                self.before += counted.encode() if isinstance(counted, str) else counted or b""
            return given

        return call


class Watched:
    """An object, some of whose methods a fault watches."""

    def __init__(self, real: Any, methods: dict[str, Callable[..., Any]]) -> None:
        self.__dict__.update(methods)
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


Patch = Callable[[pytest.MonkeyPatch, Fault], None]
"""Puts a fault at the calls of a library."""


def method(path: str, counts: str = "result") -> Patch:
    """A method of a class of Python's, or a function of a module."""

    def put(patch: pytest.MonkeyPatch, fault: Fault) -> None:
        from importlib import import_module

        home, _, name = path.rpartition(".")
        try:
            owner: Any = import_module(home)
        except ModuleNotFoundError:
            module, _, class_ = home.rpartition(".")
            owner = getattr(import_module(module), class_)
        real = vars(owner)[name]
        if isinstance(real, classmethod):
            watched = fault.watch(real.__func__, counts)
            patch.setattr(owner, name, classmethod(lambda *args: watched(*args)))
        else:
            watched = fault.watch(real, counts)
            patch.setattr(owner, name, lambda *args, **options: watched(*args, **options))

    return put


def engine(kind: str) -> Patch:
    """The decompressor of a kind."""
    real = {
        "gzip": lambda: zlib.decompressobj(31),
        "bzip2": bz2.BZ2Decompressor,
        "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    }[kind]

    def put(patch: pytest.MonkeyPatch, fault: Fault) -> None:
        from xmlpunct.firehose import packed

        def made() -> Any:
            found = real()
            methods = {"decompress": fault.watch(found.decompress)}
            return Watched(found, methods)

        class Inflate(packed.Inflate):
            def __init__(self, bits: int = 31) -> None:
                self._engine = made()

            def copy(self) -> Any:
                twin = Inflate.__new__(Inflate)
                twin._engine = self._engine.real.copy()
                return twin

        patch.setattr(packed, "Inflate", Inflate)
        formats = [
            replace(f, engine=Inflate if kind == "gzip" else made) if f.name == kind else f
            for f in packed.FORMATS
        ]
        patch.setattr(packed, "FORMATS", tuple(formats))

    return put


def arrow(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """pyarrow, which unpacks zstd."""
    import pyarrow as pa

    real = pa.CompressedInputStream

    def made(*arguments: Any) -> Any:
        found = real(*arguments)
        return Watched(found, {"read": fault.watch(lambda size: bytes(found.read(size)))})

    patch.setattr(pa, "CompressedInputStream", made)


def codec(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Python's codecs."""
    from xmlpunct.firehose import part_reader

    real = part_reader.codecs

    def lookup(name: str) -> Any:
        found = real.lookup(name)

        def decoder(errors: str) -> Any:
            made = found.incrementaldecoder(errors)  # type: ignore[misc]
            return Watched(made, {"decode": fault.watch(made.decode)})

        return Watched(found, {"incrementaldecoder": decoder})

    patch.setattr(part_reader, "codecs", Watched(real, {"lookup": fault.watch(lookup, "nothing")}))


def lxml(module: str) -> Patch:
    """The parsers of lxml, as one of our modules calls them."""

    def put(patch: pytest.MonkeyPatch, fault: Fault) -> None:
        from importlib import import_module

        ours = import_module(f"xmlpunct.firehose.{module}")
        real = ours.etree

        def feeding(make: Callable[..., Any]) -> Callable[..., Any]:
            def made(*arguments: Any, **options: Any) -> Any:
                found = make(*arguments, **options)
                return Watched(found, {"feed": fault.watch(found.feed, "argument")})

            return made

        def validator(*arguments: Any) -> Any:
            found = real.XMLSchema(*arguments)
            return Watched(found, {"validate": fault.watch(found.validate, "nothing")})

        methods = {
            "XMLParser": feeding(real.XMLParser) if module == "faults" else real.XMLParser,
            "XMLPullParser": feeding(real.XMLPullParser),
            "XMLSchema": fault.watch(validator, "nothing"),
            "parse": fault.watch(real.parse, "nothing"),
            "fromstring": fault.watch(real.fromstring, "nothing"),
        }
        patch.setattr(ours, "etree", Watched(real, methods))

    return put


def expat(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """libexpat, which finds the place of what is malformed."""
    from xmlpunct.firehose import faults

    real = faults.expat

    def made(*arguments: Any) -> Any:
        found = real.ParserCreate(*arguments)
        return Watched(found, {"Parse": fault.watch(found.Parse, "nothing")})

    patch.setattr(faults, "expat", Watched(real, {"ParserCreate": fault.watch(made, "nothing")}))


def calls(run: Callable[[int], Fault], most: int) -> Iterator[tuple[int, Fault]]:
    """Run with the fault at the first call, the second, and so on, until no call is left or ``most`` had it."""
    for number in range(most):
        fault = run(number)
        if not fault.came:
            return
        yield number, fault
