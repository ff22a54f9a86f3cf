"""Writers of XML, JSON lines and CSV; their output reads back unchanged."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmlpunct import parse
from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE, is_xml_name
from xmlpunct.firehose import CsvWriter, JsonlWriter, Writer, XmlWriter, writer_for
from xmlpunct.firehose.result_elements import read_namespaces
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import INT, STRING, Type

ALL = Schema.parse("s STRING, i INT, x DOUBLE, m DECIMAL(7,2), y BOOLEAN, d DATE, t TIMESTAMP")
ROW = (
    "a<b>&\"'",
    -5,
    float("inf"),
    Decimal("1.50"),
    True,
    date(2026, 1, 2),
    datetime(2026, 1, 2, 3, 4, 5, 60, UTC),
)
NULLS = (None,) * 7


def written(writer: Writer, *slices: Slice) -> bytes:
    return writer.start() + b"".join(map(writer.body, slices)) + writer.end()


def test_xml() -> None:
    schema = Schema.parse("maxtemp INT, hour INT")
    slice_ = Slice(schema.frame([(77, 17), (None, 18)]), [Punctuation.of(schema, hour="[17,20)")])
    assert written(XmlWriter(schema), slice_).decode() == (
        '<stream xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">\n'
        "<result><maxtemp>77</maxtemp><hour>17</hour></result>\n"
        "<result><hour>18</hour></result>\n"
        "<punct:result><maxtemp>*</maxtemp><hour>[17,19]</hour></punct:result>\n"
        "</stream>\n"
    )


def test_the_end_is_never_a_punctuation() -> None:
    schema = Schema.parse("a INT")
    end = Slice(schema.empty(), [Punctuation.everything(schema)])
    assert [writer_for(f, schema).body(end) for f in ("xml", "jsonl", "csv")] == [b""] * 3


def test_xml_of_every_type() -> None:
    assert XmlWriter(ALL, element="t").body(Slice(ALL.frame([ROW, NULLS]))).decode() == (
        "<t><s>a&lt;b&gt;&amp;\"'</s><i>-5</i><x>INF</x><m>1.50</m><y>true</y><d>2026-01-02</d>"
        "<t>2026-01-02T03:04:05.000060Z</t></t>\n<t></t>\n"
    )


strings = st.text(
    st.one_of(
        st.sampled_from(" \t\r\n&<>\"'*[](){},é😀"),
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
    ),
    max_size=8,
) | st.sampled_from(["]]>", "\r\n", "<!-- x -->", "&amp;", " ", ""])
values = st.tuples(
    strings,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(-99999, 99999, places=2),
    st.booleans(),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
)
rows = values.flatmap(lambda row: st.tuples(*(st.sampled_from([v, v, None]) for v in row)))


@given(st.lists(rows, max_size=4), st.lists(values, max_size=3), st.integers(0, 127))
def test_xml_reads_back(
    tuples: list[tuple[object, ...]], constants: list[tuple[object, ...]], mask: int
) -> None:
    punctuations = []
    for row in constants:
        patterns = {n: v for i, (n, v) in enumerate(zip(ALL.names, row, strict=True)) if mask >> i & 1}
        text = patterns.pop("s", None)
        punctuation = Punctuation.of(ALL, **patterns)
        if text is not None:
            punctuation = Punctuation(
                ALL, (Punctuation.of(ALL, s=quoted(str(text))).patterns[0], *punctuation.patterns[1:])
            )
        if not punctuation.is_everything:
            punctuations.append(punctuation)
    frame = ALL.frame(tuples)
    document = written(XmlWriter(ALL), Slice(frame, punctuations))
    assert list(parse(document, ALL, element="result")) == [*frame.rows(), *punctuations]


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1f", "\ufffe"])
def test_characters_that_xml_cannot_represent(character: str) -> None:
    schema = Schema.parse("s STRING, i INT")
    writer = XmlWriter(schema)
    reasons = writer.unfit(schema.frame([("a", 1), (f"a{character}", 2), (None, None)]))
    assert reasons is not None
    assert reasons.is_null().to_list() == [True, False, True]
    assert "column s" in reasons[1]
    assert writer.unfit(schema.frame([("a\t\n\r", 1)])) is None
    # a punctuation may always be omitted
    assert writer.body(Slice(schema.empty(), [Punctuation.of(schema, s=f"a{character}")])) == b""
    assert JsonlWriter(schema).unfit(schema.frame([(character, 1)])) is None


@pytest.mark.parametrize(
    ("name", "ok"), [("_1", True), ("é", True), ("a-b.c", True), ("1a", False), ("a:b", False)]
)
def test_names(name: str, ok: bool) -> None:
    assert is_xml_name(name) is ok
    assert not is_xml_name(f"{name} x")
    if not ok:
        with pytest.raises(UsageError, match=name):
            XmlWriter(Schema.parse("a INT"), element=name)
        with pytest.raises(UsageError, match=name):
            XmlWriter(Schema.parse(f'"{name}" INT'))


def test_jsonl() -> None:
    punctuation = Punctuation.of(ALL, i="[17,20)", s='"*"')
    text = JsonlWriter(ALL).body(Slice(ALL.frame([ROW, NULLS]), [punctuation])).decode()
    assert '"m": 1.50,' in text
    first, second, third = map(json.loads, text.splitlines())
    assert first == {
        "s": ROW[0], "i": -5, "x": "INF", "m": 1.5, "y": True, "d": "2026-01-02",
        "t": "2026-01-02T03:04:05.000060Z",
    }  # fmt: skip
    assert second == dict.fromkeys(ALL.names)
    assert third == {"$punct": {"s": '"*"', "i": "[17,19]"}}


@given(st.lists(rows, max_size=4))
def test_jsonl_keeps_values(tuples: list[tuple[object, ...]]) -> None:
    objects = [
        json.loads(x) for x in JsonlWriter(ALL).body(Slice(ALL.frame(tuples))).decode().split("\n")[:-1]
    ]
    for object_, row in zip(objects, tuples, strict=True):
        assert (object_["s"], object_["i"], object_["y"]) == (row[0], row[1], row[4])
        if isinstance(row[2], float) and abs(row[2]) != float("inf"):
            assert object_["x"] == row[2]


def test_csv() -> None:
    schema = Schema.parse("s STRING, i INT, x DOUBLE")
    tuples = schema.frame([('a,"b"', 1, float("nan")), ("", None, -0.5), (None, 2, None)])
    slice_ = Slice(tuples, [Punctuation.of(schema, i=5)])
    assert written(CsvWriter(schema), slice_).decode() == 's,i,x\n"a,""b""",1,NaN\n"",,-0.5\n,2,\n'


