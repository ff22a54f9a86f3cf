"""ORDER BY and LIMIT from SQL to results, compared as sequences."""

from __future__ import annotations

import contextlib

import pytest

from xmlpunct import SourceError, query
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.run.output import Output
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

STREAM = "CREATE STREAM e (k STRING, n INT, m INT NOT NULL);"
DATA = b"""<stream xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">
<e><k>b</k><n>2</n><m>61</m></e><e><k>a</k><m>5</m></e><e><k>c</k><n>2</n><m>59</m></e><e><k>a</k><n>-1</n><m>130</m></e>
<punct:e><m>(,60)</m></punct:e><e><k>d</k><n>9</n><m>60</m></e><punct:e><m>[60,120)</m></punct:e>
</stream>"""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, n FROM e ORDER BY n, k DESC", "a -1; c 2; b 2; d 9; a None"),
        ("SELECT k, n FROM e ORDER BY n DESC NULLS FIRST LIMIT 3", "a None; d 9; b 2"),
        ("SELECT k FROM e ORDER BY m / 60 DESC, n", "a; b; d; c; a"),
        ("SELECT k, COUNT(*) AS c FROM e GROUP BY k ORDER BY 2 DESC, MAX(m) LIMIT 2", "a 2; c 1"),
        ("SELECT m / 60 AS h, COUNT(*) AS c FROM e GROUP BY h ORDER BY h DESC", "2 1; 1 2; 0 2"),
        ("SELECT k FROM e UNION SELECT k FROM e ORDER BY k DESC", "d; c; b; a"),
        ("SELECT DISTINCT k FROM e ORDER BY k LIMIT 0", ""),
    ],
)
def test_sequence(sql: str, expected: str) -> None:
    tuples = [e for e in query(STREAM + sql, e=DATA) if isinstance(e, tuple)]
    assert "; ".join(" ".join(map(str, t)) for t in tuples) == expected


def test_output_keeps_the_order_of_an_ordered_query() -> None:
    schema = Schema.parse("n INT")
    unsorted = Slice(schema.frame([(3,), (1,), (2,)]))
    values = [
        Output(schema, writer_for("jsonl", schema), o).prepare(unsorted).tuples["n"].to_list()
        for o in (True, False)
    ]
    assert values == [[3, 1, 2], [1, 2, 3]]


def test_the_paper_s_example() -> None:
    """Closing hours 2 to 4 releases nothing; closing hours 0 to 3 then releases all through hour 4."""
    stream = """CREATE STREAM temp (sid STRING, hour INT CHECK (hour BETWEEN 0 AND 23), minute INT, currtemp INT)
                  WITH (element = 't');"""
    rows = [("S1", 4), ("S2", 1), ("S1", 3), ("S2", 5)]
    tuples = [
        f"<t><sid>{s}</sid><hour>{h}</hour><minute>0</minute><currtemp>70</currtemp></t>" for s, h in rows
    ]
    head = f'<stream xmlns:punct="{PUNCT_NAMESPACE}">' + "".join(tuples)
    first = head + "<punct:t><hour>[2, 4]</hour></punct:t>"
    second = first + "<punct:t><hour>[0, 3]</hour></punct:t>"
    outputs = []
    for text in (first, second, second + "</stream>"):
        results = query(stream + "SELECT * FROM temp ORDER BY hour", temp=text.encode())
        output: list[int | str] = []
        with contextlib.suppress(SourceError):  # the first two texts are truncated
            for e in results:
                output.append(e[1] if isinstance(e, tuple) else str(e))
        outputs.append(output)
    hours = [[e for e in elements if isinstance(e, int)] for elements in outputs]
    assert hours == [[], [1, 3, 4], [1, 3, 4, 5]]
    promised = {"<*, [2,4], *, *>", "<*, [0,3], *, *>"}
    assert not promised & set(outputs[0])
    assert promised <= set(outputs[1][3:])
