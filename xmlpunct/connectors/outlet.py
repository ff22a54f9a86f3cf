"""Outlets: the output of a run, group by group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from itertools import accumulate
from typing import Any, ClassVar, Protocol

import polars as pl

from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

RUN, SEQUENCE = "xmlpunct.run", "xmlpunct.sequence"
"""Headers of a message, if the broker supports headers: the run that wrote it, and its number in the run."""


DIGEST, LINK = "xmlpunct.digest", "xmlpunct.link"
"""Headers if the messages of a run cannot be read back: its digest, and the previous message's. See `chained`."""


class Encoder(Protocol):
    """Encodes a run's results in a format: see `xmlpunct.firehose.writer`."""

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        """The tuples and the punctuations of a slice, each as a self-contained message."""


class Existing(Enum):
    """How a new run handles the results of another run in its output."""

    ACCEPT = "accept"
    """Without ``--checkpoint``: overwrite a file, append to a table, refuse a directory."""
    REFUSE = "refuse"
    """With ``--checkpoint``: refuse the output, because the checkpoint of the other run may be lost."""
    REPLACE = "replace"
    """With ``--replace``: remove them."""


@dataclass(frozen=True)
class Form:
    """The properties of a run that an outlet needs.

    Parameters
    ----------
    run : str
        Identifies the run; a restart from its checkpoint has the same identifier.
    schema : Schema
        The schema of the results.
    encoder : Encoder
        Writes results in the run's format.
    format : str
        The name of the format, such as ``"xml"``.
    existing : Existing
        How a new run handles the results of another run.
    """

    run: str
    schema: Schema
    encoder: Encoder
    format: str = "xml"
    existing: Existing = Existing.ACCEPT


@dataclass(frozen=True)
class Results:
    """A group of results, which becomes visible at once.

    Parameters
    ----------
    number : int
        The number of the group. Numbers rise; no two groups of a run share one.
    slices : tuple of Slice
        The results.
    data : bytes
        The results in the run's format.
    offset : int
        The number of bytes before ``data`` in the whole output.
    last : bool
        Whether the results are complete.
    digest : str
        The digest of this group and all groups before it.
    link : str
        The digest of the group before.
    """

    number: int
    slices: tuple[Slice, ...]
    data: bytes
    offset: int = 0
    last: bool = False
    digest: str = ""
    link: str = ""

    def linked(self, pieces: Sequence[bytes]) -> Iterator[tuple[bytes, str, str]]:
        """Each piece in which the group is sent, its digest, and its link. The last piece has the group's digest."""
        links = [*accumulate(pieces[:-1], chained, initial=self.link)]
        return zip(pieces, [*links[1:], self.digest], links, strict=False)  # without pieces, nothing


def chained(link: str, data: bytes) -> str:
    """The digest of bytes that follow the bytes with digest ``link``; empty bytes do not change it.

    >>> chained("", b""), chained(chained("", b"a"), b"b") == chained("", b"b")
    ('', False)
    """
    if not data:
        return link
    hashed = blake2b(link.encode(), digest_size=16)
    hashed.update(data)
    return hashed.hexdigest()


class Outlet(ABC):
    """The output of a run: it receives groups of results. A fault is an `XmlPunctError`.

    An outlet that knows the number of the last group it wrote writes each group exactly once.
    """

    takes_columns: ClassVar[bool] = False
    """True if it writes the columns of slices, and ignores the run's format."""
    can_replace: ClassVar[bool] = False
    """True if it can remove the results of another run: see `Existing`."""

    def check(self, schema: Schema) -> None:  # noqa: B027
        """Raise `UsageError` if results of this schema cannot be written. It does not connect."""

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple the reason why it is a reject, null if it can be written; None if all can be written."""
        return None

    @abstractmethod
    def open(self, form: Form, position: Any) -> None:
        """Continue from a ``position`` that `commit` returned; None: begin a new run.

        A killed run may have written groups after the position; they will be written again. Raises `UsageError` if
        the results cannot be written there.
        """

    def verify(self) -> None:  # noqa: B027
        """Compare the staged files, which become results later, with their checksums. Raises `XmlPunctError`."""

    @abstractmethod
    def write(self, results: Results, *, again: bool = False) -> None:
        """Make a group visible, unless it already is; atomically if the output supports that.

        ``again``: a killed run has certainly written the group, and perhaps groups after it.
        """

    def check_last(self, last: int) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it holds groups of this run after number ``last``, the last in the run's log.

        Then the checkpoint is older than the output. It is called after all groups in the log were written again.
        """

    def check_complete(self, form: Form, position: Any) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it can detect that results of a complete run are missing."""

    def commit(self) -> Any:  # noqa: B027
        """Return when all written groups are durable: the position after them, as a JSON value."""

    def break_off(self) -> None:  # noqa: B027
        """No group follows. If the results are incomplete, because a run failed or was stopped, it may be repeated."""

    def finish(self) -> None:  # noqa: B027
        """No group follows from this process."""

    def close(self) -> None:  # noqa: B027
        """Release all resources."""
