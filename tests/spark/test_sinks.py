"""Several sinks of one streaming query on Spark: the local engine's outputs, and each input is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import committed
from tests.spark.support import Warehouse, on_spark, read_back, split
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

pytestmark = pytest.mark.spark

QUERY = """CREATE STREAM s (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = '{folder}/sensor1.xml', element = 'tempdata');
CREATE VIEW hot AS SELECT hour, MAX(currtmp) AS most FROM s GROUP BY hour;
CREATE SINK hours WITH (output = '{out}/hours.xml') AS SELECT * FROM hot;
CREATE SINK few WITH (output = '{out}/few.xml') AS SELECT hour, min FROM s WHERE currtmp > 50 LIMIT 4;
CREATE SINK slices WITH (output = '{out}/slices/') AS SELECT min, currtmp FROM s;
SELECT most, COUNT(*) AS n FROM hot GROUP BY most"""


def test_the_same_as_on_the_local_engine(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    def query(name: str) -> Query:
        (tmp_path / name).mkdir()
        sql = QUERY.format(folder=warehouse.folder, out=tmp_path / name)
        return plan(sql if name == "there" else sql.replace("slices/'", "slices/', format = 'csv'"))

    local_query, spark_query = query("here"), query("there")
    local_stats = RunStats("local")
    local.run(
        local_query, RunOptions(output=str(tmp_path / "here" / "rest.xml"), slice_bytes=3000), local_stats
    )
    state = tmp_path / "state"
    stats = on_spark(
        spark, spark_query, tmp_path / "there" / "rest.xml", slice_bytes=3000, checkpoint=str(state)
    )
    assert stats.inputs == local_stats.inputs, "each input is read once"
    assert all(written.closed for written in committed(state / "log").outputs)
    assert stats.slices > 2
    paths = {"hours": "hours.xml", "slices": "slices/", "": "rest.xml"}
    for answer in spark_query.answers:
        counts = stats.outputs[answer.name], local_stats.outputs[answer.name]
        assert counts[0].tuples == counts[1].tuples, answer
        assert counts[0].complete
        if answer.name in ("hours", ""):
            actual, local_expected = (
                split(read_back(tmp_path / name / paths[answer.name], answer.root.schema))
                for name in ("there", "here")
            )
            assert actual[0] == local_expected[0]
    schema = spark_query.answers[2].root.schema
    tuples, _ = split(read_back(tmp_path / "there" / "slices", schema))
    assert len(tuples) == stats.inputs["s"].tuples
    assert len(split(read_back(tmp_path / "there" / "few.xml", spark_query.answers[1].root.schema))[0]) == 4
    before = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*.xml")}
    on_spark(spark, spark_query, tmp_path / "there" / "rest.xml", slice_bytes=3000, checkpoint=str(state))
    assert {path: path.read_bytes() for path in (tmp_path / "there").rglob("*.xml")} == before
