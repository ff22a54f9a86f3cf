"""A Spark session of our own: quiet, tidy, and set up for small fast micro-batches."""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.durable_files import private
from xmlpunct.engine.spark.java import YOUNG_MIB, heap_mib, java_home
from xmlpunct.engine.spark.scratch import Scratch
from xmlpunct.engine.spark.spark_home import spark_home

_STATE = "org.apache.spark.sql.execution.streaming.state"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_USUAL_STORE = f"{_STATE}.HDFSBackedStateStoreProvider"
STATE_STORE = {
    PROVIDER: f"{_STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Where transformWithState keeps state: Spark runs it with no other store."""
STREAMING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    **STATE_STORE,
    "spark.sql.streaming.minBatchesToRetain": "10",  # a restart needs one, and state may be large
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # state has it so: workers read and keep
}
"""What a session must be set to for our queries, whoever made it."""

STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

_JAVA_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:MaxNewSize={YOUNG_MIB}m"
"""Java has little to compute here, and less time: compiling it thoroughly costs more than it ever gives back."""

_SOCKET_FOLDER = 60
"""A socket's path has room for some 100 characters, of which Spark's names take 42."""


def state_store(session: SparkSession) -> str:
    """The class that keeps the state of a session's streaming queries."""
    return str(session.conf.get(PROVIDER, _USUAL_STORE))


def state_format(session: SparkSession, folder: Path) -> str:
    """What `STATE_FORMAT` has to be for a query whose checkpoint is in ``folder``: what it was when that was begun.

    On a cluster two attempts at a task may be under way at once. In format 2 each writes state under a name of its own,
    and the commit says which counts. In format 1, some 0.1 s faster a micro-batch, the later overwrites the earlier.
    """
    for commit in (folder / "commits").glob("[0-9]*"):
        return commit.read_text().partition("\n")[0].removeprefix("v")
    return "1" if re.match(r"local($|\[)", session.sparkContext.master) else "2"


def with_state_store(session: SparkSession) -> dict[str, str]:
    """Set `STATE_STORE` in a session that has Spark's default, and leave any other as it is; what was set."""
    if state_store(session) != _USUAL_STORE:
        return {}
    for name, value in STATE_STORE.items():
        session.conf.set(name, value)
    return STATE_STORE


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Let a session be the active one, where Spark looks for sources from Python, whichever session is asked.

    Under Connect there is one alone.
    """
    if not hasattr(session, "_jsparkSession"):
        yield
        return
    sessions: Any = session._jvm.SparkSession  # as pyspark does
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def start_session(master: str) -> SparkSession:
    """The session that runs; or a new one on ``master``, which stays, with one shuffle partition per task at a time.

    Raises `UsageError` if there is no Java.
    """
    if is_remote() or SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    scratch = Scratch()
    atexit.register(scratch.remove)
    with _environment(master, scratch.path):
        session: SparkSession = SparkSession.builder.master(master).getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    return session


def knows(session: SparkSession, source: str) -> bool:
    """Whether a session knows a source from Python by that name; under Connect nobody can tell."""
    java = getattr(session, "_jsparkSession", None)
    return java is not None and bool(java.sessionState().dataSourceManager().dataSourceExists(source))


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session on ``master``, which ends with the block and leaves nothing behind.

    Raises `UsageError` if there is no Java and `XmlPunctError` if Spark does not start; the latter says which
    log tells why, and that log stays.
    """
    scratch, quiet = Scratch(), ExitStack()
    session = gateway = None
    try:
        with open(scratch.log, "ab", opener=private) as log, _environment(master, scratch.path):
            try:
                conf = _conf(master, scratch)
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                with _own_interrupts():
                    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
            except Exception as error:  # whatever py4j or pyspark find to raise
                kept = scratch.keep_log()
                raise XmlPunctError(f"Spark did not start on {master}; its log is {kept}") from error
        quiet.enter_context(_quiet(session, scratch.log))
        yield session
    except SparkFailure as error:
        said = "Spark failed: its Java process has died" if _has_died(gateway) else str(error)
        error.args = (f"{said}; its log is {scratch.keep_log()}",)
        raise
    finally:
        with _uninterrupted(gateway):
            if session is not None:
                with suppress(Exception):  # the JVM may be gone already
                    session.stop()
            _end_jvm(gateway)
            quiet.close()
            scratch.remove()


