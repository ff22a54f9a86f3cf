"""Columns inferred from an XML Schema fit every tuple that the schema allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from lxml import etree

from tests.firehose.test_infer import texts_in, texts_of
from xmlpunct import Reject, Schema, query, slices
from xmlpunct.base.errors import UsageError
from xmlpunct.engine.sql.planner.declaration import column_list
from xmlpunct.firehose import native
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.firehose.libxml.xsd_validator import validity_of

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


def test_types_and_null_are_from_the_schema(xsd: Path) -> None:
    inferred = XsdFile(str(xsd)).infer("{urn:o}order")
    assert column_list(inferred.schema).split(", ") == [
        "id INT NOT NULL PATH '@id'",
        '"when" TIMESTAMP NOT NULL',
        "day DATE",
        "total DECIMAL(9,2) NOT NULL",
        "line ARRAY(sku STRING PATH '@sku')",
        "\"to\" STRING PATH 'ship/to'",
        "zip STRING PATH 'ship/to/@zip'",
        "paid BOOLEAN PATH 'ship/paid'",
        "card INT",
        "cash DOUBLE",
        "either STRING NOT NULL",
        "nil STRING NOT NULL",
        "note STRING NOT NULL",
        "rate DECIMAL(38,18) PATH '@rate'",
    ]
    assert inferred.left_out == ("note/*, which is mixed with text and part of that text",)


def test_valid_tuples_fit(xsd: Path) -> None:
    inferred = XsdFile(str(xsd)).infer("{urn:o}order")
    rejects: list[Reject] = []
    parts = list(slices(XML.encode(), inferred.schema, element="{urn:o}order", on_reject=rejects.append))
    assert rejects == []
    lines = [line for part in parts for line in part.tuples["line"].to_list()]
    assert lines == [[{"sku": "a"}], [{"sku": None}, {"sku": None}]]


A, B = (f"<xs:element name='{name}' type='xs:int'/>" for name in "ab")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"<xs:sequence>{A}{B}{A}</xs:sequence>", "a ARRAY(value INT NOT NULL PATH '.'), b INT NOT NULL"),
        (f"<xs:choice>{A}{B}</xs:choice>", "a INT, b INT"),
        (f"<xs:choice maxOccurs='2'>{A}{B}</xs:choice>", "a ARRAY(...), b ARRAY(...)"),
        (f"<xs:choice><xs:sequence>{A}{B}</xs:sequence>{A}</xs:choice>", "a INT NOT NULL, b INT"),
        (f"<xs:choice>{A}<xs:sequence/></xs:choice>", "a INT"),
        (f"<xs:sequence minOccurs='0'>{A}</xs:sequence>", "a INT"),
        (f"<xs:sequence maxOccurs='unbounded'><xs:choice>{A}</xs:choice></xs:sequence>", "a ARRAY(...)"),
        (f"<xs:sequence>{A}<xs:sequence maxOccurs='0'>{B}</xs:sequence></xs:sequence>", "a INT NOT NULL"),
        ("<xs:group ref='o:g' maxOccurs='2'/>", "c ARRAY(value DATE NOT NULL PATH '.')"),
        ("<xs:group ref='o:g'/>", "c DATE NOT NULL"),
        (
            "<xs:sequence><xs:element ref='o:head' maxOccurs='2'/></xs:sequence>",
            "one ARRAY(...), two ARRAY(...)",
        ),
        ("<xs:sequence><xs:element ref='o:head'/></xs:sequence>", "one INT, two DATE"),
        ("<xs:attribute ref='xml:lang'/>", "lang STRING PATH '@{http://www.w3.org/XML/1998/namespace}lang'"),
        (
            f"<xs:sequence><xs:element name='n' nillable='true'><xs:complexType><xs:sequence>{A}</xs:sequence>"
            "<xs:attribute name='k' use='required'/></xs:complexType></xs:element></xs:sequence>",
            "a INT PATH 'n/a', k STRING NOT NULL PATH 'n/@k'",
        ),
        (
            "<xs:complexContent><xs:restriction base='o:base'>"
            f"<xs:sequence>{A}</xs:sequence><xs:attribute name='k' use='prohibited'/>"
            "</xs:restriction></xs:complexContent>",
            "m STRING PATH '@m', a INT NOT NULL",
        ),
        (
            "<xs:simpleContent><xs:extension base='xs:int'><xs:attribute name='k'/></xs:extension></xs:simpleContent>",
            "value INT NOT NULL PATH '.', k STRING PATH '@k'",
        ),
        (
            "<xs:sequence><xs:element name='e' maxOccurs='2'><xs:complexType/></xs:element></xs:sequence>",
            "e ARRAY(value STRING NOT NULL PATH '.')",
        ),
        (
            f"<xs:sequence>{A}<xs:element name='d' type='xs:int' default='5'/></xs:sequence>",
            "a INT NOT NULL, d STRING NOT NULL",
        ),
    ],
)
def test_how_often_things_come(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "a.xsd"
    path.write_text(
        f"""{HEAD.replace("qualified", "unqualified")}
        <xs:group name="g"><xs:sequence><xs:element name="c" type="xs:date"/></xs:sequence></xs:group>
        <xs:element name="head" abstract="true"/>
        <xs:element name="one" type="xs:int" substitutionGroup="o:head"/>
        <xs:element name="two" type="xs:date" substitutionGroup="o:one"/>
        <xs:complexType name="base"><xs:sequence>{A}{B}</xs:sequence>
          <xs:attribute name="k"/><xs:attribute name="m"/></xs:complexType>
        <xs:element name="t"><xs:complexType>{content}</xs:complexType></xs:element></xs:schema>"""
    )
    inferred = XsdFile(str(path)).infer("{urn:o}t")
    columns = column_list(inferred.schema)
    shown = re.sub(r"ARRAY\([^()]*\)", "ARRAY(...)", columns) if "..." in expected else columns
    assert (shown, inferred.left_out) == (expected, ())


def test_as_deep_as_the_columns_are_not_too_many(tmp_path: Path) -> None:
    """Types that nest in exponentially many ways are cut off at the limit of columns."""
    path = tmp_path / "a.xsd"
    parts = "".join(
        f"<xs:complexType name='t{n}'><xs:sequence>"
        + "".join(f"<xs:element name='e{m}' type='o:t{n + 1}' maxOccurs='9'/>" for m in range(5))
        + "</xs:sequence><xs:attribute name='k'/></xs:complexType>"
        for n in range(40)
    )
    path.write_text(
        f"{HEAD}{parts}<xs:complexType name='t40'/><xs:element name='a' type='o:t0'/></xs:schema>"
    )
    inferred = XsdFile(str(path)).infer("{urn:o}a")
    assert inferred.schema.names == ("e0", "e1", "e2", "e3", "e4", "k")
    assert str(inferred.schema).count("'@k'") > 100
    assert inferred.left_out[-1].endswith("more places")
    assert "which is nested too deeply for 1,000 columns" in inferred.left_out[0]


def test_groups_that_refer_to_each_other_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.xsd"
    groups = "".join(
        f"<xs:group name='g{n - 1}'><xs:sequence>"
        + 9 * f"<xs:group ref='o:g{n}'/>"
        + "</xs:sequence></xs:group>"
        for n in range(1, 16)
    )
    last = f"<xs:group name='g15'><xs:sequence>{A}</xs:sequence></xs:group>"
    element = "<xs:element name='t'><xs:complexType><xs:group ref='o:g0'/></xs:complexType></xs:element>"
    path.write_text(f"{HEAD}{groups}{last}{element}</xs:schema>")
    schema = XsdFile(str(path)).infer("{urn:o}t").schema
    assert column_list(schema) == "a ARRAY(value INT NOT NULL PATH '.')"


class Model:
    """A random content model: its declaration in XML Schema, and a generator of valid elements."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.names = draw, (f"n{n}" for n in count())

    def element(self, depth: int) -> tuple[str, Callable[[], str]]:
        """An element with child elements and a unique name."""
        name, (content, inside) = next(self.names), self.particle(depth - 1)
        has_attribute = self.draw(st.booleans())
        attribute = "<xs:attribute name='k' type='xs:int' use='required'/>" if has_attribute else ""
        declaration = f"name='{name}'><xs:complexType>{content}{attribute}</xs:complexType></xs:element>"

        def generate() -> str:
            shown = f" k='{self.number()}'" if has_attribute else ""
            return f"<{name}{shown}>{inside()}</{name}>"

        return declaration, generate

    def particle(self, depth: int) -> tuple[str, Callable[[], str]]:
        """A sequence or a choice."""
        kind = self.draw(st.sampled_from(["sequence", "choice"]))
        parts = [self.part(depth) for _ in range(self.draw(st.integers(1, 3)))]
        min_count, max_count = self.draw(st.sampled_from([(1, 1), (0, 1), (1, 2), (0, 3)]))
        occurs = f"minOccurs='{min_count}' maxOccurs='{max_count}'"
        declaration = f"<xs:{kind} {occurs}>{''.join(p for p, _ in parts)}</xs:{kind}>"

        def generate() -> str:
            text = ""
            for _ in range(self.draw(st.integers(min_count, max_count))):
                chosen = parts if kind == "sequence" else [self.draw(st.sampled_from(parts))]
                text += "".join(make() for _, make in chosen)
            return text

        return declaration, generate

    def part(self, depth: int) -> tuple[str, Callable[[], str]]:
        if depth and self.draw(st.booleans()):
            return self.particle(depth - 1)
        min_count, max_count = self.draw(st.sampled_from([(1, 1), (0, 1), (1, "unbounded"), (0, 2)]))
        occurs = f"<xs:element minOccurs='{min_count}' maxOccurs='{max_count}' "
        is_simple = depth == 0 or self.draw(st.booleans())
        declaration, make = self.simple() if is_simple else self.element(depth)

        def generate() -> str:
            times = self.draw(st.integers(int(min_count), 3 if max_count == "unbounded" else int(max_count)))
            return "".join(make() for _ in range(times))

        return occurs + declaration, generate

    def simple(self) -> tuple[str, Callable[[], str]]:
        """An element with text; other parts may have the same name."""
        name = self.draw(st.sampled_from("ab"))
        return f"name='{name}' type='xs:int'/>", lambda: f"<{name}>{self.number()}</{name}>"

    def number(self) -> str:
        return str(self.draw(st.integers(0, 99)))


