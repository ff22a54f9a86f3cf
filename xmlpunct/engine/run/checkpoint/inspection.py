"""Shows, verifies and copies the checkpoint of a run, which may be running."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from xmlpunct.base.errors import UsageError, reading
from xmlpunct.engine.run.checkpoint.checkpoint import OWN_NAMES, recorded
from xmlpunct.engine.run.checkpoint.commit import COMMIT, Commit
from xmlpunct.engine.run.checkpoint.log import DamagedError, WriteAheadLog
from xmlpunct.engine.run.durable_files import (
    PRIVATE_FOLDER,
    lock_exclusively,
    make_folder,
    private,
    sync_tree,
    writing,
)
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.run_options import RunOptions

_TRIES = 5
"""How often a copy of the checkpoint of a run is begun again, because the run has saved its state meanwhile."""
_HADOOP_HEAD = struct.Struct(">4si")
"""The header of the checksum file that Hadoop writes beside a file: a magic text, and the bytes for each CRC-32."""
_HADOOP_MAGIC = b"crc\0"


def describe_checkpoint(path: Path) -> list[tuple[str, str]]:
    """The query, version, sources with positions, outputs, sizes and last commit of a checkpoint, as labels and texts.

    Raises `UsageError` if there is none, and `DamagedError`.
    """
    job, records = recorded(path)
    commits = [Commit.from_record(record) for record in records if COMMIT in record]
    commit = commits[-1] if commits else None
    slices = [json.loads(record["slices"]) for record in records if "slices" in record]
    lines = [
        ("query", "\n".join(line for line in job["planned"]["sql"].strip().splitlines() if line.strip()))
    ]
    lines += [("version", f"{job['made_by']['version']}, {job['engine']} engine, shards: {job['shards']}")]
    cursors = _cursors(commit, slices)
    for number, input_ in enumerate(job["inputs"]):
        names = ", ".join(job["choice of streams"][stream] for stream in input_["streams"])
        source = input_["source"]
        shown = source if isinstance(source, str) else source.get("typed", source["relative"])
        lines.append((f"source of {names}", f"{shown}: {_position(input_, cursors.get(number), commit)}"))
    names = job["choice of sinks"]
    for name, written in zip(names, [] if commit is None else commit.outputs, strict=False):
        ended = ", complete" if written.closed else ""
        extent = f"{written.length:,} bytes in {written.groups:,} groups{ended}"
        lines.append((f"output {name}".rstrip(), extent))
    lines.append(("size", ", ".join(f"{name} {size:,} bytes" for name, size in _sizes(path).items())))
    saved_at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime((path / "log").stat().st_mtime))
    number = max([-1 if commit is None else commit.batch, *(record["number"] for record in slices)])
    lines.append(("last commit", f"{'none' if number < 0 else number}, written at {saved_at}"))
    return [*lines, ("state", _state(commit))]


def _state(commit: Commit | None) -> str:
    if commit is None or not commit.over:
        return "the same command continues the run"
    return "the run is complete" if commit.failure is None else f"the run has failed: {commit.failure[1]}"


def _cursors(commit: Commit | None, slices: list[Any]) -> dict[int, Mapping[str, Any]]:
    """The last read position of each input."""
    cursors = {}
    if commit is not None and commit.offset:
        offset = json.loads(commit.offset)
        cursors = {int(number): cursor for number, cursor in offset.items() if number.isdecimal()}
    elif commit is not None:
        cursors = {number: cursor for number, (cursor, *_) in enumerate(commit.cursors)}
    return cursors | {number: cursor for record in slices for number, cursor, *_ in record["places"]}


def _position(input_: Mapping[str, Any], cursor: Mapping[str, Any] | None, commit: Commit | None) -> str:
    if cursor is None or cursor["eos"]:
        return "read to the end" if cursor or (commit is not None and commit.ended) else "not read yet"
    at = cursor["position"]
    part = f"part {cursor['part'] + 1} of {len(input_['parts'])}, " if len(input_["parts"]) > 1 else ""
    return f"{part}read to byte {at['byte']:,}, line {at['line']:,}"


def _sizes(path: Path) -> dict[str, int]:
    """The number of stored bytes of each file and folder of a checkpoint."""
    sizes = {}
    for name in sorted(OWN_NAMES & {*os.listdir(path)}):
        own = path / name
        files = [own] if own.is_file() else [file for file in own.rglob("*") if file.is_file()]
        with suppress(FileNotFoundError):  # a run removes files
            sizes[name] = sum(min(file.stat().st_size, file.stat().st_blocks * 512) for file in files)
    return sizes


def verify_checkpoint(path: Path) -> int:
    """Compare every byte of a checkpoint that has a checksum; returns the number of files.

    Raises `UsageError` if there is none, and `DamagedError` with the file.
    """
    job, _ = recorded(path)
    count = 1
    with reading(str(path)):
        for name in ("said", "cuts"):
            count += (path / name).is_file()
            WriteAheadLog(path / name).read()
        for spool in _spools(path, job):
            with suppress(FileNotFoundError):  # it was released, or the run has ended
                segments.log_of(spool).read()
                count += _verify_spool(spool)
        for checksums in sorted((path / "spark").rglob(".*.crc")):
            with suppress(FileNotFoundError):
                _verify_by_hadoop(checksums.with_name(checksums.name[1:-4]), checksums.read_bytes())
                count += 1
    return count


def verify_if_asked(path: Path, options: RunOptions) -> None:
    """Verify the checkpoint of a run that continues, if its options say so. Raises `DamagedError`."""
    if options.verifies and (path / "log").exists():
        verify_checkpoint(path)


def _verify_spool(spool: Path) -> int:
    """Compare all bytes of a spool with their checksums; the number of its files."""
    numbers, is_complete = segments.segments(spool), segments.end_of(spool) is not None
    for number in numbers:
        path = segments.segment(spool, number)
        with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
            count, filled = segments.intact_pieces(path, file.fileno())
            if number < numbers[-1] and filled < segments.SEGMENT_BYTES and (count or not is_complete):
                raise DamagedError(path, filled)
    return len(numbers) + segments.log_of(spool).path.is_file()


def _verify_by_hadoop(path: Path, checksums: bytes) -> None:
    """Compare a file of Spark's with its checksum file."""
    data, head = path.read_bytes(), checksums[: _HADOOP_HEAD.size]
    magic, step = _HADOOP_HEAD.unpack(head) if len(head) == _HADOOP_HEAD.size else (b"", 0)
    if magic != _HADOOP_MAGIC or step <= 0:
        raise DamagedError(path.with_name(f".{path.name}.crc"), 0)
    sums = [zlib.crc32(data[at : at + step]).to_bytes(4, "big") for at in range(0, len(data), step)]
    if checksums[_HADOOP_HEAD.size :] != b"".join(sums):
        raise DamagedError(path, 0)


