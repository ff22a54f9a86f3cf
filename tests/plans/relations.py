"""Random SQL queries over windows and relations: at every prefix, the output is M's answer at the complete instants.

`tests.oracle.cql` judges the output after each slice, for random slices, shards and restarts. The long form judges the
queries of a range of seeds, and prints the seed and SQL of each query that fails::

    python -m tests.plans.relations 0 100000 --processes 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tests.oracle.cql import Case, Checker, Output, Printer, statement
from tests.plans.engines import Engine, engine
from tests.strategies import slice_of
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

SECONDS = 20.0
"""The CPU time limit of a query in the long form."""


class Planned:
    """The query of a case, planned from its SQL."""

    def __init__(self, case: Case) -> None:
        self.case, self.rng = case, random.Random(case.seed)
        inputs = self.case.inputs
        self.sql = sql_of(self.case)
        self.root = plan(self.sql).root
        self.names = list(inputs)
        self.checker = Checker(self.case.query, inputs, self.case.feed, futures=1, rng=self.rng)

    def run(self, running: Engine, slices: Sequence[int]) -> list[Output]:
        """The output after each slice, with one restart of the engine."""
        outputs, start = list[Output](), 0
        restart = self.rng.choice(slices)

        def take(position: int, slices_: Iterable[Slice]) -> None:
            parts = list(slices_)
            tuples = [t for part in parts for t in part.tuples.rows()]
            outputs.append(Output(position, tuples, [p for part in parts for p in part.punctuations]))

        take(0, running.open())
        for position in slices[1:]:
            if start == restart:
                running = running.restarted()
            elements = self.case.feed[start:position]
            output_slices: list[Slice] = []
            for port, name in enumerate(self.names):
                elements_of_input = [e for n, e in elements if n == name]
                if elements_of_input:
                    output_slices += running.push(
                        port, slice_of(self.case.inputs[name].schema, elements_of_input)
                    )
            take(position, output_slices)
            start = position
        ended = {n for n, e in self.case.feed if isinstance(e, Punctuation) and e.is_everything}
        retained = {f"{o.name} #{o.number}": (o.state.rows, o.state.held) for o in running.operators}
        left = {name: counts for name, counts in retained.items() if any(counts)}
        assert ended < set(self.names) or not left, f"state is retained after the end: {left}"
        return outputs

    def runs(self) -> list[list[Output]]:
        """Two runs with different slices on the same number of shards; 0 shards means one pipeline."""
        engine_ = engine(self.root, self.names, self.rng.choice([0, 1, 2, 3]))
        return [self.run(running, self.case.slices()) for running in (engine_, engine_.rebuilt())]

    def judge(self) -> str | None:
        """The first error in two runs."""
        return self.checker.check(*self.runs())


def sql_of(case: Case) -> str:
    """The CREATE statements of a case and its query."""
    return "\n".join([*map(statement, case.inputs.values()), Printer(case.inputs).sql(case.query)])


# The long form


@dataclass(frozen=True)
class Verdict:
    """The result for a seed: ``right``, ``SLOW`` or ``WRONG``, and the reason."""

    seed: int
    kind: str
    why: str = ""


class TooSlow(Exception):
    """A query exceeded its limit of `SECONDS`."""


def _too_slow(*_: object) -> NoReturn:
    raise TooSlow(f"more than {SECONDS:.0f} s of CPU")


def judge(seed: int) -> Verdict:
    """The verdict on a seed."""
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        wrong = Planned(Case(seed)).judge()
        return Verdict(seed, "WRONG" if wrong else "right", wrong or "")
    except TooSlow as error:
        return Verdict(seed, "SLOW", str(error))
    except Exception:
        return Verdict(seed, "WRONG", traceback.format_exc(limit=-3))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a range of seeds. The exit status is 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("stop", type=int, help="the seed after the last one")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    os.environ["POLARS_MAX_THREADS"] = "1"  # inherited by the worker processes
    start, kinds = time.monotonic(), Counter[str]()
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=50) as pool:
        seeds = range(options.first, options.stop)
        for n, verdict in enumerate(pool.imap_unordered(judge, seeds, chunksize=20), 1):
            kinds[verdict.kind] += 1
            if verdict.kind in ("WRONG", "SLOW"):
                print(f"{verdict.kind}: seed {verdict.seed}: {verdict.why}\n{sql_of(Case(verdict.seed))}\n")
            if n % 200 == 0 or n == len(seeds):
                print(f"{n} queries in {time.monotonic() - start:.0f} s: {dict(kinds)}", flush=True)
    return int(bool(kinds["WRONG"]))


if __name__ == "__main__":
    sys.exit(main())
