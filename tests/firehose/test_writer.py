"""Writers, and that what is written reads back as it was."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlpunct.errors import UsageError, XmlPunctError
from xmlpunct.firehose import CsvWriter, JsonlWriter, Writer, XmlWriter, is_xml_name, parse, writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

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
    found = Slice(schema.frame([(77, 17), (None, 18)]), [Punctuation.of(schema, hour="[17,20)")])
    assert written(XmlWriter(schema), found).decode() == (
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
        said = {n: v for i, (n, v) in enumerate(zip(ALL.names, row, strict=True)) if mask >> i & 1}
        text = said.pop("s", None)
        found = Punctuation.of(ALL, **said)
        if text is not None:
            quoted = '"' + str(text).replace('"', '""') + '"'
            found = Punctuation(ALL, (Punctuation.of(ALL, s=quoted).patterns[0], *found.patterns[1:]))
        if not found.is_everything:
            punctuations.append(found)
    frame = ALL.frame(tuples)
    document = written(XmlWriter(ALL), Slice(frame, punctuations))
    assert list(parse(document, ALL, element="result")) == [*frame.rows(), *punctuations]


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1f", "\ufffe"])
def test_what_xml_cannot_carry(character: str) -> None:
    schema = Schema.parse("s STRING")
    writer = XmlWriter(schema)
    with pytest.raises(XmlPunctError, match="cannot carry"):
        writer.body(Slice(schema.frame([(f"a{character}",)])))
    with pytest.raises(XmlPunctError, match="cannot carry"):
        writer.body(Slice(schema.empty(), [Punctuation.of(schema, s=f"a{character}")]))


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
    found = [json.loads(x) for x in JsonlWriter(ALL).body(Slice(ALL.frame(tuples))).decode().split("\n")[:-1]]
    for said, row in zip(found, tuples, strict=True):
        assert (said["s"], said["i"], said["y"]) == (row[0], row[1], row[4])
        if isinstance(row[2], float) and abs(row[2]) != float("inf"):
            assert said["x"] == row[2]


def test_csv() -> None:
    schema = Schema.parse("s STRING, i INT, x DOUBLE")
    tuples = schema.frame([('a,"b"', 1, float("nan")), ("", None, -0.5), (None, 2, None)])
    found = Slice(tuples, [Punctuation.of(schema, i=5)])
    assert written(CsvWriter(schema), found).decode() == 's,i,x\n"a,""b""",1,NaN\n"",,-0.5\n,2,\n'


def test_no_tuples() -> None:
    assert written(CsvWriter(ALL), Slice(ALL.empty())) == b"s,i,x,m,y,d,t\n"
    assert JsonlWriter(ALL).body(Slice(ALL.empty())) == b""


def test_an_unknown_format() -> None:
    with pytest.raises(UsageError, match="xml, jsonl and csv"):
        writer_for("yaml", ALL)


def test_many_tuples_at_once() -> None:
    schema = Schema.parse("a INT")
    body = XmlWriter(schema).body(Slice(pl.DataFrame({"a": range(10_000)}, schema=schema.dtypes)))
    assert body.count(b"\n") == 10_000
