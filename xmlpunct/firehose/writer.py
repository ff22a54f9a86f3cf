"""Slices to bytes: punctuated XML, JSON lines, CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Protocol

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import FORBIDDEN, in_attribute, in_text
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose.elements import ElementWriter
from xmlpunct.firehose.line_formats import line, lines, punctuation_lines, tuple_lines
from xmlpunct.firehose.result_elements import (
    Namespaces,
    ResultElement,
    check_uri,
    expanded_name,
    is_column_path,
    prefixed,
    result_outline,
)
from xmlpunct.firehose.spec import check_namespace
from xmlpunct.firehose.text_table import TextTableWriter
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice

_FORBIDDEN = re.compile(FORBIDDEN)


class Writer(Protocol):
    """An output format. The output is ``start``, then any number of ``body``, then ``end``."""

    def start(self) -> bytes:
        """The beginning of the output."""

    def body(self, slice_: Slice) -> bytes:
        """The tuples and punctuations of a slice, except ``<*, ..., *>``.

        Punctuations are written at their positions among the tuples if the slice has these, else after the tuples.
        """

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        """The tuples and the punctuations of a slice, each as an independent message.

        Raises `UsageError` for a format without messages.
        """

    def end(self) -> bytes:
        """The end of the output. Without it, the output is incomplete."""

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple the reason why it cannot be written, or null; None if all can be written."""


def writer_for(
    format_: str,
    schema: Schema,
    *,
    root: str = "stream",
    element: str = "result",
    punct_namespace: str = PUNCT_NAMESPACE,
    namespaces: Namespaces | None = None,
    pretty: bool = False,
) -> Writer:
    """The writer of a format: ``xml``, ``jsonl``, ``csv`` or ``table``. Raises `UsageError` for any other.

    >>> writer_for("csv", Schema.parse("sid STRING, hour INT")).start()
    b'sid,hour\\n'
    """
    if format_ == "xml":
        return XmlWriter(schema, root, element, punct_namespace, namespaces, pretty)
    if format_ == "jsonl":
        return JsonlWriter(schema)
    if format_ == "csv":
        array = next((a.name for a in schema if isinstance(a.type, ArrayType)), None)
        if array is not None:
            raise UsageError(
                f"column {array} is an array, which csv cannot contain: write xml or jsonl, or UNNEST it"
            )
        return CsvWriter(schema)
    if format_ == "table":
        return TextTableWriter.for_terminal(schema)
    raise UsageError(f"no format {format_}: there are xml, jsonl, csv and table")


