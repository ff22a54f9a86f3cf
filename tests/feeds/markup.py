"""Random serializations of one document: prefixes, quotes, references, CDATA, comments, white space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from xml.sax.saxutils import escape

_PREFIXES = ("", "a", "b", "punct")
_COMMENTS = ("<!-- x -->", "<!--<a>&b;-->", "<!---->")
_SPACES = ("", "", "\n", "\n  ", " ", "\t")
_QUOTES = {'"': "&quot;", "'": "&apos;"}


@dataclass
class Element:
    """An element: its expanded name, its attributes and its content."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    content: list[Element | str] = field(default_factory=list)


def element(name: str, *content: Element | str | None, **attributes: str | None) -> Element:
    """An element with the content and attributes that are not None."""
    present = {name: value for name, value in attributes.items() if value is not None}
    return Element(name, present, [part for part in content if part is not None])


def document(root: Element, rng: Random) -> bytes:
    """A document, in a random serialization."""
    head = rng.choice(
        ["", '<?xml version="1.0"?>\n', "<?xml version='1.0' encoding='UTF-8'?>", "<!-- x -->\n"]
    )
    return (head + _markup(root, {"": ""}, rng) + rng.choice(_SPACES)).encode()


def _markup(node: Element, scope: Mapping[str, str], rng: Random) -> str:
    uri, _, local = node.name.rpartition("}")
    uri = uri[1:]
    prefix, must_declare = _prefix(uri, scope, rng)
    if must_declare:
        scope = {**scope, prefix: uri}
    tag = f"{prefix}:{local}" if prefix else local
    attributes = [f"{name}={_quoted(value, rng)}" for name, value in node.attributes.items()]
    if must_declare:
        attributes.append(f"xmlns{':' if prefix else ''}{prefix}={_quoted(uri, rng)}")
    rng.shuffle(attributes)
    start = " ".join([tag, *attributes])
    if not node.content and rng.random() < 0.5:
        return f"<{start}/>"
    is_mixed = any(isinstance(part, str) for part in node.content)
    inner = "".join(
        _text(part, rng) if isinstance(part, str) else _between(is_mixed, rng) + _markup(part, scope, rng)
        for part in node.content
    )
    return f"<{start}>{inner}{_between(is_mixed, rng)}</{tag}{rng.choice(['', ' '])}>"


def _prefix(uri: str, scope: Mapping[str, str], rng: Random) -> tuple[str, bool]:
    """A prefix for a namespace, and whether it must be declared."""
    declared = [prefix for prefix, scope_uri in scope.items() if scope_uri == uri and (uri or not prefix)]
    if declared and rng.random() < 0.8:
        return rng.choice(declared), False
    prefix = rng.choice(_PREFIXES) if uri else ""
    return prefix, scope.get(prefix) != uri


def _between(is_mixed: bool, rng: Random) -> str:
    """Insignificant markup between elements."""
    comment = rng.choice(_COMMENTS) if rng.random() < 0.1 else ""
    return comment if is_mixed else comment + rng.choice(_SPACES)


def _text(text: str, rng: Random) -> str:
    """A text, cut into pieces that are escaped in different ways."""
    at = sorted(rng.randint(0, len(text)) for _ in range(rng.choice([0, 0, 1, 3])))
    pieces = [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]
    return "".join(_piece(piece, rng) for piece in pieces)


def _piece(text: str, rng: Random) -> str:
    way = rng.random()
    if way < 0.15 and "]]>" not in text:
        return f"<![CDATA[{text}]]>"
    if way < 0.25:
        return "".join(f"&#{ord(c)};" if rng.random() < 0.5 else f"&#x{ord(c):X};" for c in text)
    return escape(text) + (rng.choice(_COMMENTS) if way > 0.9 else "")


def _quoted(text: str, rng: Random) -> str:
    quote = rng.choice("\"'")
    return quote + escape(text, {quote: _QUOTES[quote], "\n": "&#10;", "\t": "&#9;"}) + quote
