"""XML's productions, one by one: every way of reading accepts well-formed documents and refuses malformed ones.

The W3C's own suite is not in this repository: see `conformance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.firehose.conformance import by_all_ways, by_libxml2, main, problems

WELL_FORMED = {
    "document": [
        "<t/>",
        "<t></t>",
        "\n<t/>\n",
        "<!-- a --><?b c?><t/><!-- d --><?e?>\r\n",
        "<t\n/>",
        "<t></t\t>",
    ],
    "declaration": [
        "<?xml version='1.0'?><t/>",
        '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>\n<t/>',
        "<?xml version='1.7'?><t/>",
        "\ufeff<?xml version='1.0'?><t/>",
    ],
    "doctype": [
        "<!DOCTYPE t><t/>",
        "<!DOCTYPE t SYSTEM 'a>[b'\n><t/>",
        "<!DOCTYPE t PUBLIC '-//a' \"b'c\"><t/>",
    ],
    "names": ["<t><_/><a.b-c·\u0300/><\u00e9/><\U00010000/></t>", "<t><xmlish/><Xm a.-1=''/></t>"],
    "attributes": [
        "<t a='&lt;\"&amp;' b=\"'>]]>\"\nc = 'x'/>",
        "<t a='\t\n\r\n\r &#9;&#10;&#13;'/>",
        "<t xml:lang='' xml:space='other'/>",
    ],
    "namespaces": [
        "<t xmlns:p='u' p:a='1' a='2'><p:b xmlns:p='v'/></t>",
        "<o xmlns='u'><t xmlns='' xmlns:xml='http://www.w3.org/XML/1998/namespace'/></o>",
    ],
    "references": [
        "<t>&lt;&gt;&amp;&quot;&apos;&#60;&#x3c;&#x0000000041;&#x10FFFF;&#9;&#13;</t>",
        "<t>&#38;#60;</t>",
    ],
    "CDATA": [
        "<t><![CDATA[]]></t>",
        "<t><![CDATA[<&]] >]]]]><![CDATA[>&amp;]]></t>",
        "<t>a<![CDATA[\r\n\r]]>b</t>",
    ],
    "comments": ["<t>a<!-- - <& ]]> -->b<!----></t>"],
    "instructions": ["<t>a<?b?>c<?d  <&-- ? > ?>e</t>", "<?xml-stylesheet a?><t/>"],
    "text": [
        "<t>]] > ] ]]&gt; > \" '</t>",
        "<t>\r\n\r\n\r \n\r</t>",
        "<t>\t \u0085\u2028\x7f\ud7ff\ue000\ufffd</t>",
    ],
}
NOT_WELL_FORMED = {
    "document": [
        "",
        " ",
        "<!-- -->",
        "<t>",
        "</t>",
        "<t></u>",
        "<t><u></t></u>",
        "<t/>x",
        "x<t/>",
        "<t/>&#32;",
    ],
    "declaration": [
        " <?xml version='1.0'?><t/>",
        "<?xml version='1'?><t/>",
        "<?xml encoding='utf-8'?><t/>",
        "<?xml version='1.0' standalone='maybe'?><t/>",
        "<?xml version='1.0' standalone='yes' encoding='utf-8'?><t/>",
        "<?XML version='1.0'?><t/>",
        "<t><?xml version='1.0'?></t>",
    ],
    "doctype": [
        "<!DOCTYPE><t/>",
        "<!DOCTYPE t PUBLIC 'a'><t/>",
        "<!DOCTYPE t PUBLIC '{' 'b'><t/>",
        "<!doctype t><t/>",
        "<!DOCTYPE t><!DOCTYPE t><t/>",
        "<t><!DOCTYPE t></t>",
        "<!DOCTYPE t SYSTEM a><t/>",
    ],
    "names": [
        "<t><1/></t>",
        "<t><-a/></t>",
        "<t>< a/></t>",
        "<t><a\u00d7/></t>",
        "<t><\u0300a/></t>",
        "<T></t>",
    ],
    "attributes": [
        "<t a/>",
        "<t a=/>",
        "<t a=b/>",
        "<t a='<'/>",
        "<t a='&'/>",
        "<t a='1'b='2'/>",
        "<t a='1' a='2'/>",
        "<t a='1/>",
        "<t></t a='1'>",
    ],
    "namespaces": [
        "<p:t/>",
        "<t p:a=''/>",
        "<t xmlns:p=''/>",
        "<t xmlns:xmlns='u'/>",
        "<t xmlns:xml='u'/>",
        "<t xmlns:p='u' xmlns:q='u' p:a='' q:a=''/>",
        "<t><a:/></t>",
        "<t><:a/></t>",
        "<t a:b:c=''/>",
    ],
    "references": [
        "<t>&</t>",
        "<t>&lt</t>",
        "<t>& lt;</t>",
        "<t>&nbsp;</t>",
        "<t>&#;</t>",
        "<t>&#x;</t>",
        "<t>&#0;</t>",
        "<t>&#8;</t>",
        "<t>&#xD800;</t>",
        "<t>&#xFFFE;</t>",
        "<t>&#x110000;</t>",
        "<t>&#4294967361;</t>",
        "<t>&#X41;</t>",
        "<t>&#3a;</t>",
    ],
    "CDATA": [
        "<t><![CDATA[</t>",
        "<t><![CDATA[]]</t>",
        "<t><![cdata[]]></t>",
        "<t><![CDATA []]></t>",
        "<![CDATA[]]><t/>",
    ],
    "comments": [
        "<t><!-- -- --></t>",
        "<t><!-- ---></t>",
        "<t><!-- </t>",
        "<t><!- a --></t>",
        "<t><!--></t>",
        "<t/><!-- ",
    ],
    "instructions": [
        "<t><?></t>",
        "<t><? a?></t>",
        "<t><?a</t>",
        "<t><?a/b?></t>",
        "<t><?xMl?></t>",
        "<t><?p:a?></t>",
    ],
    "text": [
        "<t>]]></t>",
        "<t>a]]]>b</t>",
        "<t>\x00</t>",
        "<t>\x0b</t>",
        "<t>\ufffe</t>",
        "<t>\uffff</t>",
        "<t>\x1f</t>",
    ],
}
ENCODED = "<t>\u00e9\u20ac\u3042</t>"


@pytest.mark.parametrize("production", WELL_FORMED)
def test_well_formed_documents_are_accepted(production: str) -> None:
    for document in WELL_FORMED[production]:
        check(document.encode(), True)


@pytest.mark.parametrize("production", NOT_WELL_FORMED)
def test_malformed_documents_are_refused(production: str) -> None:
    for document in NOT_WELL_FORMED[production]:
        check(document.encode(), False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "euc-jp", "cp1252"])
def test_encodings(encoding: str) -> None:
    text = (
        ENCODED
        if encoding.startswith("utf")
        else "<t>\u3042</t>"
        if encoding == "euc-jp"
        else "<t>\u20ac</t>"
    )
    name = encoding.removesuffix("-sig")
    check(f"<?xml version='1.0' encoding='{name}'?>{text}".encode(encoding), True)
    if encoding == "utf-16":
        check(text.encode(encoding), True)


@pytest.mark.parametrize(
    "data",
    [
        b"<t>\x80</t>",
        b"<t>\xc0\x80</t>",
        b"<t>\xed\xa0\x80</t>",
        b"<t>\xf4\x90\x80\x80</t>",
        b"<t>\xe2\x82</t>",
        b"<t a='\xff'/>",
        b"<t><!-- \xfe --></t>",
        b"<?xml version='1.0' encoding='nope'?><t/>",
        b"<?xml version='1.0' encoding='ascii'?><t>\xe9</t>",
        b"<?xml version='1.0' encoding='utf-16'?><t/>",
        "<t>".encode("utf-16") + b"\x00\xd8\x00\x00",
    ],
)
def test_bytes_that_are_not_in_the_encoding(data: bytes) -> None:
    check(data, False)


def check(data: bytes, is_well_formed: bool) -> None:
    libxml2, root = by_libxml2(data)
    ours = by_all_ways(data, root)
    assert (ours[0].error is None) == is_well_formed, (data, ours)
    assert problems(data, ours, libxml2) == []


def test_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = {
        "good": ("valid", "<t>1</t>"),
        "bad": ("not-wf", "<t>"),
        "subset": ("valid", "<!DOCTYPE t [<!ENTITY a 'b'>]><t>&a;</t>"),
        "two": ("not-wf", "<t/><t/>"),
        "external": ("valid", "<!DOCTYPE t SYSTEM 'a.dtd'><t>&a;</t>"),
    }
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "list.xml").write_text(
        "".join(f"<TEST ID='{name}' TYPE='{type_}' URI='{name}.xml'/>" for name, (type_, _) in tests.items())
        + "<TEST ID='newer' TYPE='valid' VERSION='1.1' URI='newer.xml'/>"
    )
    for name, (_, document) in tests.items():
        (tmp_path / "own" / f"{name}.xml").write_text(document)
    catalogue = "<!DOCTYPE s [<!ENTITY own SYSTEM 'own/list.xml'>]><s><l xml:base='own/'>&own;</l></s>"
    (tmp_path / "xmlconf.xml").write_text(catalogue)
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "two: not well formed; read; documents one behind the other are one stream" in printed
    assert "external: well formed; test, line 1, byte 30: Entity 'a' not defined" in printed
    assert "5 tests" in printed
    assert "0 without a reason" in printed
    (tmp_path / "own" / "bad.xml").write_text("<t/>")
    (tmp_path / "own" / "good.xml").write_text("<t>")
    assert main([str(tmp_path)]) == 1
    assert "good: well formed; test, line 1, byte 3: the document ends inside <t>" in capsys.readouterr().out
