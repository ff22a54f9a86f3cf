"""How the costs of operators by themselves grow: `scaling.py` runs this."""

from __future__ import annotations

import io
import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import polars as pl

STEP = 100
"""Tuples per slice, where what an operator retains is measured by itself."""
SPREAD = 1_000_003
"""A stride that is prime to all sizes below it, so that values do not come in their order."""

Point = dict[str, float]


def operators() -> dict[str, Callable[[], Any]]:
    """Makers of operators that retain tuples, of an item and a value."""
    from xmlpunct.operators import Aggregate, GroupBy, Join, Pointwise
    from xmlpunct.schema import Schema

    left, right = Schema.parse("item INT NOT NULL, v INT"), Schema.parse("of INT NOT NULL, w INT")
    return {
        "dupelim": lambda: Pointwise([left], "distinct"),
        "group-by": lambda: GroupBy(left, ["item"], [Aggregate("SUM", "v", False, "total")]),
        "join": lambda: Join(left, right, [("item", "of")]),
        "semijoin": lambda: Join(left, right, [("item", "of")], "semi"),
        "difference": lambda: Pointwise([left, right], "except"),
    }


def large(given: Any) -> dict[str, Any]:
    """CPU seconds of two large slices on each input, half of whose keys the other slice has too."""
    from xmlpunct.operators.driver import run
    from xmlpunct.slice import Slice

    n, found = given.large, {}
    for name, make in operators().items():
        times = []
        for _ in range(given.rounds):
            operator, seconds = make(), 0.0
            for number in range(2):
                for port, schema in enumerate(operator.inputs):
                    items = pl.int_range(0, n, eager=True) * SPREAD % (2 * n) + number * n
                    given_tuples = dict(zip(schema.names, (items, items * 7), strict=True))
                    part = Slice(pl.DataFrame(given_tuples))
                    began = time.process_time()
                    run(operator, port, part)
                    seconds += time.process_time() - began
            times.append(seconds)
        found[name] = {"tuples": n, "cpu": round(min(times), 3)}
    return found


def state(given: Any) -> dict[str, Any]:
    """CPU milliseconds per slice of an operator that retains more and more tuples, and as many after the slice."""
    from xmlpunct.operators.driver import run
    from xmlpunct.punctuations.punctuation import Punctuation
    from xmlpunct.schema import Schema
    from xmlpunct.slice import Slice

    def tuples(schema: Schema, at: int, count: int, v: int) -> pl.DataFrame:
        items = pl.int_range(at, at + count, eager=True)
        values = items * 7 + v
        return pl.DataFrame(dict(zip(schema.names, (items, values), strict=True)))

    def closes(schema: Schema, at: int) -> list[Punctuation]:
        return [Punctuation.of(schema, **{schema.names[0]: f"[{at},{at + STEP - 1}]"})]

    found: dict[str, Any] = {}
    for name, make in operators().items():
        points: list[Point] = []
        left, right = make().inputs[0], make().inputs[-1]
        for n in given.retained:
            operator, ports = make(), len(make().inputs)
            for at in range(0, n, 200_000):
                run(operator, 0, Slice(tuples(left, at, min(200_000, n - at), 0)))
            times = []
            for i in range(given.slices):
                closed, new = i * STEP, n + i * STEP
                slices = [(0, Slice(tuples(left, new, STEP, 0)))]
                if ports == 2:  # as many find a partner, or not, and leave
                    slices.append((1, Slice(tuples(right, closed, STEP, 1), closes(right, closed))))
                slices.append((0, Slice(left.empty(), closes(left, closed))))
                began = time.process_time()
                for port, part in slices:
                    run(operator, port, part)
                times.append(time.process_time() - began)
            points.append(
                {"n": n, "cpu_ms": round(1000 * statistics.median(times), 3), "rows": operator.state.rows}
            )
        found[name] = against_smallest(points)
    return found


def against_smallest(points: list[Point]) -> dict[str, Any]:
    """How much more CPU a slice takes where the most is retained than where the least is."""
    smallest, largest = points[0]["cpu_ms"], points[-1]["cpu_ms"]
    return {"points": points, "largest_against_smallest": round(largest / smallest, 2)}


