"""What a document holds, from a sample of it: the repeated element, and its columns."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from lxml import etree

from xmlpunct.errors import SourceError
from xmlpunct.firehose.faults import new_parser, pieces
from xmlpunct.firehose.inferred import Inferred, named
from xmlpunct.firehose.parser import Parser
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.prologue import ready
from xmlpunct.firehose.sniff import rereadable
from xmlpunct.firehose.sources import Source
from xmlpunct.firehose.spec import PUNCT_NAMESPACE, StreamSpec, expanded
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, SPACE, STRING, TIMESTAMP, Type

SAMPLE_BYTES = 2**20
MOST_SAMPLE_BYTES = 2**26
"""The largest sample, which is held in memory."""
_LIVE_SECONDS = 1.0
"""How long to wait for a whole sample of what is still being sent."""
_MOST_COLUMNS = 1000
_MOST_TOLD = 20
"""How many places to name that are left out."""
_FULL = 10
"""An element is a container if it holds so many tuples for each column of its own."""
_STEP = 2**16

_NUMBER = r"-?(?:0|[1-9][0-9]*)"
_FORMS: tuple[tuple[Type, re.Pattern[str]], ...] = (
    (BOOLEAN, re.compile("true|false")),
    (INT, re.compile(_NUMBER)),  # 007 is a code, and +49 a prefix: as numbers they would lose something
    (DOUBLE, re.compile(rf"{_NUMBER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|-?INF|NaN")),
    (DATE, re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    (TIMESTAMP, re.compile(r"[0-9]{4}-.*T.*")),
)
_EXACT_DIGITS = 15
"""So many digits come back from a DOUBLE as they were."""


@dataclass(frozen=True)
class Sample:
    """The beginning of a source: of each part that is in it the name, the bytes, and whether those are all.

    ``is_whole`` says whether it is the whole source.
    """

    source: str
    parts: tuple[tuple[str, bytes, bool], ...]
    is_whole: bool = False

    @property
    def size(self) -> int:
        """Its bytes, as UTF-8 and unpacked."""
        return sum(len(data) for _, data, _ in self.parts)

    def splits(self) -> Iterator[tuple[Split, SourceError | None]]:
        """It, in pieces of one document each; the last with what is wrong in it, if it is not well formed."""
        probe = StreamSpec("", Schema.of([Attribute("any", STRING, path="@any")]), "{urn:none}none")
        parser = Parser([probe])
        for name, data, is_whole in self.parts:
            splitter = Splitter(name, ())
            splitter.feed(data)
            if is_whole:
                splitter.end()
            while (split := splitter.cut(_STEP)) is not None:
                error = parser.parse(split).error
                yield split, error
                if error is not None:
                    return


def take_sample(source: Source, size: int = SAMPLE_BYTES) -> tuple[Sample, Source]:
    """About the first ``size`` bytes of a source, and the source to be read from its beginning.

    Of what is still being sent less is enough, if it does not come within a second. Raises `SourceError`.
    """
    source, replays = rereadable(source)
    parts: list[tuple[str, bytes, bool]] = []
    began, left = time.monotonic(), size
    for part, (_, stored) in enumerate(source.parts):
        data, is_whole = bytearray(), False
        with source.open(part) as reader:
            while left > 0 and not is_whole:
                piece = reader.read(min(_STEP, left))
                data += piece
                left -= len(piece)
                is_whole = not piece
                if stored is None and time.monotonic() - began > _LIVE_SECONDS:
                    sample = Sample(source.name, (*parts, (reader.name, bytes(data), is_whole)))
                    if _has_tuples(sample):
                        left = 0
            parts.append((reader.name, bytes(data), is_whole))
        if left <= 0:
            break
    for replay in replays:
        replay.remembers = False
    is_whole = len(parts) == len(source.parts) and all(is_whole for _, _, is_whole in parts)
    return Sample(source.name, tuple(parts), is_whole), source


def infer(sample: Sample, element: str | None = None, punct_namespace: str = PUNCT_NAMESPACE) -> Inferred:
    """What a sample holds: the tuples of ``element``, or of the element that repeats most.

    Raises `SourceError` where that cannot be said, and `UsageError` for an element that XML cannot have.
    """
    if element is not None:
        StreamSpec("", Schema.of([]), element)  # which says what is wrong with its name
    else:
        elements = _Elements(punct_namespace)
        error = _feed(sample, elements)
        element = elements.chosen()
        if element is None:
            raise error or SourceError(
                sample.source,
                f"no element with attributes or children repeats in the first {sample.size:,} bytes: name the "
                "tuples' element",
            )
    places = _Places(element, punct_namespace, sample.source)
    error = _feed(sample, places)
    if not places.tuples:
        raise error or SourceError(sample.source, f"no <{element}> ends in the first {sample.size:,} bytes")
    return replace(places.inferred(), error=error)


def _has_tuples(sample: Sample) -> bool:
    try:
        infer(sample)
    except SourceError:
        return False
    return True


class _Target:
    """What lxml's parser calls. Punctuations, and what is in them, are passed over."""

    def __init__(self, punct_namespace: str) -> None:
        self._punctuation = f"{{{punct_namespace}}}"
        self._passed = 0  # the elements that are open and passed over

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._passed or name.startswith(self._punctuation) or not self.begin(name, attributes):
            self._passed += 1

    def end(self, name: str) -> None:
        if self._passed:
            self._passed -= 1
        else:
            self.finish(name)

    def data(self, text: str) -> None:
        if not self._passed:
            self.text(text)

    def close(self) -> None:
        pass

    def reset(self) -> None:
        """Another document begins."""
        self._passed = 0

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        """An element begins; whether it is of interest."""
        raise NotImplementedError

    def finish(self, name: str) -> None:
        """The element that began last, of those that are open and of interest, ends."""
        raise NotImplementedError

    def text(self, text: str) -> None:
        """Some text in it."""


