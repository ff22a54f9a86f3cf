"""``xmlpunct why``: the punctuations that pending results wait for, from a checkpoint or a live run."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.cli.harness import Cli
from xmlpunct import Punctuation, Schema, parse

QUERY = """
CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, temp INT) WITH (source = 'sensor1.xml', element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, temp INT) WITH (source = 'sensor2.xml', element = 'tempdata');
SELECT hour, MAX(temp) AS top FROM (SELECT hour, temp FROM sensor1 UNION SELECT hour, temp FROM sensor2) GROUP BY hour
"""
SCHEMA = Schema.parse("sid STRING, hour INT NOT NULL, temp INT")
NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"


def sensor(path: Path, hours: dict[int, bool], end: str = "") -> None:
    """Write a feed: a tuple for each hour, a punctuation if it is closed; without ``end`` it is cut short."""
    parts = [f'<s xmlns:punct="{NAMESPACE}">']
    for hour, closed in hours.items():
        parts.append(f"<tempdata><sid>S1</sid><hour>{hour}</hour><temp>{hour + 50}</temp></tempdata>")
        if closed:
            parts.append(f"<punct:tempdata><hour>{hour}</hour></punct:tempdata>")
    path.write_text("\n".join(parts) + end)


@pytest.fixture
def stopped(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A failed run: sensor2 has not closed hour 17, and neither input hour 18."""
    monkeypatch.chdir(tmp_path)
    sensor(tmp_path / "sensor1.xml", {16: True, 17: True, 18: False})
    sensor(tmp_path / "sensor2.xml", {16: True, 17: False})
    ran = cli("run", "-q", QUERY, "--engine", "local", "--checkpoint", "cp", "-o", "out.xml")
    assert ran.code == 1
    return cli


def test_the_input_that_has_not_closed_the_hour(stopped: Cli) -> None:
    ran = stopped("why", "hour=17", "--checkpoint", "cp")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"waits for sensor2: <\*, 17, \*>, since \d+ s \(group-by #\d+\)\n", ran.out)
    ran = stopped("why", "hour=18", "--checkpoint", "cp")
    assert [line.partition(", since")[0] for line in ran.out.splitlines()] == [
        "waits for sensor1: <*, 18, *>",
        "waits for sensor2: <*, 18, *>",
    ]


def test_an_emitted_result_waits_for_nothing(stopped: Cli) -> None:
    for hour in (16, 3):
        ran = stopped("why", f"hour={hour}", "--checkpoint", "cp")
        assert (ran.code, ran.out, ran.err) == (1, "", "")


def test_without_a_pattern_all_pending_results(stopped: Cli) -> None:
    ran = stopped("why", "--checkpoint", "cp")
    assert [line.partition(", since")[0] for line in ran.out.splitlines()] == [
        "waits for sensor1: <*, 18, *>",
        "waits for sensor2: <*, [17,18], *>",
    ]


def test_the_json_holds_xml_that_can_be_sent(stopped: Cli) -> None:
    ran = stopped("why", "hour=17", "--checkpoint", "cp", "--json")
    (wait,) = json.loads(ran.out)
    assert ran.code == 0
    assert wait.keys() == {"input", "operator", "since", "punctuation"}
    assert (wait["input"], wait["operator"].partition("#")[0]) == ("sensor2", "group-by ")
    assert wait["since"] >= 0
    assert wait["punctuation"] == (
        f'<punct:tempdata xmlns:punct="{NAMESPACE}"><sid>*</sid><hour>17</hour><temp>*</temp></punct:tempdata>'
    )
    document = f"<s>{wait['punctuation']}</s>".encode()
    assert list(parse(document, SCHEMA, element="tempdata")) == [Punctuation.of(SCHEMA, hour=17)]
    ran = stopped("why", "hour=16", "--checkpoint", "cp", "--json")
    assert (ran.code, json.loads(ran.out)) == (1, [])


