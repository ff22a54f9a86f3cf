"""PUNCTUATE ON in CREATE STREAM: marks of a standard release results before the end of the stream."""

from __future__ import annotations

import pytest

from xmlpunct import query
from xmlpunct.base.errors import SourceError
from xmlpunct.engine.sql import plan
from xmlpunct.engine.verdicts import endless_faults

COLUMNS = "k INT NOT NULL, v INT"
QUERY = "SELECT k, SUM(v) AS v FROM s GROUP BY k"


def sql(clause: str, source: str = "-", columns: str = COLUMNS, select: str = QUERY) -> str:
    return f"CREATE STREAM s ({columns}) WITH (source = '{source}', element = 't') {clause}; {select}"


def row(k: int, v: int) -> bytes:
    return b"<t><k>%d</k><v>%d</v></t>" % (k, v)


@pytest.mark.parametrize(
    ("clause", "mark", "other"),
    [
        ("PUNCTUATE ON 'm' CLOSES (k = '@k')", b"<m k='1'/>", b"<m k='2'/>"),
        ("PUNCTUATE ON 'm' WHERE 'last' = 'true' CLOSES (k = 'of/k')", b"<m><last>true</last><of><k>1</k></of></m>",
         b"<m><last>false</last><of><k>1</k></of></m>"),
        ("PUNCTUATE ON 'm' CLOSES (k = '.') PUNCTUATE ON 'n' CLOSES ALL", b"<m>1</m>", b"<m>2</m>"),
        ("PUNCTUATED BY (v) PUNCTUATE ON 'm' WHERE '@done' = '' CLOSES ALL", b"<m done=''/>", b"<m/>"),
    ],
)  # fmt: skip
def test_a_result_is_out_at_the_mark_and_not_before(clause: str, mark: bytes, other: bytes) -> None:
    released = list[str]()

    def chunks() -> object:
        yield b"<r>" + row(1, 2) + row(1, 3) + other
        released.append("before")
        yield mark + row(7, 1)
        released.append("after")
        yield b"</r>"

    for result in query(sql(clause), s=chunks()):
        released.append(str(result))
    released.append("after")  # a run whose result is complete does not ask for the rest
    assert released.index("before") < released.index("(1, 5)") < released.index("after")


def test_a_value_that_its_type_cannot_read_ends_the_run() -> None:
    results = query(sql("PUNCTUATE ON 'm' CLOSES (k = '@k')"), s=b"<r>\n<m k='1'/>\n<m k='x'/></r>")
    with pytest.raises(SourceError, match=r"line 3, byte 15: mark <m>: attribute k: 'x' is not of type INT"):
        list(results)


def test_verdicts_count_the_columns_of_marks() -> None:
    for clause, faults in (
        ("", 1),
        ("PUNCTUATE ON 'm' CLOSES (k = '@k')", 0),
        ("PUNCTUATE ON 'm' CLOSES (v = '@k')", 1),
        ("PUNCTUATE ON 'm' CLOSES ALL", 0),
    ):
        assert len(endless_faults(plan(sql(clause, "tcp://h:1")))) == faults


def test_an_order_and_marks_together() -> None:
    clause = "PUNCTUATE ORDER BY k PUNCTUATE ON 'm' CLOSES (k = '@k')"
    document = b"<r>" + row(1, 2) + row(2, 2) + b"<m k='2'/>" + row(3, 1) + b"</r>"
    assert [r for r in query(sql(clause), s=document) if isinstance(r, tuple)] == [(1, 2), (2, 2), (3, 1)]
