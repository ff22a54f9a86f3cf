"""scan: attributes of a stream."""

from __future__ import annotations

from xmlpunct.expressions.exclusions import only_within
from xmlpunct.operators.tuple.project import Project
from xmlpunct.punctuations.punctuation import Punctuation


class Scan(Project):
    """Reads attributes of a stream. From the start, values outside a declared domain are closed.

    >>> from xmlpunct.schema import Schema
    >>> reports = Schema.parse("sid STRING, hour INT CHECK (hour BETWEEN 0 AND 23)")
    >>> [str(p) for p in Scan.rename(reports, ["hour"], ["h"]).opening()]
    ['<(,-1]>', '<[24,)>']
    """

    name = "scan"

    def opening(self) -> list[Punctuation]:
        return [p for a in self.schema for p in only_within(self.schema, a.name, a.domain)]
