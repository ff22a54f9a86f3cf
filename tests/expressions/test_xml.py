"""XMLELEMENT and XMLFOREST compared with the plain evaluator and with lxml."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.expressions.test_evaluation import EDGES, TYPES, check, column
from xmlpunct import Schema
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import Program
from xmlpunct.types import INT, STRING, XML

TEXTS = ["", "<&>\"'", "\r\n\t", "]]>", "x\x01", "\ufffe", "é", " "]
A, S, X = column("a", INT), column("s", STRING), column("x", XML)
ROWS = [
    {"a": a, "s": s, "x": x} for a in (None, 7) for s in [None, *TEXTS] for x in (None, "<x y='1'/>z", "<é/>")
]


def element(name: str, attributes: str, *args: Expression) -> Expression:
    return fn.call("XMLELEMENT", fn.literal(STRING, name), fn.literal(STRING, attributes), *args)


def forest(names: str, *args: Expression) -> Expression:
    return fn.call("XMLFOREST", fn.literal(STRING, names), *args)


CASES = [
    element("e", ""),
    element("e", "a", A),
    element("e", "s g:a", S, A, S, X, A),
    element('g:e xmlns:g="urn:x y"', "", element("g:b", "", X), S),
    element("e", "", forest("a s x", A, S, X), fn.call("||", S, S)),
    element("e", "s", fn.NULL, fn.NULL, fn.literal(STRING, "<")),
    forest("s", S),
    forest("a s x b", A, S, X, element("c", "", S)),
    fn.call("IS NULL", forest("s x", S, X)),
]


@pytest.mark.parametrize("expression", CASES, ids=str)
def test_against_the_plain_evaluator(expression: Expression) -> None:
    check(expression, ROWS, {"a": INT, "s": STRING, "x": XML})


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_values_of_each_type(type_: Any) -> None:
    expression = element("e", "v", column("v", type_), column("v", type_))
    check(expression, [{"v": v} for v in [None, *EDGES[type_]]], {"v": type_})


def test_deep_and_wide() -> None:
    deep = element("e", "s", S)
    for _ in range(300):
        deep = element("e", "", deep, S)
    check(deep, ROWS[:3], {"a": INT, "s": STRING, "x": XML})
    check(
        forest(" ".join(f"n{i}" for i in range(500)), *[S] * 500), ROWS[:3], {"a": INT, "s": STRING, "x": XML}
    )


Tree = tuple[str, list[Any], list[Any]]
trees: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.sampled_from("bc"), st.lists(st.integers(0, 2), max_size=2), st.just([])),
    lambda below: st.tuples(
        st.sampled_from("bc"),
        st.lists(st.integers(0, 2), max_size=2),
        st.lists(st.integers(0, 2) | below, max_size=4),
    ),
    max_leaves=6,
)
holdable = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=4
)
texts = st.lists(st.none() | holdable | st.sampled_from(["\r\n", "\t", "<&\"'>"]), min_size=3, max_size=3)


def expression_of(tree: Tree) -> Expression:
    name, attributes, content = tree
    parts = [expression_of(c) if isinstance(c, tuple) else column(f"s{c}", STRING) for c in content]
    names = " ".join(f"a{i}" for i in range(len(attributes)))
    return element(name, names, *(column(f"s{c}", STRING) for c in attributes), *parts)


def lxml_of(tree: Tree, values: list[str | None]) -> etree._Element:
    name, attributes, content = tree
    node = etree.Element(name, {f"a{i}": v for i, c in enumerate(attributes) if (v := values[c]) is not None})
    for c in content:
        if isinstance(c, tuple):
            node.append(lxml_of(c, values))
        elif len(node):
            node[-1].tail = (node[-1].tail or "") + (values[c] or "")
        else:
            node.text = (node.text or "") + (values[c] or "")
    return node


@given(trees, texts)
def test_against_lxml(tree: Tree, values: list[str | None]) -> None:
    schema = Schema.parse("s0 STRING, s1 STRING, s2 STRING")
    (results,), reasons = Program([("v", expression_of(tree))]).run(schema.frame([tuple(values)]))
    assert reasons is None or reasons.null_count() == 1
    assert etree.canonicalize(results.item()) == etree.canonicalize(
        etree.tostring(lxml_of(tree, values)).decode()
    )


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        ("XMLELEMENT", (S, fn.literal(STRING, "")), "needs names"),
        ("XMLELEMENT", (fn.literal(STRING, "e"), fn.literal(STRING, "a b"), S), "a value for each name"),
        ("XMLFOREST", (fn.literal(STRING, "a b"), S), "a value for each name"),
        (
            "XMLELEMENT",
            (fn.literal(STRING, "e"), fn.literal(STRING, "a"), X),
            "an attribute cannot contain XML",
        ),
        (
            "XMLFOREST",
            (fn.literal(STRING, "a"), column("l", Schema.parse("l ARRAY(b INT)")["l"].type)),
            "UNNEST",
        ),
        ("XMLTEXT", (X,), "cannot be compared"),
    ],
)
def test_invalid_arguments_are_refused(function: str, args: tuple[Expression, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fn.call(function, *args)


def test_they_print_as_they_are_written() -> None:
    expression = element("e", "a b", A, S, S, forest("q", A), X)
    assert (
        str(expression)
        == 'XMLELEMENT(NAME "e", XMLATTRIBUTES(a AS "a", s AS "b"), s, XMLFOREST(a AS "q"), x)'
    )
    assert str(element("e", "")) == 'XMLELEMENT(NAME "e")'


def test_a_slice_without_tuples() -> None:
    (results,), _ = Program([("v", CASES[2])]).run(
        pl.DataFrame(schema={"a": pl.Int64, "s": pl.String, "x": pl.String})
    )
    assert results.to_list() == []
