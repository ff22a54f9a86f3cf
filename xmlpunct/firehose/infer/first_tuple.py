"""Infers a stream's columns from its first tuple, if they are not declared."""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

from xmlpunct.base.errors import SourceError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import Source
from xmlpunct.firehose.libxml.malformed import events
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.spec import StreamSpec, elements_of, name_parts
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

_STEP = 2**16
MOST_BYTES = 2**26
"""Maximum number of bytes to buffer, in search of a tuple, from a source that can be read only once."""


def sniff(source: Source, element: str, punct_namespace: str = PUNCT_NAMESPACE) -> tuple[Schema, Source]:
    """The children of the first tuple as STRING attributes, and a source that reads everything from the beginning.

    Columns from file names are attributes too. The returned source replays the buffered data if the original can be
    read only once. Raises `SourceError` if there is no tuple.

    >>> schema, _ = sniff(Source.of(b"<s><t><sid>1</sid><hour>5</hour></t></s>"), "t")
    >>> schema.names
    ('sid', 'hour')
    """
    source, replays = rereadable(source)
    # Its attribute rejects no tuple: only the existence of a tuple matters here.
    probe = StreamSpec("", Schema.of([Attribute("any", STRING, path="@any")]), element)
    parser = Parser([probe], punct_namespace)
    for part in range(len(source.parts)):
        with source.open(part) as reader:
            splitter = Splitter(reader.name, elements_of([probe], punct_namespace))
            while not splitter.finished:
                data = reader.read(_STEP)
                if data:
                    splitter.feed(data)
                else:
                    splitter.end()
                if replays and reader.consumed > MOST_BYTES:
                    where = f"among the first {MOST_BYTES:,} bytes"
                    raise SourceError(source.name, f"no <{element}> element {where}: declare the columns")
                while (split := splitter.cut(_STEP)) is not None:
                    parsed = parser.parse(split)
                    if parsed.slices[0].tuples.height:
                        for replay in replays:
                            replay.remembers = False
                        named = [name for name, _ in source.texts[part]] if source.texts else []
                        return _children(split, element, named), source
                    if parsed.error:
                        raise parsed.error
    raise SourceError(source.name, f"no <{element}> element to infer the columns from: declare them")


def _children(split: Split, element: str, named: list[str]) -> Schema:
    """The schema of the first tuple in a split, followed by the columns ``named`` in file names."""
    *around, tag = read_element(element)
    tags: list[str] = []
    for _, node in events(split, ("end",)):
        if node.tag != tag:
            continue
        if [parent.tag for _, parent in zip(around, node.iterancestors(), strict=False)] != around[::-1]:
            continue
        tags = [child.tag for child in node if isinstance(child.tag, str)]
        break
    space = name_parts(tag)[0]
    names = [name_parts(tag)[1] for tag in tags if name_parts(tag)[0] in ("", space)]
    return Schema.of(Attribute(name, STRING) for name in dict.fromkeys([*names, *named]))


def rereadable(source: Source) -> tuple[Source, list[_Replay]]:
    """The same source; parts that can perhaps be read only once are buffered while they are read, and replayed once.

    After the replay, opening a part opens the original source.
    """
    if all(size is not None for _, size in source.parts):
        return source, []
    files = [_Replay(source, part) for part in range(len(source.parts))]

    def open_again(part: int) -> tuple[BinaryIO, bool]:
        replay = files[part]
        if replay.is_replayed:
            return source.opener(part)
        replay.at, replay.is_replayed = 0, not replay.remembers
        return replay, replay.is_replayed  # type: ignore[return-value]

    return replace(source, opener=open_again), files


class _Replay:
    """A file that buffers its data while ``remembers`` is true, and replays them after ``at`` is reset.

    is_replayed: it was opened for the replay.
    """

    def __init__(self, source: Source, part: int) -> None:
        self.source, self.part, self.at = source, part, 0
        self.buffer, self.remembers, self.is_replayed = bytearray(), True, False
        self.file: BinaryIO | None = None
        self.owned = False

    def read1(self, size: int) -> bytes:
        if self.file is None:
            self.file, self.owned = self.source.opener(self.part)
        if self.at < len(self.buffer):
            data = bytes(self.buffer[self.at : self.at + size])
        else:
            data = (getattr(self.file, "read1", None) or self.file.read)(size) or b""
            if self.remembers:
                self.buffer += data
            else:
                self.buffer.clear()
        self.at += len(data)
        return data

    def stop(self) -> None:
        """Interrupt a waiting read, if the file supports it."""
        stop = getattr(self.file, "stop", None)
        if stop is not None:
            stop()

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int) -> int:
        raise OSError("it can be read only once")

    def close(self) -> None:
        if self.file is not None and self.owned:
            self.file.close()

    def __del__(self) -> None:
        self.close()
