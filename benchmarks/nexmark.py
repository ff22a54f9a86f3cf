"""NEXMark's queries 0 to 8 from XML, on one core: the local engine, and the same in bytewax fed by lxml.

    python benchmarks/nexmark.py [--events N] [--queries q0,q5]

Prints JSON. ``times_the_seconds`` says how many times as long bytewax took. All events of the stream count, whether a
query reads them or not, as in NEXMark's own figures.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import common

QUERIES = tuple(f"q{number}" for number in range(9))

PUBLISHED = {
    "Flink 1.13": {"q0": 155, "q2": 175, "q3": 152, "q4": 34, "q5": 22, "q7": 12, "q8": 146},
    "Feldera": {"q0": 436, "q3": 413, "q4": 265, "q5": 412, "q7": 196, "q8": 415},
}
"""Thousands of events per second and core as published, on other machines and from generators that make no XML."""

NOT_IN_BYTEWAX = {
    "q4": "its windows are of time, and an auction's bids are over when it ends",
    "q6": "its windows are of time, and an auction's bids are over when it ends",
}
"""Which queries it has no operators for, and why."""
TARGETS = {"bytewax": 5.0}


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
            contenders: dict[str, common.Contender] = {
                "xmlpunct": lambda query=query: common.engine(query, {}, "--engine", "local")
            }
            if name not in NOT_IN_BYTEWAX and common.installed("bytewax"):
                contenders["bytewax"] = lambda name=name: common.rival(f"bytewax-{name}", source)
            runs = common.in_turn(contenders, given.rounds)
            mine = common.summary(runs["xmlpunct"], given.events)
            figures[name] = {
                "events_per_second": mine["tuples_per_second"],
                "cpu_seconds": mine["cpu_seconds"],
                "peak_mib": mine["peak_mib"],
                **common.ratios(runs),
                "published_on_other_machines": {
                    engine: 1000 * said[name] for engine, said in PUBLISHED.items() if name in said
                },
            }
    common.report(
        {"events": given.events, "queries": figures, "not_in_bytewax": NOT_IN_BYTEWAX, "targets": TARGETS}
    )


if __name__ == "__main__":
    main()
