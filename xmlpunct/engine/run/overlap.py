"""Refuse runs that would overwrite their own input, or write one file twice.

Files are compared by device and inode, so that links and alternative names are detected. A file that does not exist
yet is compared by directory and name. Devices, pipes and terminals hold no data, and may be named twice.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import connector_of, paths_of, url_scheme, would_be_read
from xmlpunct.connectors.listing import is_passed_over
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.checkpoint.checkpoint import OWN_NAMES
from xmlpunct.engine.run.run_options import RunOptions, is_url

Identity = tuple[int | str, ...]


@dataclass(frozen=True)
class PathRole:
    """A file or directory: its ``path``, and the option or statement (``role``) that names it."""

    role: str
    path: str

    def __str__(self) -> str:
        return self.role if self.path.startswith("/dev/fd/") else f"{self.role} {self.path}"

    @cached_property
    def identity(self) -> Identity | None:
        """Device and inode; None for devices, pipes and terminals."""
        return _identity(self.path)

    @cached_property
    def above(self) -> list[tuple[Identity | None, tuple[str, ...]]]:
        """All parent directories, innermost first, each with the relative path from there."""
        real = Path(os.path.realpath(self.path))
        return [(_identity(str(p)), real.relative_to(p).parts) for p in real.parents]

    def is_same(self, other: PathRole) -> bool:
        """True if both paths name the same file or directory."""
        return self.identity is not None and self.identity == other.identity

    def below(self, *folders: Identity | None) -> tuple[str, ...]:
        """Relative path from the innermost of some directories; empty if none of them contains this path."""
        if self.identity is None:
            return ()
        return next((names for folder, names in self.above if folder is not None and folder in folders), ())

    @cached_property
    def listing(self) -> tuple[set[Identity | None], set[Identity | None]]:
        """The files and directories that are read with this path; empty unless it is a directory."""
        files, folders, pending = set[Identity | None](), set[Identity | None](), [self.path]
        while pending:
            folder = pending.pop()
            if not os.path.isdir(folder) or _identity(folder) in folders:
                continue
            folders.add(_identity(folder))
            try:
                with os.scandir(folder) as entries:
                    names = [entry.path for entry in entries if not is_passed_over(entry.name)]
            except OSError:  # the reader of the directory reports it
                continue
            pending += [path for path in names if os.path.isdir(path)]
            files |= {_identity(path) for path in names if not os.path.isdir(path)}
        return files, folders


def refuse_overlaps(query: Query, options: RunOptions) -> None:
    """Raise `UsageError` if the run would overwrite its input, or write a file twice."""
    read = [PathRole(role, path) for role, spec in query.reads for path in paths_of(spec)]
    if options.query_file is not None:
        read.append(PathRole("the query", options.query_file))
    files, datasets, databases = list[PathRole](), list[PathRole](), list[PathRole]()
    outputs = [
        (f"sink {answer.name}:" if answer.name else "-o", options.to(answer.destination).output)
        for answer in query.answers
    ]
    written = [*outputs, ("--rejects", options.rejects)]
    for role, out in written:
        if is_url(out):
            _refuse_read_url(role, str(out), query.reads)
            databases += [PathRole(role, path) for path in connector_of(str(out)).written(str(out))]
        elif out is not None and out.endswith("/"):
            datasets.append(PathRole(role, out))
        elif out is not None or role != "--rejects":
            files.append(_output(role, out))
    _refuse_twice_by_url([(role, str(out)) for role, out in written if is_url(out)])
    _refuse_twice_on_standard_output([role for role, out in outputs if out is None])
    files += [PathRole("--stats", options.stats)] if options.stats is not None else []
    checkpoint = PathRole("--checkpoint", options.checkpoint) if options.checkpoint is not None else None
    refuse_read([*files, *databases], read)
    for written_file in [*files, *databases]:
        for role, spec in query.reads:
            if would_be_read(spec, written_file.path):
                _refuse(written_file, f"matches {role} {spec}, and would be read with it")
    for database in [[], *([written_file] for written_file in databases)]:  # several tables may be in one
        _refuse_twice([*files, *database])
    files += databases
    if checkpoint is not None:
        _refuse_in_checkpoint(checkpoint, [*files, *datasets], read)
    for dataset in datasets:
        other_datasets = [other for other in datasets if other is not dataset]
        _refuse_in_dataset(dataset, [*files, *other_datasets, *([checkpoint] if checkpoint else [])], read)


def _refuse_twice_by_url(written: Sequence[tuple[str, str]]) -> None:
    """Refuse two outputs with the same URL."""
    for number, (role, url) in enumerate(written):
        for other, other_url in written[:number]:
            same_scheme = url_scheme(url) == url_scheme(other_url)
            if same_scheme and connector_of(url).place(url) == connector_of(other_url).place(other_url):
                raise UsageError(f"{role} {url} is the same place as {other} {other_url}: name another place")


def _refuse_twice_on_standard_output(roles: Sequence[str]) -> None:
    """Refuse two results on standard output, also on a terminal or pipe."""
    if len(roles) > 1:
        outputs = " and ".join(role.rstrip(":").replace("-o", "the SELECT without a sink") for role in roles)
        raise UsageError(f"{outputs} write to standard output: name another place for all but one")


def _refuse_read_url(role_of_output: str, output: str, reads: Iterable[tuple[str, str]]) -> None:
    """Refuse an output that is also an input: the run would read its own output without end."""
    output_place = connector_of(output).place(output)
    for role, spec in reads:
        if url_scheme(spec) == url_scheme(output) and connector_of(spec).place(spec) == output_place:
            raise UsageError(
                f"{role_of_output} {output} is read as {role} {spec}, and would be read: name another place"
            )


def standard_output_path() -> PathRole:
    """The file behind standard output."""
    return PathRole("standard output", "/dev/fd/1")


def source_place(source: str) -> list[PathRole]:
    """The files and directories that a source reads."""
    return [PathRole("the source", path) for path in paths_of(source)]


def refuse_read(written: Iterable[PathRole], read: Sequence[PathRole]) -> None:
    """Refuse to write an input file, or into an input directory."""
    for target in written:
        for source in read:
            files, folders = source.listing
            if target.is_same(source) or (target.identity is not None and target.identity in files):
                _refuse(target, f"is read as {source}, and would be overwritten")
            _refuse_into(target, source, folders)


def _refuse_into(target: PathRole, source: PathRole, folders: Iterable[Identity | None]) -> None:
    names = target.below(*folders)
    if names and not any(map(is_passed_over, names)):
        _refuse(target, f"is in the directory that is read as {source}, and would be read with it")


def _refuse_twice(written: Sequence[PathRole]) -> None:
    for number, target in enumerate(written):
        for other in written[:number]:
            if target.is_same(other):
                _refuse(target, f"is the same file as {other}")


def _refuse_in_checkpoint(
    checkpoint: PathRole, written: Sequence[PathRole], read: Sequence[PathRole]
) -> None:
    """Refuse outputs in the checkpoint directory, and inputs among its own files."""
    for target in written:
        if target.is_same(checkpoint) or target.below(checkpoint.identity):
            _refuse(target, f"is in the checkpoint {checkpoint.path}, which only the run may write")
    for source in read:
        names = source.below(checkpoint.identity)
        if source.is_same(checkpoint) or (names and names[0] in OWN_NAMES):
            _refuse(checkpoint, f"keeps its own files in the directory where {source} is read")
        _refuse_into(checkpoint, source, source.listing[1])


def _refuse_in_dataset(dataset: PathRole, written: Sequence[PathRole], read: Sequence[PathRole]) -> None:
    """Refuse outputs and inputs in a dataset directory, except files that readers skip."""
    for target in written:
        names = target.below(dataset.identity)
        if target.is_same(dataset) or (names and not any(map(is_passed_over, names))):
            _refuse(target, f"is in the dataset {dataset.path}, and would be read with it")
    for source in read:
        if dataset.is_same(source) or source.below(dataset.identity):
            _refuse(dataset, f"contains files that are read as {source}")
        _refuse_into(dataset, source, source.listing[1])


def _refuse(target: PathRole, reason: str) -> None:
    raise UsageError(f"{target} {reason}: name another place")


def _output(role: str, path: str | None) -> PathRole:
    """The file that an output option names, which may be standard output."""
    if path is None:
        return standard_output_path()
    return PathRole(f"{role} -", "/dev/fd/1") if path == "-" else PathRole(role, path)


def _identity(path: str) -> Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        folder, name = os.path.split(os.path.realpath(path))
        try:
            parent_status = os.stat(folder)
        except OSError:
            return folder, name
        return parent_status.st_dev, parent_status.st_ino, name
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino
    return None
