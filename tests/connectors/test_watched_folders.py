"""watch: files of a folder as they arrive, each once, in a recorded order."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.reliability.support import LONG, MOST_SECONDS, launch
from xmlpunct import SourceError, SqlError, UsageError, query
from xmlpunct.base.errors import TransientError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import FileGate
from xmlpunct.connectors.watched_folders import SEPARATOR, WatchedFolder, WatchInlet
from xmlpunct.engine.run.inputs.segments import open_at
from xmlpunct.engine.run.inputs.spool import find_inputs, unfinished
from xmlpunct.engine.sql import plan


def document(*numbers: int, end: str = "</s>") -> bytes:
    text = "".join(f"<t><a>{n}</a></t>\n" for n in numbers)
    return f"<?xml version='1.0'?>\n<s>\n{text}{end}\n".encode()


def drop(folder: Path, name: str, *numbers: int, age: float = 0.0) -> Path:
    """Write a file under another name and rename it, as senders do."""
    path = folder / name
    data = document(*numbers)
    hidden = folder / f".{name}"
    hidden.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    if age:
        os.utime(hidden, (time.time() - age,) * 2)
    hidden.rename(path)
    return path


def stream(source: str, options: str = "") -> str:
    return f"CREATE STREAM s (a INT) WITH (source = 'watch:{source}', element = 't'{options});"


def first(count: int, source: str, options: str = "") -> list[int]:
    """The first tuples of a folder, in order."""
    return [
        a for (a,) in query(f"{stream(source, options)} SELECT a FROM s LIMIT {count}").to_polars().rows()
    ]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


def test_files_come_in_order_of_their_names(inbox: Path) -> None:
    """A document may begin with a declaration and be compressed; hidden and other files are not read."""
    drop(inbox, "b.xml.gz", 2, 3)
    drop(inbox, "a.xml.gz", 1)
    (inbox / ".c.xml.gz").write_bytes(b"half")
    (inbox / "c.xml.gz.part").write_bytes(b"half")
    assert first(3, f"{inbox}/*.xml.gz") == [1, 2, 3]
    assert sorted(path.name for path in inbox.glob("[a-z]*")) == ["a.xml.gz", "b.xml.gz", "c.xml.gz.part"]


def test_a_file_that_comes_later_is_read_as_well(inbox: Path) -> None:
    drop(inbox, "b.xml", 1)
    results = query(f"{stream(str(inbox))} SELECT a FROM s")
    assert next(results) == (1,)
    drop(inbox, "a.xml", 2)
    assert next(results) == (2,), "also with a name before one that was read"
    results.close()


def test_order_of_time(inbox: Path) -> None:
    drop(inbox, "a.xml", 1, age=10)
    drop(inbox, "b.xml", 2, age=30)
    drop(inbox, "c.xml", 3, age=20)
    assert first(3, f"{inbox}/", ", order = 'time'") == [2, 3, 1]
    assert first(3, f"{inbox}/", ", order = 'name'") == [1, 2, 3]


def test_a_done_file_makes_a_file_complete(inbox: Path) -> None:
    drop(inbox, "a.xml", 1)
    drop(inbox, "b.xml", 2)
    (inbox / "b.xml.done").touch()
    results = query(f"{stream(str(inbox), ', done = ' + repr('.done'))} SELECT a FROM s")
    assert next(results) == (2,)
    (inbox / "a.xml.done").touch()
    assert next(results) == (1,)
    results.close()


def test_a_file_settles(inbox: Path) -> None:
    """A file that is written slowly is taken when it has not changed for the time."""
    path, began = inbox / "a.xml", time.monotonic()
    results = query(f"{stream(str(inbox), ', settle = INTERVAL ' + repr('1') + ' SECOND')} SELECT a FROM s")

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for piece in (document(1, end=""), b"<t><a>2</a></t>", b"</s>"):
                file.write(piece)
                time.sleep(0.4)

    writer = threading.Thread(target=write)
    writer.start()
    assert [next(results), next(results)] == [(1,), (2,)]
    assert time.monotonic() - began >= 1.8
    writer.join()
    results.close()
    drop(inbox, "old.xml", 7, age=3600)
    assert first(1, f"{inbox}/old*", ", settle = INTERVAL '1' HOUR") == [7]


def test_the_members_of_an_archive(inbox: Path) -> None:
    with zipfile.ZipFile(inbox / ".a.zip", "w") as archive:
        archive.writestr("1.xml", document(1))
        archive.writestr("2.xml", document(2))
    (inbox / ".a.zip").rename(inbox / "a.zip")
    drop(inbox, "b.xml", 3)
    assert first(3, f"{inbox}/") == [1, 2, 3]


BAD = {
    "cut.xml": (document(8, end=""), "line 5, byte 43: the document ends inside <s>: it is cut short"),
    "short.xml.gz": (gzip.compress(document(8))[:-9], "its gzip data is cut short"),
    "punct.xml": (
        f"<s xmlns:p='{PUNCT_NAMESPACE}'><p:t><a>[5,</a></p:t></s>".encode(),
        "wrong punctuation: attribute a",
    ),
    "tags.xml": (b"<s><t></s>", "line 1, byte "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_fails_goes_to_the_quarantine(
    inbox: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """None of its tuples counts, and the run goes on; without quarantine the run ends with the error of the file."""
    data, reason = BAD[name]
    drop(inbox, "a.xml", 1)
    (inbox / name).write_bytes(data)
    drop(inbox, "z.xml", 2)
    with pytest.raises(SourceError) as raised:
        first(3, f"{inbox}/")
    assert raised.value.source == str(inbox / name)
    assert reason in str(raised.value)
    bad = inbox / "bad"
    assert first(2, f"{inbox}/", f", quarantine = '{bad}'") == [1, 2]
    assert (bad / name).read_bytes() == data
    assert f"{inbox / name}" in (bad / f"{name}.error").read_text()
    assert reason in (bad / f"{name}.error").read_text()
    assert f"it was moved to {bad / name}" in caplog.text
    (inbox / name).write_bytes(data)
    assert first(2, f"{inbox}/", f", quarantine = '{bad}'") == [1, 2]
    assert (bad / f"{name}.1").read_bytes() == data, "the first file with the name stays"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("after = 'keep'", "after is leave, remove, or move: and a directory"),
        ("after = 'move'", "after is leave, remove, or move: and a directory"),
        ("order = 'size'", "order is name or time"),
        ("done = 'a/b'", "done is the end of a file name"),
        ("settle = '5'", "settle over TIMESTAMP is an INTERVAL"),
        ("quarantine = ''", "quarantine needs a value"),
    ],
)
def test_refused_options(inbox: Path, options: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(f"{stream(str(inbox), ', ' + options)} SELECT a FROM s")


def test_refused_sources(inbox: Path) -> None:
    with pytest.raises(SqlError, match=r"done is for a watched folder: source = 'watch:inbox/\*\.xml'"):
        plan("CREATE STREAM s (a INT) WITH (source = 'in/', done = '.done'); SELECT a FROM s")
    with pytest.raises(SourceError, match="cannot be watched: it is no directory"):
        first(1, f"{inbox}/none/*.xml")
    with pytest.raises(SourceError, match="cannot be watched: it is no directory"):
        first(1, f"{inbox}/none")
    with pytest.raises(UsageError, match="after = 'remove' needs a checkpoint"):
        first(1, f"{inbox}/", ", after = 'remove'")


def spool_of(inbox: Path, spec: str, rng: random.Random, arrivals: Sequence[tuple[str, int]]) -> bytes:
    """The bytes that a spool has of a folder, if the process is often killed between a piece and its position.

    After a kill, the bytes behind the last recorded position have to come again.
    """
    spool, mark, left = b"", (0, None), list(arrivals)
    while True:
        inlet, at = WatchInlet(WatchedFolder.parse(spec), "s", FileGate()), mark[0]
        inlet.open(mark[1])
        is_alive = True
        while is_alive:
            while left and rng.random() < 0.4:
                drop(inbox, *left.pop())
            would_wait = len(arrivals) - len(left) == spool.count(SEPARATOR) and inlet._current is None
            if at == len(spool) and would_wait:
                if not left and mark[0] == at:
                    inlet.close()
                    return spool
                if left:
                    drop(inbox, *left.pop())
                    continue
            piece = inlet.read()
            assert piece is not None
            assert piece[0].startswith(spool[at : at + len(piece[0])]), "other bytes than before the kill"
            at += len(piece[0])
            spool += piece[0][len(piece[0]) - max(at - len(spool), 0) :]
            is_alive = rng.random() < 0.7
            if at == len(spool) and is_alive:
                mark = (at, json.loads(json.dumps(piece[1])))
                inlet.acknowledge(piece[1])
                is_alive = rng.random() < 0.9


@pytest.mark.parametrize("after", ["leave", "remove", "move"])
@pytest.mark.parametrize("seed", range(500 if LONG else 10))
def test_each_file_once_wherever_it_is_killed(inbox: Path, after: str, seed: int) -> None:
    rng = random.Random(seed)
    old = inbox.parent / "old"
    spec = f"watch:{inbox}/*.xml?after={after}{f':{old}' if after == 'move' else ''}"
    arrivals = [(f"{number}.xml", n) for n, number in enumerate(rng.sample(range(100, 999), 12))]
    spool = spool_of(inbox, spec, rng, arrivals)
    assert spool.count(SEPARATOR) == len(arrivals)
    assert sorted(int(part.split(b"<")[0]) for part in spool.split(b"<a>")[1:]) == [n for _, n in arrivals]
    if after == "move":
        assert sorted(path.name for path in old.iterdir()) == sorted(name for name, _ in arrivals)
    assert len([*inbox.glob("*.xml")]) == len(arrivals) * (after == "leave")


def test_a_new_file_with_the_name_of_one_that_was_removed(inbox: Path) -> None:
    """It is read, also if the process was killed before it removed the first one."""
    spec = f"watch:{inbox}/*.xml?after=remove"
    drop(inbox, "a.xml", 1)
    inlet = WatchInlet(WatchedFolder.parse(spec), "s", FileGate())
    _, (_, position) = inlet.read(), inlet.read() or (b"", None)
    os.utime(drop(inbox, "a.xml", 2), ns=(1, 1))
    later = WatchInlet(WatchedFolder.parse(spec), "s", FileGate())
    later.open(position)
    assert later.read() is not None
    assert b"<a>2</a>" in (later.read() or (b"",))[0]


def test_a_file_that_changes_while_it_is_read_ends_the_run(inbox: Path) -> None:
    path = drop(inbox, "a.xml", 1)
    spec = f"watch:{inbox}/*.xml"
    _, position = WatchInlet(WatchedFolder.parse(spec), "s", FileGate()).read() or (b"", None)
    path.write_bytes(document(1, 2))
    with pytest.raises(TransientError, match=r"a\.xml: .*it was read in part, and is now another file"):
        WatchInlet(WatchedFolder.parse(spec), "s", FileGate()).open(position)


def test_killed_while_files_arrive(inbox: Path) -> None:
    """A process, killed with -9 at random moments: each tuple is there once, and each file was moved."""
    rng, folder, count = random.Random(7), inbox.parent, 60 if LONG else 12
    out, old = folder / "out.csv", folder / "old"
    sql = f"{stream(f'{inbox}/*.xml.gz', f', after = {chr(39)}move:{old}{chr(39)}')} SELECT a FROM s"
    options = [
        "--engine",
        "local",
        "--checkpoint",
        str(folder / "checkpoint"),
        "-o",
        str(out),
        "--format",
        "csv",
    ]
    arrivals, until = list(range(count)), time.monotonic() + MOST_SECONDS
    is_complete = False
    while not is_complete:
        run = launch("run", "-q", sql, *options)
        lives_until = time.monotonic() + rng.uniform(0.5, 3)
        while time.monotonic() < lives_until and not is_complete:
            assert run.poll() is None, run.communicate()
            if arrivals and rng.random() < 0.2:
                number = arrivals.pop()
                drop(inbox, f"{rng.randrange(10**6)}.xml.gz", 2 * number, 2 * number + 1)
            time.sleep(0.02)
            tuples = out.read_text().split()[1:] if out.exists() else []
            is_complete = not arrivals and len(tuples) >= 2 * count and not [*inbox.glob("*.gz")]
            assert time.monotonic() < until
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert sorted(map(int, tuples)) == list(range(2 * count))
    assert len([*old.iterdir()]) == count


def test_spark_reads_it_through_the_same_spool(inbox: Path, tmp_path: Path) -> None:
    """The spool of a checkpoint, with a restart, as both engines read it."""
    drop(inbox, "b.xml.gz", 1)
    (inbox / "a0.xml").write_bytes(b"<s><t>")
    query_of = plan(
        f"{stream(str(inbox), f', quarantine = {chr(39)}{tmp_path}/bad{chr(39)}')} SELECT a FROM s"
    )
    (input_,), (spool,) = find_inputs(query_of, tmp_path / "spool")
    for number in (1, 2):
        spool.start()
        until = time.monotonic() + MOST_SECONDS
        while spool_bytes(input_.parts[0].path).count(b"</s>") < number:
            assert time.monotonic() < until
            time.sleep(0.01)
        spool.stop()
        spool.join()
        spool.check()
        drop(inbox, "a.xml.gz", 2)
        (spool,) = unfinished([input_], query_of)
    assert spool_bytes(input_.parts[0].path).count(b"<t>") == 2
    assert (tmp_path / "bad" / "a0.xml").exists()


def spool_bytes(path: str) -> bytes:
    with open_at(path, 0) as file:
        return file.read()
