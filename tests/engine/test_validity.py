"""WITH (xsd = ...): invalid tuples are rejects, with the reason of lxml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.cli.harness import Cli
from xmlpunct import Reject
from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.source import Source
from xmlpunct.engine.sql import plan
from xmlpunct.engine.sql.planner.declaration import column_list
from xmlpunct.firehose.libxml.xsd_validator import validity_of
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.schema import Schema

XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:x" elementFormDefault="qualified">
<xs:element name="t"><xs:complexType><xs:sequence>
  <xs:element name="a" type="xs:int"/><xs:element name="b" minOccurs="0" type="xs:date"/>
</xs:sequence><xs:attribute name="id" type="xs:byte" use="required"/></xs:complexType></xs:element></xs:schema>"""
TUPLES = [
    "<x:t id='1'><x:a>1</x:a></x:t>",
    "<x:t id='2'><x:a>2</x:a><x:b>2026-01-01</x:b></x:t>",
    "<x:t id='300'><x:a>3</x:a></x:t>",
    "<x:t id='4'><x:b>2026-01-01</x:b><x:a>4</x:a></x:t>",
    "<x:t id='5'><x:a>5</x:a><x:c/></x:t>",
    "<x:t><x:a>6</x:a></x:t>",
    "<x:t id='7'><!-- é --><x:a>7</x:a><?pi?></x:t>",
    "<t id='8'/>",
]


@pytest.fixture(scope="module")
def xsd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xsd") / "t.xsd"
    path.write_text(XSD)
    return path


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capfd)


@given(
    st.lists(st.sampled_from(TUPLES), max_size=6), st.integers(20, 400), st.sampled_from(["", "<x:t></q>"])
)
def test_validation_agrees_with_lxml_for_all_slices(
    xsd: Path, tuples: list[str], size: int, broken: str
) -> None:
    xml = f"<s xmlns:x='urn:x'>\n<o><x:u/>{''.join(tuples)}</o></s>"
    schema = etree.XMLSchema(etree.parse(str(xsd)))
    elements = list(etree.fromstring(xml).iter("{urn:x}t"))
    valid = [e.findtext("{urn:x}a") for e in elements if schema.validate(e)]
    spec = StreamSpec("s", Schema.parse("a STRING"), "{urn:x}t", validity=validity_of(str(xsd), "{urn:x}t"))
    rows: list[str] = []
    rejects: list[Reject] = []
    read = xml.replace("</o>", f"{broken}</o>").encode()
    reader = SliceReader(Source.of(read), [spec])
    while (parsed := reader.read(size)) is not None:
        rows += [a for (a,) in parsed.slices[0].tuples.rows()]
        rejects += parsed.rejects[0]
        if parsed.error:
            break
    reader.close()
    assert rows == valid
    assert len(rejects) == len(elements) - len(valid)
    for reject in rejects:
        assert reject.reason.startswith("not valid: Element '{urn:x}")
        assert xml.encode()[reject.byte :].startswith(b"<x:t")


def test_an_invalid_tuple_is_a_reject_of_a_query(cli: Cli, xsd: Path, tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(f"<s xmlns:x='urn:x'>{''.join(TUPLES[:3])}</s>")
    sql = f"""CREATE STREAM s (a INT) WITH (source = '{tmp_path / "s.xml"}', element = '{{urn:x}}t', xsd = '{xsd}');
        SELECT a FROM s"""
    ran = cli("run", "--engine", "local", "--format", "jsonl", "--rejects", tmp_path / "r.jsonl", "-q", sql)
    assert [json.loads(line) for line in ran.out.splitlines()][:2] == [{"a": 1}, {"a": 2}]
    (reject,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert reject["reason"].startswith(
        "not valid: Element '{urn:x}t', attribute 'id': '300' is not a valid value"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("<x/>", "is no XML Schema"),
        (XSD.replace('"t"', '"u"'), "declares no <{urn:x}t> at its top level"),
        (XSD.replace("xs:byte", "xs:nosuch"), "is no XML Schema"),
        (XSD.replace("<xs:element name=\"t\"", "<xs:include schemaLocation='http://127.0.0.1/t.xsd'/>\\g<0>", 1)
         .replace("\\g<0>", "<xs:element name=\"t\""), "which is not fetched"),
    ],
)  # fmt: skip
def test_invalid_schemas_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "t.xsd"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        plan(
            f"CREATE STREAM s (a INT) WITH (element = '{{urn:x}}t', source = 's.xml', xsd = '{path}'); SELECT a FROM s"
        )


@pytest.mark.parametrize("element", ["", ", element = '{urn:x}t'"])
def test_undeclared_columns_come_from_the_schema(xsd: Path, tmp_path: Path, element: str) -> None:
    (tmp_path / "s.xml").write_text(f"<s xmlns:x='urn:x'>{TUPLES[0]}{TUPLES[0]}</s>")
    options = f"source = '{tmp_path / 's.xml'}', xsd = '{xsd}'{element}"
    (stream,) = plan(f"CREATE STREAM s WITH ({options}); SELECT a FROM s").streams
    assert column_list(stream.schema) == "a INT NOT NULL, b DATE, id INT NOT NULL PATH '@id'"
