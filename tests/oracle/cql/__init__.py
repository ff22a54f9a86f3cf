"""A simple, slow oracle for queries over relations, windows and relation-to-stream operators.

- `query`: a continuous query as a tree; `feeds`: inputs, feeds, T; `meaning`: M of the paper, Figures 3 and 5;
- `complete`: the closed prefix of each tuple, and the required output at a prefix; `futures`: continuations;
- `checker`: judges the output of an engine; `reference`: the minimal engine, which the checker must accept;
- `generate`: random cases from a seed; `text`: a case as SQL and XML.

A test of an engine::

    case = Case(seed)                                   # .query, .inputs, .feed, .slices()
    sql = Printer(case.inputs).sql(case.query)          # statement(input) is its CREATE
    checker = Checker(case.query, case.inputs, case.feed)
    runs = [[Output(position, tuples, punctuations), ...] for ... in two slicings]
    assert checker.check(*runs) is None

An `Output` contains the output between the previous position in the feed and its own; position 0 is the opening.
"""

from tests.oracle.cql.checker import Checker, Output, check
from tests.oracle.cql.complete import Closed
from tests.oracle.cql.feeds import Input, Time
from tests.oracle.cql.generate import Case
from tests.oracle.cql.meaning import Meaning
from tests.oracle.cql.text import Printer, document, statement

__all__ = [
    "Case",
    "Checker",
    "Closed",
    "Input",
    "Meaning",
    "Output",
    "Printer",
    "Time",
    "check",
    "document",
    "statement",
]
