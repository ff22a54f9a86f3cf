"""Explains the waits of a running or stopped run from its checkpoint, without starting it or opening its sources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

from xmlpunct.engine.inference import Inference
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.checkpoint import look
from xmlpunct.engine.run.checkpoint.stored_paths import named
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.answer import Wait, why
from xmlpunct.engine.why.holding import Holding


def why_stopped(path: Path, patterns: Mapping[str, str]) -> list[Wait]:
    """The punctuations that matching results wait for, according to the last checkpoint.

    Raises `UsageError` for a missing checkpoint, an unknown column, or a missing file of the query.
    """
    record = look(path)
    query, namespace = _saved_query(record.job, path), record.job["punctuation namespace"]
    holding = Holding({stream.name: stream.sent for stream in query.streams})
    holding.restore(record.held)
    waits = why(query, holding, patterns, namespace, complete=record.complete)
    return [] if record.over else waits


def _saved_query(job: Mapping[str, Any], checkpoint: Path) -> Query:
    """The plan of a saved job, exactly as its run planned it."""
    saved_plan = job["planned"]
    folder, checkpoint = checkpoint / saved_plan["folder"], checkpoint.absolute()
    with chdir(folder) if folder.is_dir() else nullcontext():  # the query has relative paths
        inference = Inference(job["punctuation namespace"], job["inferred"])
        rules, labels = frozenset(job["choice of rules"]), saved_plan["labels"]
        sources = {name: named(saved, checkpoint) for name, saved in saved_plan["sources"].items()}
        query = plan(saved_plan["sql"], sources, rules, inference, has_labels=labels)
    return with_guards(query) if job["--strict, --rejects or --max-rejects"] else query
