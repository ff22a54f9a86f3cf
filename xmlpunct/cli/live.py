"""The display of a running query: a line of progress, a frame on the terminal, or a web page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from xmlpunct.base.errors import UsageError
from xmlpunct.cli.progress import ProgressLine
from xmlpunct.cli.terminal import say
from xmlpunct.connectors.contract import is_endless
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats

_SHOWN_FAULTS = 5


@dataclass(frozen=True)
class Live:
    """The options ``--watch``, ``--http`` and ``--allow-say``."""

    watch: bool = False
    http: str | None = None
    allow_say: bool = False

    @property
    def has_view(self) -> bool:
        """True if a frame or a page is shown, not only a line of progress."""
        return self.watch or self.http is not None

    @cached_property
    def injections(self) -> InjectionQueue | None:
        """The queue of punctuations that users send to the run, if that is allowed."""
        return InjectionQueue() if self.allow_say else None

    def check(self, query: Query, options: RunOptions) -> None:
        """Raise `UsageError` for options that exclude each other."""
        outputs = [options.to(answer.destination).output for answer in query.answers]
        if self.watch and None in outputs and sys.stdout.isatty():
            raise UsageError(
                "--watch and the results cannot share the terminal: write the results to a file, with -o"
            )
        if self.allow_say and self.http is None:
            raise UsageError("--allow-say lets the live view accept punctuations: add --http HOST:PORT")

    @contextmanager
    def shown(
        self, query: Query, options: RunOptions, stats: RunStats
    ) -> Iterator[Callable[[RunStats], None]]:
        """Show a run. Yields a function that the run calls for every slice. Raises `UsageError`."""
        if not self.has_view:
            report_endless_faults(query, options)
            with ProgressLine(stats.engine, sources=_source_names(query)) as progress:
                yield progress.show
            return
        from xmlpunct.cli.watch import Watch
        from xmlpunct.engine.view.server import ViewServer, read_address
        from xmlpunct.engine.view.talk import Talk
        from xmlpunct.engine.view.view import View

        original, query = query, with_guards(query) if options.guarded else query
        view = View(query, stats.engine)
        with ExitStack() as opened:
            if self.http is not None:
                talk = Talk(query, stats, options.punct_namespace, self.injections)
                server = opened.enter_context(ViewServer(view, read_address(self.http), talk))
                say(f"live view: {server.url}")
            report_endless_faults(original, options)
            watcher: Watch | ProgressLine = (
                Watch(view) if self.watch else ProgressLine(stats.engine, sources=_source_names(query))
            )
            opened.enter_context(watcher)

            def show(stats: RunStats) -> None:
                if view.show(stats):
                    watcher.show(stats)

            try:
                yield show
            except BaseException as error:
                view.finish(stats, "stopped" if isinstance(error, KeyboardInterrupt) else "failed")
                raise
            view.finish(stats, "ended")


def _source_names(query: Query) -> str:
    """The sources of a query, for the first line of progress."""
    return ", ".join(dict.fromkeys(str(stream.source) for stream in query.streams))


def report_endless_faults(query: Query, options: RunOptions) -> None:
    """Report on standard error the operators that may never answer, and how to mend it."""
    if not any(stream.source and is_endless(stream.source) for stream in query.streams):
        return
    from xmlpunct.engine.plan.schemes import Fate
    from xmlpunct.engine.verdicts import endless_faults

    faults = endless_faults(query)
    for fault in faults[:_SHOWN_FAULTS]:
        say(str(fault))
    if len(faults) > _SHOWN_FAULTS:
        say(f"and {len(faults) - _SHOWN_FAULTS} more such operators: see xmlpunct explain")
    if any(not promise.table for fault in faults for promise in fault.promises):
        say(
            "write such a clause in CREATE STREAM, after WITH (...); xmlpunct explain shows all that would help"
        )
    blocked = [fault for fault in faults if fault.fate is Fate.BLOCKS]
    can_be_partial = options.partial is None and len(query.answers) == 1
    if can_be_partial and any(
        not (fault.promises and all(p.ordered for p in fault.promises)) for fault in blocked
    ):
        say("--engine local --partial 10s writes the results so far every 10 seconds, marked as provisional")
