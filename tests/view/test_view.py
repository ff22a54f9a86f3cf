"""A snapshot of a run as values, as Prometheus metrics, as a picture, and on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from tests.view.running import view_of_a_run
from xmlpunct.cli.watch import Watch, frame
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.view.chart import draw_history
from xmlpunct.engine.view.drawing import FLOWS, STILL, WAITS, box_corners, does, draw
from xmlpunct.engine.view.folding import fold_plan
from xmlpunct.engine.view.metrics import metrics
from xmlpunct.engine.view.moment import Moment, plan_of
from xmlpunct.engine.view.trend import HistoryPoint
from xmlpunct.engine.view.view import View

SVG = "{http://www.w3.org/2000/svg}"


def moment() -> Moment:
    with view_of_a_run() as (view, _):
        return view.latest


def samples(snapshot: Moment) -> dict[str, dict[str, float]]:
    """The samples of all metrics: name -> label values -> value."""
    values: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(metrics(snapshot).decode()):
        assert family.documentation
        assert family.type != "unknown"
        for sample in family.samples:
            values.setdefault(sample.name, {})["/".join(sample.labels.values())] = sample.value
    return values


def test_a_run_that_has_not_begun() -> None:
    query = plan("CREATE STREAM s (x INT) WITH (source = 'nowhere.xml'); SELECT DISTINCT x FROM s")
    snapshot = View(query, "spark").latest
    assert (snapshot.state, snapshot.engine, snapshot.inputs, snapshot.state_rows) == (
        "starting",
        "spark",
        (),
        0,
    )
    assert [(b.name, b.inputs, b.stream) for b in snapshot.boxes] == [
        ("scan", (), "s"),
        ("dupelim", (1,), None),
    ]
    assert draw(snapshot)
    assert frame(snapshot)
    assert samples(snapshot)["xmlpunct_up"] == {"spark": 1}


def test_a_moment_has_the_counts_and_waits_of_each_operator() -> None:
    snapshot = moment()
    by_name = {box.name: box for box in snapshot.boxes if box.name != "scan"}
    union = by_name["union"]
    assert (union.tuples_in, union.tuples_out, union.state_rows, union.waits) == (2, 2, 2, (0, 2))
    group_by = by_name["group-by"]
    assert (group_by.state_rows, group_by.tuples_out, group_by.waits) == (1, 0, (1,))
    a, b = snapshot.inputs
    assert (a.name, a.tuples, a.punctuations, a.ended) == ("a", 2, 1, False)
    assert a.punctuation_age is not None
    assert 0 <= a.punctuation_age < 60
    assert (b.tuples, b.punctuation_age, b.behind) == (0, None, 99 * 29 + 7)


def test_prometheus_metrics() -> None:
    values = samples(moment())
    assert all(name.startswith("xmlpunct_") for name in values)
    assert values["xmlpunct_input_tuples_total"] == {"a": 2, "b": 0}
    assert values["xmlpunct_input_punctuations_total"] == {"a": 1, "b": 0}
    assert values["xmlpunct_input_lag_bytes"]["b"] == 99 * 29 + 7
    assert set(values["xmlpunct_input_punctuation_age_seconds"]) == {"a"}
    assert values["xmlpunct_input_silent_seconds"] == {"b": 2.5}
    assert values["xmlpunct_operator_state_rows"]["3/union"] == 2
    assert values["xmlpunct_operator_waits"]["3/union/1"] == 2


def test_the_picture_marks_waiting_edges() -> None:
    snapshot = moment()
    picture = etree.fromstring(draw(snapshot))
    boxes = {g.get("id"): g for g in picture.iter(f"{SVG}g") if g.get("class") == "box"}
    assert set(boxes) == {f"box-{box.id}" for box in snapshot.boxes if box.name != "project"}
    assert len(boxes) < len(snapshot.boxes)
    edges = [g for g in picture.iter(f"{SVG}g") if g.get("class", "").startswith("edge")]
    assert len(edges) == sum(len(box.inputs) for box in snapshot.boxes if box.name != "project")
    assert [g.get("class") for g in edges].count(f"edge {WAITS}") == 2
    waits = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == f"label {WAITS}"]
    assert waits == ["2 wait", "1 wait"]
    union = next(box for box in snapshot.boxes if box.name == "union")
    assert [does(snapshot, union, port) for port in (0, 1)] == [STILL, WAITS]
    flowing = tuple(replace(box, rate=1.0) for box in snapshot.boxes)
    assert does(replace(snapshot, boxes=flowing), union, 0) == FLOWS


@pytest.mark.parametrize(
    "sql",
    [
        """SELECT a.x, COUNT(*) AS n FROM s a JOIN s b ON a.x = b.x JOIN (SELECT DISTINCT x FROM s) c ON a.x = c.x
        GROUP BY a.x EXCEPT SELECT x, y FROM s""",
        """CREATE SINK a WITH (output = 'a') AS SELECT x, COUNT(*) AS n FROM s GROUP BY x;
        CREATE SINK b WITH (output = 'b') AS SELECT x, MAX(x) AS m FROM s GROUP BY x;
        CREATE SINK c WITH (output = 'c') AS SELECT y FROM s; SELECT DISTINCT x FROM s""",
    ],
    ids=["a tree", "several answers"],
)
def test_boxes_do_not_overlap(sql: str) -> None:
    boxes = plan_of(plan(f"CREATE STREAM s (x INT, y INT) WITH (source = 's.xml'); {sql}")).boxes
    corners = box_corners(boxes)
    assert len({(p.x, p.y) for p in corners.values()}) == len(boxes)
    assert all(corners[below].x < corners[box.id].x for box in boxes for below in box.inputs)


STREAMS = [
    f"CREATE STREAM s{i} (x INT, t INT) WITH (source = 's{i}.xml') PUNCTUATE ORDER BY t;" for i in range(30)
]
MANY = (
    "\n".join(STREAMS)
    + f"""
