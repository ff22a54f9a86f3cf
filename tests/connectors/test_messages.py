"""A connector of another package: the example of docs/connectors.md, installed, run and killed."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, Cli
from tests.reliability.support import LONG, MOST_SECONDS
from tests.threads import TURNS
from xmlpunct import parse
from xmlpunct.base.errors import UsageError
from xmlpunct.connectors import Connector, Form
from xmlpunct.connectors.contract import connector_of
from xmlpunct.firehose import generators, writer_for
from xmlpunct.schema import Schema

PAGE = (SAMPLES.parent / "docs" / "connectors.md").read_text()
HOURS = 40
LOCAL = ["--engine", "local", "--slice", "2KiB"]
QUERY = """CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'unset', element = 'tempdata');
SELECT hour, COUNT(*) AS n, MAX(currtmp) AS top FROM sensor1 GROUP BY hour"""


def block(language: str, section: str = "") -> str:
    """The first block of code in a section of the page."""
    part = PAGE.partition(f"\n## {section}\n")[2] if section else PAGE
    code_block, *_ = re.findall(rf"^```{language}\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return str(code_block)


def shown_arguments(section: str, **replacements: str) -> list[str]:
    """The arguments of a section's first command; ``replacements`` replace addresses in it."""
    lines = block("sh", section).replace("\\\n", " ")
    for name, replacement in replacements.items():
        assert name in lines
        lines = lines.replace(name, replacement)
    command, *arguments = shlex.split(lines)
    assert command == "xmlpunct"
    return arguments


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the example's package, as installed by pip."""
    folder = tmp_path / "site"
    information = folder / "messages-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "messages.py").write_text(block("python"))
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: messages\nVersion: 1.0\n")
    points = tomllib.loads(block("toml"))["project"]["entry-points"]
    sections = [
        f"[{group}]\n{name} = {target}\n" for group, names in points.items() for name, target in names.items()
    ]
    (information / "entry_points.txt").write_text("".join(sections))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    yield folder
    sys.modules.pop("messages", None)


def fill(file: Path, lines: list[bytes]) -> None:
    """Create topic ``in`` with these elements and the end marker."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, topic, text BLOB, run, number)")
        rows = [("in", line) for line in [*lines, b""]]
        database.executemany("INSERT INTO message (topic, text) VALUES (?, ?)", rows)


def messages_of(file: Path) -> list[bytes]:
    """The messages of topic ``out``."""
    with closing(sqlite3.connect(file)) as database:
        order = "SELECT text FROM message WHERE topic = 'out' ORDER BY id"
        return [text for (text,) in database.execute(order)]


def elements(seed: int = 0) -> list[bytes]:
    """The tuples and punctuations of a stream, one for each message."""
    lines = generators.warehouse(sensors=1, hours=HOURS, readings=4, punctuations=4, seed=seed)
    declared = b'<punct:tempdata xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"'
    texts = [line.strip().encode() for _, line in lines]
    return [e.replace(b"<punct:tempdata", declared, 1) for e in texts if e[:2] != b"</" and b"data>" in e]


def test_an_entry_point_is_found_by_its_scheme(installed: Path, tmp_path: Path, cli: Cli) -> None:
    connector = connector_of("messages:///x?topic=a")
    assert isinstance(connector, Connector)
    assert type(connector).__name__ == "Messages"
    file = tmp_path / "feed.db"
    messages = elements()
    fill(file, messages)
    url = f"messages://{file}?topic="
    result = cli("run", "--engine", "local", "-q", QUERY, "-s", f"sensor1={url}in", "-o", f"{url}out")
    assert result.code == 0, result.err
    document = b"<stream>" + b"".join(messages_of(file)) + b"</stream>"
    results = [*parse(document, Schema.parse("hour INT, n INT, top INT"), element="result")]
    assert len([r for r in results if isinstance(r, tuple)]) == HOURS


@pytest.mark.parametrize(
    ("url", "module", "message"),
    [
        ("kafka://h/t", "confluent_kafka", "kafka:// needs confluent-kafka: pip install 'xmlpunct[kafka]'"),
        ("mqtt://h/t", "paho.mqtt.client", "mqtt:// needs paho-mqtt: pip install 'xmlpunct[mqtt]'"),
        ("nats://h/S?subject=s", "nats", "nats:// needs nats-py: pip install 'xmlpunct[nats]'"),
        ("duckdb:///x?table=t", "duckdb", "duckdb:// needs DuckDB's driver: pip install 'xmlpunct[duckdb]'"),
        (
            "postgresql://h/x?table=t",
            "adbc_driver_postgresql.dbapi",
            "postgresql:// needs ADBC's driver: pip install 'xmlpunct[postgresql]'",
        ),
    ],
)
def test_missing_libraries(url: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    schema = Schema.parse("a INT")
    outlet = connector_of(url).outlet(url, url)
    with closing(outlet), pytest.raises(UsageError, match=re.escape(message)):
        outlet.open(Form("r1", schema, writer_for("xml", schema)), None)


def test_urls_without_a_connector_are_errors(cli: Cli) -> None:
    result = cli(
        "run", "--engine", "local", "-q", QUERY, "-s", "sensor1=samples/sensor1.xml", "-o", "klingon://x"
    )
    assert result.code == 2
    assert "klingon:// is not an output" in result.err
    result = cli("run", "-q", QUERY, "-s", "sensor1=tcp://h:1", "-o", "tcp://h:1")
    assert result.code == 2
    assert "is read as" in result.err


def test_killed_at_random(installed: Path, tmp_path: Path) -> None:
    """Each result is written once although the run is killed; the source continues from its position."""
    chance, kills, seed = random.Random(1), 0, 0
    while kills < (30 if LONG else 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        file, expected = folder / "feed.db", folder / "expected.db"
        for path in (file, expected):
            fill(path, elements(seed))
        assert run(expected, folder / "none").wait(60) == 0
        for _ in range(6):
            process = run(file, folder / "checkpoint")
            time.sleep(chance.uniform(0.4, 1.2))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        assert run(file, folder / "checkpoint").wait(60) == 0
        assert sorted(messages_of(file)) == sorted(messages_of(expected))
        seed += 1


@pytest.mark.spark
def test_it_works_on_spark(installed: Path, tmp_path: Path) -> None:
    """Spark's worker processes find the connector, too: they have the same path."""
    file, expected = tmp_path / "feed.db", tmp_path / "expected.db"
    for path in (file, expected):
        fill(path, elements())
    assert run(expected, tmp_path / "none").wait(MOST_SECONDS) == 0
    assert (
        run(file, tmp_path / "checkpoint", "--master", "local[2]", "--slice", "96KiB").wait(MOST_SECONDS) == 0
    )
    assert sorted(messages_of(file)) == sorted(messages_of(expected))


def run(file: Path, checkpoint: Path, *engine: str) -> subprocess.Popen[bytes]:
    url = f"messages://{file}?topic="
    command = ["run", *(engine or LOCAL), "-q", QUERY, "--checkpoint", str(checkpoint)]
    arguments = ["-s", f"sensor1={url}in", "-o", f"{url}out"]
    options = TURNS.options(command)
    return subprocess.Popen([sys.executable, "-m", "xmlpunct", *command, *arguments, *options])
