"""Which tuples of a split are not valid by an XML Schema. lxml's own validator says so, and why."""

from __future__ import annotations

import hashlib
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from lxml import etree

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.library_guard import guarded
from xmlpunct.firehose.cells import Ints
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.firehose.libxml.malformed import Places, events
from xmlpunct.firehose.spec import Validity

_validators = threading.local()  # each thread has its own, for one keeps what it has against a tuple


def validity_of(path: str, element: str) -> Validity:
    """The schema in a file. Raises `UsageError` if it is none, or if it does not declare an element globally."""
    file = XsdFile(path)
    file.check_global(element)
    validity = Validity(os.path.abspath(path), _digest(file))  # for processes that stand elsewhere
    _validator(validity)
    return validity


def _validator(validity: Validity) -> etree.XMLSchema:
    """The validator, of this thread. Raises `UsageError`, and `SourceError` if the file was changed."""
    made: dict[Validity, etree.XMLSchema] = vars(_validators).setdefault("made", {})
    if validity not in made:
        with guarded(validity.path):
            if _digest(XsdFile(validity.path)) != validity.digest:
                raise SourceError(validity.path, "the schema was changed since the run began")
            try:
                parser = etree.XMLParser(no_network=True, resolve_entities=False, load_dtd=False)
                made[validity] = etree.XMLSchema(etree.parse(validity.path, parser))
            except etree.LxmlError as error:
                raise UsageError(f"{validity.path} is no XML Schema: {error}") from None
    return made[validity]


def invalid(
    validity: Validity, places: Places, element: str, offsets: Ints
) -> tuple[dict[int, str], SourceError | None]:
    """What is wrong, by row, with the tuples of an element that begin at some offsets in a split.

    Where lxml fails, the tuples behind it are not judged, and have no reason; the error tells the first one's offset.
    """
    split, validator = places.split, _validator(validity)
    # By the number of the start tag, of which that of the split's first element is 1. None: it is valid.
    reasons: dict[int, str | None] = {}
    outside, number, open_ = len(split.start.open), 1 - len(split.start.open), list[int]()
    failure: SourceError | None = None
    try:
        for event, found in events(split, ("start", "end")):
            if event == "start":
                open_.append(number)
                number += 1
                continue
            began = open_.pop()
            if found.tag == element and began > 0:
                reasons[began] = _reason(validator, found)
            if len(open_) <= outside:
                found.clear()
    except SourceError as error:
        failure = error
    begun = places.offsets(np.array([*reasons], np.int64)).tolist() if reasons else []
    judged = dict(zip(begun, reasons.values(), strict=True))
    rows = offsets.tolist()
    if failure is not None:
        at = next((offset for offset in rows if offset not in judged), len(split.data))
        failure = SourceError(split.source, f"its tuples cannot be validated: {failure.reason}", byte=at)
        rows = rows[: bisect_left(rows, at)]
    told = (judged.get(offset, "it could not be validated") for offset in rows)
    return {row: reason for row, reason in enumerate(told) if reason is not None}, failure


def _reason(validator: etree.XMLSchema, element: etree._Element) -> str | None:
    """Why an element is not valid; None if it is. One at which libxml2 gives up, as on a regular expression, is not."""
    try:
        with guarded("", "libxml2 gave up on it"):
            if validator.validate(element):
                return None
    except SourceError as error:
        return f"not valid: {error.reason}"
    log: Iterable[etree._LogEntry] = validator.error_log  # type: ignore[assignment]
    return f"not valid: {next(iter(log)).message}"


def _digest(file: XsdFile) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(file.files))).hexdigest()
