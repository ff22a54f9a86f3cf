"""Spark as it is installed, less its second copy of pyspark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

_PACKED = "python"
"""Where pyspark is once more, in an archive of sources."""


def spark_home(scratch: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """What SPARK_HOME has to be on this machine; None: unset, for it is not a package that was installed.

    Spark has its workers look for pyspark in SPARK_HOME's archive first, and Python then compiles the sources anew in
    each process: 0.7 s of each of the six that a run waits for in turn. So it gets links to all but that archive, in
    ``scratch``, and workers find the installed pyspark, the same.
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
