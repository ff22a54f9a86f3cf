"""Slices to bytes: punctuated XML, JSON lines, CSV."""

from __future__ import annotations

import json
import re
from typing import Protocol
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from xmlpunct.arrays import ArrayType
from xmlpunct.errors import UsageError, XmlPunctError
from xmlpunct.firehose.formats import json_text, line, lines, text
from xmlpunct.firehose.spec import PUNCT_NAMESPACE
from xmlpunct.names import is_xml_name
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Attribute, Schema
from xmlpunct.slice import Slice
from xmlpunct.types import STRING, XML

_FORBIDDEN = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x{FFFE}\x{FFFF}]"
_FORBIDDEN_HERE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Writer(Protocol):
    """A form of output: ``start``, then any number of ``body``, then ``end``, all to be put together."""

    def start(self) -> bytes:
        """What comes before everything."""

    def body(self, slice_: Slice) -> bytes:
        """The tuples and punctuations of a slice, all but ``<*, ..., *>``.

        A punctuation stands where the slice says it stood; if it does not say, after the tuples.
        """

    def end(self) -> bytes:
        """What says that the stream has ended; without it, it has been cut."""


def writer_for(
    format_: str,
    schema: Schema,
    *,
    root: str = "stream",
    element: str = "result",
    punct_namespace: str = PUNCT_NAMESPACE,
) -> Writer:
    """The writer of a format: ``xml``, ``jsonl`` or ``csv``. Raises `UsageError` for any other.

    >>> writer_for("csv", Schema.parse("sid STRING, hour INT")).start()
    b'sid,hour\\n'
    """
    array = next((a.name for a in schema if isinstance(a.type, ArrayType)), None)
    if array is not None and format_ in ("xml", "csv"):
        raise UsageError(
            f"column {array} is an array, which {format_} does not hold: jsonl does, or UNNEST it"
        )
    if format_ == "xml":
        return XmlWriter(schema, root, element, punct_namespace)
    if format_ == "jsonl":
        return JsonlWriter(schema)
    if format_ == "csv":
        return CsvWriter(schema)
    raise UsageError(f"no format {format_}: there are xml, jsonl and csv")


class XmlWriter:
    """Punctuated XML: one element per tuple and punctuation, one child per attribute, null left out.

    Raises `UsageError` for names that XML does not allow.

    >>> schema = Schema.parse("sid STRING, hour INT")
    >>> writer = XmlWriter(schema)
    >>> sample = Slice(schema.frame([("S1", 17)]), [Punctuation.of(schema, hour=17)])
    >>> print(writer.body(sample).decode(), end="")
    <result><sid>S1</sid><hour>17</hour></result>
    <punct:result><sid>*</sid><hour>17</hour></punct:result>
    """

    def __init__(
        self,
        schema: Schema,
        root: str = "stream",
        element: str = "result",
        punct_namespace: str = PUNCT_NAMESPACE,
    ) -> None:
        for kind, name in (("root", root), ("element", element), *(("attribute", n) for n in schema.names)):
            if not is_xml_name(name):
                raise UsageError(f"{kind} {name!r} is not a name that an XML element can have")
        self.schema, self.root, self.element, self.punct_namespace = schema, root, element, punct_namespace
        self._line = line([pl.lit(f"<{element}>"), *map(self._child, schema), pl.lit(f"</{element}>")])
        self._stars = [f"<{name}>*</{name}>" for name in schema.names]

    def start(self) -> bytes:
        return f"<{self.root} xmlns:punct={quoteattr(self.punct_namespace)}>\n".encode()

    def body(self, slice_: Slice) -> bytes:
        """Raises `XmlPunctError` for a character that XML cannot carry at all."""
        for attribute in self.schema:
            texts = slice_.tuples[attribute.name] if attribute.type in (STRING, XML) else None
            if texts is not None and texts.str.contains(_FORBIDDEN).any():
                raise XmlPunctError(f"attribute {attribute.name}: a control character that XML cannot carry")
        return lines(slice_, self._line, self)

    def end(self) -> bytes:
        return f"</{self.root}>\n".encode()

    def _child(self, attribute: Attribute) -> pl.Expr:
        at, name = text(attribute), attribute.name
        if attribute.type in (STRING, XML):
            for character, reference in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
                at = at.str.replace_all(character, reference, literal=True)
        return pl.concat_str(pl.lit(f"<{name}>"), at, pl.lit(f"</{name}>")).fill_null("")

    def around(self, place: int) -> tuple[str, str]:
        name = self.schema.names[place]
        before, after = "".join(self._stars[:place]), "".join(self._stars[place + 1 :])
        return f"<punct:{self.element}>{before}<{name}>", f"</{name}>{after}</punct:{self.element}>\n"

    def punctuation(self, p: Punctuation) -> str:
        said = list(self._stars)
        for i in p.constrained:
            name, pattern = self.schema.names[i], escape(str(p.patterns[i]), {"\r": "&#13;"})
            said[i] = f"<{name}>{pattern}</{name}>"
        children = "".join(said)
        if _FORBIDDEN_HERE.search(children):
            raise XmlPunctError("a punctuation has a control character that XML cannot carry")
        return f"<punct:{self.element}>{children}</punct:{self.element}>\n"


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
            parts += [pl.lit(f"{', ' if i else ''}{name}: "), json_text(attribute)]
        self._line = line([*parts, pl.lit("}")])

    def start(self) -> bytes:
        return b""

    def body(self, slice_: Slice) -> bytes:
        return lines(slice_, self._line, self)

    def around(self, place: int) -> tuple[str, str]:
        name = json.dumps(self.schema.names[place], ensure_ascii=False)
        return f'{{"$punct": {{{name}: "', '"}}\n'

    def punctuation(self, p: Punctuation) -> str:
        return json.dumps({"$punct": p.as_dict()}, ensure_ascii=False) + "\n"

    def end(self) -> bytes:
        return b""


class CsvWriter:
    """Comma-separated values under a line of names; tuples only. Null is nothing, the empty string ``""``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def start(self) -> bytes:
        return self._csv(pl.DataFrame(schema=dict.fromkeys(self.schema.names, pl.String())), header=True)

    def body(self, slice_: Slice) -> bytes:
        return self._csv(slice_.tuples.select(text(a).alias(a.name) for a in self.schema), header=False)

    def end(self) -> bytes:
        return b""

    def _csv(self, texts: pl.DataFrame, header: bool) -> bytes:
        return texts.write_csv(include_header=header).encode()
