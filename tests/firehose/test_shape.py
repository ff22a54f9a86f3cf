"""Paths and ancestors read the same as lxml's XPath, wherever the source is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.shapes import (
    HEAD,
    ROOT,
    document,
    is_walked,
    outcome,
    read_document,
    strings,
    tuples,
)
from xmlpunct import Schema, SqlError
from xmlpunct.firehose import (
    Position,
    Split,
    Splitter,
    StreamSpec,
    elements_of,
    parse_conforming,
    parse_split,
)

PATHS = [
    *("a", "b", "g:a", "a/b", "b/a", "g:a/g:a", "@i", "@g:i", "a/@i", "g:a/@g:i", ".", "text()", "a/text()"),
    *("a[1]", "a[2]", "g:a[1]/b", "a[@r='s']", "a[@g:i='1']/@i", "a[1]/@r", "b[@i='2']/text()", "a[2]/a[1]"),
]


@given(st.lists(tuples, max_size=4), st.lists(st.sampled_from(PATHS), min_size=1, max_size=5, unique=True))
def test_paths_agree_with_xpath(parts: list[str], paths: list[str]) -> None:
    quoted = [path.replace("'", "''") for path in paths]
    columns = HEAD + ", ".join(f"c{i} STRING PATH '{path}'" for i, path in enumerate(quoted))
    data = document(parts)
    expected, reject_count = [], 0
    for element in etree.fromstring(data):
        selected = [strings(element, path) for path in paths]
        if any(len(values) > 1 for values in selected):
            reject_count += 1
        else:
            expected.append(tuple(values[0] if values else None for values in selected))
    result = read_document(data, columns)
    assert (result.tuples, len(result.rejects)) == (expected, reject_count)


NATIVE = [
    "a[@i='4']",
    "g:a[@g:i='5']/@g:i",
    "a",
    "g:a",
    "a/b",
    "@g:i",
    "a/@i",
    "g:a/@g:i",
    ".",
    "a/text()",
    "text()",
]


@pytest.mark.parametrize("path", NATIVE)
def test_paths_that_are_read_natively(path: str) -> None:
    from xmlpunct.firehose import native

    data = document(["<t g:i='3' i='1'>x<a i='4'>1<b>2</b>3</a><g:a g:i='5'>7</g:a></t>"])
    quoted = path.replace("'", "''")
    spec = StreamSpec("s", Schema.parse(f"{HEAD}c STRING PATH '{quoted}'"), "t")
    assert is_walked(data, spec) == native.COMPILED
    assert outcome(data, spec).tuples == [(strings(etree.fromstring(data)[0], path)[0],)]


def test_a_default_namespace_is_that_of_names_without_prefix() -> None:
    data = "<f xmlns='urn:g' xmlns:h='urn:g'><t i='1'><a>1</a><h:b i='2'><c/></h:b></t><t xmlns=''><a>2</a></t></f>"
    columns = (
        "XMLNAMESPACES(DEFAULT 'urn:g'), a INT, i INT PATH '@i', bi INT PATH 'b/@i', c STRING PATH 'b/c'"
    )
    assert read_document(data, columns, "{urn:g}t").tuples == [(1, 1, 2, "")]


def test_names_without_a_prefix_are_in_the_tuples_namespace_or_in_none() -> None:
    data = "<f xmlns:g='urn:g'><g:t><g:a>1</g:a><b>2</b></g:t></f>"
    assert read_document(data, "a INT, b INT", "{urn:g}t").tuples == [(1, 2)]


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("<a>5</a>", "<5, *, *, *>"),
        ("<a>*</a><a>5</a>", "<*, 5, *, *>"),
        ("<p:second>[1,3]</p:second>", "<*, [1,3], *, *>"),
        ("<p:up>x</p:up>", "<*, *, x, *>"),
        ("<a r='s'>5</a>", "<5, *, *, 5>"),
    ],
)
def test_a_pattern_stands_at_a_path_or_under_a_name(content: str, pattern: str) -> None:
    columns = (
        "first INT PATH 'a[1]', second INT PATH 'a[2]', up STRING PATH '../@up', s INT PATH 'a[@r=''s'']'"
    )
    assert read_document(f"{ROOT}<p:t>{content}</p:t></s>", columns).punctuations == [pattern]


def test_a_pattern_at_its_path_and_under_its_name_is_wrong() -> None:
    data = f"{ROOT}<p:t><b>1</b><p:x>2</p:x></p:t></s>".encode()
    spec = StreamSpec("s", Schema.parse("x INT PATH 'b'"), "t")
    for parse in (parse_split, parse_conforming):
        error = parse(Split("doc", Position(), data, True), [spec]).error
        assert "x is given more than once" in str(error)


def test_arrays_and_xml_columns_have_no_pattern() -> None:
    columns = "l ARRAY(v INT), m XML, z INT"
    assert read_document(f"{ROOT}<p:t><z>1</z></p:t></s>", columns).punctuations == ["<*, *, 1>"]
    assert read_document(f"{ROOT}<p:t><l><v>1</v></l></p:t></s>", columns).punctuations == []
    data = f"{ROOT}<p:t><m>1</m></p:t></s>".encode()
    error = parse_split(
        Split("doc", Position(), data, True), [StreamSpec("s", Schema.parse(columns), "t")]
    ).error
    assert "XML has no pattern but *" in str(error)


# Ancestors

inner = st.one_of(
    st.sampled_from(
        ["<t>1</t>", "<t>2</t>", "<n>A</n>", "<n k='1'>B<u>b</u></n>", "<x/>", "text", "<n/>", "<!-- n -->"]
    ),
)
groups = st.builds(
    lambda attribute_text, parts, name: f"<{name}{attribute_text}>{''.join(parts)}</{name}>",
    st.sampled_from(["", " i='1'", " i='2' j='3'"]),
    st.lists(inner, max_size=6),
    st.sampled_from(["o", "o", "g:o"]),
)


def with_ancestors(root: etree._Element, needed: bool) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Expected tuples with text, ../@i, ../n, ../../n and ../n/@k, and reasons of rejects in order."""
    rows, reasons = [], []
    read: dict[tuple[etree._Element, str], list[int]] = {}

    def earlier_values(tuple_: etree._Element, up: int, path: str) -> list[str]:
        inside = tuple_
        for _ in range(up - 1):
            inside = inside.getparent()
        parent = inside.getparent()
        read.setdefault((parent, path), [])
        earlier = [
            c
            for c in parent
            if isinstance(c.tag, str) and c.tag == "n" and parent.index(c) < parent.index(inside)
        ]
        return [v for child in earlier for v in strings(child, path)]

    for element in root.iter("t", "n"):
        if element.tag == "n":
            parent = element.getparent()
            slots = [("n", "."), ("nn", ".."), ("k", "@k")]
            for name, _ in slots:
                key = (parent, {"n": ".", "nn": ".#", "k": "@k"}[name])
                values = strings(element, key[1].rstrip("#"))
                if key in read and values and not (needed and name == "n" and not read[key]):
                    reasons.append(f"attribute {name}: it comes after tuples that it applies to")
                if key in read:
                    read[key] += [0] * len(values)
            continue
        parent = element.getparent()
        selected = {
            "i": strings(parent, "@i"),
            "n": earlier_values(element, 1, "."),
            "k": earlier_values(element, 1, "@k"),
        }
        grand = parent.getparent()
        if grand is not None:
            read.setdefault((grand, ".#"), [])
            earlier = [c for c in grand if c.tag == "n" and grand.index(c) < grand.index(parent)]
            selected["nn"] = [v for c in earlier for v in strings(c, ".")]
            read[grand, ".#"] = [0] * len(selected["nn"])
        else:
            selected["nn"] = []
        read[parent, "."], read[parent, "@k"] = [0] * len(selected["n"]), [0] * len(selected["k"])
        order = ["i", "n", "nn", "k"]
        repeated = next((name for name in order if len(selected[name]) > 1), None)
        if repeated:
            reasons.append(f"attribute {repeated}: given more than once")
        elif needed and not selected["n"]:
            reasons.append("attribute n: missing, but NOT NULL")
        else:
            rows.append((element.text, *(selected[name][0] if selected[name] else None for name in order)))
    return rows, reasons


