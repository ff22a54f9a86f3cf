"""Checks a stream: whether it is well formed and grammatical, and which punctuations it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from xmlpunct.base.errors import Reject, SourceError, TransientError
from xmlpunct.base.unread import Notice, UnreadCounter
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose.offered import Offered
from xmlpunct.firehose.ordered_columns import OrderedColumns
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import ClosingMark, StreamSpec
from xmlpunct.punctuations.declared_keys import Keys
from xmlpunct.punctuations.promised import Promised, earliest
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice.lateness import Lateness, late_reason
from xmlpunct.types.pattern import Constant, Pattern, Range, Values

SHOWN = 5
_STEP = 2**20

PatternKinds = tuple[tuple[str, str], ...]
"""(attribute, kind of pattern) of each constrained attribute of a punctuation."""


@dataclass
class Report:
    """The result of `check`.

    ``late`` tuples came after a punctuation that matches them. ``examples`` has a few late or rejected tuples.
    ``dropped`` punctuations constrain undeclared attributes. ``offered`` has the sets of attributes by which the stream
    closed its tuples before its end, ``in_order`` the columns whose values never fell. ``notices`` describe possible
    data that is not read. ``error`` is the error that ended the source early, if any.
    """

    tuples: int = 0
    punctuations: int = 0
    dropped: int = 0
    rejected: int = 0
    late: int = 0
    schemes: Counter[PatternKinds] = field(default_factory=Counter)
    offered: list[tuple[str, ...]] = field(default_factory=list)
    in_order: list[str] = field(default_factory=list)
    examples: list[Reject] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    error: SourceError | None = None

    @property
    def grammatical(self) -> bool:
        """Whether no tuple is late."""
        return not self.late

    @property
    def fine(self) -> bool:
        """Whether the stream is well formed and grammatical, and all tuples conform to the schema."""
        return self.error is None and not (self.late or self.rejected)


def check(
    source: Source,
    schema: Schema,
    element: str,
    punct_namespace: str = PUNCT_NAMESPACE,
    guessed: bool = False,
    keys: Sequence[Sequence[str]] = (),
    marks: tuple[ClosingMark, ...] = (),
    show: Callable[[SliceReader, int], object] | None = None,
) -> Report:
    """Read a stream to its end or its first error. ``guessed``: its schema was inferred from the first tuple.

    A second tuple with the same value of one of the ``keys`` is late. ``marks`` count as punctuations. ``show`` is
    called after each slice, with the reader and the number of tuples.

    >>> xml = b'''<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"><t><a>1</a></t><p:t><a>[1,2]</a></p:t>
    ...   <t><a>2</a></t></s>'''
    >>> report = check(Source.of(xml), Schema.parse("a INT"), "t")
    >>> report.tuples, report.late, dict(report.schemes)
    (2, 1, {(('a', 'range'),): 1})
    """
    report, watch = Report(), UnreadCounter(source.name, element)
    spec = StreamSpec(element, schema, element, guessed=guessed, marks=marks)
    reader = SliceReader(source, [spec], punct_namespace)
    lateness, offered, ordered = Lateness(schema), Offered(schema), OrderedColumns(schema)
    unique = Keys(schema, keys, Promised(schema))
    with closing(reader):
        try:
            while (parsed := reader.read(_STEP)) is not None:
                (slice_,), (rejects,) = parsed.slices, parsed.rejects
                report.tuples += slice_.tuples.height
                report.punctuations += parsed.read[0]
                report.dropped += parsed.dropped[0]
                report.rejected += len(rejects)
                report.examples += rejects[: max(SHOWN - len(report.examples), 0)]
                report.schemes.update(scheme(p) for p in slice_.punctuations)
                offered.take(slice_.tuples, slice_.punctuations)
                ordered.take(slice_.tuples)
                schemes, duplicates = lateness.judge(slice_), unique.judge(slice_.tuples)
                schemes = earliest(schemes, duplicates.is_not_null(), duplicates)
                for _ in unique.promises(slice_.tuples):
                    pass
                late = schemes.is_not_null().arg_true()
                report.late += late.len()
                if parsed.rejection is not None:
                    for row in late[: max(SHOWN - len(report.examples), 0)]:
                        why = late_reason(schema, slice_.tuples.row(row, named=True), schemes[row])
                        report.examples.append(parsed.rejection(0, row, why))
                count = slice_.tuples.height + len(rejects)
                report.notices += watch.take(count, parsed.read[0], parsed.overlooked[0])
                report.error = parsed.error
                if show is not None:
                    show(reader, report.tuples)
        except TransientError as error:
            report.error = error
        notices = watch.end(in_order=report.error is None)
        report.notices += [n for n in notices if report.error is None or not n.is_absence]
        report.offered, report.in_order = list(offered.schemes()), ordered.names
    return report


def scheme(p: Punctuation) -> PatternKinds:
    """The constrained attributes of a punctuation, with the kinds of their patterns."""
    return tuple((p.schema.names[i], _KINDS[type(p.patterns[i])]) for i in p.constrained)


_KINDS: dict[type[Pattern], str] = {Constant: "constant", Range: "range", Values: "list"}
