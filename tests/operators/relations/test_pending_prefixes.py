"""Prefix punctuations that wait for retained tuples."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.pending_prefixes import PendingPrefixes
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import changes
from xmlpunct.types import INT

X = changes(Schema.parse("x INT"), INT)


def test_after_the_end_no_prefix_is_pending() -> None:
    retained = {7: 3}

    def least(asked: Sequence[Punctuation]) -> list[int]:
        return [min(retained.values(), default=2**63) for _ in asked]

    pending = PendingPrefixes(X, Instants(INT))
    pending.add([Punctuation.parse(X, "<7, (,5], *>")])
    (emitted,) = pending.free(least)
    assert str(emitted) == "<7, (,2], *>"
    retained.clear()
    pending.add([Punctuation.everything(X)])
    (emitted,) = pending.free(least)
    assert emitted.is_everything
    pending.lose(X.frame([(7, 3, 1)]))
    assert not pending.free(least)
    assert len(pending) == 0
