"""Relations, windows and relation-to-stream operators: what a query must give, plain and slow.

- `query`: a continuous query as a tree; `feeds`: inputs, feeds, T; `meaning`: M of the paper, Figures 3 and 5;
- `complete`: how far each tuple is closed at a prefix, and so what must be out; `futures`: continuations;
- `checker`: judges what an engine gave; `reference`: the least engine, which the checker must find right;
- `generate`: random cases from a seed; `text`: a case as SQL and XML.

So a test of an engine is::

    case = Case(seed)                                   # .query, .inputs, .feed, .slices()
    sql = Printer(case.inputs).sql(case.query)          # statement(input) is its CREATE
    checker = Checker(case.query, case.inputs, case.feed)
    runs = [[Output(position, tuples, punctuations), ...] for ... in two slicings]
    assert checker.check(*runs) is None

An `Output` is what came out between its position in the feed and the one before; 0 is what came at the opening.
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
