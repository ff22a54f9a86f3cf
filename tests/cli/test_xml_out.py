"""XML output: its form follows column names and options, and another query reads it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import WAREHOUSE, Cli
from xmlpunct.base.errors import UsageError
from xmlpunct.engine.run.run_options import RunOptions, XmlForm
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.runner import Runner
from xmlpunct.engine.sql import plan

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
STREAM = "CREATE STREAM t (id INT NOT NULL, name STRING, w INT, h INT) WITH (source = '{}');\n"
QUERY = 'SELECT id AS "@id", w AS "size/w", name, h AS "size/h" FROM t'


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = tmp_path / "t.xml"
    path.write_text(
        f"""<s xmlns:p="{NS}"><t><id>1</id><name>a &lt; "b"</name><w>3</w></t><p:t><id>1</id></p:t>
        <t><id>2</id><w>4</w><h>5</h></t><t><id>3</id><name/></t></s>"""
    )
    return path


@pytest.mark.parametrize("pretty", [True, False])
def test_output_is_read_by_a_second_query(cli: Cli, tmp_path: Path, feed: Path, pretty: bool) -> None:
    out, options = (
        tmp_path / "out.xml",
        ["--root", "g:shop", "--row", "{urn:i}item", "--namespaces", "g=urn:g"],
    )
    options += ["--pretty"] if pretty else []
    first = cli("run", "--engine", "local", "-q", STREAM.format(feed) + QUERY, "-o", out, *options)
    assert (first.code, first.err) == (0, "")
    assert out.read_text().startswith(f'<g:shop xmlns:punct="{NS}" xmlns:g="urn:g" xmlns:ns1="urn:i">\n')
    second_sql = f"""CREATE STREAM item (id INT PATH '@id', name STRING, w INT PATH 'size/w', h INT PATH 'size/h')
                WITH (source = '{out}', element = '{{urn:i}}item'); SELECT * FROM item"""
    second = cli("run", "--engine", "local", "-q", second_sql, "--format", "jsonl", "--strict")
    assert (second.code, second.err) == (0, "")
    lines = [json.loads(line) for line in second.out.splitlines()]
    assert sorted((t for t in lines if "id" in t), key=lambda t: int(t["id"])) == [
        {"id": 1, "name": 'a < "b"', "w": 3, "h": None},
        {"id": 2, "name": None, "w": 4, "h": 5},
        {"id": 3, "name": "", "w": None, "h": None},
    ]
    assert {"$punct": {"id": "1"}} in lines


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ('SELECT w, id AS "@id" FROM t', [], "list it earlier"),
        ('SELECT id AS "a/b", w AS a FROM t', [], "elements in <a>"),
        ('SELECT id AS "g:a" FROM t', [], "--namespaces 'g=URI'"),
        ('SELECT id AS "a b" FROM t', [], "^^^"),
        ('SELECT id AS "a/@b/c" FROM t', [], "^^^"),
        ("SELECT id FROM t", ["--row", "a b"], "a b"),
        ("SELECT id FROM t", ["--root", "g:s"], "g"),
        ("SELECT id FROM t", ["--root", "result"], "one tuple"),
        ("SELECT id FROM t", ["--namespaces", "g"], "PREFIX=URI"),
        ("SELECT id FROM t", ["--row", f"{{{NS}}}t"], "punctuation"),
        ("SELECT id FROM t", ["--format", "csv", "--root", "s"], "not to csv"),
        ("SELECT id FROM t", ["--format", "jsonl", "--pretty"], "not to jsonl"),
        ("SELECT id FROM t", ["--format", "jsonl", "--row", "r"], "not to jsonl"),
        ("SELECT id FROM t", ["--format", "jsonl", "--namespaces", "g=urn:g"], "not to jsonl"),
    ],
)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_wrong_columns_and_options_are_refused_before_reading(
    cli: Cli, select: str, options: list[str], message: str, engine: str
) -> None:
    ran = cli("run", "--engine", engine, "-q", STREAM.format("no such file") + select, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": XmlForm(pretty=True)}, "takes no --root"),
        ({"form": XmlForm(root="s")}, "takes no --root"),
        ({"format": "jsonl"}, "is written as xml, parquet"),
        ({}, "'@id'"),
    ],
)
def test_a_dataset_refuses_options_of_xml_files(options: dict[str, object], message: str) -> None:
    query = plan(STREAM.format("t.xml") + 'SELECT id AS "@id" FROM t')
    with pytest.raises(UsageError, match=message):
        Runner(query, RunOptions(output="out/", **options), RunStats("spark"))  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["x XML", "x ARRAY(y INT)"])
def test_a_dataset_refuses_columns_that_are_no_text(column: str) -> None:
    query = plan(f"CREATE STREAM t ({column}) WITH (source = 't.xml'); SELECT x FROM t")
    with pytest.raises(UsageError, match=r"column x is .*: write a file"):
        Runner(query, RunOptions(output="out/"), RunStats("spark"))


def test_arrays_are_read_by_a_second_query(cli: Cli, tmp_path: Path) -> None:
    source, out = tmp_path / "o.xml", tmp_path / "out.xml"
    source.write_text(
        f"""<s xmlns:p="{NS}"><o i="1"><l s="a"><q>1</q></l><l><q>2</q></l></o><p:o i="1"/><o i="2"/></s>"""
    )
    line = """ARRAY("@sku" STRING PATH '@{}', qty INT PATH '{}')"""
    stream = "CREATE STREAM o (id INT PATH '@{}', lines " + line + " PATH '{}') WITH (source = '{}'{});"
    first = stream.format("i", "s", "q", "l", source, "") + 'SELECT id AS "@id", lines AS "lines/line" FROM o'
    ran = cli("run", "--engine", "local", "-q", first, "-o", out)
    assert (ran.code, ran.err) == (0, "")
    tuples = [line for line in out.read_text().splitlines() if line.startswith("<result")]
    assert tuples == [
        '<result id="1"><lines><line sku="a"><qty>1</qty></line><line><qty>2</qty></line></lines></result>',
        '<result id="2"></result>',
    ]
    second = stream.format("id", "sku", "qty", "lines/line", out, ", element = 'result'")
    unnested = 'SELECT id, "@sku" AS sku, qty FROM o CROSS JOIN UNNEST(lines) AS l'
    ran = cli("run", "--engine", "local", "--strict", "--format", "jsonl", "-q", f"{second} {unnested}")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(map(json.loads, ran.out.splitlines()), key=str) == [
        {"$punct": {"id": "1"}},
        {"id": 1, "sku": "a", "qty": 1},
        {"id": 1, "sku": None, "qty": 2},
    ]


@pytest.mark.parametrize("pretty", [True, False])
def test_nested_results_are_read_by_a_second_query(cli: Cli, tmp_path: Path, pretty: bool) -> None:
    out = tmp_path / "out.xml"
    sql = """SELECT sku AS "@sku", XMLAGG(XMLELEMENT(NAME "g:o", XMLNAMESPACES('urn:g' AS g), XMLATTRIBUTES(id, customer
             AS "g:by"), XMLFOREST(qty)) ORDER BY id DESC) AS "os/node()" FROM (SELECT id, customer, "@sku" AS sku, qty
             FROM orders CROSS JOIN UNNEST(line) AS l) AS q GROUP BY sku"""
    ran = cli("run", "samples/orders.sql", "--engine", "local", "-q", sql, "-o", out, *["--pretty"] * pretty)
    assert (ran.code, ran.err) == (0, "")
    second_sql = f"""CREATE STREAM r (XMLNAMESPACES('urn:g' AS g), sku STRING PATH '@sku', o ARRAY(id INT PATH '@id',
                customer STRING PATH '@g:by', qty INT) PATH 'os/g:o') WITH (source = '{out}', element = 'result');
                SELECT sku, id, qty, customer FROM r CROSS JOIN UNNEST(o) WITH ORDINALITY AS l
                ORDER BY sku, l.ordinality"""
    ran = cli("run", "--engine", "local", "--strict", "--format", "csv", "-q", second_sql)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "sku,id,qty,customer\nink,2,5,Bo\nink,1,1,Ada\npen,4,,Cy & Co\npen,1,3,Ada\n"


def test_a_run_with_xmlagg_goes_on_where_it_stopped(cli: Cli, tmp_path: Path) -> None:
    options = ["samples/orders.sql", "--engine", "local", "--slice", "64", "-o", tmp_path / "out.xml"]
    options += ["--checkpoint", tmp_path / "c"]
    sql = "SELECT XMLAGG(XMLFOREST(customer) ORDER BY id DESC) AS cs FROM orders WHERE {}"
    assert cli("run", *options, "-q", sql.format("id < 9")).code == 0
    assert cli("run", *options, "-q", sql.format("id < 9")).code == 0
    assert "<customer>Cy &amp; Co</customer><customer>Ada</customer>" in (tmp_path / "out.xml").read_text()
    assert cli("run", *options, "-q", sql.format("id < 8")).code == 2


def test_parse_reports_values_that_it_cannot_write(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "t.xml"
    source.write_text(
        f"<s xmlns:g='u' xmlns:p='{NS}'><t><a><g:b/></a></t><p:t><n>1</n></p:t><t><a/><n>2</n></t></s>"
    )
    ran = cli("parse", source, "--element", "t", "--schema", "a XML, n INT")
    assert ran.code == 0
    assert ran.out.splitlines()[1:-1] == ["<punct:t><n>1</n></punct:t>", "<t><a><a/></a><n>2</n></t>"]
    assert "column a: an undeclared prefix" in ran.err


def test_paths_are_names_in_other_formats(cli: Cli, feed: Path) -> None:
    sql = STREAM.format(feed) + 'SELECT w, id AS "@id", h AS "g:size/h" FROM t WHERE id = 2'
    ran = cli("run", "--engine", "local", "--format", "csv", "-q", sql)
    assert (ran.code, ran.out) == (0, "w,@id,g:size/h\n4,2,5\n")


def test_a_text_that_xml_cannot_hold_is_a_reject(cli: Cli, tmp_path: Path, feed: Path) -> None:
    rejects, stats = tmp_path / "rejects", tmp_path / "stats"
    sql = STREAM.format(feed) + "SELECT id, CASE WHEN id = 2 THEN 'x\x01y' ELSE 'z' END AS s FROM t"
    options = ["--engine", "local", "-q", sql, "--rejects", rejects, "--stats", stats]
    ran = cli("run", *options)
    assert ran.code == 0
    assert ran.out.count("<result>") == 2
    assert ran.out.endswith("</stream>\n")
    assert "1 tuple rejected" in ran.err
    (reject,) = map(json.loads, rejects.read_text().splitlines())
    assert "column s" in reject["reason"]
    assert json.loads(reject["text"]) == {"id": 2, "s": "x\x01y"}
    assert json.loads(stats.read_text())["output"]["tuples"] == 2
    assert cli("run", *options, "--strict").code == 1
    assert cli("run", *options, "--format", "jsonl").out.count('"s"') == 3


def test_another_form_is_another_run(cli: Cli, tmp_path: Path) -> None:
    options = ["--engine", "local", "-o", tmp_path / "out.xml", "--checkpoint", tmp_path / "c"]
    assert cli("run", WAREHOUSE, *options, "--pretty").code == 0
    assert cli("run", WAREHOUSE, *options, "--pretty").code == 0
    ran = cli("run", WAREHOUSE, *options)
    assert ran.code == 2
    assert "form of its XML" in ran.err


def test_the_root_does_not_read_as_a_tuple(cli: Cli, tmp_path: Path) -> None:
    source, out = tmp_path / "in.xml", tmp_path / "out.xml"
    source.write_text("<s><stream><a>1</a></stream><stream><a>2</a></stream></s>")
    out.write_text(cli("parse", source, "--element", "stream", "--schema", "a INT").out)
    parsed = cli("parse", out, "--element", "stream", "--schema", "a INT", "--format", "csv")
    assert (parsed.out, parsed.err) == ("a\n1\n2\n", "")


def test_attributes_with_the_prefix_xml(cli: Cli, feed: Path) -> None:
    sql = STREAM.format(feed) + "SELECT 'en' AS \"@xml:lang\", id FROM t WHERE id = 2"
    ran = cli("run", "--engine", "local", "-q", sql)
    assert '<result xml:lang="en"><id>2</id></result>' in ran.out