def test_no_tuples() -> None:
    assert written(CsvWriter(ALL), Slice(ALL.empty())) == b"s,i,x,m,y,d,t\n"
    assert JsonlWriter(ALL).body(Slice(ALL.empty())) == b""


def test_an_unknown_format() -> None:
    with pytest.raises(UsageError, match="xml, jsonl, csv and table"):
        writer_for("yaml", ALL)


def test_many_tuples_at_once() -> None:
    schema = Schema.parse("a INT")
    body = XmlWriter(schema).body(Slice(pl.DataFrame({"a": range(10_000)}, schema=schema.dtypes)))
    assert body.count(b"\n") == 10_000


def columns(*names: str, type_: Type = STRING) -> Schema:
    """A schema with columns of these names."""
    return Schema.of(Attribute(name, type_) for name in names)


def test_columns_are_paths() -> None:
    schema = columns("@id", "@g:lang", "size/@unit", "size/w", "size/h", "name")
    writer = XmlWriter(schema, "g:shop", "{urn:y}item", namespaces={"g": "urn:g"})
    slice_ = Slice(
        schema.frame([('a"<&\n\t', None, "cm", "1", None, "x"), (None,) * 6]),
        [Punctuation.of(schema, **{"@id": "[a&\nc,b)", "size/h": "3"})],
    )
    assert written(writer, slice_).decode() == (
        '<g:shop xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct" xmlns:g="urn:g" xmlns:ns1="urn:y">\n'
        '<ns1:item id="a&quot;&lt;&amp;&#10;&#9;"><size unit="cm"><w>1</w></size><name>x</name></ns1:item>\n'
        "<ns1:item></ns1:item>\n"
        '<punct:item id="[a&amp;&#10;c,b)" g:lang="*"><size unit="*">'
        "<w>*</w><h>3</h></size><name>*</name></punct:item>\n"
        "</g:shop>\n"
    )


