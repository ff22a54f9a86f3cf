"""Random documents of many shapes, and random damage to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.sql.planner.declaration import column_list
from xmlpunct.firehose import StreamSpec
from xmlpunct.schema import Schema

OPEN = f'<r xmlns:p="{PUNCT_NAMESPACE}" xmlns:o="urn:o">'
_PATHS = "a INT, b STRING, c INT NOT NULL PATH 'd/c', i INT PATH '@i', u STRING PATH 'd/@u'"
_TYPES = "x DOUBLE, m DECIMAL(8,2), e DATE, w TIMESTAMP, y BOOLEAN, h INT CHECK (h BETWEEN 0 AND 23)"
_OTHER = StreamSpec("q", Schema.parse("a INT, b STRING NOT NULL, f STRING"), "q")
SPECS = (StreamSpec("s", Schema.parse(_PATHS), "t"), _OTHER)
TYPED = (StreamSpec("s", Schema.parse(f"{_PATHS}, {_TYPES}"), "t"), _OTHER)
"""All types of columns; they are the slowest to test."""
PLAIN = StreamSpec("s", Schema.parse("a INT, b STRING"), "t", placed=True)
GUESSED = (StreamSpec("s", Schema.parse("a STRING, b STRING"), "t", guessed=True), _OTHER)
_NAMESPACED = (
    "XMLNAMESPACES('urn:o' AS o), oa STRING PATH 'o:a', oi STRING PATH '@o:i', own STRING PATH 'd/text()', "
    "a STRING"
)
_WHOLE = "whole STRING PATH '.', d STRING, c INT PATH 'd/c', e STRING, b STRING"
_ARRAY = "d ARRAY(c INT, u STRING PATH '@u'), b ARRAY(v STRING PATH '.'), a INT, i INT PATH '@i'"
_CHOSEN = (
    "a INT PATH 'a[@i=''1'']', d STRING PATH 'd[@u=''x'']', e STRING PATH 'd[@u=''S01'']', c INT PATH 'd/c'"
)
_ROUND = """a INT, y STRING PATH '../@y', yy STRING PATH '../../@y', n STRING PATH '../n', m STRING PATH '../n/m/@y',
    k STRING PATH '../../n[@u=''x'']', o STRING NOT NULL PATH '../z/text()'"""
_DEEP = "d ARRAY(c ARRAY(v STRING PATH '.'), u STRING PATH '@u', x XML PATH '.'), b ARRAY(v STRING PATH '.'), a INT"
_MANY = """a STRING PATH 'a[2]', e STRING PATH 'd[@u=''x'']/c', d ARRAY(u STRING PATH '@u', c INT),
    u STRING PATH 'd[@u=''S01'']/@u', v STRING PATH 'b[1]', w STRING PATH 'b', y STRING PATH 'd[2]/c',
    whole STRING PATH '.'"""
SHAPED = (
    (StreamSpec("s", Schema.parse(_CHOSEN), "t"), _OTHER),
    (StreamSpec("s", Schema.parse("a INT, i INT PATH '@i'"), "t", where=("u", "x")), _OTHER),
    (StreamSpec("s", Schema.parse(_NAMESPACED), "t"), _OTHER),
    (StreamSpec("s", Schema.parse(_WHOLE), "t"), _OTHER),
    (StreamSpec("s", Schema.parse(_ARRAY), "t"), _OTHER),
    (
        StreamSpec("s", Schema.parse(_ROUND), "t"),
        replace(_OTHER, schema=Schema.parse("a INT, y STRING PATH '../@y'")),
    ),
    (StreamSpec("s", Schema.parse(_ROUND), "t", nested=True),),
    (StreamSpec("s", Schema.parse("a INT, b STRING"), "z/t"), StreamSpec("q", _OTHER.schema, "r/q")),
    (StreamSpec("s", Schema.parse("d XML, whole XML PATH '.', a INT, b STRING"), "t"), _OTHER),
    (StreamSpec("s", Schema.parse("a INT, b STRING, d XML, i INT PATH '@i'"), "t", nested=True),),
    (StreamSpec("s", Schema.parse(_DEEP), "t"), _OTHER),
    (StreamSpec("s", Schema.parse(_DEEP), "t", nested=True),),
    (StreamSpec("s", Schema.parse(_MANY), "t"), _OTHER),
    (StreamSpec("s", Schema.parse(_PATHS), "t", frozenset({"b"}), guessed=True), _OTHER),
    (StreamSpec("s", Schema.parse(_DEEP), "t", frozenset({"a", "b"}), guessed=True), _OTHER),
    (
        StreamSpec("s", Schema.parse(_PATHS), "t", frozenset({"a", "u"}), guessed=True, remedy=column_list),
        _OTHER,
    ),
    (StreamSpec("s", Schema.parse(_DEEP), "t", guessed=True, remedy=column_list), _OTHER),
    (
        StreamSpec("s", Schema.parse("a INT"), "t", where=("u", "x")),
        StreamSpec("v", Schema.parse("b STRING, y STRING PATH '../@y'"), "t", where=("u", "S01")),
        StreamSpec("w", Schema.parse("n STRING PATH '../n'"), "z/t"),
    ),
)
"""Streams with namespaces, mixed content, arrays, ancestors, XML columns, and conditions on elements."""
BOTH = (SPECS[0], PLAIN)
"""Two streams of the same elements."""

_TEXTS = ["", "x", "S01", "a longer text, of more than twelve bytes", "é", "\U0001f600", "]", "a > b"]
_TEXTS += ['"', "'", " ", "\n"]
_ODD = [
    "&amp;",
    "&#65;",
    "<![CDATA[<t>]]>",
    "<!-- c -->",
    "<?pi x?>",
    "\t",
    "\r",
    "&lt;t&gt;",
    "]] >",
    "\x7f",
]
_WRONG = ["&", "<", "]]>", "\x01", "\ufffe", "&nope;", "</a>", "<!", "</r>", "<t>", "<o:z/>", "<zz:z/>"]
_WRONG += ["<!DOCTYPE r>"]
_BYTES = b"<>/\"'&; \n=!?-[]tab1\r\x00\x1f\xc3\xff:"
PIECES = [*_WRONG, *_ODD, "<", ">", "/", '"', "</t>", "<t>", "<a>"]
_INTS = [
    "1",
    "17",
    "-3",
    "+4",
    "007",
    " 8 ",
    "12345678",
    "123456789",
    "9223372036854775807",
    "999999999999999",
]
_BAD = ["", "x", "1.5", "9223372036854775808", "--1", "1-", "+", "٣", "24", "99"]
_OTHERS = {
    "x": ["1.5", "-0", "1e3", "INF", "NaN", "1e"],
    "m": ["1.50", "-2", "1.234", "9999999.99"],
    "e": ["2024-02-29", "2023-02-29", "2024-01-01Z", "2024-1-1"],
    "w": ["2024-01-01T00:00:00", "2024-01-01T00:00:00.5Z", "2024-01-01T24:00:00", "now"],
    "y": ["true", "0", "1", "no"],
}

Write = Callable[[Random], str]
"""Writes a region, each time with other values."""


def value(random: Random, name: str) -> str:
    """The text of an element or attribute."""
    chance = random.random()
    if name in _OTHERS:
        return random.choice(_OTHERS[name])
    if name in "achi":
        return random.choice(_BAD if chance < 0.02 else _INTS if name != "h" else ["0", "5", "23"])
    if chance < 0.03:
        return random.choice(_ODD)
    return random.choice(_TEXTS)


def quoted(random: Random, name: str) -> str:
    """The value of an attribute."""
    text = value(random, name)
    return "" if "<" in text or '"' in text else text


def shape(random: Random) -> Write:
    """A writer of regions with random element names and white space."""
    gap = random.choice(["", "\n", "\n  ", " ", "\r\n", "\n\t"])
    inner = random.choice(["", "", "", "\n    ", " ", "\r\n "])
    kind = random.choice(["t", "t", "t", "q", "p:t", "p:q", "z", "o:t"])
    names = random.sample(["a", "b", "x", "m", "e", "w", "y", "h", "f", "z", "o:a"], random.randint(0, 5))
    if kind.startswith("p:"):
        names = [n for n in names if n in "ab"]
    has_child = kind == "t" and random.random() < 0.8
    attributes = [n for n in ("i", "u", "v", "o:i") if random.random() < 0.15 and not kind.startswith("p:")]
    quote = random.choice('"""\'')
    uses_empty_tags, is_repeated = random.random() < 0.1, random.random() < 0.03

    def leaf(random: Random, name: str) -> str:
        text = value(random, name)
        if kind.startswith("p:"):
            text = random.choice(
                ["*", "1", "[1,2]", "{1,3}", "(,5]", *(["["] if random.random() < 0.01 else [])]
            )
        return f"<{name}>{text}</{name}>" if text or not uses_empty_tags else f"<{name}/>"

    def write(random: Random) -> str:
        attribute_text = "".join(f" {n}={quote}{quoted(random, n)}{quote}" for n in attributes)
        parts = [leaf(random, n) for n in names + (names[:1] if is_repeated else [])]
        if has_child:
            inside = f"<d u={quote}{quoted(random, 'u')}{quote}>" if "u" in attributes else "<d>"
            parts.append(f"{inside}{inner}{leaf(random, 'c')}{inner}</d>")
        if not parts and random.random() < 0.5:
            return f"{gap}<{kind}{attribute_text}/>"
        return f"{gap}<{kind}{attribute_text}>{inner}{inner.join(parts)}{inner if parts else ''}</{kind}>"

    return write


