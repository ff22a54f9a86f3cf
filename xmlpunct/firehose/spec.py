"""Specifications for reading: the elements of streams, and the size limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import path_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.provenance import with_origin
from xmlpunct.types import STRING

Remedy = Callable[[Schema], str]
"""Makes the sentence with the declaration to write, from the columns that fit."""
ElementName = str
"""An element's expanded name: ``{uri}local``, or ``local`` for one in no namespace."""


@dataclass(frozen=True)
class Validity:
    """The path of an XML Schema, and a digest of it and of its includes, to detect changes."""

    path: str
    digest: str


@dataclass(frozen=True)
class ClosingMark:
    """Elements that close tuples, declared by PUNCTUATE ON.

    At the end of an ``element``, or of the outermost tuple around it, no later tuple has its values: ``closes`` has
    pairs of a column and a path in the element. Without pairs, all tuples are closed. With ``where``, a path and a
    text, only elements with this text at the path are marks.
    """

    element: ElementName
    closes: tuple[tuple[str, str], ...] = ()
    where: tuple[str, str] | None = None

    def paths(self) -> tuple[str, ...]:
        """The paths that are read."""
        where = () if self.where is None else (self.where[0],)
        return tuple(dict.fromkeys((*where, *(path for _, path in self.closes))))

    def specs(self, space: str) -> tuple[StreamSpec, ...]:
        """Its elements as streams of texts. A name without a namespace also fits elements in ``space``."""
        names = read_element(self.element)
        in_space = tuple(name if name[:1] == "{" or not space else f"{{{space}}}{name}" for name in names)
        schema = Schema.of(Attribute(path, STRING, path=path) for path in self.paths())
        elements = dict.fromkeys(("/".join(names), "/".join(in_space)))
        return tuple(StreamSpec(self.element, schema, element, nested=True) for element in elements)


@dataclass(frozen=True)
class StreamSpec:
    """A stream to be read: its name, its schema, and the expanded name of its tuple elements.

    ``element`` may be a path that includes parent elements. With ``where``, only elements whose XML attribute has this
    value are tuples. With ``nested``, tuple elements inside other tuples are tuples, too. ``columns`` has the needed
    attributes (None: all). Other attributes are validated, unless their types are ``guessed``, and their values may be
    null. ``placed`` tuples carry their source positions. A ``guessed`` schema was inferred from the first tuples:
    content of later tuples that it lacks is counted as overlooked. ``remedy`` makes the declaration to write for other
    columns; with it, the first tuple that a guessed schema does not fit is an error, without it a reject. Tuples that
    are invalid by ``validity`` are rejected. ``marks`` are elements that close its tuples. ``dtd``
    has declarations of entities. Raises `UsageError` for a
    name that is not allowed in XML.
    """

    name: str
    schema: Schema
    element: ElementName
    columns: frozenset[str] | None = None
    placed: bool = False
    guessed: bool = False
    where: tuple[str, str] | None = None
    nested: bool = False
    validity: Validity | None = None
    remedy: Remedy | None = field(default=None, compare=False)
    marks: tuple[ClosingMark, ...] = ()
    dtd: str = ""

    def __post_init__(self) -> None:
        try:
            _ = self.names
        except ValueError as error:
            raise UsageError(str(error)) from None

    @cached_property
    def names(self) -> tuple[ElementName, ...]:
        """The expanded names of the elements on the path to a tuple, ending with its own."""
        return read_element(self.element)

    @property
    def tag(self) -> ElementName:
        """The expanded name of its tuples' elements."""
        return self.names[-1]

    @cached_property
    def said(self) -> frozenset[ElementName]:
        """The names of elements outside of tuples, below their ancestors, from which tuples have values."""
        paths = [path_of(a) for a in self.schema if a.path[:3] == "../"]
        return frozenset(name for path in paths for hop in path.hops[:1] for name in hop.names(self.space))

    @property
    def reaches_up(self) -> bool:
        """Whether its tuples have values from ancestors."""
        return any(a.path[:3] == "../" for a in self.schema)

    @property
    def space(self) -> str:
        """The namespace of its tuples' elements (empty: none)."""
        return name_parts(self.tag)[0]

    @cached_property
    def mark_specs(self) -> tuple[tuple[ClosingMark, StreamSpec], ...]:
        """Its marks, each with the streams of its elements."""
        return tuple((mark, spec) for mark in self.marks for spec in mark.specs(self.space))

    @property
    def layout(self) -> Schema:
        """The schema of the slices that are read."""
        return with_origin(self.schema) if self.placed else self.schema

    def wants(self, attribute: str) -> bool:
        """Whether the values of an attribute are needed."""
        return self.columns is None or attribute in self.columns

    def judges(self, attribute: str) -> bool:
        """Whether an invalid value of an attribute is a fault of its tuple."""
        return self.wants(attribute) or not self.guessed or self.validity is not None

    @cached_property
    def judged(self) -> frozenset[str]:
        """The attributes whose invalid values are faults."""
        return frozenset(name for name in self.schema.names if self.judges(name))