def _spools(path: Path, job: Mapping[str, Any]) -> Iterator[Path]:
    yield from (
        path / part["path"] for input_ in job["inputs"] for part in input_["parts"] if part["spooled"]
    )


def copy_checkpoint(path: Path, target: Path) -> None:
    """Copy a checkpoint to a new directory, consistently. A run of the local engine may use it meanwhile.

    Raises `UsageError` if the target exists, or if a run on Spark uses the checkpoint.
    """
    if target.exists():
        raise UsageError(f"{target} exists: name a new directory")
    half = target.absolute().with_name(f"{target.name}.half")
    with reading(str(path)):
        for _ in range(_TRIES):
            shutil.rmtree(half, ignore_errors=True)
            with writing(half):
                make_folder(half / "spool", PRIVATE_FOLDER)
                half.chmod(PRIVATE_FOLDER)
            if _copied(path, half):
                verify_checkpoint(half)
                with writing(target):
                    sync_tree(half)
                    os.rename(half, target)
                    sync_tree(target)
                return
    shutil.rmtree(half, ignore_errors=True)
    raise UsageError(
        f"the run that uses the checkpoint {path} saves its state too often: stop it, and copy again"
    )


def _copied(path: Path, half: Path) -> bool:
    """Copy all files; False if the run has replaced its log meanwhile."""
    job, _ = recorded(path)
    spools = [spool for spool in _spools(path, job) if spool.exists()]
    logs = [path / "log", *(segments.log_of(spool).path for spool in spools)]
    before = [_version(log) for log in logs]
    with open(path / "lock", "ab", opener=private) as lock:
        if not lock_exclusively(lock.fileno()) and job["engine"] == "spark":
            raise UsageError(f"a run on Spark uses the checkpoint {path}: stop it, and copy again")
        try:
            for log in logs:
                if log.is_file():
                    _copy_file(log, half / log.relative_to(path))
            for spool in spools:
                for number in segments.segments(spool):
                    segment = segments.segment(spool, number)
                    segments.copy_segment(segment, half / segment.relative_to(path))
            for name in ("said", "cuts", "pacing"):
                if (path / name).is_file():
                    _copy_file(path / name, half / name)
            if (path / "spark").is_dir():
                shutil.copytree(path / "spark", half / "spark")
        except FileNotFoundError:  # the run has removed files
            return False
    return before == [_version(log) for log in logs]


def _copy_file(path: Path, target: Path) -> None:
    with open(path, "rb") as file, open(target, "xb", opener=private) as copy:
        shutil.copyfileobj(file, copy)


def _version(log: Path) -> tuple[int, int] | None:
    """A value that changes when the records of a log are replaced, or when a spool's log gets more records."""
    try:
        status = log.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size if log.name != "log" else 0
