"""The live view over HTTP, served by this process."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import pytest

from tests.view.running import SQL, taking, view_of_a_run
from xmlpunct.base.errors import UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.view.server import ViewServer, _partial_of, read_address
from xmlpunct.engine.view.talk import Talk
from xmlpunct.engine.view.view import View
from xmlpunct.firehose.writer import JsonlWriter
from xmlpunct.slice import Slice

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIETLY = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,860",
]

Served = tuple[View, RunStats, str]


@pytest.fixture
def served() -> Iterator[Served]:
    with view_of_a_run() as (view, stats):
        talk = Talk(plan(SQL, {"a": "a", "b": "b"}), stats, PUNCT_NAMESPACE)
        with ViewServer(view, ("127.0.0.1", 0), talk) as server:
            yield view, stats, server.url


def ask(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


def test_pages(served: Served) -> None:
    view, _, url = served
    status, kind, page = ask(url, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert b"new EventSource" in page
    assert json.loads(ask(url, "/state")[2])["inputs"][0]["name"] == view.latest.inputs[0].name
    assert ask(url, "/metrics")[1].startswith("text/plain; version=0.0.4")
    assert b'xmlpunct_input_tuples_total{input="a"} 2.0' in ask(url, "/metrics")[2]
    assert ask(url, "/nothing")[0] == 404
    assert ask(url, "/", "HEAD") == (200, kind, b"")
    assert ask(url, "/state", "POST", **{"Content-Type": "application/json"})[0] == 404


def test_health(served: Served) -> None:
    view, stats, url = served
    assert (ask(url, "/healthz")[0], json.loads(ask(url, "/healthz")[2])) == (200, {"state": "running"})
    view.finish(stats, "failed")
    assert ask(url, "/healthz")[0] == 503


def test_events(served: Served) -> None:
    view, stats, url = served
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        first = json.loads(answer.readline().removeprefix(b"data: "))
        assert (first["state"], first["waiting"]) == ("running", ["2 tuples wait for b, silent for 2 s"])
        assert first["picture"].startswith("<svg")
        view.finish(stats, "ended")
        remaining = answer.read().decode().strip()
        assert json.loads(remaining.removeprefix("data: "))["state"] == "ended"


def test_clients_receive_the_final_state() -> None:
    with view_of_a_run() as (view, stats):
        with ViewServer(view, ("127.0.0.1", 0)) as server:
            connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
            connection.request("GET", "/events")
            answer = connection.getresponse()
            answer.readline()
            view.finish(stats, "stopped")
        with closing(connection):
            assert b'"state": "stopped"' in answer.read()


JSON = {"Content-Type": "application/json"}


def test_why(served: Served) -> None:
    url = served[2]
    status, _, answer = ask(url, "/why?hour=1")
    (wait,) = json.loads(answer)
    assert (status, wait["input"], wait["operator"]) == (200, "b", "group-by #4")
    assert "<hour>1</hour>" in wait["punctuation"]
    assert json.loads(ask(url, "/why?hour=7")[2]) == []
    assert ask(url, "/why?day=7")[::2] == (400, b"the result has no column day: it has hour, top\n")


def test_say(served: Served) -> None:
    _, stats, url = served
    injections = InjectionQueue()
    talk = Talk(plan(SQL, {"a": "a", "b": "b"}), stats, PUNCT_NAMESPACE, injections)
    request = json.dumps({"input": "b", "punctuation": {"hour": "1"}})
    assert post(url, request)[0] == 403  # this view accepts no punctuations
    with ViewServer(served[0], ("127.0.0.1", 0), talk) as server, taking(injections) as punctuations:
        assert post(server.url, request)[0] == 200
        assert punctuations == [(1, ["1", "*"])]
        assert post(server.url, '{"input": "c", "punctuation": {}}')[2].startswith(
            b"the query reads no stream c"
        )
        assert post(server.url, "nonsense")[0] == 400
        assert post(server.url, "", **{"Content-Length": "-1"})[0] == 400
        assert post(server.url, request, Origin="http://evil.example")[0] == 403
        plain = post(server.url, request, **{"Content-Type": "text/plain"})
        assert plain[::2] == (415, b"send it with Content-Type: application/json\n")
        assert post(server.url, request, Origin=server.url.rstrip("/"))[0] == 200


def test_say_fails_if_its_punctuation_does_not_become_durable(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmlpunct.engine.view.talk.ANSWER_SECONDS", 0.2)
    injections = InjectionQueue()
    talk = Talk(plan(SQL, {"a": "a", "b": "b"}), served[1], PUNCT_NAMESPACE, injections)
    request = json.dumps({"input": "b", "punctuation": {"hour": "1"}})
    with ViewServer(served[0], ("127.0.0.1", 0), talk) as server:
        assert post(server.url, request)[::2] == (503, b"the run is busy, or over\n")
        assert injections.take() is None, "a refused punctuation is not taken"


def post(url: str, body: str, **headers: str) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request("POST", "/say", body, {**JSON, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


def test_a_partial_answer_comes_from_the_run(served: Served) -> None:
    view, stats, url = served
    answers: list[tuple[int, str, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(ask(url, "/partial")))
    asking.start()
    while asking.is_alive():
        view.show(stats)
    ((status, _, answer),) = answers
    assert status == 200
    assert json.loads(answer) == {
        "partial": True,
        "columns": ["hour", "top"],
        "tuples": 1,
        "shown": [{"hour": 1, "top": 5}],
    }


def test_values_are_those_of_jsonl() -> None:
    """NaN and infinity differ from null, and decimals keep all digits."""
    columns = "x DOUBLE, m DECIMAL(20,2), a ARRAY(v DOUBLE PATH 'w')"
    query = plan(f"CREATE STREAM s ({columns}) WITH (source = 's', element = 't'); SELECT * FROM s")
    schema = query.root.schema
    rows = [
        (float("nan"), "1.50", [1.5, None]),
        (float("-inf"), "123456789012345678.90", []),
        (None, None, None),
    ]
    frame = schema.frame([(x, None if m is None else Decimal(m), a) for x, m, a in rows])
    gauges = SimpleNamespace(partial=lambda: frame)
    answer = _partial_of(cast(RunStats, SimpleNamespace(gauges=gauges)), query)
    assert json.loads(answer)["shown"] == [
        json.loads(line) for line in JsonlWriter(schema).body(Slice(frame)).splitlines()
    ]
    assert json.loads(answer, parse_float=str)["shown"][1] == {
        "x": "-INF",
        "m": "123456789012345678.90",
        "a": [],
    }
    assert json.loads(
        _partial_of(cast(RunStats, SimpleNamespace(gauges=SimpleNamespace(partial=schema.empty))), query)
    ) == {"partial": True, "columns": ["x", "m", "a"], "tuples": 0, "shown": []}


def test_a_failed_request_does_not_stop_the_run(served: Served) -> None:
    view, stats, url = served
    stats.gauges = None
    answers: list[tuple[int, str, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(ask(url, "/partial")))
    asking.start()
    while asking.is_alive():
        view.show(stats)
    ((status, _, answer),) = answers
    assert (status, json.loads(answer)) == (409, {"error": "the run has not begun"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:80", "192.0.2.7:8080"])
def test_requests_to_this_host_are_accepted(served: Served, host: str) -> None:
    assert ask(served[2], "/healthz", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[::1"])
def test_other_host_names_are_refused(served: Served, host: str) -> None:
    assert ask(served[2], "/state", Host=host)[0] == 403


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1:", "1:x", "127.0.0.1:65536", ":-1"])
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="write HOST:PORT"):
        read_address(text)


def test_a_port_in_use(served: Served) -> None:
    port = urlsplit(served[2]).port
    assert port is not None
    with pytest.raises(UsageError, match="cannot listen there: Address already in use"):
        ViewServer(served[0], ("127.0.0.1", port))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_in_a_browser(served: Served, tmp_path: Path) -> None:
    """The page shows the events; with XMLPUNCT_PICTURES=1 its screenshot is copied to docs/."""
    assert CHROMIUM is not None
    view, stats, url = served
    call = [CHROMIUM, *QUIETLY, f"--user-data-dir={tmp_path}"]
    shot = tmp_path / "live-view.png"
    with_picture = os.environ.get("XMLPUNCT_PICTURES") == "1"
    for _ in range(4 * with_picture):  # the charts begin after a second
        time.sleep(1.1)
        view.show(stats)
    subprocess.run(
        [*call, "--timeout=2000", f"--screenshot={shot}", url], capture_output=True, timeout=60, check=True
    )
    assert shot.read_bytes().startswith(b"\x89PNG")
    if with_picture:
        shutil.copy(shot, Path(__file__).parents[2] / "docs" / "live-view.png")
    view.finish(stats, "ended")  # closes the page's open request: --dump-dom would wait for it
    dump = [*call, "--virtual-time-budget=2000", "--dump-dom", url]
    page = subprocess.run(dump, capture_output=True, text=True, timeout=60, check=True).stdout
    assert 'id="state" class="ended">ended<' in page
    assert 'class="edge waits"' in page
    assert "<li>2 tuples wait for b, silent for 2 s</li>" in page
    assert "<td>a</td><td>2</td>" in page
