"""The auction (join, then sum) on one core: the local engine, and the same in bytewax fed by lxml.

    python benchmarks/auction.py [--items N] [--bids N] [--open N]

Prints JSON. ``times_the_seconds`` says how many times as long the other took. Needs bytewax for that.
"""

from __future__ import annotations

import common

TARGETS = {"bytewax": 6.0}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--bids", type=int, default=200_000)
    parser.add_argument("--open", type=int, default=50, help="items open at a time")
    given = parser.parse_args()
    sources = common.auction(given.data, given.items, given.bids, given.open)
    query = common.SAMPLES / "auction.sql"
    contenders: dict[str, common.Contender] = {
        "xmlpunct": lambda: common.engine(query, sources, "--engine", "local")
    }
    if common.installed("bytewax"):
        contenders["bytewax"] = lambda: common.rival("bytewax-auction", *sources.values())
    runs = common.in_turn(contenders, given.rounds)
    tuples = given.items + given.bids
    figures = {name: common.summary(found, tuples) for name, found in runs.items()}
    peaks = {o["operator"]: o["state_rows_peak"] for o in runs["xmlpunct"][0].details["operators"]}
    common.report(
        {
            "tuples": tuples,
            "contenders": figures,
            **common.ratios(runs),
            "targets": TARGETS,
            "state_rows_peak": peaks,
        }
    )
    common.plot(given.plot, lambda axes: common.bars(axes, figures))


if __name__ == "__main__":
    main()
