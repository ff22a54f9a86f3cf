"""Shapes of tuples: what paths, arrays and choices read is what lxml's XPath finds, however the source is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.harness import Outcome
from tests.firehose.outcomes import everything
from xmlpunct import Schema, SqlError
from xmlpunct.firehose import (
    PUNCT_NAMESPACE,
    Parser,
    Position,
    Split,
    Splitter,
    StreamSpec,
    elements_of,
    parse_conforming,
    parse_split,
)

SPACES = {"g": "urn:g"}
HEAD = "XMLNAMESPACES('urn:g' AS g), "
ROOT = f'<s xmlns:g="urn:g" xmlns:p="{PUNCT_NAMESPACE}">'

texts = st.sampled_from(["", "", "x", "7", " ", "é", "a &amp; b", "<![CDATA[<a>]]>", "<!-- a -->", "\r\n"])
attributes = st.dictionaries(st.sampled_from(["i", "r", "g:i"]), st.sampled_from(["1", "2", "s"]), max_size=2)


def tag(name: str, own: dict[str, str], inner: str) -> str:
    said = "".join(f' {key}="{value}"' for key, value in own.items())
    return f"<{name}{said}>{inner}</{name}>" if inner else f"<{name}{said}/>"


def trees(names: Sequence[str], depth: int) -> st.SearchStrategy[str]:
    """Elements in elements, with text between them."""
    below = st.just("")
    for _ in range(depth):
        element = st.builds(tag, st.sampled_from(names), attributes, st.builds(str.__add__, texts, below))
        below = st.lists(st.builds(str.__add__, element, texts), max_size=4).map("".join)
    return below


tuples = st.builds(
    tag, st.just("t"), attributes, st.builds(str.__add__, texts, trees(["a", "a", "b", "g:a"], 3))
)


def document(parts: Sequence[str]) -> bytes:
    return f"{ROOT}{''.join(parts)}</s>".encode()


def outcome(data: bytes, spec: StreamSpec, cut: int | None = None, feed: int | None = None) -> Outcome:
    """All that both readers find in a source, in splits."""
    splitter, found = Splitter("doc", elements_of([spec])), Outcome()
    for at in range(0, len(data), feed or len(data)):
        splitter.feed(data[at : at + (feed or len(data))])
    splitter.end()
    while (split := splitter.cut(cut)) is not None:
        fast, slow = parse_split(split, [spec]), parse_conforming(split, [spec])
        assert everything(fast) == everything(slow)
        found.tuples += slow.slices[0].tuples.rows()
        found.punctuations += map(str, slow.slices[0].punctuations)
        found.rejects += [f"{r.byte}: {r.reason}" for r in slow.rejects[0]]
        assert slow.error is None
    return found


def is_walked(data: bytes, spec: StreamSpec) -> bool:
    return Parser([spec])._walker.walk(Split("doc", Position(), data, True)) is not None


def one(data: bytes | str, columns: str, element: str = "t", **more: Any) -> Outcome:
    data = data.encode() if isinstance(data, str) else data
    return outcome(data, StreamSpec("s", Schema.parse(columns), element, **more))


def strings(element: etree._Element, path: str) -> list[str]:
    """What XPath finds, as strings."""
    found = element.xpath(path.removesuffix("/text()") if path != "text()" else ".", namespaces=SPACES)
    if path.endswith("text()"):
        return ["".join(element.xpath("text()", namespaces=SPACES)) for element in found]
    return [str(node) if isinstance(node, str) else "".join(node.xpath(".//text()")) for node in found]


PATHS = [
    *("a", "b", "g:a", "a/b", "b/a", "g:a/g:a", "@i", "@g:i", "a/@i", "g:a/@g:i", ".", "text()", "a/text()"),
    *("a[1]", "a[2]", "g:a[1]/b", "a[@r='s']", "a[@g:i='1']/@i", "a[1]/@r", "b[@i='2']/text()", "a[2]/a[1]"),
]


@given(st.lists(tuples, max_size=4), st.lists(st.sampled_from(PATHS), min_size=1, max_size=5, unique=True))
def test_paths_find_what_xpath_finds(parts: list[str], paths: list[str]) -> None:
    quoted = [path.replace("'", "''") for path in paths]
    columns = HEAD + ", ".join(f"c{i} STRING PATH '{path}'" for i, path in enumerate(quoted))
    data = document(parts)
    expected, wrong = [], 0
    for element in etree.fromstring(data):
        found = [strings(element, path) for path in paths]
        if any(len(values) > 1 for values in found):
            wrong += 1
        else:
            expected.append(tuple(values[0] if values else None for values in found))
    result = one(data, columns)
    assert (result.tuples, len(result.rejects)) == (expected, wrong)


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
def test_what_the_native_reader_takes(path: str) -> None:
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
    assert one(data, columns, "{urn:g}t").tuples == [(1, 1, 2, "")]


def test_names_without_a_prefix_are_in_the_tuples_namespace_or_in_none() -> None:
    data = "<f xmlns:g='urn:g'><g:t><g:a>1</g:a><b>2</b></g:t></f>"
    assert one(data, "a INT, b INT", "{urn:g}t").tuples == [(1, 2)]


@pytest.mark.parametrize(
    ("said", "pattern"),
    [
        ("<a>5</a>", "<5, *, *, *>"),
        ("<a>*</a><a>5</a>", "<*, 5, *, *>"),
        ("<p:second>[1,3]</p:second>", "<*, [1,3], *, *>"),
        ("<p:up>x</p:up>", "<*, *, x, *>"),
        ("<a r='s'>5</a>", "<5, *, *, 5>"),
    ],
)
def test_a_pattern_stands_at_a_path_or_under_a_name(said: str, pattern: str) -> None:
    columns = (
        "first INT PATH 'a[1]', second INT PATH 'a[2]', up STRING PATH '../@up', s INT PATH 'a[@r=''s'']'"
    )
    assert one(f"{ROOT}<p:t>{said}</p:t></s>", columns).punctuations == [pattern]


def test_a_pattern_at_its_path_and_under_its_name_is_wrong() -> None:
    data = f"{ROOT}<p:t><b>1</b><p:x>2</p:x></p:t></s>".encode()
    spec = StreamSpec("s", Schema.parse("x INT PATH 'b'"), "t")
    for parse in (parse_split, parse_conforming):
        error = parse(Split("doc", Position(), data, True), [spec]).error
        assert "x is given more than once" in str(error)


def test_arrays_and_elements_as_they_stood_have_no_pattern() -> None:
    columns = "l ARRAY(v INT), m XML, z INT"
    assert one(f"{ROOT}<p:t><z>1</z></p:t></s>", columns).punctuations == ["<*, *, 1>"]
    assert one(f"{ROOT}<p:t><l><v>1</v></l></p:t></s>", columns).punctuations == []
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
    lambda own, parts, name: f"<{name}{own}>{''.join(parts)}</{name}>",
    st.sampled_from(["", " i='1'", " i='2' j='3'"]),
    st.lists(inner, max_size=6),
    st.sampled_from(["o", "o", "g:o"]),
)


def with_ancestors(root: etree._Element, needed: bool) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Tuples' text, with ../@i, ../n, ../../n and ../n/@k; and reasons in order."""
    rows, reasons = [], []
    read: dict[tuple[etree._Element, str], list[int]] = {}

    def before(tuple_: etree._Element, up: int, path: str) -> list[str]:
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
                    reasons.append(f"attribute {name}: it comes after tuples that it is for")
                if key in read:
                    read[key] += [0] * len(values)
            continue
        parent = element.getparent()
        found = {
            "i": strings(parent, "@i"),
            "n": before(element, 1, "."),
            "k": before(element, 1, "@k"),
        }
        grand = parent.getparent()
        if grand is not None:
            read.setdefault((grand, ".#"), [])
            earlier = [c for c in grand if c.tag == "n" and grand.index(c) < grand.index(parent)]
            found["nn"] = [v for c in earlier for v in strings(c, ".")]
            read[grand, ".#"] = [0] * len(found["nn"])
        else:
            found["nn"] = []
        read[parent, "."], read[parent, "@k"] = [0] * len(found["n"]), [0] * len(found["k"])
        order = ["i", "n", "nn", "k"]
        twice = next((name for name in order if len(found[name]) > 1), None)
        if twice:
            reasons.append(f"attribute {twice}: given more than once")
        elif needed and not found["n"]:
            reasons.append("attribute n: missing, and it is NOT NULL")
        else:
            rows.append((element.text, *(found[name][0] if found[name] else None for name in order)))
    return rows, reasons