@given(
    st.lists(st.one_of(groups, inner), max_size=5),
    st.booleans(),
    st.sampled_from([None, 1, 30, 100]),
    st.sampled_from([None, 7, 40]),
)
def test_ancestors_have_values_that_ended_before(
    parts: list[str], needed: bool, cut: int | None, feed: int | None
) -> None:
    null = "NOT NULL" if needed else ""
    columns = (
        f"v STRING PATH '.', i STRING PATH '../@i', n STRING {null} PATH '../n', nn STRING PATH '../../n', "
        "k STRING PATH '../n/@k'"
    )
    data = document(parts)
    expected, reasons = with_ancestors(etree.fromstring(data), needed)
    spec = StreamSpec("s", Schema.parse(columns), "t")
    result = outcome(data, spec, cut, feed)
    assert result.tuples == expected
    assert sorted(r.partition(": ")[2] for r in result.rejects) == sorted(reasons)
    uncut = outcome(data, spec)
    assert (uncut.tuples, uncut.rejects) == (result.tuples, result.rejects)


def test_the_state_of_ancestors_survives_json() -> None:
    spec = StreamSpec("s", Schema.parse("n STRING PATH '../n'"), "t")
    splitter = Splitter("doc", elements_of([spec]))
    splitter.feed(b"<s><n>A</n><t/><x/><t/></s>")
    splitter.end()
    first = splitter.cut(12)
    assert first is not None
    assert Position.from_json(splitter.position.to_json()) == splitter.position
    assert splitter.position.said == (((0, 0, ("A",), False),),)


def test_a_long_start_tag_keeps_its_attributes() -> None:
    data = f"<s><o i='1' long='{'x' * 3000}'><t/><t/></o></s>".encode()
    assert outcome(data, StreamSpec("s", Schema.parse("i INT PATH '../@i'"), "t"), 1).tuples == [(1,), (1,)]


@pytest.mark.parametrize(
    ("columns", "reason", "underlined"),
    [
        ("a INT PATH 'g:a'", "XMLNAMESPACES", "'g:a'"),
        ("XMLNAMESPACES('u' AS g, 'v' AS g), a INT", "prefix g", "'v' AS g"),
        ("XMLNAMESPACES('' AS g), a INT", "no namespace", "'' AS g"),
        ("l ARRAY(a INT PATH '../a')", "out of the array", "'../a'"),
        ("l ARRAY(a INT) PATH '@l'", "the items of an array must be elements", "'@l'"),
        ("a XML PATH '@a'", "XML is an element", "'@a'"),
        ("a INT, l ARRAY(x INT) CHECK (l = 1)", "CHECK does not apply to an array", "l = 1"),
        ("a INT PATH '../a[1]'", "is no path|cannot have a position", "'../a[1]'"),
        ("l ARRAY(x INT), m ARRAY(y INT) PATH 'l'", "two arrays", "m ARRAY(y INT)"),
    ],
)
def test_errors_are_underlined(columns: str, reason: str, underlined: str) -> None:
    with pytest.raises(SqlError, match=reason) as caught:
        Schema.parse(columns)
    assert caught.value.start is not None
    assert columns[caught.value.start : caught.value.end] == underlined
