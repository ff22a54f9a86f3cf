"""Reading SQL fixtures, and planning and evaluating their queries.

Blank lines separate the blocks of a file; lines of ``--`` separate the parts of a block.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from xmlpunct.engine.plan import Node, Scan
from xmlpunct.engine.sql.planner.catalog import declared
from xmlpunct.engine.sql.planner.query_planner import Context, plan_query
from xmlpunct.engine.sql.planner.scope import Namespace
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.operators import run
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

FOLDER = Path(__file__).parent.parent / "fixtures" / "sql"
STREAMS = (FOLDER / "streams.sql").read_text()


def blocks(name: str) -> list[list[str]]:
    """The blocks of a fixture, each as its parts between lines of ``--``."""
    text = (FOLDER / name).read_text().strip()
    return [[part.strip("\n") for part in block.split("\n--\n")] for block in text.split("\n\n")]


def outline(node: Node, depth: int = 0) -> str:
    """A plan as an indented list of its operators."""
    lines = [f"{'  ' * depth}{node.describe()}", *(outline(below, depth + 1) for below in node.inputs)]
    return "\n".join(lines)


def unoptimized(sql: str, streams: str = STREAMS) -> Node:
    """The plan of a query before optimization."""
    *creates, query = parse_statements(streams + sql)
    return plan_query(query, Context(Namespace(declared(creates, {})), Namespace())).node


def evaluate(node: Node, streams: dict[str, pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """All results of a plan over complete streams, and the number of rejected tuples."""
    operator = node.operator()
    rejected = 0
    if isinstance(node, Scan):
        inputs = [streams[node.stream.name]]
    else:
        below = [evaluate(child, streams) for child in node.inputs]
        inputs, rejected = [frame for frame, _ in below], sum(count for _, count in below)
    outputs = [
        run(operator, port, Slice(frame, [Punctuation.everything(operator.inputs[port])])).tuples
        for port, frame in enumerate(inputs)
    ]
    return pl.concat(outputs), rejected + len(operator.rejects)