@given(
    st.lists(st.one_of(groups, inner), max_size=5),
    st.booleans(),
    st.sampled_from([None, 1, 30, 100]),
    st.sampled_from([None, 7, 40]),
)
def test_ancestors_say_what_ended_before(
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
    found = outcome(data, spec, cut, feed)
    assert found.tuples == expected
    assert sorted(r.partition(": ")[2] for r in found.rejects) == sorted(reasons)
    whole = outcome(data, spec)
    assert (whole.tuples, whole.rejects) == (found.tuples, found.rejects)


def test_what_was_said_goes_through_json() -> None:
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


# Arrays

lines = st.builds(tag, st.sampled_from(["l", "l", "g:l"]), attributes, trees(["q", "m", "q"], 2))
orders = st.builds(
    lambda parts: f"<t>{''.join(parts)}</t>", st.lists(lines | st.just("<z>1</z>"), max_size=5)
)


@given(st.lists(orders, max_size=4), st.booleans(), st.sampled_from([None, 40]))
def test_arrays_hold_what_xpath_finds(parts: list[str], deep: bool, cut: int | None) -> None:
    more = ", m ARRAY(q STRING)" if deep else ""
    columns = f"{HEAD}l ARRAY(i STRING PATH '@i', q STRING, v STRING PATH '.'{more}), z STRING"
    data = document(parts)
    expected, wrong = [], 0
    for element in etree.fromstring(data):
        rows: list[dict[str, Any]] = []
        fine = len(strings(element, "z")) < 2
        for item in element.findall("l"):
            values = {name: strings(item, path) for name, path in (("i", "@i"), ("q", "q"), ("v", "."))}
            row: dict[str, Any] = {name: found[0] if found else None for name, found in values.items()}
            fine &= len(values["q"]) < 2
            if deep:
                row["m"] = [{"q": (strings(m, "q") or [None])[0]} for m in item.findall("m")]
                fine &= all(len(m.findall("q")) < 2 for m in item.findall("m"))
            rows.append(row)
        if fine:
            expected.append((rows, (strings(element, "z") or [None])[0]))
        wrong += not fine
    result = outcome(data, StreamSpec("s", Schema.parse(columns), "t"), cut)
    assert (result.tuples, len(result.rejects)) == (expected, wrong)


@pytest.mark.parametrize(
    "columns", ["l ARRAY(i STRING PATH '@i', q INT), z STRING", "l ARRAY(m ARRAY(q INT)), z INT"]
)
def test_what_is_read_ahead_may_end_anywhere_in_an_array(columns: str) -> None:
    """Items of a tuple that is not complete belong to the next split."""
    line = "<l i='1'><q>1</q><m><q>2</q></m><m/></l>"
    data = document(["<t><z>1</z></t>", f"<t>{line}<z/>{line}</t>", f"<t>{line}</t >", "<t/>"])
    spec = StreamSpec("s", Schema.parse(columns), "t")
    expected = outcome(data, spec)
    for size in range(1, len(data)):
        parser, found = Parser([spec]), Outcome()
        splitter = Splitter("doc", elements_of([spec]), ahead=parser.ahead)
        for piece in (data[:size], data[size:]):
            splitter.feed(piece)
            if piece == data[size:]:
                splitter.end()
            while (split := splitter.cut(None)) is not None:
                parsed = parser.parse(split)
                assert everything(parsed) == everything(parse_conforming(split, [spec]))
                found.tuples += parsed.slices[0].tuples.rows()
                found.rejects += [f"{r.byte}: {r.reason}" for r in parsed.rejects[0]]
        assert found == expected


def test_a_wrong_item_rejects_its_tuple_and_says_where() -> None:
    data = f"{ROOT}<t><l><v>1</v></l></t><t><l><v>2</v></l><l><v>x</v></l></t><t/></s>"
    found = one(data, "l ARRAY(v INT)")
    assert found.tuples == [([{"v": 1}],), ([],)]
    assert [r.partition(": ")[2] for r in found.rejects] == ["attribute l.v: 'x' is not of type INT"]
    missing = one(data, "l ARRAY(v INT, w INT NOT NULL)")
    assert [r.partition(": ")[2] for r in missing.rejects] == [
        "attribute l.w: missing, and it is NOT NULL",
        "attribute l.v: 'x' is not of type INT",
    ]


def test_a_repeated_child_without_an_array_is_a_reject() -> None:
    assert one(f"{ROOT}<t><a>1</a><a>2</a></t></s>", "a INT").rejects == [
        f"{len(ROOT)}: attribute a: given more than once"
    ]


# Which elements are tuples

records = trees(["t", "o", "x"], 4)


def chosen(root: etree._Element, test: Any, nested: bool) -> Iterator[etree._Element]:
    for element in root.iter("t"):
        if test(element) and (nested or not any(a.tag == "t" and test(a) for a in element.iterancestors())):
            yield element


@given(records, st.sampled_from([None, 50]))
def test_tuples_inside_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i', x ARRAY(r STRING PATH '@r')"), "t", nested=True)
    expected = [
        (t.get("i"), [{"r": x.get("r")} for x in t.findall("x")])
        for t in chosen(etree.fromstring(data), lambda _: True, nested=True)
    ]
    assert outcome(data, spec, cut).tuples == expected


@given(records, st.sampled_from([None, 50]))
def test_a_condition_chooses_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i'"), "t", where=("r", "s"))
    expected = [
        (t.get("i"),) for t in chosen(etree.fromstring(data), lambda t: t.get("r") == "s", nested=False)
    ]
    assert outcome(data, spec, cut).tuples == expected


@given(records, st.sampled_from([None, 50]))
def test_a_path_of_elements_chooses_tuples(parts: str, cut: int | None) -> None:
    data = document([parts])
    spec = StreamSpec("s", Schema.parse("i STRING PATH '@i'"), "o/t")
    inside = lambda t: t.getparent() is not None and t.getparent().tag == "o"  # noqa: E731
    assert outcome(data, spec, cut).tuples == [
        (t.get("i"),) for t in chosen(etree.fromstring(data), inside, False)
    ]


def test_streams_of_one_element_choose_theirs() -> None:
    said = "<p:r k='b' i='1'/><p:r i='2'/>"
    data = f"{ROOT}<r k='a' i='1'><r k='b' i='2'/></r><r k='b' i='3'/><r k='c' i='4'/>{said}</s>"
    schema = Schema.parse("i INT PATH '@i'")
    specs = [StreamSpec(k, schema, "r", where=("k", k)) for k in "ab"]
    for parse in (parse_split, parse_conforming):
        found = parse(Split("doc", Position(), data.encode(), True), specs)
        assert [s.tuples.rows() for s in found.slices] == [[(1,)], [(3,)]]
        assert [[*map(str, s.punctuations)] for s in found.slices] == [["<2>"], ["<1>", "<2>"]]


def test_an_element_as_it_stood() -> None:
    inner_ = "<a k='1'>x<!-- c --><b/>&amp;</a>"
    found = one(
        f"{ROOT}<t>{inner_}<l i='1'/><l>2</l></t></s>", "a XML, t XML PATH '.', l ARRAY(x XML PATH '.')"
    )
    whole = f"<t>{inner_}<l i='1'/><l>2</l></t>"
    assert found.tuples == [(inner_, whole, [{"x": "<l i='1'/>"}, {"x": "<l>2</l>"}])]


@pytest.mark.parametrize(
    ("columns", "reason", "underlined"),
    [
        ("a INT PATH 'g:a'", "XMLNAMESPACES", "'g:a'"),
        ("XMLNAMESPACES('u' AS g, 'v' AS g), a INT", "prefix g", "'v' AS g"),
        ("XMLNAMESPACES('' AS g), a INT", "no namespace", "'' AS g"),
        ("l ARRAY(a INT PATH '../a')", "out of the array", "'../a'"),
        ("l ARRAY(a INT) PATH '@l'", "an array is made of elements", "'@l'"),
        ("a XML PATH '@a'", "XML is an element", "'@a'"),
        ("a INT, l ARRAY(x INT) CHECK (l = 1)", "CHECK says nothing of an array", "l = 1"),
        ("a INT PATH '../a[1]'", "is no path|no position", "'../a[1]'"),
        ("l ARRAY(x INT), m ARRAY(y INT) PATH 'l'", "two arrays", "m ARRAY(y INT)"),
    ],
)
def test_what_is_refused_is_underlined(columns: str, reason: str, underlined: str) -> None:
    with pytest.raises(SqlError, match=reason) as caught:
        Schema.parse(columns)
    assert caught.value.start is not None
    assert columns[caught.value.start : caught.value.end] == underlined
