"""Fuzzing with mutated documents: if the native reader accepts one, libxml2 accepts it with the same contents.

    python -m tests.firehose.fuzz [--seconds N] [--seed N]

Most splits are compared in a quick way only: libxml2 builds a tree of the split, after the open elements are closed,
and the texts of a few columns are looked up in the tree. libexpat has to accept it, too. For one split in twenty, the
complete outcome is compared with that of the parser based on libxml2.

To find memory errors, run it with the sanitizers. Build the extension with them in a copy of the tree; the
interpreter has to load them first:

    cp -r xmlpunct tests COPY
    cd COPY/xmlpunct/firehose
    gcc -O1 -g -fsanitize=address,undefined -fno-sanitize-recover -shared -fPIC native.c \\
        -I"$(python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')" \\
        -o "_native$(python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
    cd ../..
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 python -m tests.firehose.fuzz
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from xml.parsers import expat

from lxml import etree

from tests.firehose.documents import GUESSED, OPEN, PIECES, SHAPED, SPECS, TYPED, body, damaged
from tests.firehose.outcomes import contents
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import Limits, Parser, Position, Split, StreamSpec, parse_conforming
from xmlpunct.firehose.native.walker import Walk
from xmlpunct.firehose.parser import _parse, _Streams
from xmlpunct.schema import Schema

SPACED = (StreamSpec("s", Schema.parse("a INT, b STRING, i STRING PATH '@i'"), "{urn:o}t"),)
NESTED = (
    StreamSpec(
        "s", Schema.parse("d STRING, c STRING PATH 'd/c', e STRING PATH 'd/c/e', u STRING PATH 'd/@u'"), "t"
    ),
)
ALL = (SPECS, TYPED, GUESSED, SPACED, NESTED, *SHAPED)

ODD = [
    "",
    "<r/>",
    "<r></r>",
    " \n<r/>\r\n<!-- c -->",
    "<r>]]&gt;</r>",
    "<r><t/><t></t><t > </t ><t\n/></r>",
    "<r><t><a> 1 </a><b>x\r\ny\rz</b></t></r>",
    "<r><t><b>&lt;&#65;&#x1F600;&amp;amp;</b><a>&#49;</a></t></r>",
    "<r><t><b><![CDATA[<&]]]]><![CDATA[>\r\n]]></b></t></r>",
    "<r><t><b>a<!-- - -->b<!----></b></t></r>",
    """<r><t i='a"b' u="c'd" v='&quot;&#10;'><b/></t><t i="a\tb\nc\r\nd\re"/></r>""",
    '<r xmlns="urn:o"><t i="1"><a>1</a><a xmlns="">2</a></t></r>',
    '<r xmlns:o="urn:o"><o:t o:i="1" i="2"><o:a>1</o:a><b>2</b><z:c xmlns:z="urn:z"/></o:t></r>',
    '<r xmlns:o="urn:o" xmlns:p="urn:o"><t o:i="1" p:j="2"/></r>',
    "<r y='1'><z y='2'><t/><n>1</n><t/></z><t/><z><n>3</n><n u='x'>4<m>5</m></n><t/></z><n>6</n><t/></r>",
    "<r y='a&amp;b'><n>1<z>2</z><!-- c -->3&lt;</n><n><t/></n><n><m><m>1</m><m>2</m></m></n><t/><t/></r>",
    "<r><z><t><a>1</a><t><a>2</a><t><a>3</a></t></t><a>4</a></t></z><t/></r>",
    "<r><t><d><c>1</c><c>2</c></d><d u='x'/><d u='y'><c/></d><b> x<i/></b></t><t><d u='x'><c>1</c></d></t></r>",
    "<r><t u='x'><a i='1'>1</a><a i='2'>2</a><a>3</a></t><t u='y'/><t u='&#120;'><b/></t><t><b>1</b><b>2</b></t></r>",
    f"{OPEN}<p:t u='x'><a>1</a></p:t><p:t u='y'><a>2</a></p:t><p:t u='{{x,y}}'/><p:t><b>*</b></p:t></r>",
    "<r xml:lang='en'><t xml:id='x' xml:space='preserve'><b xml:base='y'>z</b></t></r>",
    "<r><t><b>1</b><b>2</b></t><t><b>x<i>y</i>z</b></t><t><d>1<c>2<e>3</e>4</c>5<c/></d></t></r>",
    "<r><t><d u='1'/>x<t><t/></t><z><t><a>1</a></t></z></t></r>",
    f"{OPEN}<p:t><a>*</a><b> * </b></p:t><p:t/><p:t i='1'><p:a>[1,2]</p:a></p:t></r>",
    f"{OPEN}<p:t><z>1</z></p:t><p:t><z>*</z><a>1</a></p:t><p:t><z><y> * </y></z></p:t><p:t w='1'/></r>",
    f"{OPEN}<p:t><a>1</a><a>2</a></p:t></r>",
    f"{OPEN}<p:t>x<a>1</a></p:t></r>",
    "<?xml-stylesheet href='a.xsl'?>\n<?a?><r><?pi x?><t><b>1<?p.i-2\t?>2</b><?x ? > ?></t></r><?z \u20ac?>",
    "<r>\u00e9\u20ac\U0001f600<t><b>\u00e9\ufeff</b></t></r>",
    "<\u00e9><t/></\u00e9>",
    "<\u00e9 \u3042='1'><\u00e9:t xmlns:\u00e9='urn:o' a\u00b7='2' \u00e9:\u00f1='3'><\U00010000/></\u00e9:t></\u00e9>",
    *(
        f"<r><{c}a/></r>"
        for c in "\u00d7\u00f7\u00b7\u0300\u037e\u2000\u200d\u203f\u2190\u2fef\u3000\ufdd0\ufffd\U000effff\U000f0000"
    ),
    *(
        f"<r a{c}='1'/>"
        for c in "\u00d7\u00f7\u00b7\u0300\u036f\u037e\u2000\u200d\u2040\u2070\ud7ff\uf900\U000effff\U000f0000"
    ),
    f"{OPEN}<p:t><d>*</d></p:t></r>",
    "<r><t><b>" + "x" * 40 + "\t" + "y" * 40 + "</b></t></r>",
    "<r>" + "<x>" * 198 + "</x>" * 198 + "</r>",
    "<r><abcdefghi><abcdefgh/></abcdefghi><abcdefghij></abcdefghij></r>",
    "<?xml version='1.0' encoding='latin-1'?><r><t/></r>",
    "\ufeff<r><t/></r>",
    "<!DOCTYPE r><r/>",
    "<!DOCTYPE r SYSTEM 'x[\"y>'><r><t><b>1</b></t></r>",
    "<!DOCTYPE r PUBLIC 'x' \"y\" ><!DOCTYPE r><r/>",
    "<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;<t><b>&a;</b></t></r>",
    "<!DOCTYPE r [<!ATTLIST t a CDATA 'x'>]><r><t><b>1</b></t></r>",
    "<!DOCTYPE r [<!-- ' ]> --><!ELEMENT r (t*)>\n<!NOTATION n SYSTEM ']'><?p ]?> ] ><r><t/></r>",
    "<r><?xml x?></r>",
    "<r><?XML x?></r>",
    "<r><?xml-model x?><?xml-other x?></r>",
    "<r><?p:i x?></r>",
    "<r><?pi?x?></r>",
    "<r><??></r>",
    "<r><?pi x \x01?></r>",
    "<r><t a='1' a='2'/></r>",
    "<r xmlns:o='u' xmlns:o='u'/>",
    "<r xmlns:xml='urn:x'/>",
    "<r xmlns:o=''/>",
    "<xmlns:r/>",
    "<r><o:t/></r>",
    "<r a:b:c='1'/>",
    "<r :a='1'/>",
    "<r><1/></r>",
    "<r a='&lt;<'/>",
    "<r><!-- a -- b --></r>",
    "<r><!-- a ---></r>",
    "<r>&#0;&#xD800;</r>",
    "<r>&#x110000;</r>",
    "<r/><r/>",
    "<r/>x",
    "x<r/>",
    "<r><![CDATA[x]]</r>",
    "<![CDATA[x]]><r/>",
    "<r>\ufffe</r>",
    "<r>\x7f\x85</r>",
    "<r a='1'b='2'/>",
    "<r / >",
    "< r/>",
    "</r>",
    "<r></r x>",
    "<r></rr>",
    "<rr></r>",
    "<r><t i='1' u='2'/><t u='1' i='2'/><t ii='1' i='2'/></r>",
    "<r><t i='1' ii='2' u='3' v='4' w='5' x='6' y='7' z='8' i_='9'/></r>",
    "<r><t i='1' u='2'/><t u='1' u='2'/></r>",
    "<r><t i='1'/><t i ='1'/><t i\n=\n'1'\n/><t i= '1' ></t\n></r>",
    "<r><t><b v='1'>x</b><b v='1'/><a v='1' w='2'>1</a></t><t><a>1</a><b>2</b></t><t><b>1</b><a>2</a></t></r>",
    "<r><t><z v='1'>x<y/></z><z v='1'/><z v='1' xmlns='urn:z'/><z xmlns:o='urn:z'>x</z><o:z/></t></r>",
    "<r xmlns:o='urn:o'><t><o:z>1</o:z><o:a>1</o:a><o:z></z></t></r>",
    "<r xmlns:o='urn:o'><t o:i='1' i='2'/><t i='1' o:i='2' xmlns:p='urn:o' p:i='3'/></r>",
    "<r>\n \t<t>\r\n <a>1</a>\n x\n <b> 2 </b>\n]]</t>\n ]]></r>",
    "<r>\n <t/>\n x \u00e9 <t/> &amp; <t/> \x01</r>",
]
"""Hand-written documents, each with a peculiarity of its own."""

_BITS = [
    *PIECES,
    "xmlns='urn:o'",
    " xmlns:o='urn:x'",
    "o:",
    "p:",
    "xml:",
    " i='1'",
    ' o:i="2"',
    "='",
    "/>",
    "<!--",
    "-->",
    "<?pi ",
    "<?xml",
    "?>",
    "<![CDATA[",
    "]]>",
    "&#",
    "&#x41;",
    ";",
    "\r\n",
    "\u20ac",
    "\u00e9",
    "\u3042",
    "\u0300",
    "<p:t>",
    "</p:t>",
    "<d>",
    "</d>",
    "<c>",
    "*",
    "-",
]


def document(random: Random) -> bytes:
    """A document, mostly a damaged one."""
    if random.random() < 0.3:
        text = f"{OPEN}{body(random, 6)}</r>"
    else:
        text = random.choice(ODD)
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        if random.random() < 0.5:
            data = damaged(random, data)
        else:
            at, bit = random.randrange(len(data) + 1), random.choice(_BITS).encode("utf-8", "surrogatepass")
            data = data[:at] + bit + data[at:]
    return data


class Fuzzer:
    """Runs comparisons, and counts splits: walked natively, passed on to libxml2, and compared in full."""

    def __init__(self) -> None:
        self.parsers = [Parser(specs) for specs in ALL]
        self.walked = self.passed_on = self.full = 0

    def run_once(self, random: Random, share: float = 1) -> None:
        """Compare on a document and on a piece of it; for a ``share`` of them, compare in full."""
        data = document(random)
        first, second = sorted(random.randrange(len(data) + 1) for _ in range(2))
        opened = random.choice([(OPEN,), (OPEN, "<o:x y='1'\n>"), ("<r xmlns='urn:o'>",)])
        for split in (
            Split("doc", Position(), data, random.random() < 0.8),
            Split("doc", Position(9, 2, opened, True), data[first:second], random.random() < 0.3),
        ):
            self.count(self.look_up(split))
            if random.random() < share:
                self.full += 1
                self.compare(split, random.randrange(len(ALL)))

    def __str__(self) -> str:
        return f"{self.walked:,} splits walked, {self.passed_on:,} passed on; all compared of {self.full:,}"

    def count(self, is_walked: bool) -> None:
        self.walked += is_walked
        self.passed_on += not is_walked

    def look_up(self, split: Split) -> bool:
        """Compare the native reader's tuples with the tree of the split; False if it passed the split on."""
        walker, prepared = _LOOKED_UP._walker, split.ready
        (tree,) = walker.trees
        walk = None if prepared.refused is not None else walker._walk_over(tree, [0], split, prepared.data)
        if walk is None:
            return False
        stream_rows = walker._stream_rows(prepared.data, tree, 0, 0, walk)
        columns = [cells.listed(_NONE) for cells in stream_rows.cells]
        rows = [
            None if row in stream_rows.faults else texts
            for row, texts in enumerate(zip(*columns, strict=True))
        ]
        assert rows == [*_looked_up(split, prepared.data, walk)], split
        return True

    def compare(self, split: Split, number: int) -> None:
        """Compare the complete outcome of a split with libxml2's, with and without reading ahead."""
        parser, specs = self.parsers[number], ALL[number]
        prefix = parser.ahead(split)
        if prefix is not None and (size := prefix[0].boundary):
            prefix_split = replace(split, data=split.data[:size], final=False)
            expected_state = _parse(
                prefix_split, _Streams(specs, PUNCT_NAMESPACE, Limits())
            ).saved_state_after()
            assert prefix[1] in (None, expected_state)
            assert_same(parser, prefix_split, specs)
        if parser._walker.walk(split) is not None:
            assert_same(parser, split, specs)


