"""Blocked: prefixes that what is retained keeps back."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.relations.blocked import Blocked
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

X = changes(Schema.parse("x INT"), INT)


def test_what_was_asked_for_before_the_end_is_asked_no_more() -> None:
    retained = {7: 3}

    def least(asked: Sequence[Punctuation]) -> list[int]:
        return [min(retained.values(), default=2**63) for _ in asked]

    blocked = Blocked(X, Instants(INT))
    (said,) = blocked.add([Punctuation.parse(X, "<7, (,5], *>")], least)
    assert str(said) == "<7, (,2], *>"
    retained.clear()
    blocked.lose(X.frame([(7, 3, 1)]))
    (said,) = blocked.add([Punctuation.everything(X)], least)
    assert said.is_everything
    assert not blocked.freed(least, all_asked=False)
    assert len(blocked) == 0
