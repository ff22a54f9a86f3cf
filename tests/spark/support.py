"""The warehouse of the paper's introduction, small: two sensor streams, punctuated by the hour."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from xmlpunct import parse
from xmlpunct.engine.plan import GroupBy, Node, Project, Query, Scan, Select, Stream, Union, numbered
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark import run
from xmlpunct.expressions.expression import Column
from xmlpunct.expressions.functions import call, literal
from xmlpunct.operators import Aggregate
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import INT

SCHEMA = Schema.parse("sid STRING, hour INT NOT NULL, min INT, currtmp INT")
NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"
HOURS, READINGS = 12, 15


class Warehouse:
    """The two streams as files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.streams = tuple(self._write(n) for n in (1, 2))

    def _write(self, number: int) -> Stream:
        random_ = random.Random(number)
        path = self.folder / f"sensor{number}.xml"
        lines = [f'<stream xmlns:punct="{NAMESPACE}">']
        for hour in range(HOURS):
            for minute in range(READINGS):
                values = f"<sid>S{random_.randrange(4)}</sid><hour>{hour}</hour><min>{minute}</min>"
                lines.append(f"<tempdata>{values}<currtmp>{random_.randrange(40, 99)}</currtmp></tempdata>")
            lines.append(f"<punct:tempdata><hour>{hour}</hour></punct:tempdata>")
        path.write_text("\n".join([*lines, "</stream>", ""]))
        return Stream(f"sensor{number}", SCHEMA, "tempdata", str(path))

    def hottest(self) -> Query:
        """SELECT MAX(currtmp) AS maxtemp, hour FROM (... UNION ...) GROUP BY hour."""
        return Query.of(numbered(self._hottest()), self.streams)

    def coldest_of_hottest(self) -> Query:
        """The minimum of `hottest`, which needs a fragment of its own."""
        least = GroupBy(self._hottest(), (), (Aggregate("MIN", "maxtemp", False, "least"),))
        return Query.of(numbered(least), self.streams)

    def hours_by_heat(self) -> Query:
        """The number of hours for each maximal temperature: two fragments with different shard keys."""
        counted = GroupBy(self._hottest(), ("maxtemp",), (Aggregate("COUNT", "hour", False, "hours"),))
        return Query.of(numbered(counted), self.streams)

    def _hottest(self) -> Node:
        scans = tuple(
            Scan(s, ("currtmp", "hour"), (f"{s.name}.currtmp", f"{s.name}.hour")) for s in self.streams
        )
        maximum = Aggregate("MAX", "sensor1.currtmp", False, "m")
        grouped = GroupBy(Union(scans), ("sensor1.hour",), (maximum,))
        columns = (("maxtemp", Column(INT, True, "m")), ("hour", Column(INT, False, "sensor1.hour")))
        return Project(grouped, columns)


def hot(path: Path) -> Query:
    """SELECT * FROM the stream in ``path`` WHERE currtmp > 60: a stateless query."""
    (stream,) = (query := select_all(path, SCHEMA)).streams
    condition = call(">", Column(INT, True, "currtmp"), literal(INT, 60))
    return Query.of(numbered(Select(query.root, condition)), [stream])


def select_all(path: Path, schema: Schema) -> Query:
    """SELECT * FROM the stream of ``tempdata`` in ``path``."""
    stream = Stream("sensor1", schema, "tempdata", str(path))
    return Query.of(numbered(Scan(stream, schema.names, schema.names)), [stream])


def on_spark(session: Any, query: Query, output: Path | str, **options: Any) -> RunStats:
    """Run a query on Spark; return its statistics."""
    stats = RunStats("spark")
    run(query, RunOptions(output=str(output), **options), stats, session=session)
    return stats


def locally(query: Query, output: Path) -> RunStats:
    """Run a query in this process."""
    stats = RunStats("local")
    local.run(query, RunOptions(output=str(output)), stats)
    return stats


def read_back(output: Path | str | bytes, schema: Schema) -> list[Any]:
    """The tuples and punctuations of an output, in document order."""
    return list(parse(output, schema, element="result"))


def split(elements: list[Any]) -> tuple[list[Any], list[Punctuation]]:
    """Tuples, sorted, and punctuations."""
    tuples = sorted((t for t in elements if not isinstance(t, Punctuation)), key=repr)
    return tuples, [p for p in elements if isinstance(p, Punctuation)]
