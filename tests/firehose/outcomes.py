"""The complete outcome of parsing a split, in a form to compare."""

from __future__ import annotations

from typing import Any

from xmlpunct.firehose import Parsed
from xmlpunct.slice import Slice


def contents(parsed: Parsed) -> dict[str, Any]:
    rows = [s.tuples.rows() for s in parsed.slices]
    late = []
    if parsed.rejection is not None:
        ends = [
            (i, row) for i, stream_rows in enumerate(rows) for row in (0, len(stream_rows) - 1) if stream_rows
        ]
        late = [parsed.rejection(i, row, "late") for i, row in ends]
    return {
        "tuples": [[tuple(map(repr, row)) for row in stream_rows] for stream_rows in rows],
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
