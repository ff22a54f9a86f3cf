"""Only their user can read checkpoints and spools; symbolic links in them are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.reliability.support import launch, wait_for_results
from xmlpunct.engine.spark.backpressure import Wish

QUERY = """CREATE STREAM s (hour INT NOT NULL) WITH (source = 'follow:{}', element = 't');
SELECT hour, COUNT(*) AS n FROM s GROUP BY hour"""
PUNCTUATED = (
    "<s xmlns:p='http://www.cse.ogi.edu/dot/niagara/punct'><t><hour>1</hour></t><p:t><hour>1</hour></p:t>"
)


def modes(folder: Path) -> dict[str, int]:
    """File modes of a directory and its contents, by relative path."""
    return {
        str(p.relative_to(folder.parent)): stat.S_IMODE(p.lstat().st_mode)
        for p in (folder, *folder.rglob("*"))
    }


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("is_there", [False, True], ids=["made", "was there"])
def test_other_users_cannot_read_a_checkpoint(tmp_path: Path, is_there: bool) -> None:
    feed, state, out = tmp_path / "feed.xml", tmp_path / "state", tmp_path / "out.xml"
    feed.write_text(PUNCTUATED)
    if is_there:
        state.mkdir(mode=0o755)
    run = launch(
        "run", "--engine", "local", "-q", QUERY.format(feed), "-o", str(out), "--checkpoint", str(state)
    )
    try:
        wait_for_results(out, run)
        file_modes = modes(state)
        assert {"state/log", "state/lock", "state/spool", "state/spool/0-0.xml"} <= set(file_modes)
        assert {name: mode & 0o077 for name, mode in file_modes.items()} == dict.fromkeys(file_modes, 0)
        assert stat.S_IMODE(out.stat().st_mode) == 0o644, "the output is not ours to hide"
    finally:
        run.kill()
        run.communicate()


def test_a_directory_that_holds_something_else_stays_open(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "notes").write_text("mine")
    tmp_path.chmod(0o755)
    (tmp_path / "a.xml").write_text(PUNCTUATED + "</s>")
    query = QUERY.format("x").replace("follow:x", str(tmp_path / "a.xml"))
    ended = cli("run", "--engine", "local", "-q", query, "--checkpoint", tmp_path)
    assert ended.code == 0, ended.err
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name", ["lock", "log", "spool", "spark", "said", "pacing", "spool/0-0.xml", "spool/0-0.xml.log"]
)
def test_a_planted_link_is_refused(tmp_path: Path, cli: Cli, name: str) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    (state / "spool").mkdir(parents=True)
    if name == "spool":
        (state / "spool").rmdir()
    victim.write_text("precious")
    (state / name).symlink_to(victim)
    ended = cli("run", "--engine", "local", "-q", QUERY.format(victim), "--checkpoint", state)
    assert (ended.code, f"{name} is a symbolic link" in ended.err) == (2, True)
    assert victim.read_text() == "precious"


def test_a_half_written_record_that_is_a_link_is_replaced(tmp_path: Path, cli: Cli) -> None:
    """A hard link planted by another user is not written to."""
    state, victim, feed = tmp_path / "state", tmp_path / "victim", tmp_path / "a.xml"
    state.mkdir()
    victim.write_text("precious")
    os.link(victim, state / "log.half")
    feed.write_text(PUNCTUATED + "</s>")
    query = QUERY.format("x").replace("follow:x", str(feed))
    ended = cli("run", "--engine", "local", "-q", query, "-o", tmp_path / "o", "--checkpoint", state)
    assert ended.code == 0, ended.err
    assert victim.read_text() == "precious"


def test_the_wish_of_a_sink_is_private(tmp_path: Path) -> None:
    Wish(1, 0.5).write(tmp_path / "pacing")
    assert Wish.read(tmp_path / "pacing") == Wish(1, 0.5)
    assert stat.S_IMODE((tmp_path / "pacing").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        Wish(1, 0.5).write(tmp_path / "link")
    assert not (tmp_path / "victim").exists()