@st.composite
def models(draw: st.DrawFn) -> tuple[str, str]:
    declaration, make = Model(draw).element(3)
    return f"<xs:element {declaration}", f"<s xmlns='urn:o'>{''.join(make() for _ in range(3))}</s>"


@given(models())
def test_every_valid_text_is_in_a_column(
    tmp_path_factory: pytest.TempPathFactory, model: tuple[str, str]
) -> None:
    declaration, xml = model
    path = tmp_path_factory.getbasetemp() / "model.xsd"
    path.write_text(f"{HEAD}{declaration}</xs:schema>")
    try:
        inferred = XsdFile(str(path)).infer("{urn:o}n0")
    except UsageError:
        reject()
    assert inferred.left_out == ()
    assert Schema.parse(column_list(inferred.schema)) == inferred.schema
    rejects: list[Reject] = []
    parts = list(slices(xml.encode(), inferred.schema, element="{urn:o}n0", on_reject=rejects.append))
    rows = [row for part in parts for row in part.tuples.rows()]
    assert rejects == []
    for row, element in zip(rows, etree.fromstring(xml), strict=True):
        assert Counter(texts_of(row)) == Counter(texts_in(element))


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
def test_invalid_schemas_are_refused(tmp_path: Path, text: str | None, element: str, says: str) -> None:
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
    assert inferred.left_out == ("a, which may contain itself",)


