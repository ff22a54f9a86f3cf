"""How costs grow: with tuples, open items, punctuations held, and shards.

    python benchmarks/scaling.py [--only NAME ...] [--bids N] [--most N] [--shards N ...] [--master URL]

- ``stream``: the auction with as many items open, longer and longer: in a stream of 100 times the length a tuple takes
  at most 1.1 times as long, and resident memory is flat.
- ``items``: the auction with more and more items, each with a bid and two punctuations.
- ``open``: the auction with more and more items open at a time.
- ``tuples``: the warehouse query over more and more tuples of as many hours.
- ``equality``, ``pairs``, ``ranges``: the set that an operator holds its punctuations in, with more and more of them:
  one per item, one per pair of values, and overlapping ranges. They come in slices, each of which is also matched.
- ``state``: operators that retain more and more tuples: CPU per slice of 100 tuples and a punctuation that
  closes as many. With 4,000,000 retained a slice takes at most 2.5 times as long as with 10,000 (a join 3 times); the
  sizes are ``--retained``.
- ``windows``: CPU per slice of 100 tuples, and the promise that their time is over, of operators that retain as many:
  a session that goes on, and the rows that the frames of OVER reach. The factor is to be at most 1.5.
- ``large``: the operators of ``state``: CPU of two slices of a million tuples (``--large``) on each input.
- ``forms``: CPU per punctuation of a constant and of a range, item by item and in slices of 1 MiB: reading them,
  adding them to a set, matching tuples with it, and what three operators do with them. A range costs at most 1.5
  times what a constant does.
- ``growth``: CPU of queries over more and more punctuations (UNION, EXCEPT, LEFT JOIN, ranges of strings), and of
  planning more and more inputs of a UNION and sinks. ``--doubled`` and ``--statements`` are the smallest numbers of
  punctuations, and of inputs and sinks. Twice the work takes at most 2.5 times the CPU.
- ``agreement``: a punctuation that all of 1,000 shards say costs their sink at most 10 ms.
- ``output``: writing more and more results.
- ``shards``: the auction on Spark with more shards; only if ``--shards`` names how many.

Prints JSON: the points, and the exponent e of cost = c * n**e that fits them best. The target for
``equality`` and ``items`` is 1.05.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import common
import scaling_operators as alone
from growth import growth
from scaling_operators import SPREAD, Point

LOCAL = ("--engine", "local")
SLICE = 1000
"""Punctuations and tuples per slice, where a set is measured by itself."""
TARGETS = {
    "equality_exponent": 1.05,
    "items_exponent": 1.05,
    "stream_time_per_tuple": 1.1,
    "state_largest_against_smallest": {"join": 3, "others": 2.5},
    "windows_largest_against_smallest": 1.5,
    "range_against_constant": 1.5,
    "agreement_ms": 10,
    "twice_the_work": 2.5,
}
SHARDS = 1000
"""Where it is measured what it costs that all agree."""


def auction(
    given: Any, items: int, bids: int, open_items: int, *options: str, core: bool = True
) -> common.Run:
    """Run the auction."""
    sources = common.auction(given.data, items, bids, open_items)
    return common.engine(common.SAMPLES / "auction.sql", sources, *(options or LOCAL), core=core)


def of_run(n: int, run: common.Run) -> Point:
    """What a run comes to."""
    peaks = [o["state_rows_peak"] for o in run.details["operators"]]
    return {
        "n": n,
        "seconds": run.seconds,
        "cpu": run.cpu,
        "peak_mib": run.peak_mib,
        "state_rows_peak": sum(peaks),
    }


def stream(given: Any) -> dict[str, Any]:
    """A stream, one 10 times as long and one 100 times, with as many items open.

    A run's fixed cost is in none of the figures: compared is what the longest took beyond the middle one, per tuple,
    with what that took beyond the shortest.
    """
    lengths = [given.bids * growth for growth in (1, 10, 100)]
    contenders: dict[str, common.Contender] = {
        str(n): lambda n=n: common.without_answer(auction(given, n // 10, n, 50, *LOCAL, "--slice", "64KiB"))
        for n in lengths
    }
    runs = common.in_turn(contenders, given.rounds)
    rounds = list(zip(*(runs[str(n)] for n in lengths), strict=True))

    def later_against_earlier(cost: str) -> float:
        costs = [[getattr(run, cost) for run in three] for three in rounds]
        return round(statistics.median((c[2] - c[1]) / (c[1] - c[0]) / 10 for c in costs), 3)

    return {
        "points": [of_run(n, runs[str(n)][0]) for n in lengths],
        "time_per_tuple": later_against_earlier("seconds"),
        "cpu_per_tuple": later_against_earlier("cpu"),
        "peak_mib": round(statistics.median(three[2].peak_mib / three[1].peak_mib for three in rounds), 3),
    }


def grown(given: Any, sizes: Iterable[int], run: Callable[[int], common.Run]) -> dict[str, Any]:
    """Runs of growing size, in turn."""
    contenders = {str(n): lambda n=n: common.without_answer(run(n)) for n in sizes}
    runs = common.in_turn(contenders, given.rounds)
    points = [
        {**of_run(int(n), found[0]), "seconds": statistics.median(r.seconds for r in found)}
        for n, found in runs.items()
    ]
    return fitted(points)


def fitted(points: list[Point]) -> dict[str, Any]:
    """Points and the exponent that fits them."""
    found = common.exponent([p["n"] for p in points], [p["seconds"] for p in points])
    return {"points": points, "exponent": found}


def held(given: Any, schema: str, say: Callable[[int, int], dict[str, object]], most: int) -> dict[str, Any]:
    """Add punctuations to a set, slice by slice, match each slice's tuples with it, and take all out again."""
    from xmlpunct.punctuations.punctuation import Punctuation
    from xmlpunct.punctuations.punctuation_set import PunctuationSet
    from xmlpunct.schema import Schema

    attributes = Schema.parse(schema)
    points: list[Point] = []
    sizes = sorted({max(SLICE, most // part) for part in (100, 30, 10, 3, 1)})
    for n in sizes:
        times = []
        for _ in range(given.rounds):
            slices = [
                (
                    [
                        Punctuation.of(attributes, **say(i * SPREAD % n, n))
                        for i in range(at, min(at + SLICE, n))
                    ],
                    attributes.frame((i * SPREAD % n, i % 97) for i in range(at, at + SLICE)),
                )
                for at in range(0, n, SLICE)
            ]
            began = time.process_time()
            found = PunctuationSet(attributes)
            for punctuations, tuples in slices:
                found.update(punctuations)
                found.mask(tuples)
            for punctuations, _ in slices:
                found.discard(punctuations)
            times.append(time.process_time() - began)
        points.append({"n": n, "seconds": round(min(times), 4)})
    return fitted(points)


def agreement(given: Any) -> dict[str, Any]:
    """Milliseconds that a sink takes for a punctuation that all of 1,000 shards say, in either order of theirs."""
    from xmlpunct.punctuations.alignment import Alignment
    from xmlpunct.punctuations.punctuation import Punctuation
    from xmlpunct.schema import Schema

    schema, found = Schema.parse("sid STRING, hour INT"), {}
    for name, text in (("constant", "{}"), ("range", "[{}0,{}9]"), ("order", "(,{}]")):
        for order, ports in (("ascending", range(SHARDS)), ("descending", range(SHARDS - 1, -1, -1))):
            times, sink = [], Alignment(schema, SHARDS, alike=True)
            for hour in range(1, 4 + given.rounds):
                p = Punctuation.of(schema, hour=text.format(hour, hour))
                began = time.process_time()
                said = [c for port in ports for c in sink.update(port, [p])]
                times.append(time.process_time() - began)
                assert said == [p]
            found[f"{name}, {order}"] = round(1000 * statistics.median(times), 2)
    return found


def output(given: Any) -> dict[str, Any]:
    """Write more and more tuples; how many bytes a second that makes, and how many one takes in memory."""
    from xmlpunct.firehose import writer_for
    from xmlpunct.schema import Schema
    from xmlpunct.slice import Slice

    schema = Schema.parse("itemid INT, seller STRING, price INT")
    writer, points = writer_for("xml", schema), list[Point]()
    for n in (max(1, given.most // 10), given.most):
        tuples = schema.frame((i, f"P{i % 9999:04}", i % 500) for i in range(n))
        times = []
        for _ in range(given.rounds):
            began = time.process_time()
            size = len(writer.body(Slice(tuples)))
            times.append(time.process_time() - began)
        points.append({"n": n, "seconds": round(min(times), 5), "bytes": size})
    last = points[-1]
    return {
        **fitted(points),
        "bytes_per_second": round(last["bytes"] / last["seconds"]),
        "bytes_per_tuple_in_memory": round(tuples.estimated_size() / n, 1),
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these alone")
    parser.add_argument("--bids", type=int, default=2000, help="bids of the shortest stream")
    parser.add_argument("--most", type=int, default=100_000, help="the largest number of punctuations held")
    sizes = (10_000, 100_000, 1_000_000, 4_000_000)
    parser.add_argument(
        "--retained", type=int, nargs="+", default=sizes, help="tuples that an operator retains"
    )
    parser.add_argument(
        "--doubled", type=int, default=2000, help="punctuations of the smallest that is doubled"
    )
    parser.add_argument(
        "--statements", type=int, default=250, help="the same, of sinks and inputs of a UNION"
    )
    parser.add_argument("--large", type=int, default=1_000_000, help="tuples of a large slice")
    parser.add_argument("--slices", type=int, default=60, help="slices to measure with each of these")
    parser.add_argument("--shards", type=int, nargs="*", default=[], help="numbers of shards to try on Spark")
    given = parser.parse_args()
    warehouse = common.SAMPLES / "warehouse.sql"

    def warm(n: int) -> common.Run:
        sources = common.warehouse(given.data, 24, n)
        return common.engine(warehouse, sources, *LOCAL)

    def sharded(n: int) -> common.Run:
        spark = ("--engine", "spark", "--master", f"local[{n}]")
        return auction(given, given.bids, given.bids * 10, 50, *spark, core=False)

    benchmarks: dict[str, Callable[[], dict[str, Any]]] = {
        "stream": lambda: stream(given),
        "items": lambda: grown(
            given, (given.bids // 4, given.bids, given.bids * 4), lambda n: auction(given, n, n, 50)
        ),
        "open": lambda: grown(
            given, (50, 500, 5000), lambda n: auction(given, given.bids, given.bids * 10, n)
        ),
        "tuples": lambda: grown(given, (10, 30, 100), warm),
        "equality": lambda: held(given, "a INT, b INT", lambda i, n: {"a": i}, given.most),
        "pairs": lambda: held(given, "a INT, b INT", lambda i, n: {"a": i, "b": i % 97}, given.most),
        "ranges": lambda: held(
            given, "a INT, b INT", lambda i, n: {"a": f"[{i},{i + n // 10}]"}, given.most // 10
        ),
    }
    benchmarks["state"] = lambda: alone.state(given)
    benchmarks["windows"] = lambda: alone.windows(given)
    benchmarks["large"] = lambda: alone.large(given)
    benchmarks["forms"] = lambda: alone.forms(given)
    benchmarks["growth"] = lambda: growth(given)
    benchmarks["agreement"] = lambda: agreement(given)
    benchmarks["output"] = lambda: output(given)
    if given.shards:
        benchmarks["shards"] = lambda: grown(given, given.shards, sharded)
    names = given.only or list(benchmarks)
    found = {name: benchmarks[name]() for name in names}
    common.report({**found, "targets": TARGETS})
    common.plot(given.plot, lambda axes: draw(axes, found))


def draw(axes: Any, found: dict[str, dict[str, Any]]) -> None:
    for name, figures in found.items():
        if "points" not in figures:
            continue
        ns, seconds = ([p[what] for p in figures["points"]] for what in ("n", "seconds"))
        label = f"{name}, e = {figures['exponent']}" if "exponent" in figures else name
        (drawn,) = axes.loglog(ns, seconds, "o", label=label)
        if "exponent" in figures:
            middle = statistics.geometric_mean(ns), statistics.geometric_mean(seconds)
            line = [middle[1] * (n / middle[0]) ** figures["exponent"] for n in ns]
            axes.loglog(ns, line, color=drawn.get_color())
    axes.set(xlabel="n", ylabel="seconds")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


if __name__ == "__main__":
    main()