def test_columns_with_the_same_parent_share_it_wherever_they_are_listed() -> None:
    schema = columns("a/b", "c", "a/d", type_=INT)
    assert XmlWriter(schema).body(Slice(schema.frame([(1, 2, 3), (None, 2, None)]))).decode() == (
        "<result><a><b>1</b><d>3</d></a><c>2</c></result>\n<result><c>2</c></result>\n"
    )


def test_pretty() -> None:
    schema = columns("@id", "a/b", "a/c", "d", type_=INT)
    slice_ = Slice(schema.frame([(1, 2, 3, 4), (None, None, None, 4)]), [Punctuation.of(schema, d=4)])
    text = written(XmlWriter(schema, pretty=True), slice_).decode()
    assert text.partition("\n")[2] == (
        '  <result id="1">\n    <a>\n      <b>2</b>\n      <c>3</c>\n    </a>\n    <d>4</d>\n  </result>\n'
        "  <result>\n    <d>4</d>\n  </result>\n"
        '  <punct:result id="*">\n    <a>\n      <b>*</b>\n      <c>*</c>\n    </a>\n    <d>4</d>\n'
        "  </punct:result>\n</stream>\n"
    )


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a", "@id"], "list it earlier"),
        (["a/b", "c", "a/@id"], "list it earlier"),
        (["a", "a/@id"], "list it earlier"),
        (["a", "a/b"], "text of <a>"),
        (["a/b", "a"], "elements in <a>"),
        (["g:a", "h:a"], "same path"),
        (["@g:a", "@h:a"], "same path"),
        (["p:a"], "not declared"),
        (["punct:a"], "not declared"),
        (["@xmlns"], "xmlns"),
        (["a b"], "not a name"),
        (["a//b"], "not a name"),
        (["@a/b"], "not a name"),
        (["/".join("a" * 199)], "198 deep"),
    ],
)
def test_columns_that_cannot_be_written(names: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        XmlWriter(columns(*names), namespaces={"g": "urn:g", "h": "urn:g"})
    assert repr(names[-1]) in str(raised.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"root": "a b"}, "a b"),
        ({"element": "g:a"}, "not declared"),
        ({"element": "{urn:x}"}, "not a name"),
        ({"root": "result"}, "one tuple"),
        ({"root": "g:a", "element": "{urn:g}a", "namespaces": {"g": "urn:g"}}, "one tuple"),
        ({"element": f"{{{PUNCT_NAMESPACE}}}a"}, "punctuation"),
        ({"namespaces": {"g": PUNCT_NAMESPACE}}, "punctuations"),
        ({"namespaces": {"g": "urn:\x01"}}, "no namespace"),
        ({"punct_namespace": "urn:\x01"}, "no namespace"),
        ({"punct_namespace": "a b"}, "has to be a URI"),
        ({"element": "{http://x/é}a"}, "has to be a URI"),
        ({"namespaces": {"g": "urn:x#a#b"}}, "has to be a URI"),
        ({"namespaces": {"g": "u" * 1001}}, "1,000 characters"),
    ],
)
def test_names_that_xml_cannot_have(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        XmlWriter(columns("a"), **options)


@pytest.mark.parametrize(
    "text", ["g", "g=", "=urn:x", "g=urn:x g=urn:y", "xml=urn:x", "punct=urn:x", "a:b=urn:x"]
)
def test_namespaces_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="--namespaces"):
        read_namespaces(text)


@pytest.mark.parametrize("uri", ["a", "a#b", "urn:x", "http://x/%20?a=1&b='2'", "u" * 1000])
def test_namespaces_that_can_be_read_again(uri: str) -> None:
    writer = XmlWriter(columns("g:a"), element="g:r", namespaces={"g": uri})
    document = written(writer, Slice(writer.schema.frame([("x",)])))
    back = Schema.parse(f"XMLNAMESPACES('{uri.replace(chr(39), chr(39) * 2)}' AS g), a STRING PATH 'g:a'")
    assert list(parse(document, back, element=f"{{{uri}}}r")) == [("x",)]


def test_deep_columns() -> None:
    schema = columns("/".join("a" * 198))
    document = written(XmlWriter(schema), Slice(schema.frame([("x",)])))
    back = Schema.parse(f"c STRING PATH '{'/'.join('a' * 198)}'")
    assert list(parse(document, back, element="result")) == [("x",)]


