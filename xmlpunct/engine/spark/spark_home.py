"""A SPARK_HOME without the second copy of pyspark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

_PACKED = "python"
"""The directory with an archive of pyspark's sources."""


def spark_home(scratch: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The value of SPARK_HOME on this machine; None to unset it, if pyspark has no Spark of its own.

    Workers import pyspark from the archive in SPARK_HOME first, and Python then compiles its sources in each process:
    this takes 0.7 s in each of six processes that a run waits for in turn. So ``scratch`` gets links to everything but
    that archive, and workers import the installed pyspark.
    """
    if "SPARK_HOME" in environment:
        return environment["SPARK_HOME"]
    installed = Path(pyspark.__file__).parent
    if not (installed / "jars").is_dir():
        return None
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    for entry in installed.iterdir():
        if entry.name != _PACKED and not (home / entry.name).is_symlink():
            (home / entry.name).symlink_to(entry)
    return str(home)