def doubling(kind: str, count: int) -> str:
    """Groups or types that each contain the previous one twice."""
    first, next_definition = {
        "sequence": (
            '<xs:group name="g0"><xs:sequence><xs:element name="a" minOccurs="0"/></xs:sequence></xs:group>',
            '<xs:group name="{0}"><xs:sequence><xs:group ref="{1}"/><xs:group ref="{1}"/></xs:sequence></xs:group>',
        ),
        "choice": (
            '<xs:group name="g0"><xs:choice><xs:any/></xs:choice></xs:group>',
            '<xs:group name="{0}"><xs:choice><xs:group ref="{1}"/><xs:sequence><xs:group ref="{1}"/></xs:sequence>'
            "</xs:choice></xs:group>",
        ),
        "attributes": (
            '<xs:attributeGroup name="g0"><xs:attribute name="a"/></xs:attributeGroup>',
            '<xs:attributeGroup name="{0}"><xs:attributeGroup ref="{1}"/><xs:attributeGroup ref="{1}"/>'
            "</xs:attributeGroup>",
        ),
        "union": (
            '<xs:simpleType name="g0"><xs:restriction base="xs:string"/></xs:simpleType>',
            '<xs:simpleType name="{0}"><xs:union memberTypes="{1} {1}"/></xs:simpleType>',
        ),
        "extension": (
            '<xs:group name="g0"><xs:sequence><xs:element name="a" minOccurs="0"/></xs:sequence></xs:group>'
            '<xs:complexType name="c0"/>',
            '<xs:complexType name="c{0}"><xs:complexContent><xs:extension base="c{1}"><xs:sequence>'
            '<xs:group ref="{1}"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>'
            '<xs:group name="{0}"><xs:sequence><xs:group ref="{1}"/><xs:group ref="{1}"/></xs:sequence></xs:group>',
        ),
    }[kind]
    next_definition = next_definition.replace("c{0}", "c{2}").replace("c{1}", "c{3}")
    definitions = "".join(next_definition.format(f"g{i}", f"g{i - 1}", i, i - 1) for i in range(1, count))
    used = {
        "attributes": f'<xs:complexType><xs:attributeGroup ref="g{count - 1}"/></xs:complexType>',
        "union": f'<xs:simpleType><xs:restriction base="g{count - 1}"/></xs:simpleType>',
        "extension": f'<xs:complexType><xs:complexContent><xs:extension base="c{count - 1}"/></xs:complexContent>'
        "</xs:complexType>",
    }.get(kind, f'<xs:complexType><xs:sequence><xs:group ref="g{count - 1}"/></xs:sequence></xs:complexType>')
    return (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{first}{definitions}'
        f'<xs:element name="t">{used}</xs:element></xs:schema>'
    )


