"""Requests to a running query: explain what results wait for, or inject a punctuation into a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue, parse_injection
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.view import ANSWER_SECONDS
from xmlpunct.engine.why.answer import why


@dataclass(frozen=True)
class Talk:
    """Requests to the run of a query. ``injections``: the queue of injected punctuations, if the run accepts them."""

    query: Query
    stats: RunStats
    punct_namespace: str
    injections: InjectionQueue | None = None

    @property
    def may_say(self) -> bool:
        """Whether the run accepts injected punctuations."""
        return self.injections is not None

    def why(self, patterns: Mapping[str, str]) -> list[dict[str, Any]]:
        """The punctuations that results wait for. ``patterns`` selects results by column. Raises `UsageError`."""
        if self.stats.gauges is None:
            raise UsageError("the run has not begun")
        complete = {name for name, output in self.stats.outputs.items() if output.complete}
        waits = why(self.query, self.stats.holding.still(), patterns, self.punct_namespace, complete=complete)
        return [wait.as_dict() for wait in waits]

    def say(self, stream: str, punctuation: str | Mapping[str, str]) -> None:
        """Inject a punctuation into a stream; return when it is durable.

        Raises `UsageError`, or another `XmlPunctError`, for an invalid punctuation. Raises TimeoutError if the run did
        not process it in time; the request is then cancelled, unless the run has just begun to process it.
        """
        assert self.injections is not None
        durable = self.injections.put(*parse_injection(self.query, stream, punctuation, self.punct_namespace))
        try:
            durable.result(ANSWER_SECONDS)
        finally:
            durable.cancel()
