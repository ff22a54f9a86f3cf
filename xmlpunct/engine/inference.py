"""Inference of undeclared columns from the beginning of a source: see `xmlpunct.firehose.infer.document`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import FOLLOW, open_source
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan import Opened
from xmlpunct.firehose.infer.columns import Inferred
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import parse_type

if TYPE_CHECKING:
    from xmlpunct.firehose.infer.document import Sample

InferredStream = list[Any]
"""The inferred element and columns of a stream, for JSON: [element, [name, type, nullable, path], ...].

The type of an array is a list of its columns.
"""


class Inference:
    """Infers columns while a query is planned, with one sample per source.

    ``recorded`` has the results of an earlier run by stream; these are reused. ``sources`` maps streams to sources. A
    source that can be read only once is replaced by one that replays the sample. If the query names such a source, its
    replacement is in ``opened``, for the run. ``records`` has the results by stream.
    """

    def __init__(
        self,
        punct_namespace: str = PUNCT_NAMESPACE,
        recorded: Mapping[str, InferredStream] | None = None,
        sources: Mapping[str, Source] | None = None,
    ) -> None:
        self.punct_namespace = punct_namespace
        self.sources = dict(sources or {})
        self.opened = Opened()
        self.records: dict[str, InferredStream] = {}
        self._recorded = recorded or {}
        self._samples: dict[str, Sample] = {}

    def __call__(
        self,
        stream: str,
        source: str,
        element: str | None,
        xsd: str | None = None,
        where: tuple[str, str] | None = None,
        nested: bool = False,
    ) -> Inferred:
        """The element and the columns of a stream. With ``xsd`` the columns come from that XML schema.

        ``where`` and ``nested`` select the elements that are tuples. Raises `SourceError`, and `UsageError` if the
        columns cannot be inferred.
        """
        recorded = self._recorded.get(stream)
        if recorded is not None:
            inferred = Inferred(recorded[0], _from_record(recorded[1:]))
        else:
            if xsd is None or element is None:
                from xmlpunct.firehose.infer.document import infer

                sample = self._sample(stream, source)
                inferred = infer(sample, element, self.punct_namespace, where, nested)
                element = inferred.element
            if xsd is not None:
                inferred = replace(XsdFile(xsd).infer(read_element(element)[-1]), element=element)
        self.records[stream] = [inferred.element, *_to_record(inferred.schema)]
        return inferred

    def _sample(self, stream: str, spec: str) -> Sample:
        from xmlpunct.firehose.infer.document import take_sample

        if stream in self.sources:
            sample, self.sources[stream] = take_sample(self.sources[stream])
        elif spec in self._samples:
            sample = self._samples[spec]
        else:
            # For a growing file the present content is the sample; waiting for more could take forever.
            source = open_source(spec.removeprefix(FOLLOW))
            if source.senders:
                raise UsageError(f"{spec} has several senders: declare the columns; they cannot be inferred")
            sample, replacement = take_sample(source)
            self._samples[spec] = sample
            if replacement is not source:
                self.opened[spec] = replacement
        return sample


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
