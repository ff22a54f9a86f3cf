"""A run on Spark: its view, a punctuation from the command line, a kill and a restart."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from lxml import etree
from prometheus_client.parser import text_string_to_metric_families

from tests.checkpoints import committed
from tests.cli.screen import terminal_run
from tests.engine.test_live import BEGIN, closed, t
from tests.reliability.support import MOST_SECONDS, processes_below
from xmlpunct.engine.view.drawing import WAITS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]

XMLPUNCT = [sys.executable, "-m", "xmlpunct"]
SVG = "{http://www.w3.org/2000/svg}"
FOLLOWED = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (source = '{0}/a.xml', element = 't', follow = true);
              CREATE STREAM b (hour INT NOT NULL, x INT) WITH (source = '{0}/b.xml', element = 't', follow = true);
              SELECT hour, MAX(x) AS top FROM (SELECT hour, x FROM a UNION SELECT hour, x FROM b) GROUP BY hour"""

Run = subprocess.Popen[str]


@contextmanager
def running(folder: Path) -> Iterator[tuple[Run, str]]:
    """A run with a checkpoint in ``folder``, and the address of its view; it is killed at the end."""
    options = ["--master", "local[2]", "--checkpoint", str(folder / "cp"), "-o", str(folder / "out.jsonl")]
    options += ["--format", "jsonl", "--http", "127.0.0.1:0", "--allow-say"]
    command = [*XMLPUNCT, "run", "--sql", FOLLOWED.format(folder), *options]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    try:
        yield run, run.stderr.readline().split()[-1]
    finally:
        java = processes_below(run.pid, "SparkSubmit")
        run.kill()
        run.wait()
        run.stderr.close()
        wait_for(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in java))


def wait_for(condition: Callable[[], Any]) -> Any:
    """The first true value of ``condition``."""
    end = time.monotonic() + MOST_SECONDS
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value


def read(address: str) -> bytes:
    with urlopen(address) as answer:
        return bytes(answer.read())


def results(folder: Path) -> list[dict[str, int]]:
    """The tuples in the output so far."""
    out = folder / "out.jsonl"
    lines = map(json.loads, out.read_text().splitlines()) if out.exists() else ()
    return [line for line in lines if "$punct" not in line]


def picture_of(url: str) -> etree._Element:
    """The picture that the server sends to the page."""
    with urlopen(f"{url}events") as answer:
        return etree.fromstring(json.loads(answer.readline().removeprefix(b"data: "))["picture"])


def is_waiting(state: dict[str, Any]) -> bool:
    """True if a group-by retains groups at this moment."""
    return any(box["name"] == "group-by" and box["state_rows"] for box in state["boxes"])


def test_a_terminal_shows_what_a_run_does_before_its_first_rows(tmp_path: Path) -> None:
    output = tmp_path / "hottest.jsonl"
    shown = terminal_run("run", "samples/warehouse.sql", "--engine", "spark", "-o", str(output))
    steps = re.findall(r"starting Spark|planning(?! the query)|first rows: \d of \d tasks", shown)
    kinds = [re.sub(r"\d", "N", step) for step in steps]
    assert list(dict.fromkeys(kinds)) == ["starting Spark", "planning", "first rows: N of N tasks"]
    assert output.read_text().startswith('{"')


def test_a_punctuation_from_the_command_line_survives_a_kill(tmp_path: Path) -> None:
    """The view answers while inputs are open; the punctuation holds, also after the restart."""
    (tmp_path / "a.xml").write_text(BEGIN + t(1, 5) + closed(1))
    (tmp_path / "b.xml").write_text(BEGIN + t(1, 7))
    with running(tmp_path) as (run, url):
        assert json.loads(read(f"{url}healthz"))["state"] == "starting"
        wait_for(lambda: json.loads(read(f"{url}healthz"))["state"] == "running")
        (wait,) = wait_for(lambda: json.loads(read(f"{url}why?hour=1")))
        assert wait["input"] == "b"
        state = wait_for(lambda: (s := json.loads(read(f"{url}state"))) and is_waiting(s) and s)
        assert (state["state"], state["engine"]) == ("running", "spark")
        assert {i["name"]: (i["tuples"], i["punctuations"], i["ended"]) for i in state["inputs"]} == {
            "a": (1, 1, False),
            "b": (1, 0, False),
        }
        metrics = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(read(f"{url}metrics").decode())
            for sample in family.samples
        }
        assert metrics["xmlpunct_up", "spark"] == 1
        assert metrics["xmlpunct_input_tuples_total", "b"] == 1
        picture = picture_of(url)
        boxes = [g for g in picture.iter(f"{SVG}g") if g.get("class") == "box"]
        assert len(boxes) == len([box for box in state["boxes"] if box["name"] != "project"])
        assert any(g.get("class") == f"edge {WAITS}" for g in picture.iter(f"{SVG}g"))

        subprocess.run([*XMLPUNCT, "say", "b", wait["punctuation"], "--http", url], check=True)
        wait_for(lambda: results(tmp_path))
        assert run.poll() is None
    before = (tmp_path / "out.jsonl").read_bytes()[: committed(tmp_path / "cp" / "log").outputs[0].length]
    assert results(tmp_path) == [{"hour": 1, "top": 7}]

    for name, new_tuples in (("a", t(2, 9)), ("b", t(1, 999) + t(2, 3))):
        with (tmp_path / f"{name}.xml").open("a") as file:
            file.write(new_tuples + closed(2))
    with running(tmp_path):
        wait_for(lambda: len(results(tmp_path)) > 1)
    assert (tmp_path / "out.jsonl").read_bytes().startswith(before)
    assert results(tmp_path) == [{"hour": 1, "top": 7}, {"hour": 2, "top": 9}], "hour 1 remains closed"
