"""Attributes: the name, type, place in the XML and domain of one column of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xmlpunct.base.errors import SchemaError
from xmlpunct.types import Type, Value
from xmlpunct.types.pattern import (
    WILDCARD,
    Empty,
    Pattern,
    Values,
    Wildcard,
    bounds,
    covers,
    intersect,
    interval,
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a stream: the name, type, position in the XML and domain of a column.

    Parameters
    ----------
    name : str
        The name of the column in SQL.
    type : Type
        The type of its values, such as `xmlpunct.types.INT`.
    nullable : bool, default True
        Whether a value can be null. False for an attribute with a domain.
    path : str, default ``name``
        Where the value is in the tuple's element: a child (``sid``), a nested child (``a/b``) or an XML attribute
        (``@id``, ``a/@id``). The reader refuses a text that is not a path.
    domain : Pattern, default ``*``
        The pattern of the allowed values.
    default : Value, optional
        The value that a tuple without one has. None, the default: it is null.

    Raises
    ------
    SchemaError
        If no value satisfies the domain.

    Notes
    -----
    Semantics 2.
    """

    name: str
    type: Type
    nullable: bool = True
    path: str = ""
    domain: Pattern = WILDCARD
    default: Value = None

    def __post_init__(self) -> None:
        if not self.path:
            object.__setattr__(self, "path", self.name)
        if isinstance(self.domain, Empty):
            raise SchemaError(f"attribute {self.name}: no value satisfies its CHECK")
        if self.domain is not WILDCARD:
            object.__setattr__(self, "nullable", False)

    def reach(self, pattern: Pattern) -> Pattern:
        """The values of ``pattern`` that a tuple of this schema can have."""
        if self.nullable:
            return pattern
        every = interval(self.type, None, None, False, False)
        return intersect(pattern, self.domain if self.domain is not WILDCARD else every)

    def closed_by(self, pattern: Pattern) -> bool:
        """Whether ``pattern`` matches every value that a tuple can have here.

        ``*`` does; ``(,)`` does on a NOT NULL attribute; and so does a pattern that covers a declared domain.
        """
        return isinstance(pattern, Wildcard) or covers(pattern, self.reach(WILDCARD))

    def hides(self, value: object) -> bool:
        """True for a default that is the type's least value. It means "from the start"; users do not see it."""
        return value is not None and value == self.default == self.type.lowest

    def defaulting(self) -> Attribute:
        """The same attribute, with its least value as the default. The type is discrete.

        >>> from xmlpunct.types import INT
        >>> from xmlpunct.types.pattern import values
        >>> Attribute("n", INT, domain=values(INT, [3, 5, 9])).defaulting().default
        3
        """
        return replace(self, nullable=False, default=self.type.at(self.ends[0]))

    @property
    def ends(self) -> tuple[int, int]:
        """The ordinals of the least and the greatest value that a tuple can have here. The type is discrete.

        >>> from xmlpunct.types import INT
        >>> from xmlpunct.types.pattern import values
        >>> Attribute("n", INT, domain=values(INT, [3, 5, 9])).ends
        (3, 9)
        """
        if isinstance(self.domain, Values):
            return self.type.ordinal(self.domain.members[0]), self.type.ordinal(self.domain.members[-1])
        range_bounds = bounds(self.domain)
        return range_bounds or (self.type.ordinal(self.type.lowest), self.type.ordinal(self.type.highest))

    def weakened(self) -> Attribute:
        """The same attribute without NOT NULL and domain (the null-supplied side of an outer join)."""
        return replace(self, nullable=True, domain=WILDCARD, default=None)


def positions_by_name(attributes: Iterable[Attribute]) -> dict[str, int]:
    """The position of each attribute, by its name. Raises `SchemaError` if two have the same name.

    >>> from xmlpunct.types import INT
    >>> positions_by_name([Attribute("a", INT), Attribute("b", INT)])
    {'a': 0, 'b': 1}
    """
    positions: dict[str, int] = {}
    for position, attribute in enumerate(attributes):
        if attribute.name in positions:
            raise SchemaError(f"two attributes have the name {attribute.name}")
        positions[attribute.name] = position
    return positions
