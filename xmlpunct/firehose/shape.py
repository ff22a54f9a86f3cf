"""What a tuple looks like in XML: the declared paths as a tree of steps, and where in it every value stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xmlpunct.base.errors import SchemaError
from xmlpunct.base.paths import Hop, Path
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, check_path, path_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import XML


@dataclass(slots=True, eq=False)
class Step:
    """A place in an element: which values stand here (-1: none), and what is declared below it.

    ``text`` is all text in it, ``own`` the text that is in no child, ``raw`` the element as it stood. ``item`` is the
    table of which the element is a row. ``rows`` are the items of arrays: at a step of their own, apart from what else
    is declared there.
    """

    text: int = -1
    own: int = -1
    raw: int = -1
    item: int = -1
    children: dict[Hop, Step] = field(default_factory=dict)
    rows: dict[Hop, Step] = field(default_factory=dict)
    named: dict[str, list[tuple[Hop, Step]]] = field(default_factory=dict)
    """Both by the names of elements without their namespaces."""
    attributes: dict[str, int] = field(default_factory=dict)

    def child(self, hop: Hop) -> Step:
        """What is declared at a child, be it new."""
        return self._found(self.children, hop)

    def row(self, hop: Hop) -> Step:
        """What is declared of the items of an array, be it new."""
        return self._found(self.rows, hop)

    def below(self) -> Iterator[tuple[Hop, Step]]:
        """All that is declared below it."""
        yield from self.children.items()
        yield from self.rows.items()

    def slots(self) -> Iterator[int]:
        """The values that stand here and below."""
        yield from (slot for slot in (self.text, self.own, self.raw) if slot >= 0)
        yield from self.attributes.values()
        for _, child in self.below():
            yield from child.slots()

    def _found(self, steps: dict[Hop, Step], hop: Hop) -> Step:
        if hop not in steps:
            steps[hop] = found = Step()
            self.named.setdefault(hop.local, []).append((hop, found))
        return steps[hop]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows: the tuples (number 0), or the items of an array, which belong to rows of a ``parent``.

    ``slots`` are, by attribute of ``schema``, its cells; for an array its table instead.
    """

    schema: Schema
    parent: int
    slots: tuple[int, ...]
    first: int
    """Its cells are those from here on..."""
    end: int
    """...to here, those of items in it included."""
    prefix: str = ""
    """What stands before the names of its attributes in messages."""


@dataclass(frozen=True, slots=True)
class Up:
    """A value that an ancestor of a tuple has: so many levels ``up``, at a ``path`` below that one, in a slot."""

    slot: int
    path: Path
    needed: bool


@dataclass(frozen=True, eq=False)
class Shape:
    """The paths of a schema. Attributes share one slot where they share a path. It never changes.

    ``paths`` and ``names`` are, by slot, the path and an attribute that stands there. ``said`` are the slots of
    patterns under a column's name; they come behind all others.
    """

    root: Step
    paths: tuple[str, ...]
    names: tuple[str, ...]
    tables: tuple[Table, ...]
    ups: tuple[Up, ...]
    said: dict[str, int]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(schema: Schema) -> Shape:
        """The shape of a schema's tuples. Raises `SchemaError` for a path that cannot be read."""
        return _Growing().shape(schema)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """By attribute the slot of its values; -1 for an array."""
        return tuple(
            -1 if isinstance(a.type, ArrayType) else slot
            for a, slot in zip(self.tables[0].schema, self.tables[0].slots, strict=True)
        )

    @cached_property
    def raws(self) -> tuple[int, ...]:
        """The slots of elements as they stood."""
        return tuple(
            slot
            for table in self.tables
            for a, slot in zip(table.schema, table.slots, strict=True)
            if a.type is XML
        )

    @property
    def width(self) -> int:
        """How many slots there are for the values of a tuple."""
        return len(self.paths)


class _Growing:
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.names: list[str] = []
        self.tables: list[Table] = []
        self.ups: dict[int, Up] = {}

    def shape(self, schema: Schema) -> Shape:
        root = Step()
        self.table(schema, root, -1, "")
        names = [a.name for a in schema if a.name not in root.named and not isinstance(a.type, ArrayType)]
        said = {name: len(self.paths) + i for i, name in enumerate(names)}
        ups = tuple(self.ups.values())
        return Shape(root, tuple(self.paths), tuple(self.names), tuple(self.tables), ups, said)

    def table(self, schema: Schema, root: Step, parent: int, prefix: str) -> int:
        """Lay out rows whose element is ``root``."""
        number, first = len(self.tables), len(self.paths)
        self.tables.append(Table(schema, parent, (), first, first, prefix))
        known: dict[tuple[str, bool], int] = {}
        slots = []
        for a in schema:
            path = path_of(a)
            check_path(a, path, inside=parent >= 0)
            step = root
            is_array = isinstance(a.type, ArrayType)
            for hop in path.hops[: len(path.hops) - is_array] if not path.up else ():
                step = step.child(hop)
            if isinstance(a.type, ArrayType):
                step = step.row(path.hops[-1])
                if step.item >= 0:
                    raise SchemaError(f"attribute {prefix}{a.name}: two arrays are at PATH '{a.path}'")
                step.item = len(self.tables)
                slots.append(self.table(Schema.of(a.type.attributes), step, number, f"{prefix}{a.name}."))
                continue
            key = str(path), a.type is XML
            if key not in known:
                slot = known[key] = len(self.paths)
                self.paths.append(a.path)
                self.names.append(prefix + a.name)
                self.put(a, path, step, slot)
            elif path.up and not a.nullable:
                self.put(a, path, step, known[key])
            slots.append(known[key])
        self.tables[number] = Table(schema, parent, tuple(slots), first, len(self.paths), prefix)
        return number

    def put(self, attribute: Attribute, path: Path, step: Step, slot: int) -> None:
        if path.up:
            self.ups[slot] = Up(slot, path, not attribute.nullable)
        elif path.attribute is not None:
            step.attributes[path.attribute] = slot
        elif attribute.type is XML:
            step.raw = slot
        elif path.own:
            step.own = slot
        else:
            step.text = slot