def _feed(sample: Sample, target: _Target) -> SourceError | None:
    """Show a target all documents of a sample, as far as they go and are well formed; what is wrong there."""
    with ExitStack() as opened:
        parser: etree.XMLParser | None = None
        for split, error in sample.splits():
            if parser is None or not split.start.open:
                opened.close()
                target.reset()
                parser = opened.enter_context(new_parser(target))
            shown = ready(split)
            with suppress(etree.XMLSyntaxError):  # which is ``error``, and what comes before it was shown
                for piece in pieces(shown.data[: shown.refused]):
                    parser.feed(piece)
            if error is not None:
                return error
    return None


class _Elements(_Target):
    """Which elements there are, and how often in which others."""

    def __init__(self, punct_namespace: str) -> None:
        super().__init__(punct_namespace)
        self._open: list[tuple[str, Counter[str]]] = []  # each with how many of which it holds so far
        self._total: Counter[str] = Counter()
        self._attributes: defaultdict[str, set[str]] = defaultdict(set)
        self._above: defaultdict[str, set[str]] = defaultdict(set)
        self._most: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of which in one of the first
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of which in all of the first

    def reset(self) -> None:
        super().reset()
        self._open.clear()

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        self._total[name] += 1
        self._attributes[name].update(attributes)
        if self._open:
            parent, held = self._open[-1]
            held[name] += 1
            self._most[parent][name] = max(self._most[parent][name], held[name])
            self._held[parent][name] += 1
            self._above[name].update(above for above, _ in self._open if above != name)
        self._open.append((name, Counter()))
        return True

    def finish(self, name: str) -> None:
        self._open.pop()

    def chosen(self) -> str | None:
        """The most frequent of the outermost elements that repeat and are more than containers."""
        repeated = {name for held in self._most.values() for name, most in held.items() if most > 1}
        repeated = {name for name in repeated if name in self._held or self._attributes[name]}
        repeated -= {name for name in repeated if self._is_container(name, repeated)}
        outermost = [name for name in self._total if name in repeated and not self._above[name] & repeated]
        return max(outermost, key=self._total.__getitem__, default=None)

    def _is_container(self, name: str, repeated: set[str]) -> bool:
        held = sum(n for child, n in self._held[name].items() if child in repeated)
        own = len(self._attributes[name]) + sum(most == 1 for most in self._most[name].values())
        return held > 0 and held >= _FULL * own * self._total[name]


@dataclass
class _Place:
    """A place in a tuple: in how many tuples it was, how often in one at most, and what its texts can be."""

    tuples: int = 0
    most: int = 0
    types: list[tuple[Type, re.Pattern[str]]] = field(default_factory=lambda: list(_FORMS))
    holds: bool = False
    """Whether there are elements in it."""
    has_text: bool = False

    def take(self, text: str) -> None:
        """Add a text."""
        trimmed = text.strip(SPACE)
        self.has_text = self.has_text or bool(trimmed)
        self.types = [(type_, form) for type_, form in self.types if _reads(trimmed, type_, form)]

    @property
    def type(self) -> Type:
        return self.types[0][0] if self.types else STRING


