"""Values of ``${NAME}`` and typed passwords appear in no output: the tests search for their bytes."""

from __future__ import annotations

import base64
import json
import re
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.cli.harness import Cli
from tests.connectors.test_messages import QUERY, elements
from tests.firehose.test_web import Site, serving
from tests.reliability.support import ends_well, launch, wait_for_results
from xmlpunct.base import secrets
from xmlpunct.base.errors import SourceError, SqlError, UsageError, XmlPunctError
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.contract import expand, open_source
from xmlpunct.connectors.retries import Retries
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.run.checkpoint.checkpoint import Checkpoint
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.sql import plan

SECRET = "hush/42 & über?="
FORMS = [SECRET.encode(), quote(SECRET, safe="").encode(), quote(SECRET).encode()]
DOCUMENT = b"<stream>" + b"".join(elements()) + b"</stream>"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_SECRET", SECRET)
    monkeypatch.delenv("FEED_UNSET", raising=False)


def leaks(folder: Path, *texts: str) -> list[str]:
    """The files and texts that contain the secret."""
    contents = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    contents |= {text: text.encode() for text in texts}
    assert contents
    return [name for name, data in contents.items() if any(form in data for form in FORMS)]


def test_a_secret_is_expanded_in_urls_only() -> None:
    assert expand("https://h/?t=${FEED_SECRET}") == f"https://h/?t={quote(SECRET, safe='')}"
    for path in ("feeds/${FEED_SECRET}.xml", "file:///${FEED_SECRET}", "-", "follow:${FEED_SECRET}"):
        assert expand(path) == path
    assert str(XmlPunctError(f"{SECRET} and {quote(SECRET, safe='')}")) == "${FEED_SECRET} and ${FEED_SECRET}"
    error = SourceError(f"https://{SECRET}", f"no {SECRET}")
    assert (error.source, error.reason) == ("https://${FEED_SECRET}", "no ${FEED_SECRET}")


def test_fsspec_gets_secrets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_WORD", "hush & über")
    assert expand("sftp://me:${FEED_WORD}@h/x") == "sftp://me:hush & über@h/x"
    with pytest.raises(UsageError, match=r"the value of \$\{FEED_SECRET\} has a character that divides URLs"):
        expand("sftp://me:${FEED_SECRET}@h/x")


def test_a_short_secret_is_hidden_where_it_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_PIN", "7913")
    expand("tcp://h:1/${FEED_PIN}")
    assert hide("pin 7913, byte 79130") == "pin ${FEED_PIN}, byte 79130"


def test_an_unset_variable_is_an_error(cli: Cli) -> None:
    message = r"https://h/\$\{FEED_UNSET\}: \$\{FEED_UNSET\} is not set in the environment"
    with pytest.raises(UsageError, match=message):
        open_source("https://h/${FEED_UNSET}")
    url = "tcp://${FEED_UNSET}:1"
    explain_result = cli("explain", "-q", QUERY.replace("unset", url))
    assert explain_result.code == 0, "explain opens no source"
    for addresses in (
        ["-s", f"sensor1={url}"],
        ["-s", "sensor1=samples/sensor1.xml", "-o", "kafka://h/${FEED_UNSET}"],
    ):
        result = cli("run", "--engine", "local", "-q", QUERY, *addresses)
        assert result.code == 2
        assert "${FEED_UNSET} is not set in the environment" in result.err


@contextmanager
def live() -> Iterator[tuple[str, threading.Event]]:
    """A web server that sends half a document, and the second half once the event is set."""
    may_continue = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(DOCUMENT[:100_000])
            self.wfile.flush()
            may_continue.wait(60)
            self.wfile.write(DOCUMENT[100_000:])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", may_continue
        finally:
            may_continue.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("token", ["${FEED_SECRET}", quote(SECRET, safe="")], ids=["variable", "typed"])
def test_a_run_does_not_reveal_it(tmp_path: Path, token: str) -> None:
    """Checkpoint, statistics, rejects, output, live view and `why` do not contain the secret."""
    with live() as (site, may_continue):
        url = f"{site}feed?token={token}"
        state = str(tmp_path / "state")
        options = [
            "--engine",
            "local",
            "--checkpoint",
            state,
            "-o",
            str(tmp_path / "out.xml"),
            "--slice",
            "4KiB",
        ]
        files = [
            "--stats",
            str(tmp_path / "stats"),
            "--rejects",
            str(tmp_path / "rejects"),
            "--http",
            "127.0.0.1:0",
        ]
        run = launch("run", "-q", QUERY, "-s", f"sensor1={url}", *options, *files)
        assert run.stderr is not None
        page = ""
        texts = []
        while "http://127" not in page:
            page = run.stderr.readline().decode()
            texts.append(page)
        page = "http://127" + page.partition("http://127")[2].split()[0]
        for path in ("", "state", "metrics"):
            with urllib.request.urlopen(page.rstrip("/") + "/" + path) as answer:
                texts.append(answer.read().decode())
        why_process = launch("why", state)
        _, why_output = why_process.communicate(timeout=60)
        may_continue.set()
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr.decode()
    assert (tmp_path / "out.xml").read_bytes().count(b"<result>") > 10
    assert leaks(tmp_path, *texts, why_output.decode(), stderr.decode()) == []
    job = (tmp_path / "state" / "log").read_bytes()
    assert (b"${FEED_SECRET}" if token.startswith("$") else b"?token=***") in job