def body(random: Random, max_regions: int = 40) -> str:
    """The content of a root: regions of a few kinds, and occasionally odd markup."""
    shapes = [shape(random) for _ in range(random.choice([1, 1, 2, 3, 6]))]
    oddity = random.choice([0, 0, 0.02, 0.2])
    parts = []
    for _ in range(random.randint(0, max_regions)):
        parts.append(random.choice(shapes)(random) if random.random() < 0.7 else shapes[0](random))
        if random.random() < oddity:
            parts.append(
                random.choice(
                    [
                        "<!-- <t><a>1</a></t> -->",
                        "<!--" + shapes[0](random).replace("--", "") + "-->",
                        f"<z>{shapes[0](random)}{shapes[0](random)}</z>",
                        f"<z y='1'>{shapes[0](random)}",
                        "</z>",
                        f"<t>{shapes[0](random)}</t>",
                        f"<t>{shapes[0](random)}{shapes[0](random)}<a>1</a></t>",
                        "<n>1</n>",
                        f"<n u='x'>{value(random, 'b')}<m y='{quoted(random, 'i')}'/>x</n>",
                        f"<n>{shapes[0](random)}</n>",
                        f"<z xmlns:p='urn:z'>{shapes[-1](random)}</z>",
                        f"<z xmlns='urn:z'>{shapes[0](random)}",
                        "<![CDATA[" + shapes[0](random) + "]]>",
                        "<?pi <t> ?>",
                        "text > ",
                        *_WRONG,
                    ]
                )
            )
    return "".join(parts)


def damaged(random: Random, data: bytes) -> bytes:
    """``data`` with random bytes changed, deleted, copied or added."""
    buffer = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        at = random.randrange(len(buffer) + 1)
        kind = random.randrange(5)
        if kind == 0 and at < len(buffer):
            buffer[at] = (
                random.choice(b"<>/\"'&; \n=!?-[]tab1\r\x00\x1f\xc3\xff:")
                if random.random() < 0.8
                else random.randrange(256)
            )
        elif kind == 1:
            del buffer[at : at + random.choice([1, 1, 2, 5, 40])]
        elif kind == 2:
            buffer[at:at] = random.choice([*_WRONG, *_ODD, "<", ">", "/", '"', "</t>", "<t>", "<a>"]).encode(
                "utf-8", "surrogatepass"
            )
        elif kind == 3:
            piece = buffer[at : at + random.choice([1, 5, 30])]
            position = random.randrange(len(buffer) + 1)
            buffer[position:position] = piece
        else:
            del buffer[at:]
    return bytes(buffer)
