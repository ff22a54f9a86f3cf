"""The warehouse query on one core: the local engine, a hand-written lxml loop, and bytewax fed by lxml.

    python benchmarks/warehouse.py [--hours N] [--readings N] [--punctuations N]

Prints JSON. ``times_the_seconds`` says how many times as long each of the others took.
"""

from __future__ import annotations

import common

TARGETS = {"lxml": 8.0}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--hours", type=int, default=60)
    parser.add_argument("--readings", type=int, default=300, help="per minute and sensor")
    parser.add_argument("--punctuations", type=int, default=1, help="per hour")
    given = parser.parse_args()
    sources = common.warehouse(given.data, given.hours, given.readings, given.punctuations)
    query = common.SAMPLES / "warehouse.sql"
    contenders: dict[str, common.Contender] = {
        "xmlpunct": lambda: common.engine(query, sources, "--engine", "local"),
        "xmlpunct drop-dupelims": lambda: common.engine(
            query, sources, "--engine", "local", "--rule", "drop-dupelims=on"
        ),
        "lxml": lambda: common.rival("lxml-warehouse", *sources.values()),
    }
    if common.installed("bytewax"):
        contenders["bytewax"] = lambda: common.rival("bytewax-warehouse", *sources.values())
    runs = common.in_turn(contenders, given.rounds)
    tuples = 2 * given.hours * 60 * given.readings
    figures = {name: common.summary(found, tuples) for name, found in runs.items()}
    common.report({"tuples": tuples, "contenders": figures, **common.ratios(runs), "targets": TARGETS})
    common.plot(given.plot, lambda axes: common.bars(axes, figures))


if __name__ == "__main__":
    main()
