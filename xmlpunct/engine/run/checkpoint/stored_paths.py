"""Paths in a checkpoint. They are never absolute: a checkpoint can be moved, alone or together with its files."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from xmlpunct.connectors.contract import url_scheme
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.parts import Input, Part

_RELATIVE, _DIGEST, _TYPED = "relative", "digest", "typed"


def located(name: str | None, folder: Path) -> Any:
    """The location of a file that the user named, to be stored in ``folder``: a URL is its own location."""
    path = None if name is None else _local_path(name)
    if path is None:
        return name
    absolute = os.path.abspath(path)
    digest = blake2b(os.fsencode(absolute), digest_size=16).hexdigest()
    typed = {} if os.path.isabs(path) else {_TYPED: path}
    return {_RELATIVE: os.path.relpath(absolute, folder), _DIGEST: digest, **typed}


def is_same_file(saved: Any, now: Any, *, compares_names: bool = False) -> bool:
    """True if a stored location is that of the same file.

    It is if the path is the same, or the path from the checkpoint, because both were moved. With ``compares_names``,
    the same relative path is enough, from any directory.
    """
    if not (isinstance(saved, dict) and isinstance(now, dict)):
        return bool(saved == now)
    return any(saved[key] == now[key] for key in (_RELATIVE, _DIGEST)) or (
        compares_names and _TYPED in saved and saved[_TYPED] == now.get(_TYPED)
    )


def named(saved: Any, folder: Path) -> str:
    """A name of the file or URL at a stored location, if the checkpoint is in ``folder``."""
    return os.path.abspath(folder / saved[_RELATIVE]) if isinstance(saved, dict) else str(saved)


def saved_input(input_: Input, folder: Path) -> dict[str, Any]:
    """An input as plain values. Paths of spools are relative to ``folder``, other paths to that of the source."""
    values, base = asdict(input_), _local_path(input_.source)
    for part in values["parts"]:
        if part["spooled"]:
            part["path"] = os.path.relpath(part["path"], folder)
        elif base is not None:
            part["path"] = os.path.relpath(part["path"], os.path.abspath(base))
        if base is not None and part["name"].startswith(os.sep):
            part["name"] = [os.path.relpath(part["name"], os.path.abspath(base))]
    return values | {"source": located(input_.source, folder)}


def restored_input(values: dict[str, Any], folder: Path, query: Query) -> Input:
    """The inverse of `saved_input`. The source comes from the query: the saved one has no passwords."""
    source = query.streams[values["streams"][0]].source
    assert source is not None
    base = _local_path(source)
    if base is not None:
        now = located(source, folder)
        is_moved = not is_same_file(
            values["source"], now
        )  # it has the same relative path from another directory
        base = named(values["source"], folder) if is_moved else os.path.abspath(base)
    parts = tuple(_part(part, folder, base) for part in values["parts"])
    return Input(source, tuple(values["streams"]), parts, values["sender"])


def _part(values: dict[str, Any], folder: Path, base: str | None) -> Part:
    part = Part(**values | {"texts": tuple(map(tuple, values["texts"]))})
    if part.spooled:
        part = replace(part, path=str(folder / part.path))
    elif base is not None:
        part = replace(part, path=os.path.normpath(os.path.join(base, part.path)))
    if isinstance(part.name, list) and base is not None:
        part = replace(part, name=os.path.normpath(os.path.join(base, part.name[0])))
    return part


def _local_path(name: str) -> str | None:
    """The path of a file, a directory or a pattern; None for any other source or output."""
    if url_scheme(name) == "file":
        return os.fsdecode(unquote_to_bytes(urlsplit(name).path))
    return None if url_scheme(name) else name