SELECT a.t, COUNT(*) AS n FROM ({" UNION ALL ".join(f"SELECT x, t FROM s{i} WHERE x < 9" for i in range(29))}) a
JOIN s29 AS b ON a.t = b.t GROUP BY a.t"""
)


def test_a_plan_with_30_inputs_is_readable() -> None:
    """Each input is one line with its stream's name; its projections and filters are in the title."""
    moment = View(plan(MANY), "local").latest
    folded, picture = fold_plan(moment.boxes), etree.fromstring(draw(moment))
    assert [box.name for box in folded.boxes if box.inputs] == ["merge", "join", "group-by"]
    folded_numbers = [member.id for members in folded.members.values() for member in members]
    assert sorted([*(box.id for box in folded.boxes), *folded_numbers]) == sorted(
        box.id for box in moment.boxes
    )
    corners = sorted(box_corners(folded.boxes, folded.has_many_scans).values(), key=lambda c: (c.x, c.y))
    for above, below in pairwise(corners):
        assert below.x > above.x or below.y >= above.y + above.height + 8
    assert float(picture.get("height", "")) < 1200
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    assert {"#1 s0", "s29 AS b"} <= {names[0], *(name.partition(" ")[2] for name in names if name)}
    assert all(title.text for title in picture.iter(f"{SVG}title"))
    assert "punctuate by s0.t" in draw(moment)


def test_punctuations_of_an_access_order_are_counted(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text("<s>" + "".join(f"<t><t>{t}</t></t>" for t in range(5)) + "</s>")
    query = plan(
        f"""CREATE STREAM s (t INT) WITH (source = '{tmp_path}/s.xml', element = 't') PUNCTUATE ORDER BY t;
        SELECT t, COUNT(*) AS n FROM s GROUP BY t"""
    )
    stats, view = RunStats("local", watched=True), View(query, "local")
    local.run(query, RunOptions(output=str(tmp_path / "out.xml")), stats)
    view.finish(stats, "ended")
    (read,) = view.latest.inputs
    assert (read.punctuations, read.punctuations_made) == (0, 1)
    assert read.punctuation_age is not None
    assert samples(view.latest)["xmlpunct_input_punctuations_made_total"] == {"s": 1}


def test_rates_over_time() -> None:
    points = [HistoryPoint(0, 0, 0, 0), HistoryPoint(1, 100, 0, 7), HistoryPoint(3, 110, 3, 2)]
    picture = etree.fromstring(draw_history(points))
    texts = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") is None]
    assert texts == [
        "tuples read: 5/s, at most 100/s",
        "results: 1.5/s, at most 1.5/s",
        "retained tuples: 2, at most 7",
    ]


def test_each_answer_is_shown(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text("<s>" + "<t><x>1</x><y>2</y></t>" * 3 + "</s>")
    query = plan(
        f"""CREATE STREAM t (x INT, y INT) WITH (source = '{tmp_path}/s.xml');
        CREATE SINK most WITH (output = '{tmp_path}/most.xml') AS SELECT y, MAX(x) AS m FROM t GROUP BY y;
        SELECT y, COUNT(*) AS n, MAX(x) AS z FROM t GROUP BY y"""
    )
    stats, view = RunStats("local", watched=True), View(query, "local")
    local.run(query, RunOptions(output=str(tmp_path / "out.xml")), stats)
    view.finish(stats, "ended")
    snapshot = view.latest
    assert [(o.name, o.tuples, o.complete) for o in snapshot.outputs] == [
        ("most", 1, True),
        ("SELECT", 1, True),
    ]
    assert {box.sinks for box in snapshot.boxes} >= {("most",), ("most", "SELECT")}
    assert "for most, SELECT" in draw(snapshot)
    metric_text = metrics(snapshot).decode()
    assert 'xmlpunct_sink_tuples_total{sink="most"} 1.0' in metric_text
    on_terminal = shown(snapshot)
    assert "most (complete)" in on_terminal
    assert "as above" in on_terminal


def test_the_picture_escapes_the_text_of_a_query() -> None:
    query = plan("CREATE STREAM s (x STRING) WITH (source = 's.xml'); SELECT x FROM s WHERE x = '<b>&'")
    picture = draw(View(query, "local").latest)
    assert "<b>" not in picture
    etree.fromstring(picture)


def shown(snapshot: Moment, terminal: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=terminal, color_system=None).print(frame(snapshot))
    return out.getvalue()


def test_the_frame_on_a_terminal() -> None:
    text = shown(moment())
    assert re.search(r"#3 union +2 +2 +\d+ +2 +\d+ +#2: 2", text)
    assert "2 tuples wait for b, silent for 2 s" in text
    assert "group-by hour: MAX(x)" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_watching(terminal: bool) -> None:
    """A terminal shows every moment; another output only the last one."""
    out = io.StringIO()
    with view_of_a_run() as (view, stats):
        console = Console(file=out, width=100, force_terminal=terminal, color_system=None)
        with Watch(view, console) as watch:
            watch.show(stats)
            view.finish(stats, "ended")
        assert ("running on the local" in out.getvalue()) == terminal
        assert "ended on the local" in out.getvalue()


def test_moments_are_taken_at_intervals() -> None:
    with view_of_a_run() as (view, stats):
        before = view.after(-1, 0)
        assert not view.show(stats)
        assert view.after(-1, 0) == before
        view.finish(RunStats("local"), "stopped")
        assert view.latest.state == "stopped"