@pytest.mark.parametrize("kind", ["sequence", "choice", "attributes", "union", "extension"])
@pytest.mark.parametrize("count", [13, 40])
def test_groups_that_double_are_refused_at_once(tmp_path: Path, kind: str, count: int) -> None:
    path = tmp_path / "t.xsd"
    path.write_text(doubling(kind, count))
    with pytest.raises(UsageError, match=r"has [0-9,]+ parts, with its references: at most 1,000 are"):
        validity_of(str(path), "t")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("count", [200, 50_000])
def test_a_chain_of_groups_is_refused(tmp_path: Path, order: int, count: int) -> None:
    """libxml2 recurses into a chain of groups, and 50,000 of them overflow the C stack."""
    groups = ['<xs:group name="g0"><xs:sequence><xs:element name="a"/></xs:sequence></xs:group>']
    groups += [
        f'<xs:group name="g{i}"><xs:sequence><xs:group ref="g{i - 1}"/></xs:sequence></xs:group>'
        for i in range(1, count)
    ]
    (tmp_path / "t.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="t"><xs:complexType><xs:sequence>'
        f'<xs:group ref="g{count - 1}"/></xs:sequence></xs:complexType></xs:element>{"".join(groups[::order])}'
        "</xs:schema>"
    )
    with pytest.raises(UsageError, match="nested too deeply, with its references"):
        validity_of(str(tmp_path / "t.xsd"), "t")


def test_as_many_parts_as_are_declared(tmp_path: Path) -> None:
    many = "".join(f'<xs:element name="e{i}"/>' for i in range(1500))
    (tmp_path / "t.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="t"><xs:complexType>'
        f"<xs:choice>{many}</xs:choice></xs:complexType></xs:element></xs:schema>"
    )
    validity_of(str(tmp_path / "t.xsd"), "t")


GIVES_UP = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="t"><xs:complexType><xs:sequence>
  <xs:element name="a"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="(x|xx)*y"/>
  </xs:restriction></xs:simpleType></xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>"""


@pytest.mark.parametrize("compiled", [False, True])
def test_a_value_on_which_a_regular_expression_gives_up_is_invalid(
    tmp_path: Path, compiled: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "COMPILED", compiled and native.COMPILED)
    (tmp_path / "t.xsd").write_text(GIVES_UP)
    values = ["xy", "x" * 200, "xxy", "z"]
    rows = query(
        f"CREATE STREAM s (a STRING) WITH (element = 't', xsd = '{tmp_path / 't.xsd'}'); SELECT a FROM s",
        s="".join(["<s>", *(f"<t><a>{value}</a></t>" for value in values), "</s>"]).encode(),
    )
    assert [*rows] == [("xy",), ("xxy",)]
    gave_up, wrong = caplog.messages
    why = "libxml2 stopped validating it: Internal error in XML Schema validation."
    assert gave_up == f"s, line 1, byte 19: not valid: {why}"
    assert wrong.startswith("s, line 1, byte 250: not valid: Element 'a': [facet 'pattern'] The value 'z' is")


@pytest.mark.parametrize("value", ["x", "", "-1", "9" * 5000, "1.5"])
def test_a_facet_that_is_no_number(tmp_path: Path, value: str) -> None:
    (tmp_path / "t.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="t"><xs:complexType><xs:attribute '
        'name="a"><xs:simpleType><xs:restriction base="xs:decimal"><xs:totalDigits '
        f'value="{value}"/></xs:restriction></xs:simpleType></xs:attribute></xs:complexType></xs:element></xs:schema>'
    )
    with pytest.raises(UsageError, match="is no number of digits"):
        XsdFile(str(tmp_path / "t.xsd")).infer("t")
