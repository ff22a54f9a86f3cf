"""All that reading a split gives, to compare."""

from __future__ import annotations

from typing import Any

from xmlpunct.firehose import Parsed
from xmlpunct.slice import Slice


def everything(parsed: Parsed) -> dict[str, Any]:
    rows = [s.tuples.rows() for s in parsed.slices]
    late = []
    if parsed.rejection is not None:
        ends = [(i, row) for i, found in enumerate(rows) for row in (0, len(found) - 1) if found]
        late = [parsed.rejection(i, row, "late") for i, row in ends]
    return {
        "tuples": [[tuple(map(repr, row)) for row in found] for found in rows],
        "columns": [s.tuples.schema for s in parsed.slices],
        "punctuations": [[*map(str, s.punctuations)] for s in parsed.slices],
        "before": [s.before for s in parsed.slices],
        "bytes": [Slice(s.tuples, [*s.punctuations]).to_bytes() for s in parsed.slices],
        "counts": (parsed.dropped, parsed.read),
        "overlooked": parsed.overlooked,
        "rejects": parsed.rejects,
        "late": late,
        "error": str(parsed.error),
    }
