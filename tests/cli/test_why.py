"""``xmlpunct why``: what the results of a run wait for, from its checkpoint."""

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
    """A feed with a tuple for each hour, which it closes or not; it is cut unless it says its ``end``."""
    parts = [f'<s xmlns:punct="{NAMESPACE}">']
    for hour, closed in hours.items():
        parts.append(f"<tempdata><sid>S1</sid><hour>{hour}</hour><temp>{hour + 50}</temp></tempdata>")
        if closed:
            parts.append(f"<punct:tempdata><hour>{hour}</hour></punct:tempdata>")
    path.write_text("\n".join(parts) + end)


@pytest.fixture
def stopped(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A run of which sensor2 has not closed hour 17, and no one hour 18; both were cut."""
    monkeypatch.chdir(tmp_path)
    sensor(tmp_path / "sensor1.xml", {16: True, 17: True, 18: False})
    sensor(tmp_path / "sensor2.xml", {16: True, 17: False})
    ran = cli("run", "-q", QUERY, "--engine", "local", "--checkpoint", "cp", "-o", "out.xml")
    assert ran.code == 1
    return cli


def test_who_has_not_closed_the_hour(stopped: Cli) -> None:
    ran = stopped("why", "hour=17", "--checkpoint", "cp")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"waits for sensor2: <\*, 17, \*>, since \d+ s \(group-by #\d+\)\n", ran.out)
    ran = stopped("why", "hour=18", "--checkpoint", "cp")
    assert [line.partition(", since")[0] for line in ran.out.splitlines()] == [
        "waits for sensor1: <*, 18, *>",
        "waits for sensor2: <*, 18, *>",
    ]


def test_what_is_out_waits_for_nothing(stopped: Cli) -> None:
    for hour in (16, 3):
        ran = stopped("why", f"hour={hour}", "--checkpoint", "cp")
        assert (ran.code, ran.out, ran.err) == (1, "", "")


def test_without_a_pattern_all_that_is_held(stopped: Cli) -> None:
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


def test_from_anywhere_and_with_rejects(
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
    ("arguments", "said"),
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
def test_wrong_calls(stopped: Cli, arguments: tuple[str, ...], said: str) -> None:
    ran = stopped("why", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_nobody_answers(cli: Cli) -> None:
    ran = cli("why", "hour=17", "--http", "http://127.0.0.1:9")
    assert ran.code == 2
    assert "no answer" in ran.err


class Answering(BaseHTTPRequestHandler):
    """A live view, as far as `why` and `say` know it."""

    waits: ClassVar[list[dict[str, object]]] = []
    heard: ClassVar[list[object]] = []

    def do_GET(self) -> None:
        self.heard.append(self.path)
        code = 400 if "hur" in self.path else 200
        self.answer(code, json.dumps(self.waits) if code == 200 else "the result has no column hur")

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.append((self.path, given))
        self.answer(200 if given["input"] == "sensor2" else 400, "the query reads no such stream")

    def answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Answering, "waits", [])
    monkeypatch.setattr(Answering, "heard", [])
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
    assert Answering.heard == ["/why?hour=%5B17%2C18%5D", "/why?hour=17", "/why?hur=17"]


def test_something_is_said_to_a_live_view(cli: Cli, url: str) -> None:
    xml = "<punct:tempdata xmlns:punct='urn:p'><hour>17</hour></punct:tempdata>"
    for said in (["hour=17", "sid=S1"], [xml], ["<*, 17, *>"]):
        ran = cli("say", "sensor2", *said, "--http", url)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    given = [{"hour": "17", "sid": "S1"}, xml, "<*, 17, *>"]
    assert Answering.heard == [("/say", {"input": "sensor2", "punctuation": p}) for p in given]
    ran = cli("say", "sensor3", "hour=17", "--http", url)
    assert ran.code == 2
    assert "no such stream" in ran.err
