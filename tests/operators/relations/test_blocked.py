"""Blocked: prefix punctuations that retained tuples keep pending."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.relations.blocked import Blocked
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

X = changes(Schema.parse("x INT"), INT)


def test_after_the_end_no_prefix_is_pending() -> None:
    retained = {7: 3}

    def least(asked: Sequence[Punctuation]) -> list[int]:
        return [min(retained.values(), default=2**63) for _ in asked]

    blocked = Blocked(X, Instants(INT))
    (emitted,) = blocked.add([Punctuation.parse(X, "<7, (,5], *>")], least)
    assert str(emitted) == "<7, (,2], *>"
    retained.clear()
    blocked.lose(X.frame([(7, 3, 1)]))
    (emitted,) = blocked.add([Punctuation.everything(X)], least)
    assert emitted.is_everything
    assert not blocked.freed(least, all_asked=False)
    assert len(blocked) == 0
