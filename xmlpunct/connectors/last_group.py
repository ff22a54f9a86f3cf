"""The last group of results that an output holds, compared with the groups that a run writes."""

from __future__ import annotations

from dataclasses import dataclass

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.connectors.outlet import Results


def older_checkpoint(name: str) -> XmlPunctError:
    """The error for an output that holds results after the checkpoint's last."""
    return XmlPunctError(
        f"{name} holds results that are not in this checkpoint: the checkpoint is older than the output, or another "
        "copy of it wrote there: restore both as they were at one time, or start again with another --checkpoint and "
        "--replace"
    )


@dataclass
class LastGroup:
    """The ``number`` and the ``digest`` of the last group that the output ``name`` holds.

    A continued run writes the groups in its log again, so the output must hold the same groups.

    >>> last = LastGroup("out", 7, "b3")
    >>> last.holds(Results(7, (), b"", digest="b3")), last.holds(Results(8, (), b"", digest="4d"))
    (True, False)
    >>> last.check(6)
    Traceback (most recent call last):
    ...
    xmlpunct.base.errors.XmlPunctError: out holds results that are not in this checkpoint: the checkpoint is \
older than the output, or another copy of it wrote there: restore both as they were at one time, or start again with \
another --checkpoint and --replace
    """

    name: str
    number: int = -1
    digest: str = ""

    def holds(self, results: Results) -> bool:
        """True if the output holds a group. Raises `XmlPunctError` if it holds a different group with that number."""
        if results.number == self.number and results.digest != self.digest:
            raise older_checkpoint(self.name)
        return results.number <= self.number

    def check(self, last: int) -> None:
        """Raise `XmlPunctError` if the output holds groups after number ``last``."""
        if self.number > last:
            raise older_checkpoint(self.name)
