"""What a run writes must not be what it reads, nor be written twice: it would destroy its own input or output.

Files are compared by device and inode, so no link or other name hides one; a file that is not there yet, by its
directory and its name. Devices, pipes and terminals hold nothing that can be destroyed, and may be named twice.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import connector_of, scheme_of
from xmlpunct.connectors.open_source import is_passed_over, paths_of, would_be_read
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.checkpoint.checkpoint import OWN_NAMES
from xmlpunct.engine.run.run_options import RunOptions, is_url

Identity = tuple[int | str, ...]


@dataclass(frozen=True)
class Place:
    """A file or directory, by the ``path`` that the option or statement ``role`` gives it."""

    role: str
    path: str

    def __str__(self) -> str:
        return self.role if self.path.startswith("/dev/fd/") else f"{self.role} {self.path}"

    @cached_property
    def identity(self) -> Identity | None:
        """What is there; None for what cannot be destroyed."""
        return _identity(self.path)

    @cached_property
    def above(self) -> list[tuple[Identity | None, tuple[str, ...]]]:
        """The directories that it is in, from the inmost, each with the names that lead from there to here."""
        real = Path(os.path.realpath(self.path))
        return [(_identity(str(p)), real.relative_to(p).parts) for p in real.parents]

    def is_same(self, other: Place) -> bool:
        """Whether both are one."""
        return self.identity is not None and self.identity == other.identity

    def below(self, *folders: Identity | None) -> tuple[str, ...]:
        """The names that lead here from the inmost of some directories; none if this is in none of them."""
        if self.identity is None:
            return ()
        return next((names for folder, names in self.above if folder is not None and folder in folders), ())

    @cached_property
    def listing(self) -> tuple[set[Identity | None], set[Identity | None]]:
        """If it is a directory to be read, the files and the directories that reading it takes in."""
        files, folders, left = set[Identity | None](), set[Identity | None](), [self.path]
        while left:
            folder = left.pop()
            if not os.path.isdir(folder) or _identity(folder) in folders:
                continue
            folders.add(_identity(folder))
            try:
                with os.scandir(folder) as entries:
                    names = [entry.path for entry in entries if not is_passed_over(entry.name)]
            except OSError:  # which is for who reads it to tell
                continue
            left += [path for path in names if os.path.isdir(path)]
            files |= {_identity(path) for path in names if not os.path.isdir(path)}
        return files, folders


def refuse_overlaps(query: Query, options: RunOptions) -> None:
    """Raise `UsageError` if the run that is asked for would write what it reads, or something twice."""
    read = [Place(role, path) for role, spec in query.reads for path in paths_of(spec)]
    if options.query_file is not None:
        read.append(Place("the query", options.query_file))
    files, datasets, databases = list[Place](), list[Place](), list[Place]()
    outputs = [
        (f"sink {answer.name}:" if answer.name else "-o", options.to(answer.destination).output)
        for answer in query.answers
    ]
    written = [*outputs, ("--rejects", options.rejects)]
    for role, out in written:
        if is_url(out):
            _refuse_read_url(role, str(out), query.reads)
            databases += [Place(role, path) for path in connector_of(str(out)).written(str(out))]
        elif out is not None and out.endswith("/"):
            datasets.append(Place(role, out))
        elif out is not None or role != "--rejects":
            files.append(_output(role, out))
    _refuse_twice_by_url([(role, str(out)) for role, out in written if is_url(out)])
    _refuse_twice_on_standard_output([role for role, out in outputs if out is None])
    files += [Place("--stats", options.stats)] if options.stats is not None else []
    checkpoint = Place("--checkpoint", options.checkpoint) if options.checkpoint is not None else None
    refuse_read([*files, *databases], read)
    for place in [*files, *databases]:
        for role, spec in query.reads:
            if would_be_read(spec, place.path):
                _refuse(place, f"matches what is read as {role} {spec}, and would be read with it")
    for database in [[], *([place] for place in databases)]:  # several tables may be in one
        _refuse_twice([*files, *database])
    files += databases
    if checkpoint is not None:
        _refuse_in_checkpoint(checkpoint, [*files, *datasets], read)
    for dataset in datasets:
        others = [other for other in datasets if other is not dataset]
        _refuse_in_dataset(dataset, [*files, *others, *([checkpoint] if checkpoint else [])], read)


def _refuse_twice_by_url(written: Sequence[tuple[str, str]]) -> None:
    """Refuse two results, or results and rejects, in one place."""
    for number, (role, url) in enumerate(written):
        for other, of in written[:number]:
            if scheme_of(url) == scheme_of(of) and connector_of(url).place(url) == connector_of(of).place(of):
                raise UsageError(f"{role} {url} is the same place as {other} {of}: name another place")


def _refuse_twice_on_standard_output(roles: Sequence[str]) -> None:
    """Refuse two results mixed on standard output, be it a terminal or a pipe."""
    if len(roles) > 1:
        told = " and ".join(role.rstrip(":").replace("-o", "the SELECT beside them") for role in roles)
        raise UsageError(f"{told} write to standard output: name another place for all but one")


def _refuse_read_url(role_of_output: str, output: str, reads: Iterable[tuple[str, str]]) -> None:
    """Refuse to write to what is read: what is written would be read, without end."""
    place = connector_of(output).place(output)
    for role, spec in reads:
        if scheme_of(spec) == scheme_of(output) and connector_of(spec).place(spec) == place:
            raise UsageError(
                f"{role_of_output} {output} is what is read as {role} {spec}, and would be read: name another place"
            )


def standard_output() -> Place:
    """Where standard output goes."""
    return Place("standard output", "/dev/fd/1")


def source_place(source: str) -> list[Place]:
    """What a source reads, as far as that is files and directories."""
    return [Place("the source", path) for path in paths_of(source)]


def refuse_read(written: Iterable[Place], read: Sequence[Place]) -> None:
    """Refuse to write what is read, or into a directory that is."""
    for place in written:
        for source in read:
            files, folders = source.listing
            if place.is_same(source) or (place.identity is not None and place.identity in files):
                _refuse(place, f"is what is read as {source}, and would be overwritten")
            _refuse_into(place, source, folders)


def _refuse_into(place: Place, source: Place, folders: Iterable[Identity | None]) -> None:
    names = place.below(*folders)
    if names and not any(map(is_passed_over, names)):
        _refuse(place, f"is in the directory that is read as {source}, and would be read with it")


def _refuse_twice(written: Sequence[Place]) -> None:
    for number, place in enumerate(written):
        for other in written[:number]:
            if place.is_same(other):
                _refuse(place, f"is the same file as {other}")


def _refuse_in_checkpoint(checkpoint: Place, written: Sequence[Place], read: Sequence[Place]) -> None:
    """What is the run's own nobody else writes; and it is not to be read either."""
    for place in written:
        if place.is_same(checkpoint) or place.below(checkpoint.identity):
            _refuse(place, f"is in the checkpoint {checkpoint.path}, which is the run's own")
    for source in read:
        names = source.below(checkpoint.identity)
        if source.is_same(checkpoint) or (names and names[0] in OWN_NAMES):
            _refuse(checkpoint, f"keeps its own files where {source} is read")
        _refuse_into(checkpoint, source, source.listing[1])


def _refuse_in_dataset(dataset: Place, written: Sequence[Place], read: Sequence[Place]) -> None:
    """All of a dataset is slices, but for what no reader looks at."""
    for place in written:
        names = place.below(dataset.identity)
        if place.is_same(dataset) or (names and not any(map(is_passed_over, names))):
            _refuse(place, f"is in the dataset {dataset.path}, and would be read with it")
    for source in read:
        if dataset.is_same(source) or source.below(dataset.identity):
            _refuse(dataset, f"holds what is read as {source}")
        _refuse_into(dataset, source, source.listing[1])


def _refuse(place: Place, reason: str) -> None:
    raise UsageError(f"{place} {reason}: name another place")


def _output(role: str, path: str | None) -> Place:
    """What an option writes, of those that may name standard output."""
    if path is None:
        return standard_output()
    return Place(f"{role} -", "/dev/fd/1") if path == "-" else Place(role, path)


def _identity(path: str) -> Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        folder, name = os.path.split(os.path.realpath(path))
        try:
            above = os.stat(folder)
        except OSError:
            return folder, name
        return above.st_dev, above.st_ino, name
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino
    return None
