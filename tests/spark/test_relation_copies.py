"""Constant relations that Spark's own xml source reads have the values of this package's reader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import xmlpunct.spark
from tests.spark.support import NAMESPACE
from tests.spark.test_ranges import job_of
from xmlpunct import slices
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.spark.relation_copies import with_relation_copies
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark

COLUMNS = "id INT PATH '@id', a STRING, n INT, deep STRING PATH 'b/c/d', bx STRING PATH 'b/@x'"
SQL = "CREATE RELATION r ({0}) WITH (source = '{1}', element = 't'); SELECT * FROM r"
VALUES = [
    "",
    " ",
    "x",
    "  x y ",
    "&gt;&amp;&#13;",
    "\n",
    "<![CDATA[p&q]]>r",
    "p<!-- c -->q",
    "<?pi x?>z",
    "é\r\nü",
    "null",
]
NUMBERS = ["1", " 22 ", "-3", "+4"]


def row(chance: random.Random) -> str:
    """A tuple with random values; all columns may be missing."""

    def maybe(text: str) -> str:
        return text if chance.random() < 0.8 else ""

    number = chance.choice(NUMBERS)
    attribute = chance.choice([" a\tb ", "&quot;&#10;", "", "v"])
    inner = maybe(f"<c>{maybe(f'<d>{chance.choice(VALUES)}</d>')}</c>") + maybe("<e><d>no</d></e>")
    parts = [
        maybe(f"<a>{chance.choice(VALUES)}</a>"),
        maybe(f"<n>{number}</n>"),
        maybe("<b" + maybe(f' x="{attribute}"') + f">{inner}</b>"),
        maybe("<other><a>no</a></other>"),
    ]
    chance.shuffle(parts)
    space = chance.choice(["", "\n  ", " own text "])
    return "<t" + maybe(f' id="{number}"') + f">{space.join(parts)}</t>"


def read(source: Path, stream: Stream) -> tuple[pl.DataFrame, bool]:
    """The tuples of a file, and whether all of them were accepted."""
    rejects: list[Any] = []
    parts = slices(str(source), stream.schema, element=stream.element, on_reject=rejects.append)
    return pl.concat([part.tuples for part in parts]), not rejects


def copied(
    session: Any, folder: Path, source: Path, columns: str = COLUMNS
) -> tuple[Path, Stream, Stream] | None:
    """The copy of a relation, its stream, and the stream before; None if it is not copied."""
    query = plan(SQL.format(columns, source))
    job = job_of(query, folder)
    new = with_relation_copies(session, job, folder / "relations")
    (part,), (stream,), (before,) = new.inputs[0].parts, new.query.streams, query.streams
    return None if new == job else (Path(part.path), stream, before)


def test_random_documents_have_the_values_of_our_own_reader(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(1)
    total = 0
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = folder / "r.xml"
        rows = [row(chance) for _ in range(25)]
        source.write_text(f"<?xml version='1.0'?><r>{''.join(rows)}<!-- <t/> --></r>", newline="")
        copy = copied(spark, folder, source)
        assert copy is not None
        path, stream, before = copy
        expected, is_accepted = read(source, before)
        assert is_accepted
        assert read(path, stream)[0].equals(expected)
        total += expected.height
    assert total == 12 * 25


@pytest.mark.parametrize(
    "document",
    [
        "<r xmlns='urn:x'><t><a>1</a></t></r>",
        "<r><t><a>1</a><a xmlns='urn:x'>2</a></t></r>",
        f"<r xmlns:p='{NAMESPACE}'><t><a>1</a></t><p:t><a>1</a></p:t></r>",
        "<r><t><a>1</a><a>2</a></t></r>",
        "<r><t><a>p<i>q</i></a></t></r>",
        "<r><t><a>&lt;i></a></t></r>",
        "<r><t><n>x</n></t></r>",
        "<r><t><a>1</a></t></z><t><a>2</a></t></r>",
        "<r><t><a>1</a></t><t><a>2",
        "<r><t><a>1</a></t></r><r><t><a>2</a></t></r>",
        "<!DOCTYPE r [<!ENTITY e 'x'>]><r><t><a>&e;</a></t></r>",
        "<?xml version='1.0' encoding='iso-8859-1'?><r><t><a>1</a></t></r>",
        "<?xml version='1.1'?><r><t><a>1</a></t></r>",
        "<r><u><a>1</a></u></r>",
        "<r><t><A>1</A></t></r>",
        "<r><t ID='1'/></r>",
        "<r><t><p:a>1</p:a></t></r>",
        "<r><t p:id='1'/></r>",
        "<r>" + "<q>" * 300 + "<t><a>1</a></t>" + "</q>" * 300 + "</r>",
    ],
)
def test_what_spark_reads_differently_is_left_to_our_own_reader(
    spark: Any, tmp_path: Path, document: str
) -> None:
    (tmp_path / "r.xml").write_text(document)
    assert copied(spark, tmp_path, tmp_path / "r.xml") is None


@pytest.mark.parametrize(
    "columns", ["a XML", "a ARRAY(b INT)", "v STRING PATH '.'", "a STRING, b STRING PATH 'a/b'"]
)
def test_columns_that_spark_cannot_give_are_left_to_our_own_reader(
    spark: Any, tmp_path: Path, columns: str
) -> None:
    (tmp_path / "r.xml").write_text("<r><t><a>1</a></t></r>")
    assert copied(spark, tmp_path, tmp_path / "r.xml", "k INT") is not None
    (tmp_path / "relations" / "0.xml").unlink()
    assert copied(spark, tmp_path, tmp_path / "r.xml", columns) is None


def test_a_query_reads_its_relation_with_spark(spark: Any, tmp_path: Path) -> None:
    """The results are those of the local engine. With ``spool``, a second query uses the copy again."""
    (tmp_path / "s.xml").write_text(
        "<r>" + "".join(f"<s><k>{k}</k><ts>{k}</ts></s>" for k in range(9)) + "</r>"
    )
    (tmp_path / "r.xml").write_text("<r><t id='1'><a> one </a></t><t id='7'><a/></t><t id='8'/></r>")
    sql = f"""CREATE STREAM s (k INT, ts INT NOT NULL) WITH (source = '{tmp_path}/s.xml', timestamp = 'ts');
    CREATE RELATION r (id INT PATH '@id', a STRING) WITH (source = '{tmp_path}/r.xml', element = 't');
    ISTREAM(SELECT k, a FROM s [RANGE UNBOUNDED] JOIN r ON k = id)"""
    spool = tmp_path / "spool"
    result = xmlpunct.spark.query(spark, sql, shards=2, spool=str(spool))
    (copy,) = spool.rglob("relations/*.xml")
    written = copy.stat().st_mtime_ns
    assert copy.read_text().splitlines()[1] == "<row><c0>1</c0><c1> one </c1></row>"
    rows = result.writeStream.format("memory").queryName("joined").trigger(availableNow=True).start()
    rows.awaitTermination()
    assert sorted(map(tuple, spark.table("joined").collect())) == sorted(xmlpunct.query(sql))
    assert xmlpunct.spark.query(spark, sql, shards=2, spool=str(spool)).isStreaming
    assert copy.stat().st_mtime_ns == written
