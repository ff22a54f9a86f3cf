"""``xmlpunct infer`` prints a declaration that runs, and lists columns that it leaves out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.harness import Cli

ORDERS = """<o:orders xmlns:o="urn:orders" xmlns:x="urn:x">
  <o:order id="1" group="a"><when>2026-01-01T10:00:00Z</when><ship><to day="2026-01-02">B &amp; C</to></ship>
    <total>12.50</total><paid>true</paid><zip>01234</zip><x:note>n</x:note>
    <line sku="a"/><line sku="b"/></o:order>
  <o:order id="2" group="b"><when>2026-01-01T11:00:00Z</when><ship><to day="2026-01-03">D</to></ship>
    <total>7</total><zip>99999</zip><line sku="a"/></o:order>
  <o:order id="3" group="b"><when>2026-01-01T12:00:00Z</when><total>1e3</total><paid>false</paid>
    <zip>12345</zip><id>x</id></o:order>
</o:orders>"""


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "it's orders.xml.gz"
    path.write_bytes(gzip.compress(ORDERS.encode()))
    return path


def test_the_printed_declaration_runs(cli: Cli, orders: Path) -> None:
    printed = cli("infer", orders)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.splitlines() == [
        f"-- From 3 elements <order> in {len(ORDERS):,} bytes (the whole source).",
        "-- zip is STRING because of '01234' in line 3.",
        'CREATE STREAM "order" (',
        "  XMLNAMESPACES('urn:x' AS x),",
        "  id_2 INT NOT NULL PATH '@id',",
        "  \"group\" STRING NOT NULL PATH '@group',",
        '  "when" TIMESTAMP NOT NULL,',
        "  day DATE PATH 'ship/to/@day',",
        "  \"to\" STRING PATH 'ship/to',",
        "  total DOUBLE NOT NULL,",
        "  paid BOOLEAN,",
        "  zip STRING NOT NULL,",
        "  note STRING PATH 'x:note',",
        "  line ARRAY(sku STRING NOT NULL PATH '@sku'),",
        "  id STRING",
        f") WITH (source = '{str(orders).replace(chr(39), 2 * chr(39))}', element = '{{urn:orders}}order');",
    ]
    ran = cli("run", "--engine", "local", "--format", "jsonl", "-q", f'{printed.out} SELECT * FROM "order"')
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert rows[0]["to"] == "B & C"
    assert [row["total"] for row in rows if "total" in row] == [12.5, 7.0, 1000.0]
    assert [row["line"] for row in rows if "line" in row] == [
        [{"sku": "a"}, {"sku": "b"}],
        [{"sku": "a"}],
        [],
    ]


def test_the_value_that_made_a_column_text_has_its_file_if_there_are_several(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("a.xml", "1"), ("b.xml", "n/a")):
        (tmp_path / name).write_text(f"<r>\n<t><a>0</a></t>\n<t><a>{value}</a></t>\n</r>")
    assert "-- a is STRING because of 'n/a' in line 3 of b.xml." in cli("infer", ".").out.splitlines()
    assert "-- a is STRING because of 'n/a' in line 3." in cli("infer", "b.xml").out.splitlines()


def test_a_long_array_has_a_line_for_each_of_its_columns(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    items = "".join(f"<item_number_{n}>{n}</item_number_{n}>" for n in range(5))
    path.write_text(f"<s><t>{f'<line>{items}</line>' * 2}</t><t/></s>")
    assert cli("infer", path, "--element", "t").out.splitlines()[1:-1] == [
        "CREATE STREAM t (",
        "  line ARRAY(",
        *(f"    item_number_{n} INT NOT NULL{',' * (n < 4)}" for n in range(5)),
        "  )",
    ]


def test_a_sample_of_stated_size_is_enough(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "long.xml"
    path.write_text("<s>" + "".join(f"<t n='{n}'/>" for n in range(100_000)) + "</s></s>")
    printed = cli("infer", path, "--sample", "1KiB")
    assert printed.out.startswith("-- From 93 elements <t> in the first 1,024 bytes.\n")
    assert cli("infer", path, "--sample", "65MiB").code == 2


@pytest.mark.parametrize(
    ("xml", "code", "message"),
    [
        ("<s><a>1</a><a>2</a></s>", 1, "no element with attributes or children repeats"),
        ("<s><a x='1'></b></s>", 1, "mismatch"),
        ("<!DOCTYPE s [<!ENTITY e SYSTEM 'x'>]><s/>", 1, "DOCTYPE"),
        ("", 1, "no XML"),
    ],
)
def test_documents_without_repeated_elements_are_refused(
    cli: Cli, tmp_path: Path, xml: str, code: int, message: str
) -> None:
    path = tmp_path / "a.xml"
    path.write_text(xml)
    printed = cli("infer", path)
    assert (printed.code, printed.out) == (code, "")
    assert message in printed.err


def test_an_element_that_never_comes_is_refused(cli: Cli, orders: Path) -> None:
    assert "no <item> ends in" in cli("infer", orders, "--element", "item").err
    wrong = cli("infer", orders, "--element", "a b")
    assert (wrong.code, "is no name of an XML element" in wrong.err) == (2, True)


def test_a_malformed_end_is_reported_in_a_comment(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<s><a x='1'/><a x='2'/></b></s>")
    printed = cli("infer", path)
    assert printed.code == 0
    assert f"-- Reading stopped there: {path}, line 1, byte " in printed.out


def test_a_schema_determines_the_columns(cli: Cli, tmp_path: Path) -> None:
    """The sample determines the element; with --element the source may be missing."""
    (tmp_path / "a.xml").write_text("<s><t n='1'/><t n='2'/></s>")
    (tmp_path / "a.xsd").write_text(
        "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='t'><xs:complexType>"
        "<xs:attribute name='n' type='xs:decimal'/><xs:anyAttribute/></xs:complexType></xs:element></xs:schema>"
    )
    expected = [
        f"-- From {tmp_path / 'a.xsd'}.",
        "-- Left out: *, <xs:anyAttribute>, which declares no names.",
        "CREATE STREAM t (",
        "  n DECIMAL(38,18) PATH '@n'",
    ]
    with_sample = cli("infer", tmp_path / "a.xml", "--xsd", tmp_path / "a.xsd")
    assert with_sample.out.splitlines()[:-1] == expected
    (tmp_path / "a.xml").unlink()
    with_element = cli("infer", tmp_path / "a.xml", "--xsd", tmp_path / "a.xsd", "--element", "t")
    assert (with_element.code, with_element.out) == (0, with_sample.out)


def test_a_local_name_takes_its_first_namespace(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    rows = "".join(f"<x:t><x:a>{n}</x:a></x:t>" for n in range(3))
    others = '<u k="1"/>' * 3
    path.write_text(f"<s xmlns:x='urn:x' xmlns:y='urn:y'>{others}{rows}<y:t><a>9</a></y:t></s>")
    printed = cli("infer", path, "--element", "t")
    assert printed.out.splitlines()[:2] == [
        f"-- From 3 elements <t> in {path.stat().st_size} bytes (the whole source).",
        "-- also repeats: u (3)",
    ]
    assert "element = '{urn:x}t'" in printed.out
    assert cli("infer", path, "--element", "{urn:y}t").out.startswith("-- From 1 elements <t>")
    ran = cli(
        "run",
        "--engine",
        "local",
        "--format",
        "csv",
        "-q",
        f"SELECT a FROM read_xml('{path}', element => 't')",
    )
    assert (ran.code, sorted(ran.out.split())) == (0, ["0", "1", "2", "a"])
    assert "not read because of its namespace: {urn:y}t" in ran.err
    exact = f"CREATE STREAM t WITH (source = '{path}', element = 't'); SELECT a FROM t"
    assert cli("run", "--engine", "local", "-q", exact).code == 1


def test_the_sample_grows_until_the_element_comes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<s>" + "<u k='1'/>" * 200_000 + "<x:t xmlns:x='urn:x'><x:a>7</x:a></x:t></s>")
    ran = cli(
        "run",
        "--engine",
        "local",
        "--format",
        "csv",
        "-q",
        f"SELECT a FROM read_xml('{path}', element => 't')",
    )
    assert (ran.code, ran.out.split()) == (0, ["a", "7"])
    assert "From 1 elements <t>" in cli("infer", path, "--element", "t").out
