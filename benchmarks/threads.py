"""The warehouse query on the local engine, by the number of threads that read for it.

    python benchmarks/threads.py [--threads 1,2] [--hours N] [--readings N]

Prints JSON. ``speed`` says how many times as fast as one thread, by the seconds of reading and computing.
"""

from __future__ import annotations

import common

TARGETS = {"2": 1.7}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--threads", default="1,2", help="which numbers of threads, 1 among them")
    parser.add_argument("--hours", type=int, default=60)
    parser.add_argument("--readings", type=int, default=600, help="per minute and sensor")
    given = parser.parse_args()
    sources = common.warehouse(given.data, given.hours, given.readings)
    query = common.SAMPLES / "warehouse.sql"

    def contender(threads: str) -> common.Contender:
        return lambda: common.engine(query, sources, "--engine", "local", "--threads", threads, core=False)

    runs = common.in_turn({n: contender(n) for n in given.threads.split(",")}, given.rounds)
    tuples = 2 * given.hours * 60 * given.readings
    figures = {name: common.summary(found, tuples) for name, found in runs.items()}
    speed = {name: common.ratio(runs["1"], found) for name, found in runs.items()}
    common.report({"tuples": tuples, "threads": figures, "speed": speed, "targets": TARGETS})
    common.plot(given.plot, lambda axes: common.bars(axes, figures))


if __name__ == "__main__":
    main()
