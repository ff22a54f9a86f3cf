"""The paper's Example 2.1 as Figure 6, and relations 10: M's answer, and the required output after each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.oracle.cql import query as cql
from tests.oracle.cql.checker import Checker, Output, check
from tests.oracle.cql.complete import Closed
from tests.oracle.cql.feeds import Element, Input
from tests.oracle.cql.meaning import Meaning
from tests.oracle.cql.reference import reference
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import STRING

PACKET = Input("packet", Schema.parse("src INT, len INT, ts INT NOT NULL"), "ts")
DOMAIN = Input(
    "domainof", Schema.parse("ip INT, name STRING, at INT NOT NULL, diff INT NOT NULL"), "at", "diff"
)
INPUTS = {"packet": PACKET, "domainof": DOMAIN}
STANFORD = cql.Select(
    cql.Relation("domainof"), cql.Compare("=", cql.Column(1), cql.Constant("stanford.edu", STRING))
)
QUERY = cql.RStream(cql.Join("semi", cql.Window(cql.Stream("packet")), STANFORD, ((0, 0),)))
AS_JOIN = cql.RStream(
    cql.Project(
        cql.Join("inner", cql.Window(cql.Stream("packet")), STANFORD, ((0, 0),)),
        (cql.Column(0), cql.Column(1)),
    )
)


def d(ip: int, at: int, diff: int) -> tuple[str, Element]:
    return "domainof", (ip, "stanford.edu", at, diff)


def p(src: int, size: int, ts: int) -> tuple[str, Element]:
    return "packet", (src, size, ts)


def closed(name: str, **patterns: object) -> tuple[str, Element]:
    return name, Punctuation.of(INPUTS[name].schema, **patterns)


LINES: list[tuple[list[tuple[str, Element]], list[tuple[Row, int]]]] = [
    ([d(1, 0, 2), closed("domainof", at="(,0]")], []),
    ([p(1, 60, 2), p(2, 40, 2)], []),
    ([d(2, 3, 1), closed("domainof", ip=1, at="(,2]")], []),
    ([closed("packet", ts="(,2]")], [((1, 60), 2)]),
    ([closed("domainof", at="(,2]")], []),
    ([p(2, 40, 3), p(2, 40, 3), closed("packet", ts="(,3]")], []),
    ([d(1, 4, -1), closed("domainof", at="(,5]")], [((2, 40), 3), ((2, 40), 3)]),
    ([p(1, 60, 4), closed("packet", ts="(,5]")], [((1, 60), 4)]),
]
"""The input of each line, and its output."""
FEED = [element for elements, _ in LINES for element in elements]
POSITIONS = [sum(len(elements) for elements, _ in LINES[: i + 1]) for i in range(len(LINES))]


def test_the_answer() -> None:
    expected = Counter({((1, 60), 2): 1, ((2, 40), 3): 2, ((1, 60), 4): 1})
    assert Meaning(INPUTS, FEED).answer(QUERY) == expected
    assert Meaning(INPUTS, FEED).m(QUERY, 3) == Counter({((2, 40), 3): 2})


def test_a_join_returns_a_packet_twice() -> None:
    assert Meaning(INPUTS, FEED).answer(AS_JOIN)[(1, 60), 2] == 2


@pytest.mark.parametrize("line", range(len(LINES)))
def test_the_output_after_each_line(line: int) -> None:
    released = Closed(INPUTS, FEED[: POSITIONS[line]]).released(QUERY)
    assert released == Counter(e for _, out in LINES[: line + 1] for e in out)


def test_the_closed_prefix_of_each_key() -> None:
    after = Closed(INPUTS, FEED[: POSITIONS[3]])
    assert after.bound(QUERY, (1, 60)) == 2
    assert after.bound(QUERY, (2, 40)) == 0
    assert after.bound_of_all(QUERY) == 0


CHECKER = Checker(QUERY, INPUTS, FEED, futures=300)


def right(slices: Sequence[int] = POSITIONS) -> list[Output]:
    return list(reference(CHECKER, slices))


def test_the_checker_accepts_the_minimal_engine() -> None:
    assert CHECKER.check(right(), right([5, len(FEED)])) is None
    assert check(QUERY, INPUTS, FEED, [Output(0)]) is None


def test_the_checker_detects_errors() -> None:
    def wrong(line: int, **changes: object) -> str:
        outputs = right()
        outputs[line] = replace(outputs[line], **changes)  # type: ignore[arg-type]
        return CHECKER.check(outputs) or "nothing"

    schema = right()[-1].punctuations[0].schema
    assert "is released, and M's answer has 1" in wrong(3, tuples=[(1, 60, 2), (1, 60, 2)])
    assert "is complete and not out" in wrong(3, tuples=[], punctuations=[])
    assert "is closed up to 2, and promised up to" in wrong(3, punctuations=[])
    assert "is promised, and M's answer has" in wrong(2, punctuations=[Punctuation.of(schema, at="(,3]")])
    assert "is promised, and a continuation has" in wrong(
        2, punctuations=[Punctuation.of(schema, c0=2, at="(,1]")]
    )
    early = [Output(2), Output(4, right()[3].tuples)]
    assert "is released, and a continuation has 0" in (CHECKER.check(early) or "")
    late = [Output(5), Output(len(FEED), [t for o in right() for t in o.tuples], right()[-1].punctuations)]
    assert CHECKER.check(late, right([5, len(FEED)])) is None
