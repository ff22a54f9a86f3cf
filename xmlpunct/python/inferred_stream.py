"""The element and the columns of a stream, inferred where they are not declared."""

from __future__ import annotations

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose.spec import StreamSpec, elements_of
from xmlpunct.schema import Schema


def stream_of(
    source: Source,
    schema: Schema | None,
    element: str | None,
    punct_namespace: str = PUNCT_NAMESPACE,
    has_remedy: bool = False,
) -> tuple[StreamSpec, Source]:
    """The stream of a source, and a source that reads everything from the beginning.

    A local name stands for the first element with this name, in any namespace. ``has_remedy``: the first value that
    does not fit an inferred column is an error; without it, its tuple is a reject. Raises `SourceError`, and
    `UsageError` for a wrong name.

    >>> from xmlpunct.engine.sql.planner.declaration import column_list
    >>> spec, _ = stream_of(Source.of(b"<d xmlns='urn:x'><b><n>1</n></b><b><n>2</n></b></d>"), None, "b")
    >>> spec.element, column_list(spec.schema)
    ('{urn:x}b', 'n INT NOT NULL')
    """
    is_inferred = schema is None
    if element is not None:  # raises for a wrong name
        elements_of([StreamSpec("", schema or Schema.of([]), element)], punct_namespace)
    if schema is None or element is None:
        from xmlpunct.firehose.infer.document import infer, take_sample

        sample, source = take_sample(source, element=element)
        inferred = infer(sample, element, punct_namespace, any_namespace=True)
        schema, element = schema or inferred.schema, inferred.element
    else:
        from xmlpunct.python.first_element import first_element

        element, source = first_element(source, element, punct_namespace)
    remedy = _remedy if is_inferred and has_remedy else None
    return StreamSpec(element, schema, element, guessed=is_inferred, remedy=remedy), source


def _remedy(columns: Schema) -> str:
    from xmlpunct.engine.sql.planner.declaration import column_list

    return (
        "this column is inferred from the beginning of the source: declare the columns, with the schema "
        f'"{column_list(columns)}"'
    )
