from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import cli

__all__ = ["cli"]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a private PostgreSQL server, up to its options. It listens on a socket in a folder, not on a port."""
    pytest.importorskip("adbc_driver_postgresql")
    folders = [str(path.parent) for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    path = os.pathsep.join([os.environ["PATH"], *sorted(folders)])
    if shutil.which("initdb", path=path) is None or shutil.which("pg_ctl", path=path) is None:
        pytest.skip("no initdb: Debian has it in the package postgresql")
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, "nobody", "nogroup")

        def call(*command: str) -> None:
            settings = {"PATH": path, "LC_ALL": "C"}
            subprocess.run(
                command,
                cwd=folder,
                env=settings,
                check=True,
                stdout=subprocess.DEVNULL,
                **user,  # type: ignore[call-overload]
            )

        data = str(folder / "data")
        call("initdb", "-D", data, "-A", "trust", "-U", "xmlpunct", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        call("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield f"postgresql:///postgres?host={folder}&user=xmlpunct&"
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
