"""Paths: each is either refused, with its position, or reads the text at that path."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

import xmlpunct
from xmlpunct import Attribute, Schema, SchemaError, SqlError, XmlPunctError
from xmlpunct.firehose import Position, Split, StreamSpec, parse_conforming, parse_split
from xmlpunct.types import STRING

REFUSED = [
    *("..", "*", "n:a", "@n:a", "a|b", "count(a)", "a b", "a[0]", "a[-1]", "a[x]", "a[@x]", "a[@x=y]", "a[1][2]"),
    *("../text()", "../..", "../.", "../a[1]", "a/..", "a/../b", "text()/a", "@a[1]", "[1]", "a[1]b", "a[@x='y'"),
    *("", " ", "a ", " a", "/", "/a", "a/", "//a", "a//b", "@", "@@a", "@a/b", "a/@", "a@b", "@*", "a/*"),
    *("a/./b", "a/../b", "1a", "-a", ".a", "a\n", "a\tb", "a'b", 'a"b', "a\\b", "a=1", "a,b", "$a", "a;b", "(a)"),
    *("id('x')", "a and b", "child::a", "attribute::a", "@xmlns", "a/@xmlns", "xmlns:a", "\u00d7", "\u0301a"),
    *("a\x00", "\ufffe", "a&amp;b", "<a>", "a>b", "-", "·a", ":", "a:", ":a", "@a:b/c", "{}a", "{u}"),
]  # fmt: skip
READ = [
    *("a", "a/b", "@id", "a/b/@id", "a/a/a", "t", "t/a", "t/@t", "é", "été/@à", "名前", "_", "_1", "a-b", "a.b"),
    *("a·b", "a\u0301", "xml", "xmlns", "XML/@Xml", "@xml", "\U00010000/@\U00010001", "A/a", "@A"),
]  # fmt: skip

names = st.sampled_from(
    ["a", "b", "id", "t", "é", "名", "_", "x-1", "a.b", "n:a", "*", ".", "..", "", "1", "text()"]
)
steps = st.builds(str.__add__, st.sampled_from(["", "", "", "@", " "]), names | st.text(max_size=3))
paths = (
    st.lists(steps, min_size=1, max_size=4).map("/".join)
    | st.text(max_size=8)
    | st.sampled_from([*REFUSED, *READ])
)


@dataclass
class Tree:
    """An element with a value at each of some paths."""

    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: dict[str, Tree] = field(default_factory=dict)

    def put(self, path: str, value: str) -> None:
        first, slash, remainder = path.partition("/")
        if first[:1] == "@":
            self.attributes[first[1:]] = value
        elif slash:
            self.children.setdefault(first, Tree()).put(remainder, value)
        else:
            self.children.setdefault(first, Tree()).text = value

    def xml(self, name: str) -> str:
        attributes = "".join(f" {n}={quoteattr(v)}" for n, v in self.attributes.items())
        inner = "".join(child.xml(n) for n, child in self.children.items())
        return f"<{name}{attributes}>{inner}{self.text}</{name}>"


def document(given_paths: list[str], count: int = 40) -> bytes:
    """Tuples with a value at each of ``given_paths``."""
    tuples = []
    for row in range(count):
        tree = Tree()
        for i, path in enumerate(given_paths):
            tree.put(path, f"{row}-{i}")
        tuples.append(tree.xml("t"))
    return f"<s>{''.join(tuples)}</s>".encode()


def read(schema: Schema, data: bytes) -> list[list[tuple[object, ...]]]:
    spec, split = StreamSpec("s", schema, "t"), Split("s", Position(), data, True)
    results = []
    for parse in (parse_conforming, parse_split):
        parsed = parse(split, [spec])
        assert (parsed.error, parsed.rejects) == (None, [[]])
        results.append(parsed.slices[0].tuples.rows())
    return results


def all_text(element: etree._Element, path: str) -> str:
    steps, _, attribute = path.partition("@")
    for step in filter(None, steps.split("/")):
        (element,) = element.findall(step)
    return element.attrib[attribute] if attribute else "".join(element.itertext())


def column(name: str, path: str) -> str:
    return f"{name} STRING PATH '{path.replace(chr(39), chr(39) * 2)}'"


@given(paths)
@pytest.mark.parametrize("wrap", ["{}", "first INT, {}"])
def test_a_path_is_refused_or_read(wrap: str, path: str) -> None:
    columns = wrap.format(column("x", path))
    schema = None
    with suppress(SqlError):
        schema = Schema.parse(columns)
    if schema is None:
        with pytest.raises(SqlError) as caught:
            Schema.parse(columns)
        assert caught.value.start is not None
        underlined = columns[caught.value.start : caught.value.end]
        assert underlined == column("x", path).removeprefix("x STRING PATH ")
        with pytest.raises(SqlError):
            list(xmlpunct.query(f"CREATE STREAM t ({columns}); SELECT x FROM t", t=b"<s/>"))
        with pytest.raises(SchemaError, match="attribute x"):
            list(xmlpunct.parse(b"<s/>", Schema.of([Attribute("x", STRING, path=path or "/")]), element="t"))
        return
    assert schema["x"].path == path
    expected = [(*[None] * (len(schema) - 1), f"{row}-0") for row in range(40)]
    assert read(schema, document([path])) == [expected, expected]


@pytest.mark.parametrize("path", REFUSED)
def test_refused_paths(path: str) -> None:
    with pytest.raises(XmlPunctError):
        Schema.parse(column("x", path))


@pytest.mark.parametrize("path", READ)
def test_accepted_paths(path: str) -> None:
    expected = [(f"{row}-0",) for row in range(40)]
    assert read(Schema.parse(column("x", path)), document([path])) == [expected, expected]


@given(st.lists(st.sampled_from([*READ, "a/c", "a/@id", "t/t", "é/a"]), min_size=2, max_size=6, unique=True))
@example(["a", "a/b", "a/b/@id", "@a"])
def test_paths_beside_and_inside_each_other(several: list[str]) -> None:
    schema = Schema.parse(", ".join(column(f"x{i}", path) for i, path in enumerate(several)))
    data = document(several)
    root = etree.fromstring(data)
    expected = [tuple(all_text(tuple_, path) for path in several) for tuple_ in root]
    assert read(schema, data) == [expected, expected]


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("n:a", "XMLNAMESPACES"),
        ("a[0]", "a child, a/b, a.1., "),
    ],
)
def test_errors_have_advice(path: str, advice: str) -> None:
    with pytest.raises(SqlError, match=advice):
        Schema.parse(column("x", path))


@pytest.mark.parametrize("name", ["a b", "n:a", "1", "a/b", "@id", "*", "a'b"])
def test_a_column_without_a_path_is_an_element(name: str) -> None:
    for columns in (f'"{name}" STRING', f'y INT, "{name}" STRING NOT NULL'):
        with pytest.raises(SqlError, match="write PATH") as caught:
            Schema.parse(columns)
        assert caught.value.start is not None
        assert name in columns[caught.value.start : caught.value.end]
    if name not in ("a/b", "@id"):  # in Python, a name that is a path is used as the path
        with pytest.raises(SchemaError):
            list(xmlpunct.parse(b"<s/>", Schema.of([Attribute(name, STRING)]), element="t"))
    schema = Schema.parse(f"\"{name}\" STRING PATH 'x'")
    assert read(schema, document(["x"]))[0][0] == ("0-0",)
