"""Counts and notices of unread elements."""

from __future__ import annotations

import pytest

from xmlpunct.base.unread import MOST, OTHERS, Notice, Overlooked, add, end, notices


def test_add_returns_new_names_only() -> None:
    total: Overlooked = {"nested": {"t": 1}}
    assert add(total, {"nested": {"t": 2}, "namespace": {"a": 1}}) == {"namespace": {"a": 1}}
    assert total == {"nested": {"t": 3}, "namespace": {"a": 1}}


def test_names_above_the_limit_are_counted_together() -> None:
    total: Overlooked = {}
    for n in range(2 * MOST):
        add(total, {"undeclared": {f"@{n}": 1}})
    assert len(total["undeclared"]) == MOST + 1
    assert total["undeclared"][OTHERS] == MOST
    assert add(total, {"undeclared": {"@0": 1, "@x": 1}}) == {}


@pytest.mark.parametrize(
    ("counts", "tuples", "punctuations", "new"),
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
def test_at_the_end(counts: Overlooked, tuples: int, punctuations: int, new: Overlooked) -> None:
    assert end(dict(counts), "t", tuples, punctuations) == new
    without_paths = {kind: names for kind, names in new.items() if kind != "path"}
    assert end(dict(counts), "t", tuples, punctuations, in_order=False) == without_paths


@pytest.mark.parametrize(
    ("element", "is_reported"), [("x/t", True), ("{urn:a}x/{urn:a/b}t", True), ("{urn:a/b}t", False)]
)
def test_punctuations_are_at_no_path(element: str, is_reported: bool) -> None:
    """Punctuations do not prove that the path of an element exists."""
    new = {"only": {element: 1}} if is_reported else {}
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
