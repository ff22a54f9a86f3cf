"""What a run can be asked, and told, while it lives: what results wait for, and a punctuation in a stream's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.injected_punctuations import Sayings, read_said
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.view import ANSWER_SECONDS
from xmlpunct.engine.why.answer import why


@dataclass(frozen=True)
class Talk:
    """Talk with the run of a query, whose numbers are ``stats``. It can be told something if it has ``sayings``."""

    query: Query
    stats: RunStats
    punct_namespace: str
    sayings: Sayings | None = None

    @property
    def may_say(self) -> bool:
        """Whether the run takes what is said to it."""
        return self.sayings is not None

    def why(self, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
        """What the results wait for that match patterns, by column. Raises `UsageError`."""
        if self.stats.gauges is None:
            raise UsageError("the run has not begun")
        complete = {name for name, output in self.stats.outputs.items() if output.complete}
        found = why(self.query, self.stats.holding.still(), wanted, self.punct_namespace, complete=complete)
        return [wait.as_dict() for wait in found]

    def say(self, stream: str, punctuation: str | Mapping[str, str]) -> None:
        """Say a punctuation of a stream; come back once it is durable.

        Raises `UsageError`, or another `XmlPunctError`, for what is none, and TimeoutError where the run did not take
        it; then it does not take it later either, unless it is taking it right now.
        """
        assert self.sayings is not None
        durable = self.sayings.put(*read_said(self.query, stream, punctuation, self.punct_namespace))
        try:
            durable.result(ANSWER_SECONDS)
        finally:
            durable.cancel()
