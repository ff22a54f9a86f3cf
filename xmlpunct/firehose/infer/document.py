"""Infers the repeated element of a document, and its columns, from a sample."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain

from lxml import etree

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source, Texts
from xmlpunct.firehose.infer.columns import Inferred, MisfitText
from xmlpunct.firehose.infer.replayed import rereadable
from xmlpunct.firehose.infer.sampled_values import SampledValues, SampleTarget, type_of_texts
from xmlpunct.firehose.infer.tuple_candidates import TupleCandidates
from xmlpunct.firehose.libxml.malformed import SplitPositions, feed_pieces, new_parser
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.spec import StreamSpec, name_parts
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

SAMPLE_BYTES = 2**20
MOST_SAMPLE_BYTES = 2**26
"""Maximum size of a sample, which is held in memory."""
_LIVE_SECONDS = 1.0
"""How long to wait for a full sample of a source that is still being sent."""
_STEP = 2**16


@dataclass(frozen=True)
class Sample:
    """The beginning of a source: for each part its name, its bytes in pieces, and whether these are the whole part.

    is_whole: it is the whole source. texts: the columns in the names of all parts. size: its number of bytes.
    fault: the error that ended the sample, which reading the source will meet again.
    """

    source: str
    parts: tuple[tuple[str, Iterable[bytes], bool], ...]
    is_whole: bool = False
    texts: tuple[Texts, ...] = ()
    size: int = 0
    fault: SourceError | None = None

    def splits(self) -> Iterator[tuple[Split, SourceError | None]]:
        """Its splits, each within one document; the last has an error if it is not well formed."""
        probe = StreamSpec("", Schema.of([Attribute("any", STRING, path="@any")]), "{urn:none}none")
        parser = Parser([probe])
        for name, pieces, is_whole in self.parts:
            splitter = Splitter(name, ())
            for piece in chain(pieces, (b"",)):
                if piece:
                    splitter.feed(piece)
                elif is_whole:
                    splitter.end()
                while (split := splitter.cut(_STEP)) is not None:
                    error = parser.parse(split).error
                    yield split, error
                    if error is not None:
                        return


def take_sample(
    source: Source, size: int = SAMPLE_BYTES, element: str | None = None
) -> tuple[Sample, Source]:
    """About the first ``size`` bytes of a source, and a source that reads everything from the beginning.

    If the sample does not contain ``element``, it is extended until this element comes, and by ``size`` more bytes.
    For a source that is still being sent, the sample may be smaller, if it does not arrive within a second.
    Raises `SourceError`.
    """
    source, replays = rereadable(source)
    parts: list[tuple[str, list[bytes], bool]] = []
    fault: SourceError | None = None
    began, left, beyond = time.monotonic(), size, 0 if element is None else MOST_SAMPLE_BYTES - size
    name = "" if element is None else name_parts(StreamSpec("", Schema.of([]), element).tag)[1]
    start_tag = re.compile(rb"[<:]" + re.escape(name.encode()) + rb"[\s/>]")
    for part, (_, stored) in enumerate(source.parts):
        data, is_whole = bytearray(), False
        with source.open(part) as reader:
            while left > 0 and not is_whole:
                try:
                    piece = reader.read(min(_STEP, left))
                except SourceError as error:
                    fault = error
                    break
                data += piece
                left -= len(piece)
                is_whole = not piece
                if beyond > 0 and start_tag.search(data, max(0, len(data) - len(piece) - len(name) * 4)):
                    left, beyond = left if left > 0 else size, 0
                elif beyond > 0 and left <= 0:
                    left = min(_STEP, beyond)
                    beyond -= left
                if stored is None and time.monotonic() - began > _LIVE_SECONDS:
                    sample = Sample(source.name, (*parts, (reader.name, [bytes(data)], is_whole)))
                    if _has_tuples(sample):
                        left = 0
            parts.append((reader.name, [bytes(data)], is_whole))
        if left <= 0 or fault is not None:
            break
    for replay in replays:
        replay.remembers = False
    is_whole = len(parts) == len(source.parts) and all(is_whole for _, _, is_whole in parts)
    size = sum(len(data) for _, (data,), _ in parts)
    return Sample(source.name, tuple(parts), is_whole, source.texts, size, fault), source


def whole_source(source: Source) -> Sample:
    """A sample that is all of a source; each iteration reads it anew. Raises `UsageError` if it is no file."""
    if source.once or source.size is None:
        raise UsageError(
            f"{source.name} can be read only once: a sample of all of it needs a file; write a size, such as 8MiB"
        )
    parts = tuple((name, _Pieces(source, part), True) for part, (name, _) in enumerate(source.parts))
    return Sample(source.name, parts, True, source.texts, source.size)


@dataclass(frozen=True)
class _Pieces:
    """The bytes of a part of a source."""

    source: Source
    part: int

    def __iter__(self) -> Iterator[bytes]:
        with self.source.open(self.part) as reader:
            while piece := reader.read(_STEP):
                yield piece


def infer(
    sample: Sample,
    element: str | None = None,
    punct_namespace: str = PUNCT_NAMESPACE,
    where: tuple[str, str] | None = None,
    nested: bool = False,
    any_namespace: bool = False,
    fallback: str | None = None,
) -> Inferred:
    """The inferred columns of ``element``, or of the repeated element that holds most of the sample.

    ``fallback``: the local name of the tuples' element if no element repeats.
    ``any_namespace``: a local name stands for the first element with this name, in any namespace but that of
    punctuations.
    ``where`` and ``nested`` determine which elements of that name are tuples: see `StreamSpec`.

    Raises `SourceError` if the sample has no tuples, and `UsageError` for an invalid element name.
    """
    others: tuple[tuple[str, int], ...] = ()
    elements = TupleCandidates(punct_namespace)
    if element is not None:
        names = StreamSpec("", Schema.of([]), element).names  # raises for an invalid name
        if any_namespace and names == (name_parts(element)[1],):
            _feed(sample, elements)
            element = elements.first.get(element, element)
            others = elements.others(element)
    else:
        error = _feed(sample, elements)
        element = elements.tuple_element() or elements.first.get(fallback or "")
        if element is None:
            raise (
                error
                or sample.fault
                or SourceError(
                    sample.source,
                    f"no element with attributes or children repeats in the first {sample.size:,} bytes: name the "
                    "tuples' element",
                )
            )
        others = elements.others(element)
    values = SampledValues(element, punct_namespace, sample.source, where, nested)
    error = _feed(sample, values)
    if not values.tuples:
        elements = TupleCandidates(punct_namespace)
        _feed(sample, elements)
        hint = did_you_mean(element, elements.local_names())
        raise (
            error
            or sample.fault
            or SourceError(sample.source, f"no <{element}> ends in the first {sample.size:,} bytes{hint}")
        )
    inferred = values.inferred()
    schema, misfits = _with_labels(inferred.schema, sample.texts), _with_lines(inferred.misfits, sample)
    return replace(inferred, tuples=values.tuples, error=error, schema=schema, others=others, misfits=misfits)


def _with_lines(misfits: tuple[MisfitText, ...], sample: Sample) -> tuple[MisfitText, ...]:
    """Misfits with the lines of their elements, and their files, if the source is a directory or pattern."""
    places: dict[int, tuple[int, str | None]] = {}
    before, last = 0, max((text.number for text in misfits), default=0)
    for split, _ in sample.splits() if misfits else ():
        positions = SplitPositions(split)
        for number in {text.number for text in misfits if before < text.number <= before + positions.count}:
            line = positions.line(positions.offset(number - before))
            places[number] = line, None if split.source == sample.source else split.source
        before += positions.count
        if before >= last:
            break
    return tuple(
        replace(text, line=places[text.number][0], file=places[text.number][1])
        for text in misfits
        if text.number in places
    )


def first_names(sample: Sample, punct_namespace: str) -> dict[str, str]:
    """By local name, the expanded name of the first element that is no punctuation."""
    elements = TupleCandidates(punct_namespace)
    _feed(sample, elements)
    return elements.first


def _with_labels(schema: Schema, texts: tuple[Texts, ...]) -> Schema:
    """A schema with the columns in file names; one that tuples have too becomes not nullable."""
    by_name = {a.name: a for a in schema}
    for name in {name: None for pairs in texts for name, _ in pairs}:
        texts_of_column = [text for pairs in texts for column, text in pairs if column == name]
        attribute = by_name.get(name, Attribute(name, type_of_texts(texts_of_column)))
        try:
            for text in texts_of_column:
                attribute.type.read(text)
        except ValueError:
            attribute = replace(attribute, type=STRING)
        by_name[name] = replace(attribute, nullable=False)
    return Schema.of(by_name.values())


def _has_tuples(sample: Sample) -> bool:
    try:
        infer(sample)
    except SourceError:
        return False
    return True


def _feed(sample: Sample, target: SampleTarget) -> SourceError | None:
    """Feed all documents of a sample to a target, up to the first error, which is returned."""
    with ExitStack() as opened:
        parser: etree.XMLParser | None = None
        for split, error in sample.splits():
            prepared, declarations = split.ready, b""
            if parser is None or not split.start.open:
                opened.close()
                target.reset()
                doctype = prepared.doctype
                parser = opened.enter_context(new_parser(target, doctype.has_defaults))
                declarations = doctype.effective
            with (
                guarded(sample.source, passing=(etree.XMLSyntaxError,)),
                suppress(etree.XMLSyntaxError),  # it is ``error``; the target has received the data before it
            ):
                for piece in feed_pieces(declarations + prepared.data[: prepared.refused]):
                    parser.feed(piece)
            if error is not None:
                return error
    return None