class ElementNames(frozenset[ElementName]):
    """Names of elements that a `Splitter` must not split.

    ``specs`` has the streams, if any of their tuples have values from ancestors. ``dtd`` is that of `declarations_of`.
    """

    specs: tuple[StreamSpec, ...] = ()
    punct_namespace = PUNCT_NAMESPACE
    dtd = ""


@dataclass(frozen=True)
class Limits:
    """Size limits of a source. A source that exceeds one fails.

    - ``depth``: nested elements.
    - ``text``, ``attribute``: characters of a value.
    - ``name``: characters of a local name, a prefix or a namespace URI.
    - ``attributes``: attributes of an element.
    - ``namespaces``: declarations in scope at one position.
    - ``inside``: attributes and undeclared elements of one tuple or punctuation.
    - ``tag``: bytes of a tag.
    - ``element``: bytes of a tuple, a punctuation, or any other markup that must be buffered until it ends.
    """

    depth: int = 200
    text: int = 10_000_000
    attribute: int = 1_000_000
    name: int = 1_000
    attributes: int = 1_000
    namespaces: int = 1_000
    inside: int = 250_000
    tag: int = 8 * 2**20
    element: int = 32 * 2**20


def name_parts(name: ElementName) -> tuple[str, str]:
    """The namespace URI (empty: none) and the local name.

    >>> name_parts("{urn:x}a"), name_parts("a")
    (('urn:x', 'a'), ('', 'a'))
    """
    if name[:1] != "{":
        return "", name
    uri, _, local = name[1:].rpartition("}")
    return uri, local


def punctuation_element(element: ElementName, punct_namespace: str = PUNCT_NAMESPACE) -> ElementName:
    """The name of the punctuation elements for a tuple element."""
    return f"{{{punct_namespace}}}{name_parts(read_element(element)[-1])[1]}"


def elements_of(specs: Collection[StreamSpec], punct_namespace: str = PUNCT_NAMESPACE) -> ElementNames:
    """The tuple and punctuation elements of streams, and their marks, which a `Splitter` must not split.

    Raises `UsageError` if tuples and punctuations cannot be distinguished.
    """
    names = [spec.tag for spec in specs]
    check_namespace(names, punct_namespace)
    punctuations = (punctuation_element(n, punct_namespace) for n in names)
    marks = (mark_spec.tag for spec in specs for _, mark_spec in spec.mark_specs)
    elements = ElementNames({*names, *punctuations, *marks}.union(*(spec.said for spec in specs)))
    elements.dtd = declarations_of(specs)
    if any(spec.reaches_up for spec in specs):
        elements.specs, elements.punct_namespace = tuple(specs), punct_namespace
    return elements


def declarations_of(specs: Iterable[StreamSpec]) -> str:
    """The declarations of entities for the source of some streams."""
    return "".join(dict.fromkeys(spec.dtd for spec in specs))


def check_namespace(elements: Iterable[ElementName], punct_namespace: str) -> None:
    """Raise `UsageError` if punctuations in a namespace cannot be distinguished from these tuple elements."""
    if not punct_namespace or set("{}") & set(punct_namespace):
        raise UsageError(f"{punct_namespace!r} is no namespace of punctuations: it is a URI")
    for element in elements:
        if name_parts(read_element(element)[-1])[0] == punct_namespace:
            raise UsageError(f"{element} is a punctuation: it is in the namespace of punctuations")


def disjoint_groups(specs: Sequence[StreamSpec], punct_namespace: str) -> list[list[int]]:
    """The streams in groups without a common element."""
    groups: list[tuple[set[str], list[int]]] = []
    for i, spec in enumerate(specs):
        own_names = {spec.tag, punctuation_element(spec.element, punct_namespace)}
        for names, members in () if spec.nested else groups:
            if not names & own_names:
                names |= own_names
                members.append(i)
                break
        else:
            groups.append((own_names, [i]))
    return [members for _, members in groups]