def test_errors_do_not_reveal_it(tmp_path: Path, cli: Cli) -> None:
    """The secret can be in any part of a URL; the server, the address, fsspec or librdkafka can be wrong."""
    urls = [
        "tcp://${FEED_SECRET}:1",
        "tls://127.0.0.1:1?ca=${FEED_SECRET}",
        "tcp-listen://:0?connections=${FEED_SECRET}",
    ]
    urls += [
        "https://${FEED_SECRET}",
        "klingon://${FEED_SECRET}",
        "kafka://h/${FEED_SECRET}/x",
        "kafka://h/t?until=${FEED_SECRET}",
        "mqtt://h/t?session.expiry=${FEED_SECRET}",
        "mqtt://me:${FEED_SECRET}@127.0.0.1:1/t",
        "nats://h/S?until=${FEED_SECRET}",
        "nats://me:${FEED_SECRET}@127.0.0.1:1/S",
    ]
    with serving(Site(says=[404, 404])) as site:
        urls += [f"{site}?token=${{FEED_SECRET}}", site.replace("//", "//me:${FEED_SECRET}@")]
        for url in urls:
            state = tmp_path / str(urls.index(url))
            options = ["--checkpoint", str(state), "--stats", str(tmp_path / "stats")]
            result = cli("run", "--engine", "local", "-q", QUERY, "-s", f"sensor1={url}", *options)
            assert result.code in (1, 2), url
            assert "internal error" not in result.err
            assert leaks(tmp_path, result.err, result.out) == []