@contextmanager
def _quiet(session: SparkSession, log: Path) -> Iterator[None]:
    """What pyspark says, at length, of workers and a JVM that are gone goes into the log, not on the terminal."""

    def note(*_: object) -> None:
        root.exception("while a worker was heard")

    root, handler = logging.getLogger(), logging.FileHandler(log)
    root.addHandler(handler)
    heard = getattr(session.sparkContext, "_accumulatorServer", None)
    if heard is not None:
        heard.handle_error = note
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


class SparkFailure(XmlPunctError):
    """Spark failed, for no reason that the data or the user gave."""


_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


def gist(error: BaseException | None) -> str:
    """The gist of an exception that may go on for pages of Java: what Python raised, else the first line."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = str(cause.toString())
    else:
        text = str(error)
    raised = _RAISED.findall(text.rpartition("Traceback (most recent call last)")[2])
    if raised:
        return f"{raised[0][0]}: {raised[0][1]}"[:300]
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)[:300]


def _conf(master: str, scratch: Scratch) -> SparkConf:
    """What Spark is started with. Nothing in it may ask other machines for a directory of this process."""
    conf, is_here = SparkConf(loadDefaults=False), master.startswith("local")
    sockets = scratch.directory("s")
    settings = {
        **STREAMING,
        "spark.master": master,
        "spark.app.name": "xmlpunct",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch.directory("local")),
        "spark.driver.extraJavaOptions": f'-Djava.io.tmpdir="{scratch.directory("tmp")}" {_JAVA_OPTIONS}',
        "spark.sql.warehouse.dir": str(scratch.directory("warehouse")),
        "spark.python.unix.domain.socket.enabled": str(
            is_here and len(str(sockets)) < _SOCKET_FOLDER
        ).lower(),
        "spark.python.unix.domain.socket.dir": str(sockets),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.locality.wait": "0",  # else a shard waits for a worker that died, or for one that has another
    }
    for name, value in settings.items():
        conf.set(name, value)
    return conf


@contextmanager
def _environment(master: str, scratch: Path) -> Iterator[None]:
    """The environment that the JVM and through it the workers start with; what that takes is put into ``scratch``.

    Workers share the cores, so polars gets one thread in each. Java's heap may be larger than Spark's default, which
    is for all cores of a local master; settings of Spark's prevail. The caller's own environment comes back after.
    Raises `UsageError` if there is no Java.
    """
    wanted: dict[str, str | None] = {
        "JAVA_HOME": java_home(scratch),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "POLARS_MAX_THREADS": "1",
        "SPARK_DRIVER_MEMORY": os.environ.get("SPARK_DRIVER_MEMORY", f"{heap_mib()}m"),
    }
    if master.startswith("local"):
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        wanted["SPARK_HOME"] = spark_home(scratch)
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep this process' SIGINT handler, which SparkContext would replace."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _uninterrupted(gateway: Any) -> Iterator[None]:
    """Tidying up is not to be cut short by an impatient second Ctrl-C: that ends the JVM at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hurry(*_: object) -> None:
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.kill()

    before = {number: signal.signal(number, hurry) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_died(gateway: Any) -> bool:
    """Whether the JVM is gone; one that was just killed takes a moment."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return process.poll() is not None


def _end_jvm(gateway: Any) -> None:
    """End the JVM now, and let a later session start another."""
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = gateway.proc
    if process is not None:
        process.stdin.close()  # the JVM ends when this closes
        with suppress(Exception):
            process.wait(timeout=20)
