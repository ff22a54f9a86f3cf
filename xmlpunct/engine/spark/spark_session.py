"""Starts Spark sessions for runs: without log output, without leftovers, set up for small fast micro-batches."""

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
"""State store settings for transformWithState, which requires RocksDB."""
STREAMING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    **STATE_STORE,
    "spark.sql.streaming.minBatchesToRetain": "10",  # a restart needs one micro-batch, and state may be large
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # as for state: both share workers
}
"""Settings that every session needs for our queries."""

STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

_JAVA_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:MaxNewSize={YOUNG_MIB}m"
"""Java computes little in a run, so optimizing compilation costs more than it saves."""

_SOCKET_FOLDER = 60
"""Maximal path length of the socket folder: socket paths have some 100 characters, Spark's names take 42."""


def state_store(session: SparkSession) -> str:
    """The state store class of a session."""
    return str(session.conf.get(PROVIDER, _USUAL_STORE))


def state_format(session: SparkSession, folder: Path) -> str:
    """The value of `STATE_FORMAT` for a query with its checkpoint in ``folder``: the same as when it was begun.

    On a cluster, two attempts at a task may run at once. In format 2 each attempt writes state under a name of its own,
    and the commit selects one. In format 1, which is 0.1 s faster per micro-batch, the later one overwrites the other.
    """
    for commit in (folder / "commits").glob("[0-9]*"):
        return commit.read_text().partition("\n")[0].removeprefix("v")
    return "1" if re.match(r"local($|\[)", session.sparkContext.master) else "2"


def with_state_store(session: SparkSession) -> dict[str, str]:
    """Set `STATE_STORE` in a session with Spark's default store; returns the settings made."""
    if state_store(session) != _USUAL_STORE:
        return {}
    for name, value in STATE_STORE.items():
        session.conf.set(name, value)
    return STATE_STORE


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one: Spark looks up Python data sources in the active session only.

    Under Connect there is only one session.
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
    """The running session, or a new one on ``master`` with one shuffle partition per core, which stays running.

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
    """True if a Python data source of this name is registered; always False under Connect."""
    java = getattr(session, "_jsparkSession", None)
    return java is not None and bool(java.sessionState().dataSourceManager().dataSourceExists(source))


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session on ``master`` for the block; it leaves no files behind.

    Raises `UsageError` if there is no Java, and `XmlPunctError` if Spark does not start; its message names the log,
    which is kept.
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
            except Exception as error:  # py4j and pyspark raise errors of many types
                log_path = scratch.keep_log()
                raise XmlPunctError(f"Spark did not start on {master}; its log is {log_path}") from error
        quiet.enter_context(_quiet(session, scratch.log))
        yield session
    except SparkFailure as error:
        reason = "Spark failed: its Java process has died" if _has_died(gateway) else str(error)
        error.args = (f"{reason}; its log is {scratch.keep_log()}",)
        raise
    finally:
        with _uninterrupted(gateway):
            if session is not None:
                with suppress(Exception):  # the JVM may have ended already
                    session.stop()
            _end_jvm(gateway)
            quiet.close()
            scratch.remove()


@contextmanager
def _quiet(session: SparkSession, log: Path) -> Iterator[None]:
    """Redirect pyspark's messages about dead workers and a dead JVM from the terminal to the log."""

    def note(*_: object) -> None:
        root.exception("while a worker was heard")

    root, handler = logging.getLogger(), logging.FileHandler(log)
    root.addHandler(handler)
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = note
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


class SparkFailure(XmlPunctError):
    """Spark failed for a reason other than the data or the user's options."""


_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


def gist(error: BaseException | None) -> str:
    """A one-line summary of an exception with a long Java trace: the Python error in it, else its first line."""
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
    """The settings of a new session. They must not require a directory of this process on other machines."""
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
        "spark.locality.wait": "0",  # otherwise a shard waits for a dead or busy worker
    }
    for name, value in settings.items():
        conf.set(name, value)
    return conf


@contextmanager
def _environment(master: str, scratch: Path) -> Iterator[None]:
    """Set the environment for the start of the JVM and the workers; generated files go to ``scratch``.

    Workers share the cores, so polars uses one thread in each. Java's heap may be larger than Spark's default, which
    is for all cores of a local master; existing settings prevail. The environment is restored afterwards.
    Raises `UsageError` if there is no Java.
    """
    variables: dict[str, str | None] = {
        "JAVA_HOME": java_home(scratch),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "POLARS_MAX_THREADS": "1",
        "SPARK_DRIVER_MEMORY": os.environ.get("SPARK_DRIVER_MEMORY", f"{heap_mib()}m"),
    }
    if master.startswith("local"):
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        variables["SPARK_HOME"] = spark_home(scratch)
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
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
    """A second Ctrl-C kills the JVM at once, but does not interrupt the cleanup."""
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
    """True if the JVM has ended; waits a moment for a JVM that was just killed."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return process.poll() is not None


def _end_jvm(gateway: Any) -> None:
    """End the JVM, so that a later session starts a new one."""
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
