"""Deaths at chosen moments: before any system call of a run, or in the middle of a write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

CALLS = ("open", "write", "ftruncate", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")
"""All system calls by which a durable run changes files."""


Call = Callable[..., Any]


@contextmanager
def watched(watching: Callable[[str, Call], Call]) -> Iterator[None]:
    """In the block, replace each function of `CALLS` by ``watching(name, function)``."""
    real = {name: getattr(os, name) for name in CALLS}
    for name, function in real.items():
        setattr(os, name, watching(name, function))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


class Killed(BaseException):
    """Ends a run as if its process had been killed."""


class Death:
    """Dies before system call ``number``; with ``torn``, after half of its write.

    From then on no call changes anything, as if the process were dead; with ``really``, the process does end.
    """

    def __init__(self, number: int, torn: bool = False, really: bool = False) -> None:
        self.number, self.torn, self.really = number, torn, really
        self.left, self.came, self.at = number, False, ""

    def __repr__(self) -> str:
        return f"death {'in' if self.torn else 'before'} call {self.number}, {self.at}"

    def next(self) -> Death:
        """The death after this one, so that a sequence covers every moment."""
        in_it = self.at == "write" and not self.torn
        return Death(self.number, torn=True) if in_it else Death(self.number + 1)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Die in the block, unless the block makes fewer calls."""
        with suppress(Killed), watched(self._watching):
            yield

    def _watching(self, name: str, function: Call) -> Call:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.came:
                raise Killed
            if self.left:
                self.left -= 1
                return function(*arguments, **options)
            self.came, self.at = True, name
            if self.torn and name == "write":
                function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            if self.really:
                os._exit(9)
            raise Killed

        return call


def main(arguments: Sequence[str]) -> int:
    """``NUMBER TORN COMMAND...``: run a command line that dies at this call."""
    from xmlpunct.cli import invoke
    from xmlpunct.engine.run.local import ledger

    ledger.GROUP_SECONDS = ledger.SAVE_SECONDS = 0.0
    number, torn, *command = arguments
    with Death(int(number), torn == "torn", really=True).awaited():
        return invoke(command)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
