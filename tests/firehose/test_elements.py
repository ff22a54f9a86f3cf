"""Arrays and XML columns are written as elements and read back; unwritable ones are refused or rejects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct import Punctuation, Schema, UsageError, parse
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import XmlWriter, writer_for
from xmlpunct.slice import Slice

LINE = """"@sku" STRING PATH '@sku', "size/w" DOUBLE PATH 'size/w', "size/h" DECIMAL(5,2) PATH 'size/h', note STRING,
          "g:tag" ARRAY("@g:k" STRING PATH '@g:k', v DATE) PATH 'g:tag'"""
ORDER = f""""@id" INT PATH '@id', "lines/line" ARRAY({LINE}) PATH 'lines/line', "lines/n" INT PATH 'lines/n',
            tag ARRAY(v STRING)"""
DECLARED = f"XMLNAMESPACES('urn:g' AS g), {ORDER}"

holdable = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff", min_codepoint=32)
)
texts = st.none() | holdable | st.sampled_from(["<&>\"'", "\r\n\t ", "]]>", ""])
tags = st.fixed_dictionaries({"@g:k": texts, "v": st.none() | st.dates()})
lines = st.fixed_dictionaries(
    {
        "@sku": texts,
        "size/w": st.none() | st.floats(allow_nan=False),
        "size/h": st.none() | st.decimals(-999, 999, places=2),
        "note": texts,
        "g:tag": st.lists(tags, max_size=2),
    }
)
orders = st.tuples(
    st.none() | st.integers(-9, 9),
    st.lists(lines, max_size=3),
    st.none() | st.integers(0, 3),
    st.lists(st.fixed_dictionaries({"v": texts}), max_size=2),
)


def written(schema: Schema, rows: list[Any], *punctuations: str, **form: Any) -> bytes:
    writer = XmlWriter(schema, **form)
    given_slice = Slice(schema.frame(rows), [Punctuation.parse(schema, text) for text in punctuations])
    assert writer.unfit(given_slice.tuples) is None
    return writer.start() + writer.body(given_slice) + writer.end()


@given(st.lists(orders, max_size=4), st.booleans())
def test_arrays_read_back_as_they_were(rows: list[Any], pretty: bool) -> None:
    schema = Schema.parse(DECLARED)
    data = written(schema, rows, "<5, *, *, *>", namespaces={"g": "urn:g"}, pretty=pretty)
    *back, punctuation = parse(data, schema, element="result")
    assert back == rows
    assert punctuation == Punctuation.parse(schema, "<5, *, *, *>")


def test_how_arrays_are_written() -> None:
    schema = Schema.parse(DECLARED)
    line = {
        "@sku": "a",
        "size/w": None,
        "size/h": None,
        "note": "x & y",
        "g:tag": [{"@g:k": None, "v": None}] * 2,
    }
    rows = [(1, [line, dict.fromkeys(line)], None, None), (2, [], None, []), (3, None, 4, [{"v": None}])]
    data = written(schema, rows, "<*, *, 5, *>", namespaces={"g": "urn:g"}).decode()
    assert data.splitlines()[1:-1] == [
        '<result id="1"><lines><line sku="a"><note>x &amp; y</note><g:tag></g:tag><g:tag></g:tag></line><line></line>'
        "</lines></result>",
        '<result id="2"></result>',
        '<result id="3"><lines><n>4</n></lines><tag></tag></result>',
        '<punct:result id="*"><lines><n>5</n></lines></punct:result>',
    ]
    pretty = written(schema, rows[2:] + rows[:1], namespaces={"g": "urn:g"}, pretty=True).decode()
    assert "\n    <tag>\n    </tag>\n" in pretty
    assert "\n      <line>\n" in pretty
    assert "\n        <g:tag>\n" in pretty


XML_ROWS = [("<a>1 &amp; 2</a>", "<g:b/>t", '<c g:d="&lt;"/>'), (None, None, None)]


def test_xml_is_written_verbatim() -> None:
    schema = Schema.parse("\"a/b\" XML PATH 'a/b', \"node()\" XML PATH 'x', \"c/node()\" XML PATH 'c'")
    data = written(schema, XML_ROWS, namespaces={"g": "urn:g"}).decode()
    assert data.splitlines()[1:-1] == [
        '<result><a><b><a>1 &amp; 2</a></b></a><g:b/>t<c><c g:d="&lt;"/></c></result>',
        "<result></result>",
    ]
    read = Schema.parse("XMLNAMESPACES('urn:g' AS g), a XML PATH 'a/b/a', b XML PATH 'g:b', c XML PATH 'c/c'")
    first, second = parse(data.encode(), read, element="result")
    assert first == ("<a>1 &amp; 2</a>", "<g:b/>", '<c g:d="&lt;"/>')
    assert second == (None, None, None)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("<p:a/>", False),
        ("<a p:b='1'/>", False),
        ("<a\np:b\n='1'/>", False),
        ("<a><b>x</b><p:c/></a>", False),
        ("<p:a xmlns:p='urn:p'/>", True),
        ("<a href='http://h/' b='x:y'>p:q http://h p:a='1'</a>", True),
        ("<g:a/>", True),
        ("<a xml:lang='de'/>", True),
        ("<a>\x01</a>", False),
        (None, True),
    ],
)
def test_xml_with_an_undeclared_prefix_is_a_reject(value: str | None, fits: bool) -> None:
    schema = Schema.parse("a XML, l ARRAY(x XML)")
    writer = XmlWriter(schema, namespaces={"g": "urn:g"})
    for row in ((value, []), (None, [{"x": "<b/>"}, {"x": value}])):
        reasons = writer.unfit(schema.frame([row, ("<ok/>", [])]))
        assert (reasons is None) == fits
        if reasons is not None:
            assert reasons.is_null().to_list() == [False, True]


def test_an_item_that_cannot_be_written_is_a_reject() -> None:
    schema = Schema.parse("l ARRAY(\"a/@b\" INT PATH 'a/@b', a STRING, s ARRAY(t STRING))")
    rows = [
        ([{"a/@b": b, "a": a, "s": [{"t": t}]}],)
        for b, a, t in [(1, None, ""), (1, "", "\x02"), (None, None, "")]
    ]
    reasons = XmlWriter(schema).unfit(schema.frame([*rows, ([],), (None,)]))
    assert reasons is not None
    assert [r and r.split(": ")[-1] for r in reasons] == [
        "null cannot be written in an element that has attributes",
        "a character that XML cannot hold",
        None,
        None,
        None,
    ]
    assert reasons[0].startswith("column l: column a: ")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("\"@a\" ARRAY(b INT) PATH 'a'", "ARRAY is no attribute"),
        ("\"@a\" XML PATH 'a'", "XML is no attribute"),
        ("\"node()\" INT PATH 'a'", "name the element"),
        ("\"node()\" ARRAY(b INT) PATH 'a'", "name the element"),
        ("\"a/@b\" INT PATH 'b', a ARRAY(b INT)", "no attributes besides"),
        ("a ARRAY(b INT), \"a/c\" INT PATH 'c'", "the text of <a>"),
        ("a ARRAY(b INT, \"@c\" INT PATH '@c')", "array a: .* list it earlier"),
        ("a ARRAY(\"b c\" INT PATH 'b')", "array a: .*'b c'"),
        ("a ARRAY(b ARRAY(\"g:c\" INT PATH 'c'))", "array a: array b: .*--namespaces 'g=URI'"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        writer_for("xml", Schema.parse(columns))


def test_a_punctuation_in_an_xml_column_is_not_one_of_the_output() -> None:
    """Elements inside an XML column are part of its tuple when the output is read."""
    schema = Schema.parse("a XML")
    value = f"<p:result xmlns:p='{PUNCT_NAMESPACE}'><a>5</a></p:result><result><a/></result>"
    rows = list(parse(written(schema, [(value,), (None,)]), schema, element="result"))
    assert [x[0] for x in rows] == [f"<a>{value}</a>", None]
