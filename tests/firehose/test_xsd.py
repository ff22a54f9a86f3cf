"""Columns from an XML Schema: every tuple that it allows fits them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmlpunct import Reject, slices
from xmlpunct.engine.sql.declaration import column_list
from xmlpunct.errors import UsageError
from xmlpunct.firehose.xsd import XsdFile

HEAD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:o" xmlns:o="urn:o" '
    'elementFormDefault="qualified">'
)
ORDERS = f"""{HEAD}
  <xs:include schemaLocation="types.xsd"/>
  <xs:element name="orders"><xs:complexType><xs:sequence>
    <xs:element ref="o:order" maxOccurs="unbounded"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="order"><xs:complexType><xs:complexContent><xs:extension base="o:base">
    <xs:sequence>
      <xs:element name="when" type="xs:dateTime"/>
      <xs:element name="day" type="xs:date" minOccurs="0"/>
      <xs:element name="total" type="o:money"/>
      <xs:element name="line" maxOccurs="9"><xs:complexType><xs:attribute name="sku"/></xs:complexType></xs:element>
      <xs:element name="ship" minOccurs="0"><xs:complexType><xs:all>
        <xs:element name="to" type="o:place"/>
        <xs:element name="paid" type="xs:boolean"/>
      </xs:all></xs:complexType></xs:element>
      <xs:choice><xs:element name="card" type="xs:long"/><xs:element name="cash" type="xs:double"/></xs:choice>
      <xs:element name="either"><xs:simpleType><xs:union memberTypes="xs:int xs:string"/></xs:simpleType></xs:element>
      <xs:element name="nil" type="xs:int" nillable="true"/>
      <xs:element name="note"><xs:complexType mixed="true"><xs:sequence><xs:any/></xs:sequence></xs:complexType>
      </xs:element>
    </xs:sequence>
    <xs:attribute name="rate" type="xs:decimal"/>
  </xs:extension></xs:complexContent></xs:complexType></xs:element>
</xs:schema>"""
TYPES = f"""{HEAD}
  <xs:complexType name="base"><xs:attribute name="id" use="required" type="xs:unsignedInt"/></xs:complexType>
  <xs:simpleType name="money"><xs:restriction base="xs:decimal">
    <xs:totalDigits value="9"/><xs:fractionDigits value="2"/></xs:restriction></xs:simpleType>
  <xs:complexType name="place"><xs:simpleContent><xs:extension base="xs:token">
    <xs:attributeGroup ref="o:zip"/></xs:extension></xs:simpleContent></xs:complexType>
  <xs:attributeGroup name="zip"><xs:attribute name="zip" type="xs:string"/></xs:attributeGroup>
</xs:schema>"""
XML = """<orders xmlns="urn:o" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
  <order id="1" rate="0.5"><when>2026-01-01T00:00:00Z</when><total>7.25</total><line sku="a"/><card>1</card>
    <either>x</either><nil i:nil="true"/><note>m<b xmlns=""/></note></order>
  <order id="2"><when>2026-01-01T00:00:00Z</when><day>2026-01-02</day><total>7</total><line/><line/>
    <ship><to zip="01">T</to><paid>true</paid></ship><cash>1e3</cash><either>1</either><nil>3</nil><note/></order>
</orders>"""


@pytest.fixture
def xsd(tmp_path: Path) -> Path:
    (tmp_path / "orders.xsd").write_text(ORDERS)
    (tmp_path / "types.xsd").write_text(TYPES)
    return tmp_path / "orders.xsd"


def test_types_and_null_are_what_the_schema_says(xsd: Path) -> None:
    inferred = XsdFile(str(xsd)).infer("{urn:o}order")
    assert column_list(inferred.schema).split(", ") == [
        "id INT NOT NULL PATH '@id'",
        '"when" TIMESTAMP NOT NULL',
        "day DATE",
        "total DECIMAL(9,2) NOT NULL",
        "\"to\" STRING PATH 'ship/to'",
        "zip STRING PATH 'ship/to/@zip'",
        "paid BOOLEAN PATH 'ship/paid'",
        "card INT",
        "cash DOUBLE",
        "either STRING NOT NULL",
        "nil STRING NOT NULL",
        "rate DECIMAL(38,18) PATH '@rate'",
    ]
    assert inferred.left_out == (
        "line, which may come more than once in one tuple",
        "note, which mixes text and elements",
    )


def test_what_is_valid_fits(xsd: Path) -> None:
    inferred = XsdFile(str(xsd)).infer("{urn:o}order")
    rejects: list[Reject] = []
    parts = list(slices(XML.encode(), inferred.schema, element="{urn:o}order", on_reject=rejects.append))
    # Repeated lines are no columns; so no tuple is refused for them.
    assert (sum(part.tuples.height for part in parts), rejects) == (2, [])


@pytest.mark.parametrize(
    ("text", "element", "says"),
    [
        ("<x/>", "a", "is no XML Schema: its root is <x>"),
        ("<x", "a", "is no XML Schema: "),
        (None, "a", "cannot read"),
        (f"{HEAD}<xs:element name='a'/></xs:schema>", "a", r"has no element a; it has \{urn:o\}a"),
        (f"{HEAD}<xs:element name='a'/></xs:schema>", "{urn:o}a", "no attributes and no children"),
        (
            f"{HEAD}<xs:group name='g'><xs:sequence><xs:group ref='o:g'/></xs:sequence></xs:group>"
            "<xs:element name='a'><xs:complexType><xs:group ref='o:g'/></xs:complexType></xs:element></xs:schema>",
            "{urn:o}a",
            "nested too deeply",
        ),
    ],
)
def test_what_is_no_schema_is_refused(tmp_path: Path, text: str | None, element: str, says: str) -> None:
    path = tmp_path / "a.xsd"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=says):
        XsdFile(str(path)).infer(element)


def test_a_type_that_holds_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.xsd"
    path.write_text(
        f"{HEAD}<xs:complexType name='t'><xs:sequence><xs:element name='a' type='o:t' minOccurs='0'/></xs:sequence>"
        "<xs:attribute name='id'/></xs:complexType><xs:element name='a' type='o:t'/></xs:schema>"
    )
    inferred = XsdFile(str(path)).infer("{urn:o}a")
    assert column_list(inferred.schema) == "id STRING PATH '@id'"
    assert inferred.left_out == ("a, which may hold itself",)