_COLUMNS = "w STRING PATH '.', a STRING, b STRING, i STRING PATH '@i', o STRING PATH '@o:i'"
_LOOKED_UP = Parser([StreamSpec("s", Schema.parse(f"XMLNAMESPACES('urn:o' AS o), {_COLUMNS}"), "t")])
_NONE = "\0"
_BEYOND_ASCII = re.compile(rb"<[^<>]*[\x80-\xff]")
_TAG_NAME = re.compile(rb"<([^\s/>]+)")


def _looked_up(split: Split, data: bytes, walk: Walk) -> Iterator[tuple[str, ...] | None]:
    """Texts of the tuples in the tree of a split, after its open elements are closed; None if a child repeats."""
    tags = [tag.encode() for tag in split.start.open[: walk.kept]]
    tags += [data[at : at + size] for at, size in walk.opened]
    end_tags = b"".join(b"</%s>" % _TAG_NAME.match(tag)[1] for tag in reversed(tags))  # type: ignore[index]
    if not walk.rooted and not split.start.open:
        end_tags = b"<r/>"
    parser = etree.XMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, collect_ids=False
    )
    document = split.start.prologue + data + end_tags
    if not _BEYOND_ASCII.search(
        document
    ):  # expat, as a second check of well-formedness, has the names of an older edition
        expat.ParserCreate("utf-8", " ").Parse(document, True)
    root = etree.fromstring(document, parser)
    for tuple_ in _tuples(root):
        children = [[_text(child) for child in tuple_ if child.tag == name] for name in "ab"]
        attributes = [tuple_.get(name, _NONE) for name in ("i", "{urn:o}i")]
        if any(len(texts) > 1 for texts in children):
            yield None
        else:
            yield (_text(tuple_), *(texts[0] if texts else _NONE for texts in children), *attributes)


def _tuples(element: etree._Element) -> Iterator[etree._Element]:
    """The tuples in an element, including the element itself."""
    if element.tag == "t":
        yield element
    elif element.tag != f"{{{PUNCT_NAMESPACE}}}t":
        for child in element:
            yield from _tuples(child)


def _text(element: etree._Element) -> str:
    return "".join(element.itertext())


def assert_same(parser: Parser, split: Split, specs: Sequence[StreamSpec]) -> None:
    assert contents(parser.parse(split)) == contents(parse_conforming(split, specs)), split


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--share", type=float, default=0.05, help="share of splits that are compared in full")
    options = parser.parse_args()
    fuzzer, seed, until = Fuzzer(), options.seed, time.monotonic() + options.seconds
    while time.monotonic() < until:
        seed += 1
        try:
            fuzzer.run_once(Random(seed), options.share)
        except BaseException:
            print(f"seed {seed}; {fuzzer}")
            raise
    print(fuzzer)


if __name__ == "__main__":
    main()
