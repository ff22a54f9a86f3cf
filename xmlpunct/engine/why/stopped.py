"""What a run that has a checkpoint waits for, going on or not: nothing is started, and no source is opened."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

from xmlpunct.engine.inference import Inference
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.checkpoint import look
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.answer import Wait, why
from xmlpunct.engine.why.holding import Holding


def why_stopped(path: Path, wanted: Mapping[str, str]) -> list[Wait]:
    """What the results that match some patterns wait for, as the run put it down last.

    Raises `UsageError` if there is no checkpoint, for an unknown column, and for files that the query names and
    that are not there any more.
    """
    seen = look(path)
    query, namespace = _planned(seen.job), seen.job["punctuation namespace"]
    holding = Holding({stream.name: stream.sent for stream in query.streams})
    holding.restore(seen.held)
    waits = why(query, holding, wanted, namespace, complete=seen.complete)
    return [] if seen.over else waits


def _planned(job: Mapping[str, Any]) -> Query:
    """The plan of a job as its run made it."""
    planned = job["planned"]
    with (
        chdir(planned["folder"]) if Path(planned["folder"]).is_dir() else nullcontext()
    ):  # files it names are relative
        inference = Inference(job["punctuation namespace"], job["inferred"])
        query = plan(planned["sql"], planned["sources"], frozenset(job["choice of rules"]), inference)
    return with_guards(query) if job["--strict, --rejects or --max-rejects"] else query
