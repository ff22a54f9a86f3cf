"""Spark's event log of a run: its executors, and which executor ran which task when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BATCH = "streaming.sql.batchId"
_STATE = "StateStoreRDD"


@dataclass(frozen=True)
class Task:
    """An attempt at a task, with its times in seconds since the epoch."""

    executor: str
    began: float
    ended: float
    batch: int | None
    """Its micro-batch, if any."""
    stateful: bool
    speculative: bool
    succeeded: bool


@dataclass
class EventLog:
    """Executors and tasks of a run. Executors have Spark's ids; times are in seconds since the epoch."""

    added: dict[str, float] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> EventLog:
        """The only event log in a folder, as far as Spark has written it."""
        events = cls()
        stages: dict[int, tuple[int | None, bool]] = {}
        (log,) = folder.iterdir()
        for event in map(json.loads, log.read_text().splitlines()):
            match event["Event"]:
                case "SparkListenerExecutorAdded":
                    events.added[event["Executor ID"]] = event["Timestamp"] / 1000
                case "SparkListenerExecutorRemoved":
                    events.removed[event["Executor ID"]] = event["Timestamp"] / 1000
                case "SparkListenerStageSubmitted":
                    stages[event["Stage Info"]["Stage ID"]] = _stage(event)
                case "SparkListenerTaskEnd":
                    events.tasks.append(_task(event, *stages[event["Stage ID"]]))
        return events


def submit_args(folder: Path, settings: Mapping[str, str]) -> str:
    """``PYSPARK_SUBMIT_ARGS`` by which a run writes its event log to a new folder, with further settings."""
    folder.mkdir()
    logging = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    words = [f"--conf {name}={value}" for name, value in (logging | dict(settings)).items()]
    return " ".join([*words, "pyspark-shell"])


def _stage(event: dict[str, Any]) -> tuple[int | None, bool]:
    """The micro-batch of a stage, and whether the stage has state."""
    batch = event["Properties"].get(_BATCH)
    names = {rdd["Name"] for rdd in event["Stage Info"]["RDD Info"]}
    return None if batch is None else int(batch), _STATE in names


def _task(event: dict[str, Any], batch: int | None, stateful: bool) -> Task:
    info = event["Task Info"]
    return Task(
        info["Executor ID"],
        info["Launch Time"] / 1000,
        info["Finish Time"] / 1000,
        batch,
        stateful,
        info["Speculative"],
        event["Task End Reason"]["Reason"] == "Success",
    )
