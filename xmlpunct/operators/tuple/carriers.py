"""Which columns of a project's output carry what punctuations say of an attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

Carrier = tuple[int, Monotone | None]
"""An output column that tells an attribute's value: the attribute itself, or a monotone expression of it."""
Choice = dict[int, Carrier]
"""For each attribute that a punctuation constrains, the column to carry it."""


class Carriers:
    """The carriers of each attribute of ``schema`` among some columns.

    A plain column carries its attribute. So does a monotone expression of one attribute, if ``monotone``. ``derived``
    names columns that a project below has computed.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[tuple[str, Expression]],
        derived: Mapping[str, Expression],
        monotone: bool,
    ) -> None:
        self.by_attribute: list[list[Carrier]] = [[] for _ in schema]
        for place, (_, e) in enumerate(columns):
            if isinstance(e, Column):
                self.by_attribute[schema.index(e.name)].append((place, None))
                e = derived.get(e.name, e)
            if monotone and (image := Monotone.of(e)) is not None:
                self.by_attribute[schema.index(image.source)].append((place, image))
        self.carried = [i for i, carriers in enumerate(self.by_attribute) if carriers]
        self.dropped = [i for i, carriers in enumerate(self.by_attribute) if not carriers]
        self.places: list[int | None] | None = None
        """For each output attribute the one that it carries, if no punctuation needs more than that."""
        all_plain = not any(m for carriers in self.by_attribute for _, m in carriers)
        if all_plain and all(len(carriers) <= 1 for carriers in self.by_attribute):
            origins = {place: i for i, carriers in enumerate(self.by_attribute) for place, _ in carriers}
            self.places = [origins.get(place) for place in range(len(columns))]

    def choices(self, p: Punctuation) -> Iterator[Choice]:
        """All ways to carry a punctuation that closes all values of the dropped attributes."""
        constrained = [i for i in p.constrained if self.by_attribute[i]]
        for choice in product(*(self.by_attribute[i] for i in constrained)):
            yield dict(zip(constrained, choice, strict=True))