class XmlWriter:
    """Punctuated XML: one element per tuple and punctuation. Nulls, and elements with only nulls, are omitted.

    Names of attributes are paths (see `result_outline`). An array has an element per item. XML values are not escaped.
    ``root`` and ``element`` are names with a prefix of ``namespaces``, with a ``{uri}``, or with neither. ``pretty``
    writes a line per element. Raises `UsageError` for names that XML does not allow.

    >>> from xmlpunct.schema.attribute import Attribute
    >>> from xmlpunct.types import INT
    >>> schema = Schema.of(Attribute(name, INT) for name in ("@id", "time/hour", "time/min"))
    >>> writer = XmlWriter(schema)
    >>> sample = Slice(schema.frame([(7, 17, 30)]), [Punctuation.parse(schema, "<*, 17, *>")])
    >>> print(writer.body(sample).decode(), end="")
    <result id="7"><time><hour>17</hour><min>30</min></time></result>
    <punct:result id="*"><time><hour>17</hour><min>*</min></time></punct:result>
    """

    def __init__(
        self,
        schema: Schema,
        root: str = "stream",
        element: str = "result",
        punct_namespace: str = PUNCT_NAMESPACE,
        namespaces: Namespaces | None = None,
        pretty: bool = False,
    ) -> None:
        all_namespaces: Namespaces = dict(namespaces or {})
        self.root, all_namespaces = prefixed(root, all_namespaces)
        row, self._namespaces = prefixed(element, all_namespaces)
        for uri in (punct_namespace, *self._namespaces.values()):
            check_uri(uri)
        try:
            names = [expanded_name(name, self._namespaces) for name in (self.root, row)]
        except ValueError as error:
            raise UsageError(str(error)) from None
        check_namespace(names, punct_namespace)
        if names[0] == names[1]:
            raise UsageError(
                f"{row} is both the root and the element of a tuple: the document would be read as one tuple"
            )
        if punct_namespace in self._namespaces.values():
            raise UsageError(f"{punct_namespace} is the namespace of punctuations: it cannot have a prefix")
        self.schema, self.element, self.punct_namespace = schema, row, punct_namespace
        uri_of_prefix = {"punct": punct_namespace, **self._namespaces}
        self._declared = "".join(
            f' xmlns:{prefix}="{in_attribute(uri)}"' for prefix, uri in uri_of_prefix.items()
        )
        top = result_outline(row, schema.names, self._namespaces)
        self._elements = ElementWriter(top, schema, self._namespaces, self._declared, pretty)
        self._line = line(self._elements.tuple_expressions(1, self._elements.lead(1)[1:]))
        self._tests = [*self._elements.tests()]
        self._in_attribute = {position for e in top.walk() for _, position in e.attributes}
        self._punctuation = [*self._template(top, f"punct:{row.rpartition(':')[2]}", 1), "\n"]

    def start(self) -> bytes:
        return f"<{self.root}{self._declared}>\n".encode()

    def body(self, slice_: Slice) -> bytes:
        """The bytes of tuples, which must not be `unfit`. Punctuations with forbidden characters are omitted."""
        return lines(slice_, self._line, self)

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        prefixes = "".join(
            f' xmlns:{prefix}="{in_attribute(uri)}"' for prefix, uri in self._namespaces.items()
        )
        punct = f"punct:{self.element.rpartition(':')[2]}"
        return (
            [_with_declarations(text, self.element, prefixes) for text in tuple_lines(slice_, self._line)],
            [_with_declarations(text, punct, self._declared) for text in punctuation_lines(slice_, self)],
        )

    def end(self) -> bytes:
        return f"</{self.root}>\n".encode()

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """See `ElementWriter.tests`."""
        tests = self._tests
        if not tests or not tuples.height:
            return None
        wrong = tuples.select(pl.any_horizontal(test for test, _ in tests).fill_null(False)).to_series()
        if not wrong.any():
            return None
        reason_column = pl.coalesce(pl.when(test).then(pl.lit(reason)) for test, reason in tests)
        return tuples.select(reason_column.alias("reason")).to_series()

    def around(self, position: int) -> tuple[str, str]:
        index = self._punctuation.index(position)
        before, after = self._punctuation[:index], self._punctuation[index + 1 :]
        return _fill(before, {}), _fill(after, {})

    def punctuation(self, p: Punctuation) -> str:
        pattern_texts = {}
        for position in p.constrained:
            escaped = in_attribute if position in self._in_attribute else in_text
            pattern_texts[position] = escaped(str(p.patterns[position]))
        text = _fill(self._punctuation, pattern_texts)
        return "" if _FORBIDDEN.search(text) else text

    def _template(self, element: ResultElement, name: str, depth: int) -> Iterator[str | int]:
        """The template of punctuation elements: constant text, and the positions of columns for their patterns."""
        lead = self._elements.lead(depth)
        yield f"{lead[1:] if depth == 1 else lead}<{name}"
        for attribute, position in element.attributes:
            yield f' {attribute}="'
            yield position
            yield '"'
        yield ">"
        if element.text >= 0:
            yield element.text
        children = [child for child in element.children if any(map(self._has_pattern, child.columns()))]
        for child in children:
            yield from self._template(child, child.name, depth + 1)
        yield f"{lead if children else ''}</{name}>"

    def _has_pattern(self, position: int) -> bool:
        return self.schema.attributes[position].type.comparable


def _with_declarations(text: str, name: str, declarations: str) -> bytes:
    """An element as an independent message, with namespace ``declarations``."""
    return text.rstrip("\n").replace(f"<{name}", f"<{name}{declarations}", 1).encode()


