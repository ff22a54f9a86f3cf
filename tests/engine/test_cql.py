"""The spellings of CQL, each with the form that means the same."""

from __future__ import annotations

import pytest

from tests.engine.test_relations import STREAMS
from xmlpunct import Punctuation, query
from xmlpunct.base.errors import SqlError
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain

SPELLINGS = {
    "SELECT ISTREAM(*) FROM packet [ROWS UNBOUNDED]": "ISTREAM(SELECT * FROM packet [RANGE UNBOUNDED])",
    "Select Rstream(src, len * 8 As bits) From packet [Now] Where len > 3": (
        "RSTREAM(SELECT src, len * 8 AS bits FROM packet [NOW] WHERE len > 3)"
    ),
    "SELECT DISTINCT RSTREAM(p.*) FROM packet [RANGE 5] p, domainof d WHERE p.src = d.ip": (
        "RSTREAM(SELECT DISTINCT p.* FROM packet [RANGE 5] p, domainof d WHERE p.src = d.ip)"
    ),
    "SELECT DSTREAM(src, COUNT(*) AS n) FROM packet [RANGE 5] GROUP BY src": (
        "DSTREAM(SELECT src, COUNT(*) AS n FROM packet [RANGE 5] GROUP BY src)"
    ),
    "SELECT RSTREAM(src EVERY 10 ORIGIN 3) FROM packet [RANGE 5]": (
        "RSTREAM(SELECT src FROM packet [RANGE 5] EVERY 10 ORIGIN 3)"
    ),
    "SELECT ISTREAM(src) FROM timed [RANGE 30 SECONDS]": "ISTREAM(SELECT src FROM timed [RANGE INTERVAL '30' SECOND])",
    "SELECT ISTREAM(src) FROM timed [Range 1 Day Slide 1 Minute]": (
        "ISTREAM(SELECT src FROM timed [RANGE INTERVAL '1' DAY SLIDE INTERVAL '1' MINUTE])"
    ),
    "SELECT ISTREAM(src) FROM dated [RANGE 2 WEEKS]": "ISTREAM(SELECT src FROM dated [RANGE 14])",
    "SELECT ISTREAM(*) FROM packet WHERE len > 3": "ISTREAM(SELECT * FROM packet [RANGE UNBOUNDED] WHERE len > 3)",
    "ISTREAM(SELECT p.src FROM packet p, packet [RANGE 5] q WHERE p.src = q.src)": (
        "ISTREAM(SELECT p.src FROM packet [RANGE UNBOUNDED] p, packet [RANGE 5] q WHERE p.src = q.src)"
    ),
    "SELECT ISTREAM(*) FROM (SELECT src AS a, ts FROM packet) [RANGE 5]": (
        "ISTREAM(SELECT * FROM (SELECT src AS a, ts FROM packet) [RANGE 5])"
    ),
    "SELECT ISTREAM(*) FROM (SELECT RSTREAM(src) FROM packet [NOW]) q": (
        "ISTREAM(SELECT * FROM (RSTREAM(SELECT src FROM packet [NOW])) [RANGE UNBOUNDED] q)"
    ),
    "SELECT ISTREAM(*) FROM packet WHERE src IN (SELECT ip FROM domainof)": (
        "ISTREAM(SELECT * FROM packet [RANGE UNBOUNDED] WHERE src IN (SELECT ip FROM domainof))"
    ),
    "WITH big AS (SELECT src, ts FROM packet WHERE len > 3) SELECT ISTREAM(*) FROM big": (
        "WITH big AS (SELECT src, ts FROM packet WHERE len > 3) ISTREAM(SELECT * FROM big [RANGE UNBOUNDED])"
    ),
    "SELECT ISTREAM(src) FROM packet UNION ALL SELECT RSTREAM(src) FROM packet [NOW]": (
        "ISTREAM(SELECT src FROM packet [RANGE UNBOUNDED]) UNION ALL RSTREAM(SELECT src FROM packet [NOW])"
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_cql(spelling: str) -> None:
    plans = [plan(STREAMS + sql) for sql in (spelling, SPELLINGS[spelling])]
    assert explain(plans[0]) == explain(plans[1])
    assert plans[0].root.schema == plans[1].root.schema


REFUSED = {
    "SELECT src, ISTREAM(len) FROM packet [NOW]": "must be the complete query, the complete list of SELECT, or in FROM",
    "SELECT src FROM packet [NOW] WHERE ISTREAM(len) = 3": "must be the complete query",
    "SELECT ISTREAM() FROM packet [NOW]": "ISTREAM needs a query",
    "SELECT ISTREAM(src) FROM packet [RANGE 30 SECONDS]": "the length of a window over INT is a number",
    "SELECT ISTREAM(src) FROM timed [RANGE 2 MONTHS]": "a month is no constant number of instants",
    "SELECT ISTREAM(src) FROM bare": "ISTREAM needs a relation, and this is a stream",
    "SELECT src FROM packet, domainof WHERE src = ip": "is a stream without a window",
    "SELECT ISTREAM(src) FROM packet [NOW] ORDER BY src": "a relation has no order",
    "SELECT ISTREAM(src) FROM packet [PARTITION BY src ROWS UNBOUNDED]": "the number of rows of a window",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_spellings_with_several_meanings_are_refused(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(STREAMS + sql)
    assert REFUSED[sql] in str(caught.value)


def test_the_default_window_is_unbounded() -> None:
    """Each count includes all earlier tuples, at distances that grow to the end of the type."""
    instants = [-(9 * 10**18), *(10**n for n in range(19))]
    packets = "".join(f"<packet><src>1</src><len>1</len><ts>{ts}</ts></packet>" for ts in instants)

    def counts(window: str) -> list[tuple[int, int]]:
        sql = f"{STREAMS}SELECT ISTREAM(COUNT(*)) FROM packet {window}"
        return [r for r in query(sql, packet=f"<s>{packets}</s>".encode()) if not isinstance(r, Punctuation)]

    assert counts("") == [(1 + i, ts) for i, ts in enumerate(instants)]
    assert counts("[RANGE 5000000000000000000]") != counts("")
