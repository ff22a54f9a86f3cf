"""What to look for in a source: the elements of streams, and how large things may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import path_of
from xmlpunct.schema.provenance import with_origin

ElementName = str
"""An element's expanded name: ``{uri}local``, or ``local`` for one in no namespace."""


@dataclass(frozen=True)
class Validity:
    """An XML Schema by its path, and the digest of it and of what it includes, by which a change is seen."""

    path: str
    digest: str


@dataclass(frozen=True)
class StreamSpec:
    """A stream to be read: its name, its schema, and the expanded name of its tuple elements.

    ``element`` may name the elements right around them too, as a path. Tuples are those elements alone in which the
    XML attribute of ``where`` has its value. If they are ``nested``, those inside others are tuples as well.
    ``columns`` are the attributes whose values are needed (None: all). In others a null may stand for whatever
    needs no looking at; what is wrong with them is found all the same. ``placed`` tuples carry where they stood.
    A ``guessed`` schema was taken from the first tuples: what others hold beside it is counted as overlooked.
    Tuples that have no ``validity`` by a schema are rejects. Raises
    `UsageError` for an element that XML cannot have.
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

    def __post_init__(self) -> None:
        try:
            _ = self.names
        except ValueError as error:
            raise UsageError(str(error)) from None

    @cached_property
    def names(self) -> tuple[ElementName, ...]:
        """The expanded names of the elements on the way to a tuple, its own the last."""
        return read_element(self.element)

    @property
    def tag(self) -> ElementName:
        """The expanded name of its tuples' elements."""
        return self.names[-1]

    @cached_property
    def said(self) -> frozenset[ElementName]:
        """The names of the elements beside its tuples, and around them, that these have something of."""
        paths = [path_of(a) for a in self.schema if a.path[:3] == "../"]
        return frozenset(name for path in paths for hop in path.hops[:1] for name in hop.names(self.space))

    @property
    def reaches_up(self) -> bool:
        """Whether its tuples have something of the elements around them."""
        return any(a.path[:3] == "../" for a in self.schema)

    @property
    def space(self) -> str:
        """The namespace of its tuples' elements (empty: none)."""
        return expanded(self.tag)[0]

    @property
    def layout(self) -> Schema:
        """The columns of the tuples that are read."""
        return with_origin(self.schema) if self.placed else self.schema

    def wants(self, attribute: str) -> bool:
        """Whether the values of an attribute are needed."""
        return self.columns is None or attribute in self.columns


class Elements(frozenset[ElementName]):
    """Names of elements that a `Splitter` must not cut.

    ``specs`` are the streams, if some of their tuples have something of the elements around them.
    """

    specs: tuple[StreamSpec, ...] = ()
    punct_namespace = PUNCT_NAMESPACE


@dataclass(frozen=True)
class Limits:
    """How large things in a source may be; what is larger makes the source fail.

    ``depth`` counts elements, ``text`` (one value) and ``attribute`` characters, ``name`` characters of a
    local name, of a prefix and of a namespace's URI, ``attributes`` those of one element, ``namespaces`` the
    declarations in scope in one place, ``inside`` the attributes and the undeclared elements of
    one tuple or punctuation, ``tag`` the bytes of one tag, ``element`` those of one tuple or punctuation, or of
    whatever else must be held until it ends.
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


def expanded(name: ElementName) -> tuple[str, str]:
    """The namespace URI (empty: none) and the local name.

    >>> expanded("{urn:x}a"), expanded("a")
    (('urn:x', 'a'), ('', 'a'))
    """
    if name[:1] != "{":
        return "", name
    uri, _, local = name[1:].rpartition("}")
    return uri, local


def punctuation_element(element: ElementName, punct_namespace: str = PUNCT_NAMESPACE) -> ElementName:
    """The name of the punctuations that go with a tuple element."""
    return f"{{{punct_namespace}}}{expanded(read_element(element)[-1])[1]}"


def elements_of(specs: Collection[StreamSpec], punct_namespace: str = PUNCT_NAMESPACE) -> Elements:
    """The tuple and punctuation elements of some streams: what a `Splitter` must not cut.

    Raises `UsageError` where tuples and punctuations cannot be told apart.
    """
    names = [spec.tag for spec in specs]
    check_namespace(names, punct_namespace)
    marks = (punctuation_element(n, punct_namespace) for n in names)
    found = Elements({*names, *marks}.union(*(spec.said for spec in specs)))
    if any(spec.reaches_up for spec in specs):
        found.specs, found.punct_namespace = tuple(specs), punct_namespace
    return found


def check_namespace(elements: Iterable[ElementName], punct_namespace: str) -> None:
    """Raise `UsageError` where punctuations in that namespace cannot be told from these tuple elements."""
    if not punct_namespace or set("{}") & set(punct_namespace):
        raise UsageError(f"{punct_namespace!r} is no namespace of punctuations: it is a URI")
    for element in elements:
        if expanded(read_element(element)[-1])[0] == punct_namespace:
            raise UsageError(f"{element} is a punctuation: its namespace is that of punctuations")
