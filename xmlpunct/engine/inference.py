"""Inference of undeclared columns from the beginning of a source: see `xmlpunct.firehose.infer.document`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xmlpunct.base.errors import SqlError, UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.contract import FOLLOW, WATCH, halves, open_source
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Opened
from xmlpunct.engine.run.run_options import parse_size
from xmlpunct.firehose.infer.columns import Inferred, MisfitText
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import parse_type

if TYPE_CHECKING:
    from xmlpunct.firehose.infer.document import Sample

WHOLE_SOURCE = "all"
"""The sample that is the whole source."""
InferredStream = list[Any]
"""The inferred element and columns of a stream, for JSON: [element, [name, type, nullable, path], ...].

The type of an array is a list of its columns.
"""


class Inference:
    """Infers columns while a query is planned, with one sample per source.

    ``recorded`` has the results of an earlier run by stream; these are reused. ``sources`` maps streams to sources. A
    source that can be read only once is replaced by one that replays the sample. If the query names such a source, its
    replacement is in ``opened``, for the run. ``records`` has the results by stream. ``declares``: a source for a name
    in FROM declares a stream.
    """

    def __init__(
        self,
        punct_namespace: str = PUNCT_NAMESPACE,
        recorded: Mapping[str, InferredStream] | None = None,
        sources: Mapping[str, Source] | None = None,
        declares: bool = False,
    ) -> None:
        self.declares = declares
        self.punct_namespace = punct_namespace
        self.sources = dict(sources or {})
        self.opened = Opened()
        self.records: dict[str, InferredStream] = {}
        self._misfits: dict[str, MisfitText] = {}
        """By column name, the text that made an inferred column STRING."""
        self._recorded = recorded or {}
        self._samples: dict[tuple[str, str | None, str | None], Sample] = {}

    def __call__(
        self,
        stream: str,
        source: str,
        element: str | None,
        xsd: str | None = None,
        where: tuple[str, str] | None = None,
        nested: bool = False,
        sample: str | None = None,
        any_namespace: bool = False,
        fallback: str | None = None,
    ) -> Inferred:
        """The element and the columns of a stream. With ``xsd`` the columns come from that XML schema.

        ``where`` and ``nested`` select the elements that are tuples. ``sample`` is the size of the sample.
        ``any_namespace``: a local name stands for the first element with this name, in any namespace. ``fallback``: the
        local name of the tuples' element if no element repeats. Raises `SourceError`, and `UsageError` if the columns
        cannot be inferred.
        """
        recorded = self._recorded.get(stream)
        if recorded is not None:
            inferred = Inferred(recorded[0], _from_record(recorded[1:]))
        else:
            if xsd is None or element is None:
                from xmlpunct.firehose.infer.document import infer

                taken = self._sample(stream, source, sample, element)
                inferred = infer(taken, element, self.punct_namespace, where, nested, any_namespace, fallback)
                element = inferred.element
            if xsd is not None:
                inferred = replace(XsdFile(xsd).infer(read_element(element)[-1]), element=element)
        self.records[stream] = [inferred.element, *_to_record(inferred.schema)]
        by_path = {text.path: text for text in inferred.misfits}
        self._misfits |= {a.name: by_path[a.path] for a in inferred.schema if a.path in by_path}
        return inferred

    def explained(self, error: SqlError) -> SqlError:
        """An error about the type STRING, with the texts that made the columns in its excerpt STRING."""
        excerpt = error.sql[error.start : error.end] if error.start is not None else ""
        texts = [
            f"; {text}"
            for name, text in self._misfits.items()
            if "STRING" in error.reason and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", excerpt)
        ]
        return SqlError(f"{error.reason}{''.join(texts)}", error.sql, error.start, error.end)

    def _sample(self, stream: str, spec: str, size: str | None, element: str | None) -> Sample:
        from xmlpunct.firehose.infer.document import take_sample, whole_source

        size_in_bytes = sample_size(size)
        if stream in self.sources and size == WHOLE_SOURCE:
            sample = whole_source(self.sources[stream])
        elif stream in self.sources:
            sample, self.sources[stream] = take_sample(self.sources[stream], size_in_bytes, element)
        elif (spec, size, element) in self._samples:
            sample = self._samples[spec, size, element]
        else:
            # For a growing file the present content is the sample; waiting for more could take forever.
            source = open_source(_present_files(spec))
            if source.senders:
                raise UsageError(f"{spec} has several senders: declare the columns; they cannot be inferred")
            if size == WHOLE_SOURCE:
                sample, replacement = whole_source(source), source
            else:
                sample, replacement = take_sample(source, size_in_bytes, element)
            self._samples[spec, size, element] = sample
            if replacement is not source:
                self.opened[spec] = replacement
        return sample


def _present_files(spec: str) -> str:
    """The source that has the present contents of a growing file or watched folder; another source itself."""
    spec = halves(spec)[0]
    if not spec.startswith(WATCH):
        return spec.removeprefix(FOLLOW)
    from xmlpunct.connectors.watched_folders import WatchedFolder

    return WatchedFolder.parse(spec).path


def sample_size(text: str | None) -> int:
    """The bytes of a sample from an option; 0 for the whole source. Raises `UsageError`."""
    from xmlpunct.firehose.infer.document import MOST_SAMPLE_BYTES, SAMPLE_BYTES

    if text is None:
        return SAMPLE_BYTES
    size = 0 if text == WHOLE_SOURCE else parse_size(text)
    if size > MOST_SAMPLE_BYTES:
        raise UsageError(f"a sample of {text} is too large: it is held in memory, and may have 64MiB at most")
    return size


def _to_record(attributes: Iterable[Attribute]) -> Iterable[InferredStream]:
    for a in attributes:
        type_ = [*_to_record(a.type.attributes)] if isinstance(a.type, ArrayType) else str(a.type)
        yield [a.name, type_, a.nullable, a.path]


def _from_record(columns: Iterable[InferredStream]) -> Schema:
    return Schema.of(
        Attribute(
            name, array_of(_from_record(type_)) if isinstance(type_, list) else parse_type(type_), null, path
        )
        for name, type_, null, path in columns
    )
