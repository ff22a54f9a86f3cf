"""Queries over windows, over a relation and along a stream: Spark and the local engine agree."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.spark.support import NAMESPACE, locally, on_spark, read_back, split
from xmlpunct import match
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark

STREAMS = """
CREATE STREAM packet (src INT, len INT, ts INT NOT NULL) WITH (source = '{0}/packet.xml', timestamp = 'ts');
CREATE RELATION domainof (ip INT, name STRING, at INT NOT NULL, diff INT)
  WITH (source = '{0}/domainof.xml', timestamp = 'at', change = 'diff');
"""
WINDOWS = """
ISTREAM(SELECT name, COUNT(*) AS n, SUM(len) AS bytes
        FROM packet [RANGE 3] LEFT JOIN domainof ON src = ip
        WHERE src NOT IN (SELECT src FROM packet [ROWS 2] WHERE len > 90)
        GROUP BY name)
"""
OVER = """
SELECT src, ts, len, SUM(len) OVER (PARTITION BY src ORDER BY ts RANGE 4 PRECEDING) AS bytes,
       LAG(len) OVER (PARTITION BY src ORDER BY ts) AS before
FROM packet
QUALIFY ROW_NUMBER() OVER (PARTITION BY src ORDER BY ts) > 1
"""
FROM_THE_START = (
    "SELECT COUNT(*) AS n, SUM(len) AS bytes FROM packet [RANGE 3] LEFT JOIN domainof ON src = ip"
)
READ_BACK = """
CREATE RELATION sums (n INT, bytes INT, at INT NOT NULL, diff INT)
  WITH (source = '{0}/there.xml', element = 'result', timestamp = 'at', change = 'diff');
SELECT n, bytes FROM sums WHERE n < 3
"""


def write(folder: Path) -> None:
    random = Random(7)
    packets, names = [], []
    for ts in range(25):
        for _ in range(random.randrange(4)):
            src = f"<src>{random.randrange(4)}</src>" if random.random() < 0.9 else ""
            packets.append(f"<packet>{src}<len>{random.randrange(99)}</len><ts>{ts}</ts></packet>")
        packets.append(f"<p:packet><ts>(,{ts}]</ts></p:packet>")
        ip, diff = random.randrange(4), random.choice([1, 1, -1])
        names.append(
            f"<domainof><ip>{ip}</ip><name>{'uv'[ip % 2]}</name><at>{ts}</at><diff>{diff}</diff></domainof>"
        )
        names.append(f"<p:domainof><at>(,{ts}]</at></p:domainof>")
    for name, lines in (("packet", packets), ("domainof", names)):
        text = "\n".join([f'<stream xmlns:p="{NAMESPACE}">', *lines, "</stream>", ""])
        (folder / f"{name}.xml").write_text(text)


@pytest.mark.parametrize("sql", [WINDOWS, OVER, FROM_THE_START], ids=["windows", "over", "from the start"])
def test_the_same_as_in_one_process(spark: Any, tmp_path: Path, sql: str) -> None:
    write(tmp_path)
    text = (STREAMS + sql).format(tmp_path)
    query = plan(text)
    local_path, spark_path = tmp_path / "here.xml", tmp_path / "there.xml"
    on_spark(spark, query, spark_path, slice_bytes=900)
    locally(plan(text), local_path)
    expected, _ = split(read_back(local_path, query.root.schema))
    tuples, punctuations = split(read_back(spark_path, query.root.schema))
    assert tuples == expected
    assert len(expected) > 20
    assert punctuations
    received: list[Any] = []
    for element in read_back(spark_path, query.root.schema):
        if isinstance(element, tuple):
            assert not any(match(element, p) for p in received)
        else:
            received.append(element)
    if sql is FROM_THE_START:
        assert any(t[-2] is None for t in tuples)
        assert "9223372036854775808" not in spark_path.read_text()
        back, again = READ_BACK.format(tmp_path), tmp_path / "again.xml"
        on_spark(spark, plan(back), again, slice_bytes=900)
        reread, _ = split(read_back(again, plan(back).root.schema))
        assert reread == [t for t in tuples if t[0] < 3]
