"""Several answers of one streaming query: those of the local engine, from streams that are read once."""

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


def test_the_same_as_here(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    def query(name: str) -> Query:
        (tmp_path / name).mkdir()
        sql = QUERY.format(folder=warehouse.folder, out=tmp_path / name)
        return plan(sql if name == "there" else sql.replace("slices/'", "slices/', format = 'csv'"))

    here, there = query("here"), query("there")
    expected = RunStats("local")
    local.run(here, RunOptions(output=str(tmp_path / "here" / "rest.xml"), slice_bytes=3000), expected)
    state = tmp_path / "state"
    stats = on_spark(spark, there, tmp_path / "there" / "rest.xml", slice_bytes=3000, checkpoint=str(state))
    assert stats.inputs == expected.inputs, "it is read once"
    assert all(written.closed for written in committed(state / "log").outputs)
    assert stats.slices > 2
    places = {"hours": "hours.xml", "slices": "slices/", "": "rest.xml"}
    for answer in there.answers:
        counts = stats.outputs[answer.name], expected.outputs[answer.name]
        assert counts[0].tuples == counts[1].tuples, answer
        assert counts[0].complete
        if answer.name in ("hours", ""):
            found, wanted = (
                split(read_back(tmp_path / name / places[answer.name], answer.root.schema))
                for name in ("there", "here")
            )
            assert found[0] == wanted[0]
    schema = there.answers[2].root.schema
    tuples, _ = split(read_back(tmp_path / "there" / "slices", schema))
    assert len(tuples) == stats.inputs["s"].tuples
    assert len(split(read_back(tmp_path / "there" / "few.xml", there.answers[1].root.schema))[0]) == 4
    before = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*.xml")}
    on_spark(spark, there, tmp_path / "there" / "rest.xml", slice_bytes=3000, checkpoint=str(state))
    assert {path: path.read_bytes() for path in (tmp_path / "there").rglob("*.xml")} == before