def test_null_is_no_empty_text() -> None:
    schema = Schema.of([Attribute("a/@id", INT), Attribute("a", STRING)])
    writer = XmlWriter(schema)
    reasons = writer.unfit(schema.frame([(1, "x"), (1, None), (None, "x"), (None, None), (1, "")]))
    assert reasons is not None
    assert reasons.is_null().to_list() == [True, False, True, True, True]
    assert "column a: null" in reasons[1]
    body = writer.body(Slice(schema.frame([(1, "x"), (None, "x"), (None, None), (1, "")])))
    assert body.decode() == (
        '<result><a id="1">x</a></result>\n<result><a>x</a></result>\n<result></result>\n'
        '<result><a id="1"></a></result>\n'
    )


PATHS = ["@p", "a/@p", "a/@q", "a/b/@p", "a/b", "a/c/d", "a/c/e", "f/@p", "f/g", "f/h/@p", "h"]
"""Any subset of these paths, in this order, can be written."""


@settings(max_examples=60)
@given(st.data())
def test_columns_with_paths_read_back(data: st.DataObject) -> None:
    paths = [path for path in PATHS if data.draw(st.booleans())] or ["@p"]
    types = [data.draw(st.sampled_from(ALL.attributes)).type for _ in paths]
    schema = Schema.of(map(Attribute, paths, types))
    by_type = dict(
        zip(
            (a.type for a in ALL),
            zip(*data.draw(st.lists(values, min_size=1, max_size=4)), strict=True),
            strict=True,
        )
    )
    cells = [data.draw(st.lists(st.sampled_from([None, *by_type[t]]), min_size=3, max_size=3)) for t in types]
    frame = schema.frame(zip(*cells, strict=True))
    row = data.draw(st.sampled_from(["result", "{urn:x}t", "g:t"]))
    options: dict[str, Any] = {"namespaces": {"g": "urn:g"}, "pretty": data.draw(st.booleans())}
    writer = XmlWriter(schema, element=row, **options)
    if (unfit := writer.unfit(frame)) is not None:
        frame = frame.filter(unfit.is_null())
    punctuations = [
        Punctuation.of(schema, **{path: quoted(t.format(v))})
        for path, t in zip(paths, types, strict=True)
        for v in by_type[t][:1]
    ]
    document = written(writer, Slice(frame, punctuations))
    back = Schema.of(
        Attribute(f"c{i}", t, path=path) for i, (path, t) in enumerate(zip(paths, types, strict=True))
    )
    elements = list(parse(document, back, element=row.replace("g:", "{urn:g}"), on_reject=pytest.fail))
    assert [e for e in elements if isinstance(e, tuple)] == frame.rows()
    assert [p.patterns for p in elements if isinstance(p, Punctuation)] == [p.patterns for p in punctuations]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize("pretty", [True, False])
def test_many_punctuations_at_once(pretty: bool) -> None:
    """Writing punctuations in bulk equals writing them one by one, for each column."""
    schema = columns("@id", "a/@id", "a/b", "c", type_=INT)
    writer = XmlWriter(schema, pretty=pretty)
    for name in schema.names:
        punctuations = [Punctuation.of(schema, **{name: n}) for n in range(5)]
        assert writer.body(Slice(schema.empty(), punctuations)).decode() == "".join(
            map(writer.punctuation, punctuations)
        )
        assert 'id="0"' in writer.punctuation(punctuations[0]) or ">0<" in writer.punctuation(punctuations[0])


@pytest.mark.parametrize("writer", [XmlWriter, JsonlWriter])
def test_columns_of_punctuations(writer: type[XmlWriter | JsonlWriter]) -> None:
    schema = columns("@id", "a/b", "c", type_=INT)
    form = writer(schema)
    constants = PunctuationBatch.of_column(schema, 0, pl.Series([7, -5]))
    bounds = pl.Series([None, 1, 3, None]), pl.Series([5, 2, None, None], dtype=pl.Int64)
    ranges = [PunctuationBatch.of_ranges(schema, index, *bounds) for index in range(3)]
    for punctuations in (constants, *ranges, PunctuationBatch.of_parts([constants, ranges[0], ranges[2]])):
        assert form.body(Slice(schema.empty(), punctuations)).decode() == "".join(
            map(form.punctuation, list(punctuations))
        )
