"""NEXMark's queries 0 to 8 from XML, on one core of the local engine: events per second.

    python benchmarks/nexmark.py [--events N] [--queries q0,q5]

Prints JSON. All events of the stream count, whether a query reads them or not, as in NEXMark's own figures.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from pathlib import Path

import common

QUERIES = tuple(f"q{number}" for number in range(9))

PUBLISHED = {
    "Flink 1.13": {"q0": 155, "q2": 175, "q3": 152, "q4": 34, "q5": 22, "q7": 12, "q8": 146},
    "Feldera": {"q0": 436, "q3": 413, "q4": 265, "q5": 412, "q7": 196, "q8": 415},
}
"""Thousands of events per second and core as published, on other machines and from generators that make no XML."""


def stream(data: Path, events: int) -> Path:
    """The document, of a thousand events a second."""
    from xmlpunct.firehose.nexmark import FILE, nexmark

    return common.generated(data, f"nexmark-{events}", nexmark(events, 1000, 100, 100, 1)) / FILE


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--queries", default=",".join(QUERIES))
    given = parser.parse_args()
    source = stream(given.data, given.events)
    figures: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.queries.split(","):
            # Each query as in the samples, over this document.
            text = (common.SAMPLES / "nexmark" / f"{name}.sql").read_text()
            query = Path(scratch, f"{name}.sql")
            query.write_text(re.sub("source = '[^']*'", f"source = '{source}'", text))
            runs = [common.engine(query, {}, "--engine", "local") for _ in range(given.rounds)]
            figures[name] = {
                "events_per_second": round(given.events / statistics.median(run.seconds for run in runs)),
                "peak_mib": round(max(run.peak_mib for run in runs)),
                "published_on_other_machines": {
                    engine: 1000 * said[name] for engine, said in PUBLISHED.items() if name in said
                },
            }
    common.report({"events": given.events, "queries": figures})


if __name__ == "__main__":
    main()
