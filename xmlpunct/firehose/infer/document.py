"""What a document holds, from a sample of it: the repeated element, and its columns."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from lxml import etree

from xmlpunct.base.errors import SourceError
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import Source
from xmlpunct.connectors.source import Texts
from xmlpunct.firehose.infer.columns import Inferred
from xmlpunct.firehose.infer.first_tuple import rereadable
from xmlpunct.firehose.infer.sampled_values import Places, Target, type_of_texts
from xmlpunct.firehose.libxml.malformed import new_parser, pieces
from xmlpunct.firehose.libxml.prologue import ready
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

SAMPLE_BYTES = 2**20
MOST_SAMPLE_BYTES = 2**26
"""The largest sample, which is held in memory."""
_LIVE_SECONDS = 1.0
"""How long to wait for a whole sample of what is still being sent."""
_FULL = 10
"""An element is a container if it holds so many tuples for each column of its own."""
_STEP = 2**16


@dataclass(frozen=True)
class Sample:
    """The beginning of a source: of each part that is in it the name, the bytes, and whether those are all.

    ``is_whole`` says whether it is the whole source. ``texts`` are what the names of all its parts carry.
    """

    source: str
    parts: tuple[tuple[str, bytes, bool], ...]
    is_whole: bool = False
    texts: tuple[Texts, ...] = ()

    @property
    def size(self) -> int:
        """Its bytes, as UTF-8 and unpacked."""
        return sum(len(data) for _, data, _ in self.parts)

    def splits(self) -> Iterator[tuple[Split, SourceError | None]]:
        """It, in pieces of one document each; the last with what is wrong in it, if it is not well formed."""
        probe = StreamSpec("", Schema.of([Attribute("any", STRING, path="@any")]), "{urn:none}none")
        parser = Parser([probe])
        for name, data, is_whole in self.parts:
            splitter = Splitter(name, ())
            splitter.feed(data)
            if is_whole:
                splitter.end()
            while (split := splitter.cut(_STEP)) is not None:
                error = parser.parse(split).error
                yield split, error
                if error is not None:
                    return


def take_sample(source: Source, size: int = SAMPLE_BYTES) -> tuple[Sample, Source]:
    """About the first ``size`` bytes of a source, and the source to be read from its beginning.

    Of what is still being sent less is enough, if it does not come within a second. Raises `SourceError`.
    """
    source, replays = rereadable(source)
    parts: list[tuple[str, bytes, bool]] = []
    began, left = time.monotonic(), size
    for part, (_, stored) in enumerate(source.parts):
        data, is_whole = bytearray(), False
        with source.open(part) as reader:
            while left > 0 and not is_whole:
                piece = reader.read(min(_STEP, left))
                data += piece
                left -= len(piece)
                is_whole = not piece
                if stored is None and time.monotonic() - began > _LIVE_SECONDS:
                    sample = Sample(source.name, (*parts, (reader.name, bytes(data), is_whole)))
                    if _has_tuples(sample):
                        left = 0
            parts.append((reader.name, bytes(data), is_whole))
        if left <= 0:
            break
    for replay in replays:
        replay.remembers = False
    is_whole = len(parts) == len(source.parts) and all(is_whole for _, _, is_whole in parts)
    return Sample(source.name, tuple(parts), is_whole, source.texts), source


def infer(
    sample: Sample,
    element: str | None = None,
    punct_namespace: str = PUNCT_NAMESPACE,
    where: tuple[str, str] | None = None,
    nested: bool = False,
) -> Inferred:
    """What a sample holds: the tuples of ``element``, or of the element that repeats most.

    ``where`` and ``nested`` say which elements of that name are tuples: see `StreamSpec`.

    Raises `SourceError` where that cannot be said, and `UsageError` for an element that XML cannot have.
    """
    if element is not None:
        StreamSpec("", Schema.of([]), element)  # which says what is wrong with its name
    else:
        elements = _Elements(punct_namespace)
        error = _feed(sample, elements)
        element = elements.chosen()
        if element is None:
            raise error or SourceError(
                sample.source,
                f"no element with attributes or children repeats in the first {sample.size:,} bytes: name the "
                "tuples' element",
            )
    places = Places(element, punct_namespace, sample.source, where, nested)
    error = _feed(sample, places)
    if not places.tuples:
        raise error or SourceError(sample.source, f"no <{element}> ends in the first {sample.size:,} bytes")
    inferred = places.inferred()
    return replace(inferred, error=error, schema=_with_labels(inferred.schema, sample.texts))


def _with_labels(schema: Schema, texts: tuple[Texts, ...]) -> Schema:
    """A schema with the columns that the names of files carry, whether tuples have them too or not."""
    known = {a.name: a for a in schema}
    for name in {name: None for of_part in texts for name, _ in of_part}:
        told = [text for of_part in texts for column, text in of_part if column == name]
        found = known.get(name, Attribute(name, type_of_texts(told)))
        try:
            for text in told:
                found.type.read(text)
        except ValueError:
            found = replace(found, type=STRING)
        known[name] = replace(found, nullable=False)
    return Schema.of(known.values())


def _has_tuples(sample: Sample) -> bool:
    try:
        infer(sample)
    except SourceError:
        return False
    return True


def _feed(sample: Sample, target: Target) -> SourceError | None:
    """Show a target all documents of a sample, as far as they go and are well formed; what is wrong there."""
    with ExitStack() as opened:
        parser: etree.XMLParser | None = None
        for split, error in sample.splits():
            if parser is None or not split.start.open:
                opened.close()
                target.reset()
                parser = opened.enter_context(new_parser(target))
            shown = ready(split)
            with (
                guarded(sample.source, passing=(etree.XMLSyntaxError,)),
                suppress(etree.XMLSyntaxError),  # which is ``error``, and what comes before it was shown
            ):
                for piece in pieces(shown.data[: shown.refused]):
                    parser.feed(piece)
            if error is not None:
                return error
    return None


class _Elements(Target):
    """Which elements there are, and how often in which others."""

    def __init__(self, punct_namespace: str) -> None:
        super().__init__(punct_namespace)
        self._open: list[tuple[str, Counter[str]]] = []  # each with how many of which it holds so far
        self._total: Counter[str] = Counter()
        self._attributes: defaultdict[str, set[str]] = defaultdict(set)
        self._above: defaultdict[str, set[str]] = defaultdict(set)
        self._most: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of which in one of the first
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of which in all of the first

    def reset(self) -> None:
        super().reset()
        self._open.clear()

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        if self.is_punctuation(name):
            return False
        self._total[name] += 1
        self._attributes[name].update(attributes)
        if self._open:
            parent, held = self._open[-1]
            held[name] += 1
            self._most[parent][name] = max(self._most[parent][name], held[name])
            self._held[parent][name] += 1
            self._above[name].update(above for above, _ in self._open if above != name)
        self._open.append((name, Counter()))
        return True

    def finish(self, name: str) -> None:
        self._open.pop()

    def chosen(self) -> str | None:
        """The most frequent of the outermost elements that repeat and are more than containers."""
        repeated = {name for held in self._most.values() for name, most in held.items() if most > 1}
        repeated = {name for name in repeated if name in self._held or self._attributes[name]}
        repeated -= {name for name in repeated if self._is_container(name, repeated)}
        outermost = [name for name in self._total if name in repeated and not self._above[name] & repeated]
        return max(outermost, key=self._total.__getitem__, default=None)

    def _is_container(self, name: str, repeated: set[str]) -> bool:
        held = sum(n for child, n in self._held[name].items() if child in repeated)
        own = len(self._attributes[name]) + sum(most == 1 for most in self._most[name].values())
        return held > 0 and held >= _FULL * own * self._total[name]
