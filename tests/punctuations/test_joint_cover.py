"""What a joint cover costs."""

from __future__ import annotations

import pytest

from xmlpunct import Punctuation, Schema
from xmlpunct.punctuations.intervals import IntervalSet
from xmlpunct.punctuations.joint_cover import jointly_cover


def test_pieces_are_fused_before_the_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked after each of n pieces it would fuse n times, at a cost of n each."""
    schema = Schema.parse("id INT, ts INT")
    pieces = [Punctuation.of(schema, id=n) for n in range(0, 400, 2)]
    asked = 0
    covers = IntervalSet.covers

    def counted(*arguments: object) -> bool:
        nonlocal asked
        asked += 1
        return covers(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(IntervalSet, "covers", counted)
    assert not jointly_cover(pieces, Punctuation.of(schema, ts="(,5]"))
    assert jointly_cover([*pieces, Punctuation.of(schema, id="(,)")], Punctuation.of(schema, id="[0,399]"))
    assert asked <= 4
