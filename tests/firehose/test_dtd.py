"""dtd = 'FILE': named entities of a local DTD apply to each document, as those of an internal subset do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.firehose.harness import read
from xmlpunct import query
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import Limits, Position, Split, StreamSpec, parse_conforming, parse_split
from xmlpunct.firehose.libxml.doctype import entities_of
from xmlpunct.schema import Schema

DTD = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- <!ENTITY comment "no"> -->
<!ELEMENT dblp (article|book)*>
<!ENTITY % field "author|title"><!ELEMENT article (%field;)*>
<!ATTLIST article key CDATA #REQUIRED mdate CDATA "2001-01-01">
<!ENTITY uuml "&#252;" ><!-- small u -->
<!ENTITY reg '\xae'><!ENTITY uuml "second">
<!ENTITY amp "&#38;#38;">
<!ENTITY external SYSTEM "secret.txt">
<!ENTITY markup "<b>x</b>">
<!ENTITY hidden "&#60;b/>">
<!ENTITY parameter "%field;">
<!ENTITY % latin SYSTEM "latin.ent"> %latin;
<![IGNORE[ <!ENTITY ignored "no"> ]]>
<!ENTITY two "&uuml;&reg;">
"""
DECLARED = """<!ENTITY uuml "&#252;"><!ENTITY reg '\xae'><!ENTITY two "&uuml;&reg;">"""
SCHEMA = Schema.parse("key STRING PATH '@key', author STRING, raw XML PATH 'title'")


@pytest.fixture
def dtd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("secret")
    Path("dblp.dtd").write_text(DTD, encoding="latin-1")
    return entities_of("dblp.dtd")


def test_only_named_entities_with_a_text_are_declared(dtd: str) -> None:
    assert dtd == DECLARED


@pytest.mark.parametrize(
    "head", ["", "<!DOCTYPE dblp SYSTEM 'dblp.dtd'>", "<!DOCTYPE dblp [<!ENTITY own 'o'>]>\n"]
)
def test_entities_are_expanded(dtd: str, head: str) -> None:
    """By both readers, after any cut, and in each of several documents."""
    article = (
        "<article key='&reg;{0}'><author>M&uuml;ller {0}</author><title>&two;<i>&amp;</i></title></article>"
    )
    document = "".join(
        f"{head}<dblp>" + "".join(article.format(2 * d + i) for i in range(2)) + "</dblp>" for d in range(2)
    ).encode()
    stream = StreamSpec("s", SCHEMA, "article", dtd=dtd)
    rows = [(f"®{i}", f"Müller {i}", "<title>ü®<i>&amp;</i></title>") for i in range(4)]
    for feed, cut in ((1, 1), (None, 1), (None, 100), (None, None)):
        result = read(document, stream, feed, cut)
        assert (result.error, result.tuples) == (None, rows)
    one = document[: document.index(b"</dblp>") + 7]
    for parse in (parse_split, parse_conforming):
        parsed = parse(Split("doc", Position(), one, True), [stream])
        assert (parsed.error, parsed.slices[0].tuples.rows()) == (None, rows[:2])


def test_an_internal_subset_comes_first(dtd: str) -> None:
    document = b"<!DOCTYPE d [<!ENTITY uuml 'ue'>]><d><article><author>&uuml;&reg;</author></article></d>"
    result = read(document, StreamSpec("s", SCHEMA, "article", dtd=dtd), cut=1)
    assert (result.error, result.tuples) == (None, [(None, "ue®", None)])


@pytest.mark.parametrize("name", ["external", "markup", "hidden", "parameter", "ignored", "comment", "latin"])
def test_other_entities_are_not_declared(dtd: str, name: str) -> None:
    document = (
        f"<d>\n<article><author>&uuml;</author></article>\n<article><author>&{name};</author></article></d>"
    )
    stream = StreamSpec("s", SCHEMA, "article", dtd=dtd)
    for cut in (1, None):
        result = read(document.encode(), stream, cut=cut)
        assert result.tuples == [(None, "ü", None)]
        at = document.index(f"&{name}")
        assert str(result.error).startswith(f"doc, line 3, byte {at}: Entity '{name}' not defined")


def test_the_bound_on_expansion_stays(tmp_path: Path) -> None:
    bomb = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))
    (tmp_path / "bomb.dtd").write_text(f'<!ENTITY e0 "0123456789">{bomb}')
    stream = StreamSpec("s", SCHEMA, "article", dtd=entities_of(str(tmp_path / "bomb.dtd")))
    result = read(b"<d><article><author>&e8;</author></article></d>", stream, limits=Limits())
    assert result.tuples == []
    assert "Maximum entity amplification factor exceeded" in str(result.error)


def test_a_wrong_dtd_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "wrong.dtd"
    for content, reason in (
        (None, "No such file or directory"),
        (b"<!ELEMENT a (b)>", "declares no entity with a text"),
        (b"\xff\xff<!ENTITY a 'b'>", "codec can't decode"),
        (b"<?xml version='1.0' encoding='nothing'?><!ENTITY a 'b'>", "unknown encoding: nothing"),
        (b"<!ENTITY a 'b &'>", "cannot be used: malformed"),
        (b"".join(b"<!ENTITY a%d '%s'>" % (i, b"x" * 100) for i in range(700)), "more than 65,536 bytes"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UsageError, match=reason):
            entities_of(str(path))


def test_in_sql(dtd: str) -> None:
    stream = "CREATE STREAM article {}WITH (source = 'd.xml', element = 'article', dtd = 'dblp.dtd')"
    sql = f"{stream.format('(author STRING) ')}; SELECT author FROM article"
    document = (
        b"<!DOCTYPE dblp SYSTEM 'dblp.dtd'><dblp><article><author>M&uuml;ller</author></article></dblp>"
    )
    assert list(query(sql, article=document)) == [("Müller",)]
    with pytest.raises(SourceError, match="Entity 'uuml' not defined"):
        list(query(sql.replace(", dtd = 'dblp.dtd'", ""), article=document))
    assert ("a DTD", "dblp.dtd") in plan(sql).reads
    with pytest.raises(UsageError, match="columns are inferred without a DTD"):
        plan(f"{stream.format('')}; SELECT * FROM article")
