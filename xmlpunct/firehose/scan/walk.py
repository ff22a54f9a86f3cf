"""The regions of a chunk, found by a compiled loop: what `vectors` finds, in less time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np

from xmlpunct.firehose import loops
from xmlpunct.firehose.cells import Ints
from xmlpunct.firehose.scan.regions import Find, Group, Regions
from xmlpunct.firehose.scan.template import Template


@dataclass(frozen=True, slots=True)
class _Program:
    """Templates as the loop takes them; see ``loops.c``."""

    pieces: Ints
    firsts: Ints
    ends: Ints
    literals: bytes
    least: int
    """The fewest bytes that a region can have."""


def finder() -> Find:
    """Finds the regions of buffers, and remembers for whoever owns it how templates are laid out."""
    return partial(_find, lru_cache(maxsize=64)(_program))


def _program(templates: tuple[Template, ...]) -> _Program:
    ends = [*dict.fromkeys(t.end for t in templates)]
    forms = [t.form for t in templates]
    pieces = [piece for form in forms for piece in form.pieces]
    quoted = [flag for form in forms for flag in (*form.quoted, False)]
    sizes = [len(text) for text in (*pieces, *ends)]
    places = [0, *accumulate(sizes)][:-1]
    count = len(pieces)
    return _Program(
        np.array([*zip(places[:count], sizes[:count], quoted, strict=True)], np.int64),
        np.array([0, *accumulate(len(form.pieces) for form in forms)], np.int64),
        np.array([*zip(places[count:], sizes[count:], strict=True)], np.int64),
        b"".join((*pieces, *ends)),
        min([*map(len, ends), *(len(t.literals) for t in templates)]),
    )


def _find(
    laid_out: Callable[[tuple[Template, ...]], _Program],
    buffer: bytes,
    begin: int,
    stop: int,
    templates: Sequence[Template],
) -> Regions:
    program = laid_out(tuple(templates))
    most = (stop - begin) // program.least + 2
    end, form, spoiled = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.bool_)
    values = tuple(
        np.empty(((stop - begin) // len(t.literals) + 2, len(t.form.quoted), 2), np.int64) for t in templates
    )
    count = loops.walk(
        buffer,
        begin,
        stop,
        program.pieces,
        program.firsts,
        program.ends,
        program.literals,
        end,
        form,
        spoiled,
        values,
    )
    end, form = end[:count], form[:count]
    found = Regions(end, form >= 0, ~spoiled[:count], [])
    left = np.count_nonzero(found.proven)
    for number, (template, rows) in enumerate(zip(templates, values, strict=True)):
        if not left:
            break
        regions = np.flatnonzero(form == number)
        left -= len(regions)
        if len(regions):
            mine = rows[: len(regions)]
            found.groups.append(Group(template, regions, [*mine[:, :, 0].T], [*mine[:, :, 1].T]))
    return found
