"""Columns that nobody declared, from the beginning of a source: see `xmlpunct.firehose.infer.document`."""

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

Record = list[Any]
"""What was inferred of one stream, as JSON holds it: the element, and of each column name, type, nullable, path.

The type of an array is a list of its columns.
"""


class Inference:
    """Infers while a query is planned, each source from one sample.

    ``recorded`` is what an earlier run inferred, by stream: that stays so. ``given`` are the sources of some streams;
    one that can be read once only is replaced by one that gives its beginning again. Other such sources are
    ``opened``, for the run to take. ``records`` has what was inferred.
    """

    def __init__(
        self,
        punct_namespace: str = PUNCT_NAMESPACE,
        recorded: Mapping[str, Record] | None = None,
        given: Mapping[str, Source] | None = None,
    ) -> None:
        self.punct_namespace = punct_namespace
        self.given = dict(given or {})
        self.opened = Opened()
        self.records: dict[str, Record] = {}
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
        """The element and the columns of a stream; the columns are those of a schema, if there is one.

        ``where`` and ``nested`` say which elements are tuples. Raises `SourceError`, and `UsageError` where the
        columns cannot be known.
        """
        recorded = self._recorded.get(stream)
        if recorded is not None:
            inferred = Inferred(recorded[0], _schema(recorded[1:]))
        else:
            if xsd is None or element is None:
                from xmlpunct.firehose.infer.document import infer

                sample = self._sample(stream, source)
                inferred = infer(sample, element, self.punct_namespace, where, nested)
                element = inferred.element
            if xsd is not None:
                inferred = replace(XsdFile(xsd).infer(read_element(element)[-1]), element=element)
        self.records[stream] = [inferred.element, *_listed(inferred.schema)]
        return inferred

    def _sample(self, stream: str, spec: str) -> Sample:
        from xmlpunct.firehose.infer.document import take_sample

        if stream in self.given:
            sample, self.given[stream] = take_sample(self.given[stream])
        elif spec in self._samples:
            sample = self._samples[spec]
        else:
            # Of a file that grows, what is there is enough; to wait for more could take for ever.
            source = open_source(spec.removeprefix(FOLLOW))
            if source.senders:
                raise UsageError(
                    f"{spec} has several senders: declare the columns, for they are not inferred"
                )
            sample, again = take_sample(source)
            self._samples[spec] = sample
            if again is not source:
                self.opened[spec] = again
        return sample


def _listed(attributes: Iterable[Attribute]) -> Iterable[Record]:
    for a in attributes:
        type_ = [*_listed(a.type.attributes)] if isinstance(a.type, ArrayType) else str(a.type)
        yield [a.name, type_, a.nullable, a.path]


def _schema(columns: Iterable[Record]) -> Schema:
    return Schema.of(
        Attribute(
            name, array_of(_schema(type_)) if isinstance(type_, list) else parse_type(type_), null, path
        )
        for name, type_, null, path in columns
    )
