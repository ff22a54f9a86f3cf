"""The shape of a tuple in XML: the declared paths as a tree of steps, with the slot of each value."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xmlpunct.base.errors import SchemaError
from xmlpunct.base.paths import ChildStep, Path
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, check_path, path_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import XML


@dataclass(slots=True, eq=False)
class Step:
    """A node in the tree of paths: the slots of an element's values (-1: none), and its declared descendants.

    ``text`` is the slot of all its text, ``own_text`` of the text outside of children, ``raw`` of its source text.
    ``item`` is the table in which the element is a row. ``rows`` has the steps of array items. They are separate from
    ``children``, even for the same element.
    """

    text: int = -1
    own_text: int = -1
    raw: int = -1
    item: int = -1
    children: dict[ChildStep, Step] = field(default_factory=dict)
    rows: dict[ChildStep, Step] = field(default_factory=dict)
    named: dict[str, list[tuple[ChildStep, Step]]] = field(default_factory=dict)
    """``children`` and ``rows`` by local element name."""
    attributes: dict[str, int] = field(default_factory=dict)

    def child(self, hop: ChildStep) -> Step:
        """The step of a child; it is created on first use."""
        return self._step_at(self.children, hop)

    def row(self, hop: ChildStep) -> Step:
        """The step of an array's items; it is created on first use."""
        return self._step_at(self.rows, hop)

    def below(self) -> Iterator[tuple[ChildStep, Step]]:
        """All steps directly below."""
        yield from self.children.items()
        yield from self.rows.items()

    def slots(self) -> Iterator[int]:
        """The slots of this step and all descendants."""
        yield from (slot for slot in (self.text, self.own_text, self.raw) if slot >= 0)
        yield from self.attributes.values()
        for _, child in self.below():
            yield from child.slots()

    def _step_at(self, steps: dict[ChildStep, Step], hop: ChildStep) -> Step:
        if hop not in steps:
            steps[hop] = step = Step()
            self.named.setdefault(hop.local, []).append((hop, step))
        return steps[hop]


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """A table of rows: the tuples (number 0), or the items of an array, which belong to rows of the table ``parent``.

    ``slots`` has the cell of each attribute of ``schema``; for an array it has the number of its table.
    """

    schema: Schema
    parent: int
    slots: tuple[int, ...]
    first: int
    """The first slot of its cells."""
    end: int
    """The end of its slots, including the ones of nested arrays."""
    prefix: str = ""
    """The prefix of its attribute names in messages."""


@dataclass(frozen=True, slots=True)
class Up:
    """A value from an ancestor: ``path`` has the number of levels up and the path below that ancestor."""

    slot: int
    path: Path
    needed: bool


@dataclass(frozen=True, eq=False)
class Shape:
    """The paths of a schema. Attributes with the same path share a slot. Immutable.

    ``paths`` and ``names`` have, by slot, the path and an attribute with this path. ``pattern_slots`` has the slots of
    patterns in elements with a column's name; they follow all other slots.
    """

    root: Step
    paths: tuple[str, ...]
    names: tuple[str, ...]
    tables: tuple[ShapeTable, ...]
    ups: tuple[Up, ...]
    pattern_slots: dict[str, int]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(schema: Schema) -> Shape:
        """The shape of a schema's tuples. Raises `SchemaError` for a path that cannot be read."""
        return _Growing().shape(schema)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The slot of each attribute; -1 for an array."""
        return tuple(
            -1 if isinstance(a.type, ArrayType) else slot
            for a, slot in zip(self.tables[0].schema, self.tables[0].slots, strict=True)
        )

    @cached_property
    def raws(self) -> tuple[int, ...]:
        """The slots of XML values, which are the source text of elements."""
        return tuple(
            slot
            for table in self.tables
            for a, slot in zip(table.schema, table.slots, strict=True)
            if a.type is XML
        )

    def unread_slots(self, judged: Collection[str]) -> frozenset[int]:
        """The slots that hold values of none of these attributes. A second value there is no fault."""
        read = set[int]()
        for a, slot in zip(self.tables[0].schema, self.tables[0].slots, strict=True):
            if a.name not in judged:
                continue
            if isinstance(a.type, ArrayType):
                read.update(range(self.tables[slot].first, self.tables[slot].end))
            else:
                read.add(slot)
        return frozenset(range(self.width)) - read

    @cached_property
    def width(self) -> int:
        """The number of slots for the values of a tuple."""
        return len(self.paths)


class _Growing:
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.names: list[str] = []
        self.tables: list[ShapeTable] = []
        self.ups: dict[int, Up] = {}

    def shape(self, schema: Schema) -> Shape:
        root = Step()
        self.table(schema, root, -1, "")
        names = [a.name for a in schema if a.name not in root.named and not isinstance(a.type, ArrayType)]
        name_slots = {name: len(self.paths) + i for i, name in enumerate(names)}
        ups = tuple(self.ups.values())
        return Shape(root, tuple(self.paths), tuple(self.names), tuple(self.tables), ups, name_slots)

    def table(self, schema: Schema, root: Step, parent: int, prefix: str) -> int:
        """Assign slots for rows with the element ``root``; return the number of the table."""
        number, first = len(self.tables), len(self.paths)
        self.tables.append(ShapeTable(schema, parent, (), first, first, prefix))
        slots_by_path: dict[tuple[str, bool], int] = {}
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
                    raise SchemaError(f"attribute {prefix}{a.name}: two arrays have PATH '{a.path}'")
                step.item = len(self.tables)
                slots.append(self.table(Schema.of(a.type.attributes), step, number, f"{prefix}{a.name}."))
                continue
            key = str(path), a.type is XML
            if key not in slots_by_path:
                slot = slots_by_path[key] = len(self.paths)
                self.paths.append(a.path)
                self.names.append(prefix + a.name)
                self.put(a, path, step, slot)
            elif path.up and not a.nullable:
                self.put(a, path, step, slots_by_path[key])
            slots.append(slots_by_path[key])
        self.tables[number] = ShapeTable(schema, parent, tuple(slots), first, len(self.paths), prefix)
        return number

    def put(self, attribute: Attribute, path: Path, step: Step, slot: int) -> None:
        if path.up:
            self.ups[slot] = Up(slot, path, not attribute.nullable)
        elif path.attribute is not None:
            step.attributes[path.attribute] = slot
        elif attribute.type is XML:
            step.raw = slot
        elif path.own_text:
            step.own_text = slot
        else:
            step.text = slot
