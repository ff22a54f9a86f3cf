"""The columns of a project's output that carry the patterns of an input attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

Carrier = tuple[int, Monotone | None]
"""The index of an output column that carries an attribute, and the monotone expression if it is not plain."""
CarrierChoice = dict[int, Carrier]
"""For each attribute that a punctuation constrains, the column that carries it."""


class Carriers:
    """The carriers of each attribute of ``schema`` among output columns.

    A plain column carries its attribute. So does a monotone expression of one attribute, if ``monotone``. ``derived``
    has the expressions of columns that a project below has computed.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[tuple[str, Expression]],
        derived: Mapping[str, Expression],
        monotone: bool,
    ) -> None:
        self.by_attribute: list[list[Carrier]] = [[] for _ in schema]
        for column, (_, e) in enumerate(columns):
            if isinstance(e, Column):
                self.by_attribute[schema.index(e.name)].append((column, None))
                e = derived.get(e.name, e)
            if monotone and (image := Monotone.of(e)) is not None:
                self.by_attribute[schema.index(image.source)].append((column, image))
        self.carried = [i for i, carriers in enumerate(self.by_attribute) if carriers]
        self.dropped = [i for i, carriers in enumerate(self.by_attribute) if not carriers]
        self.origins: list[int | None] | None = None
        """The input attribute that each output column carries, if all columns are plain and carry different ones."""
        all_plain = not any(m for carriers in self.by_attribute for _, m in carriers)
        if all_plain and all(len(carriers) <= 1 for carriers in self.by_attribute):
            origins = {column: i for i, carriers in enumerate(self.by_attribute) for column, _ in carriers}
            self.origins = [origins.get(column) for column in range(len(columns))]

    def choices(self, p: Punctuation) -> Iterator[CarrierChoice]:
        """All ways to carry a punctuation that closes all values of the dropped attributes."""
        constrained = [i for i in p.constrained if self.by_attribute[i]]
        for choice in product(*(self.by_attribute[i] for i in constrained)):
            yield dict(zip(constrained, choice, strict=True))
