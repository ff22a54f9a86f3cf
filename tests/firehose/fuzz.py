"""Mutated documents by the million: whatever the native reader takes, libxml2 takes, and reads the same in it.

    python -m tests.firehose.fuzz [--seconds N] [--seed N]

To look for what no comparison shows, run it with the sanitizers, which the interpreter has to load first:

    cd xmlpunct/firehose
    gcc -O1 -g -fsanitize=address,undefined -fno-sanitize-recover -shared -fPIC native.c walk.c values.c tokens.c \\
        -I"$(python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')" \\
        -o "_native$(python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
    cd ../..
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 python -m tests.firehose.fuzz
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.firehose.documents import GUESSED, OPEN, PIECES, SHAPED, SPECS, TYPED, body, damaged
from tests.firehose.outcomes import everything
from xmlpunct.firehose import PUNCT_NAMESPACE, Limits, Parser, Position, Split, StreamSpec, parse_conforming
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
    "<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;</r>",
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
]
"""Documents of which each has something of its own."""

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
        found = f"{OPEN}{body(random, 6)}</r>"
    else:
        found = random.choice(ODD)
    data = found.encode("utf-8", "surrogatepass")
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        if random.random() < 0.5:
            data = damaged(random, data)
        else:
            at, bit = random.randrange(len(data) + 1), random.choice(_BITS).encode("utf-8", "surrogatepass")
            data = data[:at] + bit + data[at:]
    return data


class Fuzzer:
    """Counts the splits that were walked, and those that were passed on."""

    def __init__(self) -> None:
        self.parsers = [Parser(specs) for specs in ALL]
        self.walked = self.passed = 0

    def some(self, random: Random) -> None:
        """Compare on a document, and on a piece of it."""
        data, i = document(random), random.randrange(len(ALL))
        self.compare(Split("doc", Position(), data, random.random() < 0.8), i)
        first, second = sorted(random.randrange(len(data) + 1) for _ in range(2))
        opened = random.choice([(OPEN,), (OPEN, "<o:x y='1'\n>"), ("<r xmlns='urn:o'>",)])
        self.compare(Split("doc", Position(9, 2, opened, True), data[first:second], random.random() < 0.3), i)

    def compare(self, split: Split, number: int) -> None:
        """Compare what is walked with what libxml2 finds, and the same of what is read ahead."""
        parser, specs = self.parsers[number], ALL[number]
        ahead = parser.ahead(split)
        if ahead is not None and (size := ahead[0].boundary):
            before = replace(split, data=split.data[:size], final=False)
            assert ahead[1] in (
                None,
                _parse(before, _Streams(specs, PUNCT_NAMESPACE, Limits())).said_behind(),
            )
            assert_same(parser, before, specs)
        if parser._walker.walk(split) is None:
            self.passed += 1
            return
        self.walked += 1
        assert_same(parser, split, specs)


def assert_same(parser: Parser, split: Split, specs: Sequence[StreamSpec]) -> None:
    assert everything(parser.parse(split)) == everything(parse_conforming(split, specs)), split


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    given = parser.parse_args()
    fuzzer, seed, until = Fuzzer(), given.seed, time.monotonic() + given.seconds
    while time.monotonic() < until:
        seed += 1
        try:
            fuzzer.some(Random(seed))
        except BaseException:
            print(f"seed {seed}")
            raise
    print(f"{fuzzer.walked:,} splits walked, {fuzzer.passed:,} passed on")


if __name__ == "__main__":
    main()
