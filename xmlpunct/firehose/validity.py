"""Which tuples of a split are not valid by an XML Schema. lxml's own validator says so, and why."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable

import numpy as np
from lxml import etree

from xmlpunct.errors import SourceError, UsageError
from xmlpunct.firehose.cells import Ints
from xmlpunct.firehose.faults import Places, events
from xmlpunct.firehose.foreign import guarded
from xmlpunct.firehose.spec import Validity
from xmlpunct.firehose.xsd import XsdFile

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


def invalid(validity: Validity, places: Places, element: str, offsets: Ints) -> dict[int, str]:
    """What is wrong, by row, with the tuples of an element that begin at some offsets in a split."""
    split, validator = places.split, _validator(validity)
    # By the number of the start tag, of which that of the split's first element is 1. None: it is valid.
    reasons: dict[int, str | None] = {}
    outside, number, open_ = len(split.start.open), 1 - len(split.start.open), list[int]()
    unjudged = "it could not be validated"
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
        unjudged += f": {error.reason}"
    begun = places.offsets(np.array([*reasons], np.int64)).tolist() if reasons else []
    judged = dict(zip(begun, reasons.values(), strict=True))
    told = (judged.get(offset, unjudged) for offset in offsets.tolist())
    return {row: reason for row, reason in enumerate(told) if reason is not None}


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
