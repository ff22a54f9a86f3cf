"""Validates the tuples of a split against an XML Schema, with lxml's validator."""

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
from xmlpunct.firehose.cells import CellInts
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.firehose.libxml.malformed import SplitPositions, events
from xmlpunct.firehose.spec import Validity

_validators = threading.local()  # one per thread: a validator stores the errors of its last tuple


def validity_of(path: str, element: str) -> Validity:
    """The schema in a file. Raises `UsageError` if it is no schema, or does not declare the element globally."""
    file = XsdFile(path)
    file.check_global(element)
    # An absolute path, for processes with another working directory.
    validity = Validity(os.path.abspath(path), _digest(file))
    _validator(validity)
    return validity


def _validator(validity: Validity) -> etree.XMLSchema:
    """This thread's validator. Raises `UsageError`, and `SourceError` if the file was changed."""
    validators: dict[Validity, etree.XMLSchema] = vars(_validators).setdefault("validators", {})
    if validity not in validators:
        with guarded(validity.path):
            if _digest(XsdFile(validity.path)) != validity.digest:
                raise SourceError(validity.path, "the schema has changed since the run began")
            try:
                parser = etree.XMLParser(no_network=True, resolve_entities=False, load_dtd=False)
                validators[validity] = etree.XMLSchema(etree.parse(validity.path, parser))
            except etree.LxmlError as error:
                raise UsageError(f"{validity.path} is no XML Schema: {error}") from None
    return validators[validity]


def invalid(
    validity: Validity, positions: SplitPositions, element: str, offsets: CellInts
) -> tuple[dict[int, str], SourceError | None]:
    """By row, why a tuple is not valid. ``offsets`` are the offsets of the tuples in the split.

    If lxml fails, the tuples after the failure have no reason; the error has the offset of the first of them.
    """
    split, validator = positions.split, _validator(validity)
    # By the number of the start tag; the first in the split is number 1. None: the tuple is valid.
    reasons: dict[int, str | None] = {}
    outside, number, open_ = len(split.start.open), 1 - len(split.start.open), list[int]()
    failure: SourceError | None = None
    try:
        for event, node in events(split, ("start", "end")):
            if event == "start":
                open_.append(number)
                number += 1
                continue
            began = open_.pop()
            if node.tag == element and began > 0:
                reasons[began] = _reason(validator, node)
            if len(open_) <= outside:
                node.clear()
    except SourceError as error:
        failure = error
    begun = positions.offsets(np.array([*reasons], np.int64)).tolist() if reasons else []
    judged = dict(zip(begun, reasons.values(), strict=True))
    rows = offsets.tolist()
    if failure is not None:
        at = next((offset for offset in rows if offset not in judged), len(split.data))
        failure = SourceError(split.source, f"its tuples cannot be validated: {failure.reason}", byte=at)
        rows = rows[: bisect_left(rows, at)]
    row_reasons = (judged.get(offset, "it could not be validated") for offset in rows)
    return {row: reason for row, reason in enumerate(row_reasons) if reason is not None}, failure


def _reason(validator: etree.XMLSchema, element: etree._Element) -> str | None:
    """Why an element is not valid; None if it is valid. If libxml2 gives up (on a regular expression), it is not."""
    try:
        with guarded("", "libxml2 stopped validating it"):
            if validator.validate(element):
                return None
    except SourceError as error:
        return f"not valid: {error.reason}"
    log: Iterable[etree._LogEntry] = validator.error_log  # type: ignore[assignment]
    return f"not valid: {next(iter(log)).message}"


def _digest(file: XsdFile) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(file.files))).hexdigest()