def _reads(text: str, type_: Type, form: re.Pattern[str]) -> bool:
    """Whether a type holds the whole of what a text says."""
    if not form.fullmatch(text):
        return False
    if type_ is DOUBLE and len(re.sub(r"[eE].*|[^0-9]", "", text).strip("0")) > _EXACT_DIGITS:
        return False
    try:
        type_.read(text)
    except ValueError:
        return False
    return True


class _Places(_Target):
    """What the tuples of one element hold, where."""

    def __init__(self, element: str, punct_namespace: str, source: str) -> None:
        super().__init__(punct_namespace)
        self.element, self._source = element, source
        self._namespace = expanded(element)[0]
        self.tuples = 0
        self._at: list[str] | None = None  # the steps from the tuple to here
        self._outside = 0  # open elements outside of any tuple
        self._texts: list[list[str]] = []
        self._values: list[tuple[str, str]] = []  # of the tuple that is open
        self._places: dict[str, _Place] = {}
        self._left_out: dict[str, None] = {}

    def reset(self) -> None:
        super().reset()
        self._at, self._outside, self._texts, self._values = None, 0, [], []

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        if self._at is None:
            if name != self.element:
                self._outside += 1
                return True
            self._at = []
        elif name == self.element:
            return self._leave_out(f"<{name}> inside another")
        else:
            namespace, local = expanded(name)
            if namespace not in ("", self._namespace):
                return self._leave_out(f"{'/'.join([*self._at, local])} in the namespace {namespace}")
            if self._at:
                self._place("/".join(self._at)).holds = True
            self._at.append(local)
        self._texts.append([])
        for key, value in attributes.items():
            path = "/".join([*self._at, f"@{key}"])
            if key[:1] == "{":
                namespace, local = expanded(key)
                path = "/".join([*self._at, f"@{local}"])
                self._leave_out(f"{path} in the namespace {namespace}")
            else:
                self._values.append((path, value))
        return True

    def finish(self, name: str) -> None:
        if self._at is None:
            self._outside -= 1
            return
        text = "".join(self._texts.pop())
        if self._at:
            self._values.append(("/".join(self._at), text))
            self._at.pop()
            return
        self._at = None
        if text.strip(SPACE):
            self._leave_out("the text of the element itself")
        self.tuples += 1
        for path, value in self._values:
            self._place(path).take(value)
        for path, times in Counter(path for path, _ in self._values).items():
            place = self._place(path)
            place.tuples += 1
            place.most = max(place.most, times)
        self._values.clear()

    def text(self, text: str) -> None:
        if self._texts:
            self._texts[-1].append(text)

    def inferred(self) -> Inferred:
        """The columns of all that can be one."""
        columns: dict[str, _Place] = {}
        holding = {path.rpartition("/@")[0] for path in self._places if "/@" in path}
        gone = "/"  # the last place that was left out, with all below it
        for path in sorted(self._places, key=lambda path: path.split("/")):
            place = self._places[path]
            if path.startswith(f"{gone}/"):
                continue
            if not place.tuples:
                continue  # it was in the tuple that the sample cuts off
            if place.most > 1:
                gone = path
                self._leave_out(f"{path}, which comes up to {place.most:,} times in one tuple")
            elif place.holds and place.has_text:
                gone = path
                self._leave_out(f"{path}, which mixes text and elements")
            elif not place.holds and (place.has_text or path not in holding):
                columns[path] = place
        if not columns:
            raise SourceError(
                self._source, f"<{self.element}> has no attributes and no children to be columns"
            )
        if len(columns) > _MOST_COLUMNS:
            raise SourceError(
                self._source, f"<{self.element}> holds more than {_MOST_COLUMNS:,} different places"
            )
        in_order = [path for path in self._places if path in columns]
        names = named(in_order)
        schema = Schema.of(
            Attribute(names[path], columns[path].type, columns[path].tuples < self.tuples, path)
            for path in in_order
        )
        told = list(self._left_out)
        if len(told) > _MOST_TOLD:
            told[_MOST_TOLD:] = [f"{len(told) - _MOST_TOLD:,} more places"]
        return Inferred(self.element, schema, self.tuples, tuple(told))

    def _place(self, path: str) -> _Place:
        return self._places.setdefault(path, _Place())

    def _leave_out(self, what: str) -> bool:
        self._left_out[what] = None
        return False