def windows(given: Any) -> dict[str, Any]:
    """CPU milliseconds per slice of windows that reach back over more and more tuples."""
    from xmlpunct.operators import Over, OverCall, OverFrame, Session, SortKey
    from xmlpunct.operators.driver import run
    from xmlpunct.operators.iterator import Operator
    from xmlpunct.punctuations.punctuation import Punctuation
    from xmlpunct.schema import Schema
    from xmlpunct.slice import Slice

    schema = Schema.parse("k INT NOT NULL, v INT, ts INT NOT NULL")

    def over(function: str, n: int) -> Operator:
        call = OverCall(function, "result", "v", frame=OverFrame("RANGE", -n, 0))
        return Over(schema, ["k"], [SortKey("ts")], [call])

    def tuples(at: int, count: int) -> Slice:
        ts = pl.int_range(at, at + count, eager=True)
        frame = pl.DataFrame({"k": ts * 0, "v": ts * SPREAD % 1000, "ts": ts})
        return Slice(frame, [Punctuation.of(schema, ts=f"(,{at + count - 1}]")])

    made: dict[str, Callable[[int], Operator]] = {
        "session": lambda n: Session(schema, "ts", 10, ["k"], "start", "end"),
        "over sum": lambda n: over("SUM", n),
        "over max": lambda n: over("MAX", n),
    }
    found: dict[str, Any] = {}
    for name, make in made.items():
        points: list[Point] = []
        for n in given.retained:
            operator, times = make(n), []
            run(operator, 0, tuples(0, n))
            for i in range(given.slices):
                part = tuples(n + i * STEP, STEP)
                began = time.process_time()
                run(operator, 0, part)
                times.append(time.process_time() - began)
            points.append({"n": n, "cpu_ms": round(1000 * statistics.median(times), 3)})
        found[name] = against_smallest(points)
    return found


def forms(given: Any) -> dict[str, Any]:
    """CPU microseconds per punctuation, of constants and of ranges: items that are closed one after the other."""
    from xmlpunct import slices
    from xmlpunct.operators import Aggregate, GroupBy, Join, Pointwise
    from xmlpunct.operators.driver import run
    from xmlpunct.operators.iterator import Operator
    from xmlpunct.punctuations.punctuation_set import PunctuationSet
    from xmlpunct.schema import Schema
    from xmlpunct.slice import Slice

    left, right = Schema.parse("item INT NOT NULL, v INT"), Schema.parse("of INT NOT NULL, w INT")

    def feed(said: str) -> bytes:
        """A stream of a tuple of each item, which is closed behind it."""
        items = (str(10 * i + 3) for i in range(given.most))
        lines = (
            f"<t><item>{item}</item><v>1</v></t><p:t><item>{said.format(item[:-1])}</item></p:t>\n"
            for item in items
        )
        return f'<s xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct">\n{"".join(lines)}</s>'.encode()

    def measured(data: bytes) -> dict[str, float]:
        times: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any]) -> Any:
            began = time.process_time()
            result = work()
            times[name] = (time.process_time() - began) * 1e6 / given.most
            return result

        def through(operator: Operator, *inputs: list[Slice]) -> None:
            said = 0
            for parts in zip(*inputs, strict=True):
                for port, part in enumerate(parts):
                    said += len(run(operator, port, part).punctuations)
            assert said == given.most, f"{operator.name} said {said}"

        def each() -> list[Slice]:
            """The slices anew, with nothing that has been looked up in them."""
            return [Slice(part.tuples, pickle.loads(pickle.dumps(part.punctuations))) for part in read]

        read = timed("reading", lambda: list(slices(io.BytesIO(data), left, element="t")))
        held, fresh = PunctuationSet(left), each()
        timed("adding", lambda: [held.update(part.punctuations) for part in fresh])
        timed("matching", lambda: [held.mask(part.tuples) for part in fresh])
        timed("discarding", lambda: [held.discard(part.punctuations) for part in fresh])
        assert not len(held)
        fresh = each()
        timed("dupelim", lambda: through(Pointwise([left], "distinct"), fresh))
        fresh = each()
        groups = GroupBy(left, ["item"], [Aggregate("SUM", "v", False, "total")])
        timed("group-by", lambda: through(groups, fresh))
        ones, others = each(), each()
        others = [Slice(s.tuples.rename(renamed), s.punctuations.rename(right)) for s in others]
        timed("join", lambda: through(Join(left, right, [("item", "of")]), ones, others))
        return times

    renamed = dict(zip(left.names, right.names, strict=True))
    inputs = {"constant": feed("{}3"), "range": feed("[{0}0,{0}9]")}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in inputs}
    for _ in range(given.rounds):
        for name, data in inputs.items():
            rounds[name].append(measured(data))
    found = {
        name: {what: round(min(r[what] for r in some), 3) for what in some[0]}
        for name, some in rounds.items()
    }
    ratios = {what: round(found["range"][what] / cost, 2) for what, cost in found["constant"].items()}
    return {**found, "range_against_constant": ratios}
