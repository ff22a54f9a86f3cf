"""Counting what is overlooked, and telling of it."""

from __future__ import annotations

import pytest

from xmlpunct.base.unread import MOST, OTHERS, Notice, Overlooked, add, end, notices


def test_new_is_what_was_not_there() -> None:
    total: Overlooked = {"nested": {"t": 1}}
    assert add(total, {"nested": {"t": 2}, "namespace": {"a": 1}}) == {"namespace": {"a": 1}}
    assert total == {"nested": {"t": 3}, "namespace": {"a": 1}}


def test_names_are_told_apart_up_to_a_number() -> None:
    total: Overlooked = {}
    for n in range(2 * MOST):
        add(total, {"undeclared": {f"@{n}": 1}})
    assert len(total["undeclared"]) == MOST + 1
    assert total["undeclared"][OTHERS] == MOST
    assert add(total, {"undeclared": {"@0": 1, "@x": 1}}) == {}


@pytest.mark.parametrize(
    ("found", "tuples", "punctuations", "new"),
    [
        ({}, 0, 0, {"element": {"t": 1}}),
        ({"element": {"t": 1}}, 0, 0, {}),
        ({}, 0, 1, {}),
        ({"dropped": {"t": 1}}, 0, 0, {}),
        ({"nested": {"t": 1}}, 0, 0, {"element": {"t": 1}}),
        ({"absent": {"a": 3, "b": 2}}, 3, 0, {"path": {"a": 3}}),
        ({"absent": {"a": 3, "b": 3}, "namespace": {"a": 1}}, 3, 0, {"path": {"b": 3}}),
    ],
)
def test_at_the_end(found: Overlooked, tuples: int, punctuations: int, new: Overlooked) -> None:
    assert end(dict(found), "t", tuples, punctuations) == new
    others = {kind: names for kind, names in new.items() if kind != "path"}
    assert end(dict(found), "t", tuples, punctuations, in_order=False) == others


@pytest.mark.parametrize(
    ("element", "told"), [("x/t", True), ("{urn:a}x/{urn:a/b}t", True), ("{urn:a/b}t", False)]
)
def test_punctuations_are_at_no_path(element: str, told: bool) -> None:
    """Of an element in a certain place they do not say that it is there."""
    new = {"only": {element: 1}} if told else {}
    assert end({}, element, 0, 2) == new
    assert end({"dropped": {element: 1}}, element, 0, 0) == new
    assert end(dict(new), element, 1, 2) == {}
    assert end({}, element, 0, 0) == {"element": {element: 1}}


def test_a_line_for_each_kind_names_some() -> None:
    new: Overlooked = {"absent": {"x": 1}, "nested": {"t": 5}, "namespace": {f"a{n}": 1 for n in range(12)}}
    nested, foreign = notices("s", new)
    assert str(nested) == "s: <t> inside a tuple is part of that tuple, not a separate tuple"
    assert str(foreign).endswith("a7, a8, a9 and 2 more")
    assert [Notice("s", kind, ("t",)).fails for kind in ("nested", "namespace", "element")] == [True] * 3
    assert [Notice("s", kind, ("t",)).fails for kind in ("only", "path", "undeclared", "dropped")] == [
        False
    ] * 4