def test_from_another_directory_and_with_rejects(
    cli: Cli, stopped: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", "-q", QUERY, "--engine", "local", "--checkpoint", "guarded", "-o", "again.xml")
    assert cli(*arguments, "--rejects", "rejects.jsonl").code == 1
    monkeypatch.chdir("/")
    for name in ("cp", "guarded"):
        ran = stopped("why", "hour=17", "--checkpoint", tmp_path / name)
        assert ran.code == 0
        assert "waits for sensor2: <*, 17, *>" in ran.out


def test_a_run_that_is_over_waits_for_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sensor1.xml", "sensor2.xml"):
        sensor(tmp_path / name, {17: False}, "</s>")
    assert cli("run", "-q", QUERY, "--engine", "local", "--checkpoint", "cp", "-o", "out.xml").code == 0
    ran = cli("why", "hour=17", "--checkpoint", "cp")
    assert (ran.code, ran.out) == (1, "")
    assert cli("why", "hur=17", "--checkpoint", "cp").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hur=17", "--checkpoint", "cp"), "no column hur: it has hour, top"),
        (("hour", "--checkpoint", "cp"), "COLUMN=PATTERN"),
        (("hour=17", "hour=18", "--checkpoint", "cp"), "given twice"),
        (("hour=x", "--checkpoint", "cp"), "hour"),
        (("hour=17", "--checkpoint", "sensor1.xml"), "sensor1.xml"),
        (("hour=17", "--checkpoint", "nowhere"), "is no checkpoint"),
        (("hour=17",), "--checkpoint DIR or --http URL"),
        (("hour=17", "--http", "localhost:80"), "http://HOST:PORT"),
    ],
)
def test_wrong_calls(stopped: Cli, arguments: tuple[str, ...], message: str) -> None:
    ran = stopped("why", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_no_server_answers(cli: Cli) -> None:
    ran = cli("why", "hour=17", "--http", "http://127.0.0.1:9")
    assert ran.code == 2
    assert "no answer" in ran.err


class Answering(BaseHTTPRequestHandler):
    """Stand-in for a live view: the requests that `why` and `say` send."""

    waits: ClassVar[list[dict[str, object]]] = []
    requests: ClassVar[list[object]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        code = 400 if "hur" in self.path else 200
        self.answer(code, json.dumps(self.waits) if code == 200 else "the result has no column hur")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, body))
        self.answer(200 if body["input"] == "sensor2" else 400, "the query reads no such stream")

    def answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Answering, "waits", [])
    monkeypatch.setattr(Answering, "requests", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_live_view_is_asked(stopped: Cli, url: str) -> None:
    ran = stopped("why", "hour=[17,18]", "--http", url)
    assert (ran.code, ran.out) == (1, "")
    Answering.waits.extend(json.loads(stopped("why", "hour=17", "--checkpoint", "cp", "--json").out))
    ran = stopped("why", "hour=17", "--http", url)
    assert ran.code == 0
    assert ran.out.startswith("waits for sensor2: <*, 17, *>, since ")
    ran = stopped("why", "hur=17", "--http", url)
    assert (ran.code, ran.out) == (2, "")
    assert "no column hur" in ran.err
    assert Answering.requests == ["/why?hour=%5B17%2C18%5D", "/why?hour=17", "/why?hur=17"]


def test_punctuations_are_sent_to_a_live_view(cli: Cli, url: str) -> None:
    xml = "<punct:tempdata xmlns:punct='urn:p'><hour>17</hour></punct:tempdata>"
    for arguments in (["hour=17", "sid=S1"], [xml], ["<*, 17, *>"]):
        ran = cli("say", "sensor2", *arguments, "--http", url)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    punctuations = [{"hour": "17", "sid": "S1"}, xml, "<*, 17, *>"]
    assert Answering.requests == [("/say", {"input": "sensor2", "punctuation": p}) for p in punctuations]
    ran = cli("say", "sensor3", "hour=17", "--http", url)
    assert ran.code == 2
    assert "no such stream" in ran.err