def _fill(pieces: list[str | int], pattern_texts: Mapping[int, str]) -> str:
    """A template with the texts of patterns by position, and ``*`` for all other columns."""
    return "".join(piece if isinstance(piece, str) else pattern_texts.get(piece, "*") for piece in pieces)


def punctuation_xml(p: Punctuation, element: str, punct_namespace: str = PUNCT_NAMESPACE) -> str:
    """A punctuation of a stream as an element that can be sent to it by itself.

    >>> schema = Schema.parse("sid STRING, hour INT")
    >>> print(punctuation_xml(Punctuation.of(schema, hour=17), "tempdata", "urn:p"))
    <punct:tempdata xmlns:punct="urn:p"><sid>*</sid><hour>17</hour></punct:tempdata>
    """
    paths = [_NAMESPACE.sub("", a.path) for a in p.schema]
    inside = [
        i for i, path in enumerate(paths) if is_column_path(path)
    ]  # other columns have no element or attribute
    schema = Schema.of(Attribute(paths[i], p.schema.attributes[i].type) for i in inside)
    name = _NAMESPACE.sub("", read_element(element)[-1])
    writer = XmlWriter(schema, f"{name}s", name, punct_namespace)
    text = writer.punctuation(p.rebase(schema, inside)).strip()
    return text.replace(f"<punct:{name}", f'<punct:{name} xmlns:punct="{in_attribute(punct_namespace)}"', 1)


_NAMESPACE = re.compile(r"\{[^}]*\}|[^/@:{}]+:")
"""Matches the namespace or prefix before a local name."""


class JsonlWriter:
    """A line of JSON per tuple and punctuation; DECIMAL keeps its digits, NaN and INF are strings.

    >>> schema = Schema.parse("sid STRING, hour INT")
    >>> sample = Slice(schema.frame([("S1", None)]), [Punctuation.of(schema, hour=17)])
    >>> print(JsonlWriter(schema).body(sample).decode(), end="")
    {"sid": "S1", "hour": null}
    {"$punct": {"hour": "17"}}
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        parts = [pl.lit("{")]
        for i, attribute in enumerate(schema):
            name = json.dumps(attribute.name, ensure_ascii=False)
            parts += [
                pl.lit(f"{', ' if i else ''}{name}: "),
                attribute.type.json_column(pl.col(attribute.name)).fill_null("null"),
            ]
        self._line = line([*parts, pl.lit("}")])

    def start(self) -> bytes:
        return b""

    def body(self, slice_: Slice) -> bytes:
        return lines(slice_, self._line, self)

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        tuples, punctuations = tuple_lines(slice_, self._line), punctuation_lines(slice_, self)
        return [t[:-1].encode() for t in tuples], [t[:-1].encode() for t in punctuations]

    def around(self, position: int) -> tuple[str, str]:
        name = json.dumps(self.schema.names[position], ensure_ascii=False)
        return f'{{"$punct": {{{name}: "', '"}}\n'

    def punctuation(self, p: Punctuation) -> str:
        return json.dumps({"$punct": p.as_dict()}, ensure_ascii=False) + "\n"

    def end(self) -> bytes:
        return b""

    def unfit(self, tuples: pl.DataFrame) -> None:
        return None


class CsvWriter:
    """Comma-separated values with a header line; tuples only. Null is empty; the empty string is ``""``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def start(self) -> bytes:
        return self._csv(pl.DataFrame(schema=dict.fromkeys(self.schema.names, pl.String())), header=True)

    def body(self, slice_: Slice) -> bytes:
        return self._csv(self.schema.texts(slice_.tuples), header=False)

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        raise UsageError(
            "csv has its columns in the first line, which messages do not have: write xml or jsonl"
        )

    def end(self) -> bytes:
        return b""

    def unfit(self, tuples: pl.DataFrame) -> None:
        return None

    def _csv(self, texts: pl.DataFrame, header: bool) -> bytes:
        return texts.write_csv(include_header=header).encode()