def test_librdkafka_does_not_reveal_it(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'xmlpunct[kafka]' for Kafka's tests")
    for setting in ("debug", "no.such", "ssl.ca.location", "security.protocol"):
        url = f"kafka://127.0.0.1:1/t?partitions=0&{setting}=${{FEED_SECRET}}"
        for addresses in (
            ["-s", f"sensor1={url}"],
            ["-s", "sensor1=samples/sensor1.xml", "-o", url.replace("partitions=0&", "")],
        ):
            result = cli(
                "run", "--engine", "local", "-q", QUERY, *addresses, "--checkpoint", str(tmp_path / "state")
            )
            assert result.code in (1, 2), result.err
            assert "internal error" not in result.err
            assert leaks(tmp_path, result.err, result.out) == []


def test_the_job_for_spark_does_not_reveal_it(tmp_path: Path) -> None:
    """The job is an option of Spark's source, which Spark's web pages show, and it contains the inputs."""
    with serving(Site(data=DOCUMENT)) as site:
        query = plan(QUERY, {"sensor1": f"{site}?token=${{FEED_SECRET}}"})
        with Checkpoint(tmp_path, query, RunOptions()) as checkpoint:
            state = checkpoint.find()
            checkpoint.settle(state, 2)
            for spool in state.spools:
                spool.run()
    fragments = cut_plan(query.root, [s.name for s in query.streams], query.rules)
    text = Job(query, fragments, tuple(state.inputs), 2, None, "urn:p").to_text()
    decoded = base64.b64decode(text)
    assert b"${FEED_SECRET}" in decoded
    assert leaks(tmp_path, decoded.decode("latin-1"), json.dumps(repr(state.inputs))) == []


TYPED = ["hush42word", "hu/sh42", "hu@sh42", "hu#sh?42", "hu:sh%2F42", "hu sh42", "h4"]
"""Passwords; some of them make their URL malformed."""


@pytest.mark.parametrize("typed", TYPED)
def test_a_typed_password_is_in_no_message(
    typed: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An earlier test's password must not mask this one.
    monkeypatch.setattr("xmlpunct.base.secrets._replacements", {})
    for module in ("http", "http_post"):
        monkeypatch.setattr(f"xmlpunct.connectors.{module}.PAUSES", ())
    monkeypatch.setattr(Retries.__init__, "__defaults__", ((),))
    urls = [f"{scheme}://me:{typed}@127.0.0.1:{port}/t" for port in ("1", "x") for scheme in SCHEMES]
    urls += [f"https://127.0.0.1:x/t?access_token={typed}", f"http://127.0.0.1:1/t?key={typed}"]
    urls += [f"kafka://127.0.0.1:1/t?partitions=0&sasl.password={typed}&no.such=1", f"sftp://me:{typed}@[/x"]
    forms = {typed.encode(), quote(typed).encode(), quote(typed, safe="").encode(), unquote(typed).encode()}
    # Two letters alone occur in checksums, which are random: only a whole value counts.
    leaked = re.compile(rb"""(?:^|[:=/"' ])(?:%s)(?:[@&/"'\s]|$)""" % b"|".join(map(re.escape, forms)))
    for url in urls:
        for addresses in (
            ["-s", f"sensor1={url}"],
            ["-s", "sensor1=samples/sensor1.xml", "-o", url],
            ["-s", url],
        ):
            options = ["--checkpoint", str(tmp_path / "state"), "--stats", str(tmp_path / "stats")]
            result = cli("run", "--engine", "local", "-q", QUERY, *addresses, *options)
            assert result.code in (1, 2), (url, result.err)
            assert "internal error" not in result.err, result.err
            stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
            leaking = [data for data in (result.err.encode(), *stored) if leaked.search(data)]
            assert leaking == [], url
            shutil.rmtree(tmp_path / "state", ignore_errors=True)


SCHEMES = ("http", "https", "http-listen", "mqtt", "nats", "kafka", "tcp", "postgresql", "sftp", "klingon")


def test_typed_passwords_in_sql_and_calls(cli: Cli) -> None:
    query = QUERY.replace("unset", "https://me:hush42word@[/x")
    for call in (
        ["run", "--engine", "local", "-q", query],
        ["parse", "https://me:hush42word@h:x/", "--element", "t"],
    ):
        result = cli(*call)
        assert result.code == 2, result.err
        assert "hush42word" not in result.err + result.out
    with pytest.raises(UsageError, match=r"https://me:\*\*\*@h:x/ is no address"):
        open_source("https://me:hush42word@h:x/")
    assert str(SqlError("no", "SELECT 'http://me:hush42word@h/'", 0, 6)).count("***") == 1
    assert "hush" not in str(XmlPunctError("connection to hush42word failed")), (
        "wherever a library repeats it"
    )


def test_words_other_than_passwords_are_shown() -> None:
    for text in (
        "sqlite:///x.db?table=t&key=a,b: key=a is no column",
        "http://host:80/a@b, and a@b://",
        "kafka://h:1/t?sasl.username=me&auto.offset.reset=earliest",
        "https://h/x?author=me&day=2&design=3",
        "mqtt://me:${FEED_SECRET}@h/t?password=${FEED_SECRET}",
        "postgresql://localhost/postgres",
    ):
        assert hide(text) == text
    secrets.note_passwords("postgresql://postgres:postgres@localhost/postgres")
    assert hide("database postgres is down") == "database postgres is down", "the same word is a name"


def test_a_run_continues_with_a_typed_password(tmp_path: Path) -> None:
    """The checkpoint does not contain the password; another password works, too."""
    out, state = tmp_path / "out.xml", tmp_path / "state"
    with live() as (site, may_continue):
        for token in ("hush42word", "another42"):
            url = f"{site}?token={token}"
            options = ["-o", str(out), "--checkpoint", str(state), "--slice", "4KiB"]
            run = launch("run", "--engine", "local", "-q", QUERY, "-s", f"sensor1={url}", *options)
            if token == "hush42word":
                wait_for_results(out, run)
                run.kill()
                run.communicate()
                may_continue.set()
            else:
                ends_well(run)
    assert out.read_bytes().endswith(b"</stream>\n")
    assert all(b"hush42word" not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_the_job_for_spark_has_no_typed_password(tmp_path: Path) -> None:
    """Constants of the query stay."""
    url = "http://me:hush42word@127.0.0.1:1/x"
    query_text = QUERY.replace("SELECT", "SELECT 'http://a:constant@b/' AS c,", 1)
    query = plan(query_text, {"sensor1": url})
    inputs = (Input(url, (0,), ()),)
    fragments = cut_plan(query.root, [s.name for s in query.streams], query.rules)
    text = Job(query, fragments, inputs, 2, None, "urn:p").to_text()
    decoded = base64.b64decode(text)
    assert b"hush42word" not in decoded
    job = Job.from_text(text)
    assert job.query.streams[0].source == job.inputs[0].source == "http://me:***@127.0.0.1:1/x"
    assert b"http://a:constant@b/" in decoded
